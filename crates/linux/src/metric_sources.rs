//! Which signals can be read on this machine, and why not the others.
//!
//! ```text
//!   counters    the processor counts for each task             perf_event_open
//!   bandwidth   memory controllers and caches count per node   uncore counters, resctrl
//!   kernel      the scheduler's own books, per task or system  software events, schedstat, PSI
//!   declared    what a workload file says of its programs      always
//! ```
//!
//! The first, second and last are the tiers that a decision can stand on, best first; the kernel's
//! books tell how long tasks ran and waited, on every tier. On the machine itself each answer comes from
//! trying; a recording of another machine shows which files it had, and whoever asks there whether
//! a counter opens gets no answer instead of a guess.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::fault;
use crate::perf::{self, Attr, CounterScope, CounterTarget, Flags};

/// What a signal stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceTier {
    /// The processor's counters per task.
    Counters,
    /// Memory controllers or caches, per node or LLC domain.
    Bandwidth,
    /// What the kernel accounts for.
    Kernel,
    /// What was declared.
    Declared,
}

/// Whether a signal can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It was tried.
    Yes,
    /// It was tried, or what it needs is not there.
    No,
    /// This is a recording; only the machine itself could tell.
    Unknown,
}

/// One signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSource {
    /// What it stands on.
    pub tier: SourceTier,
    /// What it tells, with whom it tells it of.
    pub name: &'static str,
    /// Whether it can be read here.
    pub readable: Availability,
    /// What it is read from, or why it cannot be read and what would help.
    pub why: String,
}

impl fmt::Display for SourceTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SourceTier::Counters => "counters",
            SourceTier::Bandwidth => "bandwidth",
            SourceTier::Kernel => "kernel",
            SourceTier::Declared => "declared",
        })
    }
}

/// What the processor would count of a task, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMapping {
    /// Of what.
    pub counter_event: sched::CounterEvent,
    /// The vendor's name of the event, and its words in the PMU's format; or why there is none.
    pub event: Result<(String, String), String>,
}

/// The family of the processor of the machine below a root folder, and its events: those that would be
/// asked for, whether or not this kernel shows counters and lets us count.
pub fn events(root: &Path) -> (&'static perf::Uarch, Vec<EventMapping>) {
    let mut source = crate::source::Live::new(root);
    let family = perf::uarch_of(&crate::collectors::identity_of(&mut source));
    let by_processor = |q: &&sched::CounterEvent| q.source() == sched::EventKind::Hardware;
    let counted = |&counter_event: &sched::CounterEvent| {
        let event = match family.why_absent(counter_event) {
            Some(why) => Err(why),
            None => Ok(named(family, counter_event)),
        };
        EventMapping { counter_event, event }
    };
    (family, sched::CounterEvent::ALL.iter().filter(by_processor).map(counted).collect())
}

/// An event's name and words; of a hybrid processor those of every kind of core.
fn named(family: &perf::Uarch, counter_event: sched::CounterEvent) -> (String, String) {
    let mut names: Vec<&str> = Vec::new();
    let mut terms: Vec<&str> = Vec::new();
    for event in family.pmus.iter().filter_map(|pmu| pmu.events.get(&counter_event)) {
        if !names.contains(&event.name.as_str()) {
            names.push(&event.name);
            terms.push(&event.terms);
        }
    }
    (names.join(" / "), terms.join(" / "))
}

/// All signals of the machine below a root folder, best tier first.
pub fn read(root: &Path) -> Vec<MetricSource> {
    let place = Place { root, is_live: root == Path::new("/") };
    let counters = |name, event| signal(SourceTier::Counters, name, place.task_counter(event));
    vec![
        counters("last-level cache misses of a task", Event::CacheMisses),
        counters("cycles and instructions of a task", Event::Instructions),
        signal(SourceTier::Bandwidth, "memory controller traffic of a node", place.controllers()),
        signal(SourceTier::Bandwidth, "memory traffic of an LLC domain", place.resctrl()),
        signal(
            SourceTier::Kernel,
            "page faults and moves of a task",
            place.task_counter(Event::Faults),
        ),
        signal(SourceTier::Kernel, "waiting time of a task", place.schedstat()),
        signal(SourceTier::Kernel, "pressure on CPUs and memory", place.pressure()),
        signal(
            SourceTier::Declared,
            "class or profile × CPU time of a job",
            (Availability::Yes, DECLARED.to_owned()),
        ),
    ]
}

const DECLARED: &str = "the workload file says it";

fn signal(tier: SourceTier, name: &'static str, (readable, why): Answer) -> MetricSource {
    MetricSource { tier, name, readable, why }
}

type Answer = (Availability, String);

/// What is tried, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    CacheMisses,
    Instructions,
    Faults,
    CpuClock,
}

/// Opens a counter, disabled, and closes it; of a task with what the kernel does for it, or only in its
/// own code, which takes the least right.
fn try_open(event: Event, whom: CounterTarget, user_only: bool) -> io::Result<()> {
    let (kind, number) = match event {
        Event::CacheMisses => (0, 3),
        Event::Instructions => (0, 1),
        Event::Faults => (1, 2),
        Event::CpuClock => (1, 0),
    };
    let flags = Flags { user_only, disabled: true, inherit: false };
    perf::open(&Attr { kind, config: [number, 0, 0], flags }, whom, None).map(drop)
}

/// What is told of counting a task. `open` tries it, as a whole or only in the task's own code, as
/// counters are opened.
fn task_answer(
    event: Event,
    paranoid: Option<i32>,
    open: impl Fn(bool) -> io::Result<()>,
) -> Answer {
    if open(false).is_ok() {
        return (Availability::Yes, "perf_event_open".to_owned());
    }
    match open(true) {
        Ok(()) => {
            // Moves between CPUs happen in the kernel.
            let less = if event == Event::Faults { "page faults alone, " } else { "" };
            let why = format!("perf_event_open, {less}{}", perf::own_code_only(paranoid));
            (Availability::Yes, why)
        }
        Err(error) => {
            (Availability::No, perf::explain_refusal(&error, paranoid, CounterScope::Task))
        }
    }
}

fn first_cpu() -> u32 {
    let cpus = crate::affinity::get(0).unwrap_or_default();
    cpus.first().map_or(0, |cpu| cpu.0)
}

/// The machine that is asked.
struct Place<'a> {
    root: &'a Path,
    is_live: bool,
}

impl Place<'_> {
    fn task_counter(&self, event: Event) -> Answer {
        let paranoid = self.paranoid();
        if !self.is_live {
            return (Availability::Unknown, only_there(paranoid));
        }
        task_answer(event, paranoid, |user_only| try_open(event, CounterTarget::Task(0), user_only))
    }

    /// Counters outside the cores belong to no task: counting them needs the right to count a
    /// whole CPU, which is tried with an event that every machine has.
    fn controllers(&self) -> Answer {
        let units = self.controller_units();
        if units.is_empty() && !self.is_live && !self.has("sys/bus/event_source") {
            return (Availability::Unknown, ONLY_THERE.to_owned());
        }
        if units.is_empty() {
            return (
                Availability::No,
                "the kernel knows no counter of memory controllers".to_owned(),
            );
        }
        if !self.is_live {
            return (Availability::Unknown, format!("{units}; {}", only_there(self.paranoid())));
        }
        match try_open(Event::CpuClock, CounterTarget::Cpu(first_cpu()), false) {
            Ok(()) => (Availability::Yes, units),
            Err(error) => (
                Availability::No,
                perf::explain_refusal(&error, self.paranoid(), CounterScope::Cpu),
            ),
        }
    }

    /// The counting units by the kernel's names for them: Intel, AMD, ARM, Huawei, Ampere, NVIDIA.
    fn controller_units(&self) -> String {
        const NAMES: [&str; 8] = [
            "uncore_imc",
            "amd_umc",
            "amd_df",
            "arm_dmc620",
            "arm_cmn",
            "hisi_sccl",
            "ampere_mcu",
            "nvidia_scf",
        ];
        let folder = self.root.join("sys/bus/event_source/devices");
        let entries = fault::retry("getdents64", || fs::read_dir(&folder));
        let entries = entries.into_iter().flatten().flatten();
        let mut units: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|unit| NAMES.iter().any(|name| unit.starts_with(name)))
            .filter(|unit| !unit.starts_with("hisi_sccl") || unit.contains("ddrc"))
            .collect();
        units.sort_unstable_by_key(|unit| (unit.len(), unit.clone())); // imc_2 before imc_10
        match units.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first, .., last] => format!("{} units, {first} to {last}", units.len()),
        }
    }

    fn resctrl(&self) -> Answer {
        let features = self.text("sys/fs/resctrl/info/L3_MON/mon_features");
        let is_known = self.text("proc/filesystems").is_ok_and(|text| text.contains("resctrl"));
        match features {
            Ok(features) if features.contains("mbm_total_bytes") => {
                (Availability::Yes, "resctrl".to_owned())
            }
            Ok(_) => (Availability::No, "resctrl here counts no memory traffic".to_owned()),
            Err(_) if self.has("sys/fs/resctrl/schemata") => (
                Availability::No,
                "resctrl is mounted, but this processor has no monitoring".to_owned(),
            ),
            Err(_) if is_known => (
                Availability::No,
                "resctrl is not mounted: mount -t resctrl resctrl /sys/fs/resctrl".to_owned(),
            ),
            Err(_) if !self.is_live && !self.has("proc/filesystems") => {
                (Availability::Unknown, ONLY_THERE.to_owned())
            }
            Err(_) => (Availability::No, "the kernel has no resctrl for this processor".to_owned()),
        }
    }

    fn schedstat(&self) -> Answer {
        match self.text("proc/self/schedstat") {
            Ok(_) => (Availability::Yes, "/proc/PID/schedstat".to_owned()),
            Err(_) if !self.is_live => (Availability::Unknown, ONLY_THERE.to_owned()),
            Err(_) => (Availability::No, "the kernel was built without SCHED_INFO".to_owned()),
        }
    }

    fn pressure(&self) -> Answer {
        match self.text("proc/pressure/memory") {
            Ok(_) => (Availability::Yes, "/proc/pressure".to_owned()),
            Err(_) if !self.is_live => (Availability::Unknown, ONLY_THERE.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (
                Availability::No,
                "the kernel has no PSI (since Linux 4.20, CONFIG_PSI)".to_owned(),
            ),
            Err(_) => {
                (Availability::No, "PSI is switched off: start the kernel with psi=1".to_owned())
            }
        }
    }

    fn paranoid(&self) -> Option<i32> {
        self.text("proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
    }

    fn has(&self, path: &str) -> bool {
        fault::retry("stat", || self.root.join(path).try_exists()).unwrap_or(false)
    }

    fn text(&self, path: &str) -> io::Result<String> {
        fault::retry("read", || fs::read_to_string(self.root.join(path)))
    }
}

/// Why there is no answer for a recording.
pub const ONLY_THERE: &str = "only the machine itself can tell";

fn only_there(paranoid: Option<i32>) -> String {
    match paranoid {
        Some(value) => format!("{ONLY_THERE}; its perf_event_paranoid is {value}"),
        None => ONLY_THERE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: expect_test::Expect) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let lines = read(root.path()).into_iter().map(|signal| {
            format!("{:9} {:?}: {}: {}\n", signal.tier, signal.readable, signal.name, signal.why)
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn a_recording_shows_what_it_has_and_guesses_nothing() {
        check(
            &[],
            expect_test::expect![[r#"
                counters  Unknown: last-level cache misses of a task: only the machine itself can tell
                counters  Unknown: cycles and instructions of a task: only the machine itself can tell
                bandwidth Unknown: memory controller traffic of a node: only the machine itself can tell
                bandwidth Unknown: memory traffic of an LLC domain: only the machine itself can tell
                kernel    Unknown: page faults and moves of a task: only the machine itself can tell
                kernel    Unknown: waiting time of a task: only the machine itself can tell
                kernel    Unknown: pressure on CPUs and memory: only the machine itself can tell
                declared  Yes: class or profile × CPU time of a job: the workload file says it
            "#]],
        );
    }

    #[test]
    fn who_may_count_only_a_tasks_own_code_is_told_so_and_what_would_help() {
        let refused = || Err(io::Error::from_raw_os_error(libc::EACCES));
        let answer = |event, paranoid, whole: bool, own: bool| {
            let (readable, why) = task_answer(event, Some(paranoid), |user_only| {
                if if user_only { own } else { whole } { Ok(()) } else { refused() }
            });
            format!("{readable:?}: {why}")
        };
        assert_eq!(answer(Event::Instructions, 1, true, true), "Yes: perf_event_open");
        assert_eq!(
            answer(Event::Instructions, 2, false, true),
            "Yes: perf_event_open, in its own code only; to count what the kernel does for it: \
             perf_event_paranoid is 2, set it to 1 or less, or give CAP_PERFMON"
        );
        let faults = answer(Event::Faults, 2, false, true);
        assert!(
            faults.starts_with("Yes: perf_event_open, page faults alone, in its own code only")
        );
        // As Debian's kernels have it.
        assert_eq!(
            answer(Event::Faults, 3, false, false),
            "No: perf_event_paranoid is 3: set it to 2 or less, or give CAP_PERFMON"
        );
    }

    #[test]
    fn units_resctrl_and_books_are_found_where_they_are_recorded() {
        check(
            &[
                ("sys/bus/event_source/devices/uncore_imc_0/type", "14"),
                ("sys/bus/event_source/devices/uncore_imc_3/type", "17"),
                ("sys/bus/event_source/devices/hisi_sccl1_hha0/type", "18"),
                ("sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n"),
                ("proc/sys/kernel/perf_event_paranoid", "2\n"),
                ("proc/pressure/memory", "some avg10=0.00"),
                ("proc/self/schedstat", "1 2 3"),
            ],
            expect_test::expect![[r#"
                counters  Unknown: last-level cache misses of a task: only the machine itself can tell; its perf_event_paranoid is 2
                counters  Unknown: cycles and instructions of a task: only the machine itself can tell; its perf_event_paranoid is 2
                bandwidth Unknown: memory controller traffic of a node: 2 units, uncore_imc_0 to uncore_imc_3; only the machine itself can tell; its perf_event_paranoid is 2
                bandwidth Yes: memory traffic of an LLC domain: resctrl
                kernel    Unknown: page faults and moves of a task: only the machine itself can tell; its perf_event_paranoid is 2
                kernel    Yes: waiting time of a task: /proc/PID/schedstat
                kernel    Yes: pressure on CPUs and memory: /proc/pressure
                declared  Yes: class or profile × CPU time of a job: the workload file says it
            "#]],
        );
    }

    #[test]
    fn this_machine_answers_by_trying() {
        for signal in read(Path::new("/")) {
            assert_ne!(signal.readable, Availability::Unknown, "{signal:?}");
            assert!(!signal.why.is_empty() && !signal.why.contains('\n'), "{signal:?}");
        }
    }
}
