//! Availability of signals on this machine, with the reason if a signal cannot be read.
//!
//! ```text
//!   counters    hardware counters per task                 perf_event_open
//!   bandwidth   memory controllers and LLC domains         uncore counters, resctrl
//!   kernel      accounting of the kernel, task or system   software events, schedstat, PSI
//!   declared    declarations of the workload file          always
//! ```
//!
//! Counters, bandwidth and declared are the signal tiers of loads, best first. Kernel accounting is used with every
//! tier. On a live machine each signal is opened once. On a recorded machine, availability is known only for signals
//! that are read from files.

use std::fmt;
use std::io;
use std::path::Path;

use crate::perf::{self, Attr, CounterScope, CounterTarget, Flags};
use crate::pmu::{Uarch, uarch_of};
use crate::source::{Live, Source, text};
use crate::uncore;

/// Tier of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceTier {
    /// Hardware counters per task.
    Counters,
    /// Memory controllers or caches, per node or LLC domain.
    Bandwidth,
    /// Accounting of the kernel.
    Kernel,
    /// Declarations of the workload file.
    Declared,
}

/// Whether a signal can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// A read succeeded.
    Yes,
    /// A read failed, or a requirement is missing.
    No,
    /// Unknown, because the tree is a recording.
    Unknown,
}

/// A signal and its availability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalSource {
    /// Signal tier.
    pub tier: SourceTier,
    /// The signal and its scope.
    pub name: &'static str,
    /// Whether the signal can be read.
    pub readable: Availability,
    /// The interface of the kernel, or cause and remedy if the signal cannot be read.
    pub reason: String,
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

/// The hardware event for a [`sched::CounterEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMapping {
    /// The counted event.
    pub counter_event: sched::CounterEvent,
    /// The vendor's name and the terms of the PMU's format; or the reason why the event is not counted.
    pub event: Result<(String, String), String>,
}

/// Returns the microarchitecture of the machine below a root, and its hardware events, regardless of permissions.
pub fn events(root: &Path) -> (&'static Uarch, Vec<EventMapping>) {
    let mut source = Live::new(root);
    let uarch = uarch_of(&crate::collectors::identity_of(&mut source));
    let is_hardware = |event: &&sched::CounterEvent| event.source() == sched::EventKind::Hardware;
    let mapping = |&counter_event: &sched::CounterEvent| {
        let event = match uarch.absence_reason(counter_event) {
            Some(reason) => Err(reason),
            None => Ok(names_and_terms(uarch, counter_event)),
        };
        EventMapping { counter_event, event }
    };
    (uarch, sched::CounterEvent::ALL.iter().filter(is_hardware).map(mapping).collect())
}

/// Returns the name and the terms of an event. A hybrid processor has one event for each core kind.
fn names_and_terms(uarch: &Uarch, counter_event: sched::CounterEvent) -> (String, String) {
    let mut names: Vec<&str> = Vec::new();
    let mut terms: Vec<&str> = Vec::new();
    for event in uarch.pmus.iter().filter_map(|pmu| pmu.events.get(&counter_event)) {
        if !names.contains(&event.name.as_str()) {
            names.push(&event.name);
            terms.push(&event.terms);
        }
    }
    (names.join(" / "), terms.join(" / "))
}

/// Returns all signals of the machine below a root, best tier first.
pub fn read(root: &Path) -> Vec<SignalSource> {
    inspect(&mut Live::new(root), root == Path::new("/"))
}

fn inspect(source: &mut dyn Source, is_live: bool) -> Vec<SignalSource> {
    let mut machine = Inspection { source, is_live };
    vec![
        signal(
            SourceTier::Counters,
            "last-level cache misses of a task",
            machine.task_counter(TriedEvent::CacheMisses),
        ),
        signal(
            SourceTier::Counters,
            "cycles and instructions of a task",
            machine.task_counter(TriedEvent::Instructions),
        ),
        signal(SourceTier::Bandwidth, "memory controller traffic of a node", machine.controllers()),
        signal(SourceTier::Bandwidth, "memory traffic of an LLC domain", machine.resctrl()),
        signal(
            SourceTier::Kernel,
            "page faults and migrations of a task",
            machine.task_counter(TriedEvent::Faults),
        ),
        signal(SourceTier::Kernel, "wait time of a task", machine.schedstat()),
        signal(SourceTier::Kernel, "pressure on CPUs and memory", machine.pressure()),
        signal(SourceTier::Declared, "class or profile × CPU time of a job", yes(DECLARED)),
    ]
}

const DECLARED: &str = "declared in the workload file";

fn signal(
    tier: SourceTier,
    name: &'static str,
    (readable, reason): AvailabilityReason,
) -> SignalSource {
    SignalSource { tier, name, readable, reason }
}

type AvailabilityReason = (Availability, String);

fn yes(reason: impl Into<String>) -> AvailabilityReason {
    (Availability::Yes, reason.into())
}

fn no(reason: impl Into<String>) -> AvailabilityReason {
    (Availability::No, reason.into())
}

fn unknown(reason: impl Into<String>) -> AvailabilityReason {
    (Availability::Unknown, reason.into())
}

/// A perf event that is opened to test the permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TriedEvent {
    CacheMisses,
    Instructions,
    Faults,
    CpuClock,
}

/// Opens a disabled counter and closes it. `user_only` restricts the counter to user mode, which requires the least
/// permission.
fn try_open(event: TriedEvent, target: CounterTarget, user_only: bool) -> io::Result<()> {
    let (kind, number) = match event {
        TriedEvent::CacheMisses => (0, 3),
        TriedEvent::Instructions => (0, 1),
        TriedEvent::Faults => (1, 2),
        TriedEvent::CpuClock => (1, 0),
    };
    let flags = Flags { user_only, disabled: true, inherit: false };
    perf::open(&Attr { kind, config: [number, 0, 0], flags }, target, None).map(drop)
}

/// Returns the availability of an event of tasks. `open(false)` counts kernel and user mode, `open(true)` user mode
/// only.
fn task_availability(
    event: TriedEvent,
    paranoid: Option<i32>,
    open: impl Fn(bool) -> io::Result<()>,
) -> AvailabilityReason {
    if open(false).is_ok() {
        return yes("perf_event_open");
    }
    match open(true) {
        Ok(()) => {
            // Migrations occur in kernel mode and are not counted in user mode.
            let less = if event == TriedEvent::Faults { "page faults only, " } else { "" };
            let reason = format!("perf_event_open, {less}{}", perf::user_mode_only(paranoid));
            yes(reason)
        }
        Err(error) => no(perf::explain_open_error(&error, paranoid, CounterScope::Task)),
    }
}

fn first_cpu() -> u32 {
    let cpus = crate::affinity::get(0).unwrap_or_default();
    cpus.first().map_or(0, |cpu| cpu.0)
}

/// The inspected machine.
struct Inspection<'a> {
    source: &'a mut dyn Source,
    is_live: bool,
}

impl Inspection<'_> {
    fn task_counter(&mut self, event: TriedEvent) -> AvailabilityReason {
        let paranoid = self.paranoid();
        if !self.is_live {
            return (Availability::Unknown, only_on_machine(paranoid));
        }
        task_availability(event, paranoid, |user_only| {
            try_open(event, CounterTarget::Task(0), user_only)
        })
    }

    /// Returns the availability of memory controllers. Counters outside the cores belong to no task and require the
    /// permission to count a CPU. The permission is tested with an event that every machine has.
    fn controllers(&mut self) -> AvailabilityReason {
        let units = uncore::describe_devices(self.source);
        if units.is_empty() && !self.is_live && !self.has("sys/bus/event_source") {
            return unknown(ONLY_ON_MACHINE);
        }
        if units.is_empty() {
            return no("the kernel has no PMU driver for memory controllers");
        }
        if !self.is_live {
            return unknown(format!("{units}; {}", only_on_machine(self.paranoid())));
        }
        match try_open(TriedEvent::CpuClock, CounterTarget::Cpu(first_cpu()), false) {
            Ok(()) => yes(units),
            Err(error) => no(perf::explain_open_error(&error, self.paranoid(), CounterScope::Cpu)),
        }
    }

    fn resctrl(&mut self) -> AvailabilityReason {
        let features = self.text("sys/fs/resctrl/info/L3_MON/mon_features");
        let is_known = self.text("proc/filesystems").is_ok_and(|text| text.contains("resctrl"));
        match features {
            Ok(features) if features.contains("mbm_total_bytes") => yes("resctrl"),
            Ok(_) => no("resctrl of this processor does not count memory traffic"),
            Err(_) if self.has("sys/fs/resctrl/schemata") => {
                no("resctrl is mounted, but this processor has no monitoring")
            }
            Err(_) if is_known => {
                no("resctrl is not mounted: mount -t resctrl resctrl /sys/fs/resctrl")
            }
            Err(_) if !self.is_live && !self.has("proc/filesystems") => unknown(ONLY_ON_MACHINE),
            Err(_) => no("the kernel has no resctrl for this processor"),
        }
    }

    fn schedstat(&mut self) -> AvailabilityReason {
        match self.text("proc/self/schedstat") {
            Ok(_) => yes("/proc/PID/schedstat"),
            Err(_) if !self.is_live => unknown(ONLY_ON_MACHINE),
            Err(_) => no("the kernel was built without SCHED_INFO"),
        }
    }

    fn pressure(&mut self) -> AvailabilityReason {
        match self.text("proc/pressure/memory") {
            Ok(_) => yes("/proc/pressure"),
            Err(_) if !self.is_live => unknown(ONLY_ON_MACHINE),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                no("the kernel has no PSI (it requires Linux 4.20 or later with CONFIG_PSI)")
            }
            Err(_) => no("PSI is disabled: boot the kernel with psi=1"),
        }
    }

    fn paranoid(&mut self) -> Option<i32> {
        crate::collectors::paranoid(self.source)
    }

    fn has(&mut self, path: &str) -> bool {
        self.source.file(path).is_ok() || self.source.list(path).is_ok()
    }

    fn text(&mut self, path: &str) -> io::Result<String> {
        text(self.source, path)
    }
}

/// The reason for a signal of a recorded tree.
pub const ONLY_ON_MACHINE: &str = "only known on the machine itself";

fn only_on_machine(paranoid: Option<i32>) -> String {
    match paranoid {
        Some(value) => format!("{ONLY_ON_MACHINE}; its perf_event_paranoid is {value}"),
        None => ONLY_ON_MACHINE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::FakeSource;

    fn check(files: &[(&str, &str)], expected: expect_test::Expect) {
        let mut source = FakeSource::default();
        files.iter().for_each(|(path, text)| source.write(*path, *text));
        let lines = inspect(&mut source, false).into_iter().map(|signal| {
            format!("{:9} {:?}: {}: {}\n", signal.tier, signal.readable, signal.name, signal.reason)
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn on_a_recorded_tree_only_recorded_files_are_available() {
        check(
            &[],
            expect_test::expect![[r#"
                counters  Unknown: last-level cache misses of a task: only known on the machine itself
                counters  Unknown: cycles and instructions of a task: only known on the machine itself
                bandwidth Unknown: memory controller traffic of a node: only known on the machine itself
                bandwidth Unknown: memory traffic of an LLC domain: only known on the machine itself
                kernel    Unknown: page faults and migrations of a task: only known on the machine itself
                kernel    Unknown: wait time of a task: only known on the machine itself
                kernel    Unknown: pressure on CPUs and memory: only known on the machine itself
                declared  Yes: class or profile × CPU time of a job: declared in the workload file
            "#]],
        );
    }

    #[test]
    fn a_restriction_to_user_mode_is_reported_with_its_remedy() {
        let denied = || Err(io::Error::from_raw_os_error(libc::EACCES));
        let answer = |event, paranoid, whole: bool, in_user_mode: bool| {
            let (readable, reason) = task_availability(event, Some(paranoid), |user_only| {
                if if user_only { in_user_mode } else { whole } { Ok(()) } else { denied() }
            });
            format!("{readable:?}: {reason}")
        };
        assert_eq!(answer(TriedEvent::Instructions, 1, true, true), "Yes: perf_event_open");
        assert_eq!(
            answer(TriedEvent::Instructions, 2, false, true),
            "Yes: perf_event_open, in user mode only; to count kernel mode too: perf_event_paranoid is 2, \
             set it to 1 or less, or give CAP_PERFMON"
        );
        let faults = answer(TriedEvent::Faults, 2, false, true);
        assert!(faults.starts_with("Yes: perf_event_open, page faults only, in user mode only"));
        // Debian's kernels set perf_event_paranoid to 3.
        assert_eq!(
            answer(TriedEvent::Faults, 3, false, false),
            "No: perf_event_paranoid is 3: set it to 2 or less, or give CAP_PERFMON"
        );
    }

    #[test]
    fn recorded_controllers_resctrl_and_kernel_accounting_are_found() {
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
                counters  Unknown: last-level cache misses of a task: only known on the machine itself; its perf_event_paranoid is 2
                counters  Unknown: cycles and instructions of a task: only known on the machine itself; its perf_event_paranoid is 2
                bandwidth Unknown: memory controller traffic of a node: 2 units, uncore_imc_0 to uncore_imc_3; only known on the machine itself; its perf_event_paranoid is 2
                bandwidth Yes: memory traffic of an LLC domain: resctrl
                kernel    Unknown: page faults and migrations of a task: only known on the machine itself; its perf_event_paranoid is 2
                kernel    Yes: wait time of a task: /proc/PID/schedstat
                kernel    Yes: pressure on CPUs and memory: /proc/pressure
                declared  Yes: class or profile × CPU time of a job: declared in the workload file
            "#]],
        );
    }

    #[test]
    fn every_signal_of_this_machine_is_available_or_has_a_reason() {
        for signal in read(Path::new("/")) {
            assert_ne!(signal.readable, Availability::Unknown, "{signal:?}");
            assert!(!signal.reason.is_empty() && !signal.reason.contains('\n'), "{signal:?}");
        }
    }
}
