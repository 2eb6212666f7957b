//! A run on a simulated machine, with the same engine, policies, journal and reports as a live run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use base::{Bytes, Nanos, StopFlag};
use engine::{Engine, Sink};
use host_sim::declared::ERROR_MAX;
use host_sim::faults::Faults;
use host_sim::frame::GrainKind;
use host_sim::hardware::Hardware;
use host_sim::kernel::KernelVersion;
use host_sim::script::Script;
use host_sim::variation::Variation;
use host_sim::{Capabilities, SimHost, SimOptions};
use journal::{Header, PolicyUsed};
use lab::compare::{Column, SimBench, SimSetting};
use policy::IfMissing;
use program::Workload;
use report::ReportBuilder;
use sched::{HostKind, Policy, TierOverride, Wake};
use topology::Machine;

use super::live::{RunResult, create_journal};
use super::{Args, RunDir};
use crate::command_result::{CommandError, OrUsageError};
use crate::help::SIMULATED;
use crate::profiles;
use crate::recorded_run;
use crate::view::{Screen, View};
use linux::stop_signals::StopSignals;

/// Default size of a journal part: sixteen parts are 64 MiB. A simulated run can be repeated with a larger limit.
const JOURNAL_PART: Bytes = Bytes::from_mib(4);

/// Options of a simulated machine.
#[derive(Clone, Debug, clap::Args)]
pub struct SimArgs {
    /// Simulate this machine: a machine file, as written by `evenkeel machine --toml`, or a shipped machine such as
    /// xeon-2x4 (default: this machine)
    #[arg(long, value_name = "FILE|NAME", help_heading = SIMULATED)]
    pub machine: Option<std::path::PathBuf>,
    /// Simulate this kernel: linux-6.18, linux-4.2 or linux-2.6.27; linux- can be omitted [default: of the machine file,
    /// else linux-6.18]
    #[arg(long, value_name = "NAME", help_heading = SIMULATED)]
    pub kernel: Option<KernelVersion>,
    /// Simulate the tasks of a CPU as fluid (all share it) or quantum (one runs for a slice) [default: of the machine
    /// file, else fluid]
    #[arg(long, value_name = "fluid|quantum", value_parser = grain, help_heading = SIMULATED)]
    pub grain: Option<GrainKind>,
    /// Enable or disable NUMA balancing of the simulated kernel, which migrates tasks and pages between nodes [default:
    /// `numa_balancing` of the machine file, else off]
    #[arg(long, value_enum, value_name = "on|off", help_heading = SIMULATED)]
    pub numa_balancing: Option<Switch>,
    /// Interleave the memory of jobs over all nodes instead of first touch
    #[arg(long, help_heading = SIMULATED)]
    pub interleave: bool,
    /// Set random variation: off, or KEY=VALUE separated by commas, with the keys start, placement, idle, length,
    /// sleep, counters, pages
    #[arg(long, value_name = "KEYS", value_parser = variation, default_value = "on", help_heading = SIMULATED)]
    pub variation: Variation,
    /// Disturb the declared class, profile and sensitivity that policies receive, by random factors with this relative
    /// standard deviation, from 0 to 10; the simulated programs are unchanged [default: 0]
    #[arg(long, value_name = "F", value_parser = declared_error, default_value_t = 0.0, hide_default_value = true, allow_hyphen_values = true, help_heading = SIMULATED)]
    pub declared_error: f64,
    /// Inject faults: KEY=VALUE separated by commas, with the keys samples-lost, counters-absent,
    /// requests-rejected, pages-busy, unmanaged-programs, cpus-offline (default: none)
    #[arg(long, value_name = "KEYS", value_parser = faults, default_value = "", hide_default_value = true, help_heading = SIMULATED)]
    pub faults: Faults,
    /// Disable contention for caches and memory; programs share only CPU time
    #[arg(long, help_heading = SIMULATED)]
    pub no_contention: bool,
    /// Propagate every change of a rate. By default changes below 0.03 % are ignored, which is faster, and usually
    /// moves the end of a job by less than 0.1 % of its run time if all jobs are bound and do not sleep
    #[arg(long, conflicts_with = "no_contention", help_heading = SIMULATED)]
    pub exact: bool,
    /// Select the readable signals: all; resctrl, which is all and the resctrl counters of LLC domains and jobs; or none
    /// except CPU times, as on a machine without counters
    #[arg(long, value_enum, value_name = "all|resctrl|none", default_value_t = SimSignals::All, help_heading = SIMULATED)]
    pub readable: SimSignals,
}

/// Value of an option that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Readable signals of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SimSignals {
    /// Task counters, memory controllers and memory per node
    All,
    /// All, and traffic and occupancy of LLC domains and jobs
    Resctrl,
    /// CPU times only
    None,
}

fn grain(text: &str) -> Result<GrainKind, String> {
    let names = || GrainKind::ALL.map(GrainKind::name).join(", ");
    GrainKind::of_name(text).ok_or_else(|| format!("write one of {}", names()))
}

fn variation(text: &str) -> Result<Variation, String> {
    Variation::parse(text).map_err(|error| error.to_string())
}

fn declared_error(text: &str) -> Result<f64, String> {
    let accepted = |error: &f64| (0.0..=ERROR_MAX).contains(error);
    let error = text.parse().ok().filter(accepted);
    error.ok_or_else(|| format!("write a number from 0 to {ERROR_MAX}, such as 0.3"))
}

fn faults(text: &str) -> Result<Faults, String> {
    Faults::parse(text).map_err(|error| error.to_string())
}

impl SimArgs {
    pub fn options(&self, seed: u64, interval: Option<Nanos>, limit: Option<Nanos>) -> SimOptions {
        let all = self.readable != SimSignals::None;
        let resctrl = self.readable == SimSignals::Resctrl;
        SimOptions {
            interval,
            seed,
            variation: self.variation,
            declared_error: self.declared_error,
            kernel: self.kernel,
            grain: self.grain,
            numa_balancing: self.numa_balancing.map(|switch| switch == Switch::On),
            contention: !self.no_contention,
            interleave: self.interleave,
            exact: self.exact,
            capabilities: Capabilities { counters: all, controllers: all, memory: all, resctrl },
            time_limit: limit,
            faults: self.faults,
            ..SimOptions::default()
        }
    }

    /// Returns the options that are recorded with results, by flag name.
    pub fn result_options(&self) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut add = |name: &str, value: String| options.insert(name.to_owned(), value);
        if let Some(kernel) = self.kernel {
            add("kernel", kernel.name().to_owned());
        }
        if let Some(grain) = self.grain {
            add("grain", grain.name().to_owned());
        }
        if let Some(switch) = self.numa_balancing {
            add("numa-balancing", if switch == Switch::On { "on" } else { "off" }.to_owned());
        }
        if self.interleave {
            add("interleave", "yes".to_owned());
        }
        if self.variation != Variation::default() {
            add("variation", format!("{:?}", self.variation));
        }
        if self.declared_error != 0.0 {
            add("declared-error", self.declared_error.to_string());
        }
        if self.no_contention {
            add("contention", "off".to_owned());
        }
        if self.exact {
            add("exact", "yes".to_owned());
        }
        let readable = match self.readable {
            SimSignals::All => None,
            SimSignals::Resctrl => Some("resctrl"),
            SimSignals::None => Some("none"),
        };
        if let Some(readable) = readable {
            add("readable", readable.to_owned());
        }
        options
    }

    /// Returns the first option on the command line that a live host does not support.
    pub fn first_simulation_option(&self) -> Option<&'static str> {
        let options = [
            ("--machine", self.machine.is_some()),
            ("--kernel", self.kernel.is_some()),
            ("--grain", self.grain.is_some()),
            ("--numa-balancing", self.numa_balancing.is_some()),
            ("--interleave", self.interleave),
            ("--variation", self.variation != Variation::default()),
            ("--declared-error", self.declared_error != 0.0),
            ("--faults", !self.faults.is_none()),
            ("--no-contention", self.no_contention),
            ("--exact", self.exact),
            ("--readable", self.readable != SimSignals::All),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Reads the machine file, or this machine.
    pub fn machine(&self) -> Result<Machine, CommandError> {
        match &self.machine {
            Some(path) => {
                let machine = crate::machine::file_or_shipped(path).or_usage_error()?;
                let checked = host_sim::check_machine(&machine, &self.options(0, None, None));
                let origin = || {
                    let grain = self.grain.map(|grain| format!("--grain {}, ", grain.name()));
                    let balances = self.numa_balancing == Some(Switch::On);
                    let balancing = balances.then_some("--numa-balancing on, ");
                    let (grain, balancing) = (grain.unwrap_or_default(), balancing.unwrap_or(""));
                    format!("{grain}{balancing}{}", path.display())
                };
                checked.with_context(origin).or_usage_error()?;
                Ok(machine)
            }
            None => Ok(linux::topology::read(Path::new("/"))?),
        }
    }
}

/// The input is invalid, or the journal cannot be created. Nothing has run.
pub(super) fn run(args: &Args) -> Result<(RunResult, RunDir), CommandError> {
    // Reading and preparing many jobs takes seconds. A signal in this time ends the process: nothing has run.
    let prepared = prepare(args)?;
    // The helper thread of the signals inherits the signal mask of the screen.
    let screen = args.view.open_screen(args.quiet);
    let mut signals = StopSignals::block_terminating()?;
    let stop = StopFlag::default();
    signals.run_with_flag(&stop, || run_until(&stop, args, prepared, screen))?
}

/// Runs until the end or until `stop` is raised.
fn run_until(
    stop: &StopFlag,
    args: &Args,
    prepared: Prepared,
    screen: Option<Screen>,
) -> Result<(RunResult, RunDir), CommandError> {
    let SimInput { workload, machine, policy, signals, mut host } = check(stop, args, prepared)?;
    let dir = RunDir::make(args.out.as_deref(), &workload.name, args.foreign).or_usage_error()?;
    let header = header(args, &workload, machine, &*policy, &host);
    let mut journal = create_journal(&dir, &header, args.journal_part.unwrap_or(JOURNAL_PART))?;
    let mut report = ReportBuilder::new(&header);
    let mut view = View::new(screen, args.quiet, &header, &BTreeMap::new());
    view.poll_in_turns(stop, host.progress());
    let mut engine = Engine::new(header.machine, header.jobs, policy)
        .with_page_migration_limits(args.memory.limits())
        .with_signals(signals);
    let sinks: &mut [&mut dyn Sink] = &mut [&mut journal, &mut report, &mut view];
    let error = engine::run(&mut host, &mut engine, sinks).err().map(anyhow::Error::from);
    view.finish();
    let end = recorded_run::end(error.as_ref(), host.stopped_by(), host.now());
    Ok((RunResult::new(report, Some(journal), end, error), dir))
}

/// Validated input of a simulated run.
struct SimInput {
    workload: Workload,
    machine: Machine,
    policy: Box<dyn Policy>,
    signals: TierOverride,
    host: SimHost,
}

/// The files of a simulated run.
struct Prepared {
    workload: Workload,
    notes: Vec<String>,
    machine: Machine,
    signals: TierOverride,
    hardware: Arc<Hardware>,
    scripts: Vec<Arc<Script>>,
}

fn prepare(args: &Args) -> Result<Prepared, CommandError> {
    let mut workload = args.workload.workload()?;
    let notes = profiles::attach(&mut workload, &args.profiles).or_usage_error()?;
    lab::oracle::check(&args.policy).or_usage_error()?;
    let machine = args.sim.machine()?;
    let signals = args.signals.overrides().or_usage_error()?;
    let hardware = Arc::new(Hardware::new(&machine));
    let scripts =
        host_sim::build_scripts::build_scripts(&workload.jobs, &hardware).or_usage_error()?;
    Ok(Prepared { workload, notes, machine, signals, hardware, scripts })
}

fn check(stop: &StopFlag, args: &Args, prepared: Prepared) -> Result<SimInput, CommandError> {
    let Prepared { workload, notes, machine, signals, hardware, scripts } = prepared;
    let policy = match lab::oracle::is_named(&args.policy) {
        true => oracle(stop, args, &machine, &workload, &signals)?,
        false => policy::build(&args.policy, args.seed).or_usage_error()?,
    };
    check_polls("the simulator", &*policy, &args.policy).or_usage_error()?;
    if args.sim.readable == SimSignals::None {
        check_declared(&args.policy, &workload).or_usage_error()?;
    }
    let options = args.sim.options(args.seed, policy.interval(), args.time_limit);
    let options = SimOptions { stop: stop.clone(), fail_fast: args.fail_fast, ..options };
    let host = SimHost::with_scripts(&machine, hardware, &workload.jobs, scripts, options);
    let host = host.or_usage_error()?;
    if !args.quiet {
        notes.iter().for_each(crate::print::note);
        let assumed = host.assumed().join("; ");
        if !assumed.is_empty() {
            crate::print::note(format_args!(
                "assumed values that the machine file does not have: {assumed}"
            ));
        }
    }
    Ok(SimInput { workload, machine, policy, signals, host })
}

/// Simulates the run about 140 times and returns the best placement.
fn oracle(
    stop: &StopFlag,
    args: &Args,
    machine: &Machine,
    workload: &Workload,
    signals: &TierOverride,
) -> Result<Box<dyn Policy>, CommandError> {
    let setting = SimSetting {
        machine: machine.clone(),
        options: args.sim.options(args.seed, None, args.time_limit),
        limits: args.memory.limits(),
        signals: *signals,
    };
    let column = Column::parse(&args.policy).or_usage_error()?;
    let bench =
        SimBench::without_solo_runs(setting, vec![workload.jobs.clone()]).or_usage_error()?;
    // The objective may be a slowdown.
    let bench = bench.with_solo_runs([column.variant]).or_usage_error()?;
    let policy = bench.oracle((&column, 0, args.seed), stop).or_usage_error()?;
    let stopped = "interrupted during the search of the oracle: nothing has run";
    policy.ok_or_else(|| CommandError::Failed(anyhow::anyhow!(stopped)))
}

/// Checks that a policy does not wait for counter overflows, which this host does not count.
pub fn check_polls(host: &str, policy: &dyn Policy, spec: &str) -> anyhow::Result<()> {
    let polls = policy.wake() == Wake::Poll;
    anyhow::ensure!(polls, "{host} polls at an interval; remove wake= from {spec:?}");
    Ok(())
}

/// Checks that profiles declare the values that a policy needs if no signal is readable.
pub fn check_declared(spec: &str, workload: &Workload) -> anyhow::Result<()> {
    for job in workload.jobs.iter().filter(|_| !lab::oracle::is_named(spec)) {
        let missing =
            policy::missing(spec, job)?.filter(|missing| missing.if_missing == IfMissing::EndsRun);
        if let Some(missing) = missing {
            anyhow::bail!("{}: job {:?}: {}", job.origin, job.name, missing.text);
        }
    }
    Ok(())
}

fn header(
    args: &Args,
    workload: &Workload,
    machine: Machine,
    policy: &dyn Policy,
    host: &SimHost,
) -> Header {
    let settings = host.settings();
    let mut options = BTreeMap::new();
    let mut add = |name: &str, value: String| options.insert(name.to_owned(), value);
    add("kernel", settings.kernel.name().to_owned());
    add("numa-balancing", if settings.numa_balancing { "on" } else { "off" }.to_owned());
    for (name, value) in settings.grain.recorded() {
        add(name, value);
    }
    add("contention", if settings.contention { "on" } else { "off" }.to_owned());
    if args.sim.interleave {
        add("interleave", "yes".to_owned());
    }
    if args.sim.exact {
        add("exact", "yes".to_owned());
    }
    if args.sim.declared_error != 0.0 {
        add("declared-error", args.sim.declared_error.to_string());
    }
    if let Some(limit) = args.time_limit {
        add("time-limit", limit.to_string());
    }
    if !host.assumed().is_empty() {
        add("assumed", host.assumed().join("; "));
    }
    options.extend(args.memory.journal_options());
    args.signals.add_to_options(&mut options);
    Header {
        // A simulated run does not depend on the clock: the same seed writes the same bytes.
        run_id: format!("sim-{}-{}", workload.name, args.seed),
        started_unix_s: 0,
        seed: args.seed,
        workload: workload.name.clone(),
        dir: workload.dir.clone(),
        jobs: host.declared_jobs(),
        options,
        ..recorded_run::header(HostKind::Sim, PolicyUsed::new(policy, &args.policy), machine)
    }
}
