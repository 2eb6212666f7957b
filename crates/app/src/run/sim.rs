//! A run on a simulated machine: the same engine, policies, journal and reports as live.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use base::{Nanos, StopFlag};
use engine::{Engine, Sink};
use host_sim::chance::Chance;
use host_sim::faults::Faults;
use host_sim::hardware::Hardware;
use host_sim::kernel::Version;
use host_sim::{Capabilities, SimHost, SimOptions};
use journal::{Header, JournalWriter, Limits, PolicyUsed, RunEnd, RunStatus};
use lab::compare::{Column, SimBench, SimSetting};
use policy::Without;
use program::Workload;
use report::ReportBuilder;
use sched::{Policy, TierOverride};
use topology::Machine;

use super::live::Ran;
use super::{Args, Folder};
use crate::command_result::{CommandError, OrUsageError};
use crate::view::{Mode, View};
use crate::{input, profiles};
use linux::stop_signals::StopSignals;

/// How a simulated machine behaves.
#[derive(Clone, Debug, clap::Args)]
pub struct SimArgs {
    /// The machine to simulate: a machine file, as `evenkeel machine --toml` writes it, or the name of a
    /// shipped one, such as xeon-2x4; this machine when left out
    #[arg(long, value_name = "FILE|NAME", help_heading = "With --host sim")]
    pub machine: Option<std::path::PathBuf>,
    /// The kernel that it runs: linux-6.18, linux-4.2 or linux-2.6.27 [default: as the machine file says,
    /// else linux-6.18]
    #[arg(long, value_name = "NAME", value_parser = kernel, help_heading = "With --host sim")]
    pub kernel: Option<Version>,
    /// Whether that kernel moves tasks and pages between nodes by itself [default: as the machine file says,
    /// else off]
    #[arg(long, value_enum, value_name = "on|off", help_heading = "With --host sim")]
    pub numa_balancing: Option<Switch>,
    /// Stripe the memory of jobs over all nodes instead of first touch
    #[arg(long, help_heading = "With --host sim")]
    pub interleave: bool,
    /// What is left to chance: off, or KEY=VALUE between commas with start, placement, idle, length,
    /// sleep, counters, pages
    #[arg(long, value_name = "KEYS", value_parser = chance, default_value = "on", help_heading = "With --host sim")]
    pub chance: Chance,
    /// What goes wrong: KEY=VALUE between commas with lost, starved, refused, busy, noisy, unplugged
    #[arg(long, value_name = "KEYS", value_parser = faults, default_value = "", hide_default_value = true, help_heading = "With --host sim")]
    pub faults: Faults,
    /// Programs share CPU time only, neither caches nor memory
    #[arg(long, help_heading = "With --host sim")]
    pub no_contention: bool,
    /// What can be read of the machine: all of it, or nothing but CPU times (as on a machine without
    /// counters)
    #[arg(long, value_enum, value_name = "all|none", default_value_t = Readable::All, help_heading = "With --host sim")]
    pub readable: Readable,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// What can be read of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Readable {
    /// Counters of tasks and controllers, and where memory lies
    All,
    /// None of these
    None,
}

fn kernel(text: &str) -> Result<Version, String> {
    let known = || Version::ALL.map(Version::name).join(", ");
    Version::of_name(text).ok_or_else(|| format!("write one of {}", known()))
}

fn chance(text: &str) -> Result<Chance, String> {
    Chance::parse(text).map_err(|error| error.to_string())
}

fn faults(text: &str) -> Result<Faults, String> {
    Faults::parse(text).map_err(|error| error.to_string())
}

impl SimArgs {
    /// What the host is to know.
    pub fn options(&self, seed: u64, interval: Option<Nanos>, limit: Option<Nanos>) -> SimOptions {
        let all = self.readable == Readable::All;
        SimOptions {
            interval,
            seed,
            chance: self.chance,
            kernel: self.kernel,
            numa_balancing: self.numa_balancing.map(|switch| switch == Switch::On),
            contention: !self.no_contention,
            interleave: self.interleave,
            capabilities: Capabilities { counters: all, controllers: all, memory: all },
            time_limit: limit,
            faults: self.faults,
            ..SimOptions::default()
        }
    }

    /// What somebody who reads the figures may want to know of them, by flag name.
    pub fn told(&self) -> BTreeMap<String, String> {
        let mut told = BTreeMap::new();
        let mut tell = |name: &str, value: String| told.insert(name.to_owned(), value);
        if let Some(kernel) = self.kernel {
            tell("kernel", kernel.name().to_owned());
        }
        if let Some(switch) = self.numa_balancing {
            tell("numa-balancing", if switch == Switch::On { "on" } else { "off" }.to_owned());
        }
        if self.interleave {
            tell("interleave", "yes".to_owned());
        }
        if self.chance != Chance::default() {
            tell("chance", format!("{:?}", self.chance));
        }
        if self.no_contention {
            tell("contention", "off".to_owned());
        }
        if self.readable != Readable::All {
            tell("readable", "none".to_owned());
        }
        told
    }

    /// The first of these that was written, for hosts that have no use for them.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--machine", self.machine.is_some()),
            ("--kernel", self.kernel.is_some()),
            ("--numa-balancing", self.numa_balancing.is_some()),
            ("--interleave", self.interleave),
            ("--chance", self.chance != Chance::default()),
            ("--faults", !self.faults.is_none()),
            ("--no-contention", self.no_contention),
            ("--readable", self.readable != Readable::All),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The machine: of the file, or this one.
    pub fn machine(&self) -> Result<Machine, CommandError> {
        match &self.machine {
            Some(path) => {
                let machine = crate::machine::file_or_shipped(path).or_usage_error()?;
                let kernel = host_sim::check_kernel(&machine, &self.options(0, None, None));
                kernel.with_context(|| path.display().to_string()).or_usage_error()?;
                Ok(machine)
            }
            None => Ok(linux::topology::read(Path::new("/"))?),
        }
    }
}

/// Runs a workload on a simulated machine.
///
/// # Errors
/// Something about the command is wrong, or the journal cannot be begun: nothing has run then.
pub(super) fn run(args: &Args) -> Result<(Ran, Folder), CommandError> {
    let mut signals = StopSignals::block()?;
    let stop = StopFlag::default();
    signals.run_with_flag(&stop, || run_until(&stop, args))
}

/// The same, as long as nobody says that it is to stop.
fn run_until(stop: &StopFlag, args: &Args) -> Result<(Ran, Folder), CommandError> {
    let bytes = input::bytes("workload", &args.workload).or_usage_error()?;
    let mut workload = program::parse_bytes(&bytes, &args.workload).or_usage_error()?;
    let said = profiles::attach(&mut workload, &args.profiles).or_usage_error()?;
    lab::oracle::check(&args.policy).or_usage_error()?;
    let machine = args.sim.machine()?;
    let signals = args.signals.wish().or_usage_error()?;
    let hardware = Arc::new(Hardware::new(&machine));
    let scripts = host_sim::cast::cast(&workload.jobs, &hardware).or_usage_error()?;
    let policy = match lab::oracle::is_named(&args.policy) {
        true => oracle(stop, args, &machine, &workload, &signals)?,
        false => policy::build(&args.policy, args.seed).or_usage_error()?,
    };
    if args.sim.readable == Readable::None {
        check_declared(&args.policy, &workload).or_usage_error()?;
    }
    let options = args.sim.options(args.seed, policy.interval(), args.time_limit);
    let options = SimOptions { stop: stop.clone(), fail_fast: args.fail_fast, ..options };
    let host = SimHost::with_scripts(&machine, hardware, &workload.jobs, scripts, options);
    let mut host = host.or_usage_error()?;
    if !args.quiet {
        said.iter().for_each(|text| eprintln!("evenkeel: {text}"));
        let assumed = host.assumed();
        if !assumed.is_empty() {
            eprintln!(
                "evenkeel: the machine file leaves open, and assumed is: {}",
                assumed.join("; ")
            );
        }
    }
    let folder = Folder::make(args.out.as_deref(), &workload.name).or_usage_error()?;
    let header = header(args, &workload, machine, &*policy, &host);
    let limits = Limits { part: args.journal_part, ..Limits::default() };
    let path = folder.file("journal.jsonl");
    let mut journal = JournalWriter::create(&path, &header, limits)
        .inspect_err(|_| folder.forget())
        .with_context(|| format!("cannot write {}", path.display()))
        .or_usage_error()?;
    let mut report = ReportBuilder::new(&header);
    let mut view = View::new(if args.quiet { Mode::Quiet } else { Mode::Lines }, &header);
    let mut engine = Engine::new(header.machine, header.jobs, policy)
        .with_move_limits(args.memory.limits())
        .with_signals(signals);
    let sinks: &mut [&mut dyn Sink] = &mut [&mut journal, &mut report, &mut view];
    let error = engine::run(&mut host, &mut engine, sinks).err().map(anyhow::Error::from);
    view.finish();
    let how = match (&error, host.was_stopped()) {
        (Some(_), _) => RunStatus::Failed,
        (None, true) => RunStatus::Interrupted,
        (None, false) => RunStatus::Finished,
    };
    let told = error.as_ref().map(|error| format!("{error:#}"));
    let end = RunEnd {
        status: how,
        error: told,
        wall: host.now(),
        own_cpu: None,
        own_max_resident: None,
    };
    let report = report.finish(Some(&end));
    let finished = journal.finish(&end).context("cannot finish the journal");
    let ended = match error.or(finished.err()) {
        Some(error) => Err(CommandError::Failed(error)),
        None if how == RunStatus::Interrupted || !report.all_well() => Err(CommandError::Reported),
        None => Ok(()),
    };
    Ok((Ran { report, ended }, folder))
}

/// Finds the best way to do this very run, which takes some hundred runs of it.
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
    let bench = SimBench::new(setting, vec![workload.jobs.clone()]).or_usage_error()?;
    let policy = bench.oracle((&column, 0, args.seed), stop).or_usage_error()?;
    let stopped = "interrupted while the oracle searched: nothing has been run";
    policy.ok_or_else(|| CommandError::Failed(anyhow::anyhow!(stopped)))
}

/// Where nothing can be read, a policy must find what it needs in the programs' profiles.
pub fn check_declared(spec: &str, workload: &Workload) -> anyhow::Result<()> {
    for job in workload.jobs.iter().filter(|_| !lab::oracle::is_named(spec)) {
        let lack = policy::missing(spec, job)?.filter(|lack| lack.without == Without::Refuses);
        if let Some(lack) = lack {
            anyhow::bail!("{}: job {:?}: {}", job.origin, job.name, lack.words);
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
    let mut tell = |name: &str, value: String| options.insert(name.to_owned(), value);
    tell("kernel", settings.kernel.name().to_owned());
    tell("numa-balancing", if settings.numa_balancing { "on" } else { "off" }.to_owned());
    tell("contention", if settings.contention { "on" } else { "off" }.to_owned());
    if args.sim.interleave {
        tell("interleave", "yes".to_owned());
    }
    if let Some(limit) = args.time_limit {
        tell("time-limit", limit.to_string());
    }
    if !host.assumed().is_empty() {
        tell("assumed", host.assumed().join("; "));
    }
    options.extend(args.memory.told());
    args.signals.tell(&mut options);
    Header {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        // Nothing of a simulated run hangs on the clock: the same seed writes the same bytes.
        run_id: format!("sim-{}-{}", workload.name, args.seed),
        started_unix_s: 0,
        host: "sim".to_owned(),
        policy: PolicyUsed { name: policy.name().to_owned(), spec: args.policy.clone() },
        seed: args.seed,
        machine,
        workload: workload.name.clone(),
        folder: workload.folder.clone(),
        jobs: workload.jobs.clone(),
        options,
        replay_of: None,
    }
}
