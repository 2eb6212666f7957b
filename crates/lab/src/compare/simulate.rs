//! Runs of a comparison on a simulated machine.
//!
//! Everything that does not depend on policy and seed is prepared once: the tables of the machine, the scripts of each
//! workload, and the time of each job alone. A run is a host, an engine and a [`MetricsRecorder`].

mod solo_runs;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Nanos, StopFlag};
use engine::{Engine, PageMigrationLimits, Sink};
use host_sim::build_scripts;
use host_sim::frame::{GrainSettings, MachineSettings};
use host_sim::hardware::Hardware;
use host_sim::script::Script;
use host_sim::{SimError, SimHost, SimOptions};
use program::{Job, Profile};
use sched::{Policy, TierOverride};
use topology::Machine;

use crate::assignment::{self, AssignmentModel};
use crate::oracle::OracleError;
use crate::shipped::{self, ProfileDraw};

use super::{
    Column, ComparePlan, Completion, ControllerTraffic, MachineVariant, MetricsRecorder,
    RunMetrics, SoloTimes,
};

/// Time between two comparisons of the cores of all threads with the best assignment. Chosen: a tenth of a phase of the
/// assignment model.
const OBSERVED_EVERY: Nanos = Nanos::from_secs(1);

/// Settings of all runs.
#[derive(Clone, Debug)]
pub struct SimSetting {
    /// The machine.
    pub machine: Machine,
    /// Options of the simulator; interval and seed are set by each run.
    pub options: SimOptions,
    /// Limits on page migration.
    pub limits: PageMigrationLimits,
    /// Data sources of load and memory traffic.
    pub signals: TierOverride,
}

/// A workload with its scripts, and the times of its jobs alone.
#[derive(Clone, Debug)]
pub struct PreparedWorkload {
    jobs: Vec<Job>,
    scripts: Vec<Arc<Script>>,
    /// Time of each job alone, by settings of the machine.
    alone: BTreeMap<MachineVariant, Vec<Option<Nanos>>>,
}

impl PreparedWorkload {
    /// Returns the jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns the script of each job.
    pub fn scripts(&self) -> &[Arc<Script>] {
        &self.scripts
    }
}

/// A simulated machine with prepared workloads.
#[derive(Debug)]
pub struct SimBench {
    setting: SimSetting,
    hardware: Arc<Hardware>,
    /// The model of assignments to core kinds; `None` with one kind.
    model: Option<AssignmentModel>,
    /// The workloads of each draw of the profiles; one draw if the profiles are not drawn.
    draws: Vec<Vec<PreparedWorkload>>,
    /// The draw of each seed; the first for other seeds.
    draw_of_seed: BTreeMap<u64, usize>,
}

impl SimBench {
    /// Prepares the workloads and runs each job alone with the common settings of the machine.
    ///
    /// # Errors
    /// A job that cannot be simulated, or an unknown kernel.
    pub fn new(setting: SimSetting, workloads: Vec<Vec<Job>>) -> Result<Self, SimError> {
        SimBench::without_solo_runs(setting, workloads)?.with_solo_runs([MachineVariant::default()])
    }

    /// Draws the profiles of the jobs for the seeds of a plan, if the plan has draws. The jobs that policies receive
    /// are unchanged: their declared classes and profiles are those of the workload, and only the simulated programs are
    /// drawn.
    ///
    /// # Errors
    /// A drawn program cannot be simulated.
    pub fn with_drawn_profiles(self, plan: &ComparePlan) -> Result<Self, SimError> {
        let Some(n_draws) = plan.n_draws else { return Ok(self) };
        let drawn = |(draw, ready): (usize, &PreparedWorkload)| -> Result<_, SimError> {
            let jobs: Vec<Job> =
                ready.jobs.iter().map(|job| with_drawn_profile(job, draw)).collect();
            let scripts = build_scripts::build_scripts(&jobs, &self.hardware)?;
            let limit = self.setting.options.time_limit;
            build_scripts::check_lengths(&jobs, &scripts, &self.hardware, limit)?;
            Ok(PreparedWorkload { scripts, ..ready.clone() })
        };
        let of_draw = |draw| self.workloads().iter().map(|ready| drawn((draw, ready))).collect();
        let draws = (0..n_draws).map(of_draw).collect::<Result<_, SimError>>()?;
        let draw_of_seed = plan.seeds.iter().map(|seed| (*seed, plan.draw_of(*seed))).collect();
        Ok(SimBench { draws, draw_of_seed, ..self })
    }

    /// Prepares the workloads without the times of jobs alone.
    ///
    /// # Errors
    /// As [`SimBench::new`].
    pub fn without_solo_runs(
        setting: SimSetting,
        workloads: Vec<Vec<Job>>,
    ) -> Result<Self, SimError> {
        let hardware = Arc::new(Hardware::new(&setting.machine));
        let ready = |jobs: Vec<Job>| -> Result<PreparedWorkload, SimError> {
            let scripts = build_scripts::build_scripts(&jobs, &hardware)?;
            build_scripts::check_lengths(&jobs, &scripts, &hardware, setting.options.time_limit)?;
            Ok(PreparedWorkload { alone: BTreeMap::new(), jobs, scripts })
        };
        let workloads = workloads.into_iter().map(ready).collect::<Result<_, _>>()?;
        let (model, draws) = (AssignmentModel::new(&setting.machine, &hardware), vec![workloads]);
        Ok(SimBench { setting, hardware, model, draws, draw_of_seed: BTreeMap::new() })
    }

    /// Returns a phrase for each assumed value of the machine.
    pub fn assumed(&self) -> Vec<String> {
        let SimSetting { machine, options, .. } = &self.setting;
        // An invalid grain is reported by `check`.
        let grain = GrainSettings::new(machine, options.grain).unwrap_or_default();
        host_sim::assumed(machine, &self.hardware, grain)
    }

    /// Returns the settings of all runs.
    pub fn setting(&self) -> &SimSetting {
        &self.setting
    }

    /// Returns the tables of the machine.
    pub fn hardware(&self) -> &Arc<Hardware> {
        &self.hardware
    }

    /// Returns the time of each job of a workload alone on the idle machine, with the settings of a variant; `None` for
    /// jobs that restart or are stopped by the host. Empty if the times were not measured.
    pub fn alone(&self, variant: MachineVariant, workload: usize, seed: u64) -> &[Option<Nanos>] {
        let times = self.workload(workload, seed).alone.get(&self.complete(variant));
        times.map_or(&[], Vec::as_slice)
    }

    /// Returns the times alone of all columns, workloads and draws of a plan.
    pub fn all_alone(&self, plan: &ComparePlan) -> SoloTimes {
        let mut all = SoloTimes::new();
        for (draw, workloads) in self.draws.iter().enumerate() {
            for (workload, ready) in workloads.iter().enumerate() {
                for (column, variant) in plan.columns.iter().map(|it| it.variant).enumerate() {
                    let times = ready.alone.get(&self.complete(variant)).cloned();
                    all.insert((column, workload, draw), times.unwrap_or_default());
                }
            }
        }
        all
    }

    /// Returns a variant with the common settings in place of absent ones. The setting of NUMA balancing in the machine
    /// file does not apply to the kernel of a variant that has none.
    fn complete(&self, variant: MachineVariant) -> MachineVariant {
        let common = &self.setting.options;
        let own_kernel = variant.kernel.filter(|kernel| Some(*kernel) != common.kernel);
        let has_none = own_kernel.is_some_and(|kernel| !kernel.can_balance_numa());
        let balances = variant.numa_balancing.or(common.numa_balancing);
        MachineVariant {
            interleave: variant.interleave.or(Some(common.interleave)),
            numa_balancing: balances.or(has_none.then_some(false)),
            kernel: variant.kernel.or(common.kernel),
        }
    }

    /// Returns the workloads, in order; with drawn profiles, those of the first draw.
    pub fn workloads(&self) -> &[PreparedWorkload] {
        &self.draws[0]
    }

    /// Returns a workload with the programs of a seed.
    pub(super) fn workload(&self, workload: usize, seed: u64) -> &PreparedWorkload {
        &self.draws[self.draw_of_seed.get(&seed).copied().unwrap_or(0)][workload]
    }

    /// Returns the kernel settings of a column, checked against this machine.
    ///
    /// # Errors
    /// The simulated kernel does not support NUMA balancing.
    pub fn check(&self, column: &Column) -> Result<MachineSettings, SimError> {
        let host = self.host(&[], &[], self.options(column, None, 0))?;
        Ok(host.settings())
    }

    /// Simulates one run with this policy and the variant of the column.
    ///
    /// # Errors
    /// The kernel does not exist.
    pub fn run_policy(
        &self,
        policy: Box<dyn Policy>,
        run: (&Column, usize, u64),
        stop: &StopFlag,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<RunMetrics>, SimRunError> {
        self.run_with(policy, run, (stop, None), listener)
    }

    /// Returns the time between observations in the runs of a workload; `None` if they are not compared with the assignment
    /// model.
    pub(super) fn observed_every(&self, workload: usize, seed: u64) -> Option<Nanos> {
        let threads = self.workload(workload, seed).scripts.iter().map(|script| script.n_threads);
        let has_model =
            self.model.is_some() && threads.sum::<u32>() as usize <= assignment::N_TASKS_MAX;
        has_model.then_some(OBSERVED_EVERY)
    }

    /// As [`SimBench::run_policy`]. With a time between observations, the metrics have the distance to the assignment
    /// model.
    pub(super) fn run_with(
        &self,
        policy: Box<dyn Policy>,
        (column, workload, seed): (&Column, usize, u64),
        (stop, observed_every): (&StopFlag, Option<Nanos>),
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<RunMetrics>, SimRunError> {
        let ready = self.workload(workload, seed);
        let options = self.options(column, policy.interval(), seed);
        let options = SimOptions { stop: stop.clone(), observed_every, ..options };
        let mut host = self.host(&ready.jobs, &ready.scripts, options)?;
        let mut engine = Engine::new(self.setting.machine.clone(), host.declared_jobs(), policy)
            .with_page_migration_limits(self.setting.limits)
            .with_signals(self.setting.signals);
        let mut recorder = MetricsRecorder::new(&ready.jobs);
        let ended = match listener {
            None => engine::run(&mut host, &mut engine, &mut [&mut recorder]),
            Some(other) => engine::run(&mut host, &mut engine, &mut [&mut recorder, other]),
        };
        let mut metrics =
            RunMetrics { controllers: controllers(&mut host), ..recorder.into_metrics() };
        metrics.pages_moved_bytes = host.work().pages_moved_bytes;
        metrics.n_migrations = host.work().migrations;
        metrics.model_gap = self.model.as_ref().and_then(|model| {
            let share = |script: &Arc<Script>| model.memory_share(script, &self.hardware);
            let shares: Vec<f64> = ready.scripts.iter().map(share).collect();
            model.gap(&shares, &host.take_observations())
        });
        match ended {
            Ok(_) if stop.is_raised() && host.stopped_by().is_some() => return Ok(None),
            Err(error) => {
                metrics.status = Completion::Failed;
                metrics.error = Some(error.to_string());
            }
            Ok(_) if host.stopped_by().is_some() && metrics.status == Completion::Finished => {
                metrics.status = Completion::Stopped;
            }
            Ok(_) => {}
        }
        Ok(Some(metrics))
    }

    /// Returns the simulator options of a run.
    pub fn options(&self, column: &Column, interval: Option<Nanos>, seed: u64) -> SimOptions {
        SimOptions { interval, seed, ..self.options_of(column.variant) }
    }

    fn options_of(&self, variant: MachineVariant) -> SimOptions {
        let MachineVariant { interleave, numa_balancing, kernel } = self.complete(variant);
        let common = &self.setting.options;
        SimOptions {
            interleave: interleave.unwrap_or(common.interleave),
            numa_balancing,
            kernel,
            skip_quiescent_turns: true,
            ..common.clone()
        }
    }

    fn host(
        &self,
        jobs: &[Job],
        scripts: &[Arc<Script>],
        options: SimOptions,
    ) -> Result<SimHost, SimError> {
        let hardware = self.hardware.clone();
        SimHost::with_scripts(&self.setting.machine, hardware, jobs, scripts.to_vec(), options)
    }
}

/// Returns the shipped profile of a job, if the job has exactly this profile: a file of the user has no ranges.
fn shipped_profile(job: &Job) -> Option<Profile> {
    let found = job.found.as_deref()?;
    shipped::profile(&found.name).ok().filter(|shipped| shipped == found)
}

fn profile_of_draw(job: &Job, draw: usize) -> Option<Profile> {
    let shipped = shipped_profile(job)?;
    let drawn = shipped::profile_drawn(&shipped.name, ProfileDraw::seed(draw as u64 + 1)).ok()?;
    // A program without ranges has the same values in each draw.
    (drawn.phases != shipped.phases).then_some(drawn)
}

fn with_drawn_profile(job: &Job, draw: usize) -> Job {
    let drawn = profile_of_draw(job, draw).map(Arc::new);
    Job { found: drawn.or_else(|| job.found.clone()), ..job.clone() }
}

/// Returns the names of the jobs whose profiles have no ranges, so that a draw does not vary them.
pub fn jobs_without_ranges(jobs: &[Job]) -> Vec<&str> {
    let is_fixed = |job: &&Job| profile_of_draw(job, 0).is_none();
    jobs.iter().filter(is_fixed).map(|job| job.name.as_str()).collect()
}

/// Error: a run could not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum SimRunError {
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    #[error(transparent)]
    Oracle(#[from] OracleError),
    #[error(transparent)]
    Sim(#[from] SimError),
}

fn controllers(host: &mut SimHost) -> Vec<ControllerTraffic> {
    let carried = host.controllers().into_iter();
    carried
        .map(|(node, [read, written])| ControllerTraffic {
            node,
            read_bytes: read,
            written_bytes: written,
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use base::JobId;
    use host_sim::faults::Faults;
    use host_sim::kernel::KernelVersion;
    use host_sim::variation::Variation;
    use program::{Section, Sections, WorkPart};

    use super::*;
    use crate::compare::columns;
    use crate::shipped;

    /// Returns a job that runs a shipped profile.
    pub(crate) fn job(id: u32, profile: &str) -> Job {
        let command = program::Command::Program { program: profile.into(), args: Vec::new() };
        let found = shipped::profile(profile).expect("it ships");
        Job { found: Some(Arc::new(found)), ..Job::new(JobId(id), format!("job{id}"), command) }
    }

    /// Half of interleaved memory is remote, and NUMA balancing costs time: each setting changes the time of a program
    /// alone.
    #[test]
    fn a_job_that_runs_alone_has_slowdown_1_with_every_setting_of_the_machine() {
        let faults = Faults::parse("unmanaged-programs=4").expect("faults");
        let setting = SimSetting {
            machine: Machine::synthetic("nodes=2 cores=4").expect("a machine"),
            options: SimOptions { variation: Variation::OFF, faults, ..SimOptions::default() },
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let columns =
            columns(["linux,linux@interleave,linux@numa-balancing"]).expect("they are valid");
        let jobs = vec![vec![job(0, "lbm@0.02")]];
        let mut bench = SimBench::without_solo_runs(setting, jobs)
            .and_then(|bench| bench.with_solo_runs(columns.iter().map(|column| column.variant)))
            .expect("it can run");
        // The idle machine has no unmanaged programs.
        bench.setting.options.faults = Faults::default();
        let mut times = Vec::new();
        for column in &columns {
            let run = bench.run((column, 0, 1), &StopFlag::default(), None).expect("it runs");
            let took = run.expect("not stopped").time_of(0, &bench.workloads()[0].jobs()[0]);
            assert_eq!(bench.alone(column.variant, 0, 1), [took], "{column}");
            times.push(took);
        }
        times.sort();
        times.dedup();
        assert_eq!(times.len(), 3, "{times:?}");
    }

    /// On a machine with performance cores 0 to 15 and efficiency cores 16 to 31.
    #[test]
    fn a_job_is_measured_alone_on_the_kind_to_which_its_cpus_restrict_it_else_on_the_fastest() {
        for kernel in KernelVersion::ALL {
            for seed in 0..5 {
                let options = SimOptions {
                    kernel: Some(kernel),
                    seed,
                    variation: Variation::OFF,
                    ..SimOptions::default()
                };
                let setting = SimSetting {
                    machine: shipped::machine("hybrid-desktop").expect("it ships"),
                    options,
                    limits: PageMigrationLimits::default(),
                    signals: TierOverride::default(),
                };
                let on = |id: u32, cpus: Option<&str>| Job {
                    cpus: cpus.map(|cpus| cpus.parse().expect("CPUs")),
                    ..job(id, "453.povray@0.02")
                };
                let jobs = vec![on(0, None), on(1, Some("0-15")), on(2, Some("16-31"))];
                let bench = SimBench::new(setting, vec![jobs]).expect("it can run");
                let alone = bench.alone(MachineVariant::default(), 0, 1);
                let seconds = |idx: usize| alone[idx].expect("it ends").as_secs_f64();
                let [free, fast, slow] = [0, 1, 2].map(seconds);
                assert!((free / fast - 1.0).abs() < 1e-3, "{kernel:?} {seed}: {free} {fast}");
                // 5.5 GHz over 4.3 GHz, and 1.27 times the core cycles.
                assert!((1.6..1.8).contains(&(slow / fast)), "{kernel:?} {seed}: {slow} {fast}");
            }
        }
    }

    /// Of the first processor, the cores of CPUs 1, 6 to 9 and 16 are fast.
    #[test]
    fn a_job_alone_runs_on_the_fastest_kind_under_every_kernel_wherever_its_cpus_are() {
        let setting = SimSetting {
            machine: shipped::machine("xeon-6230n-2x20").expect("it ships"),
            options: SimOptions::default(),
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let on = |id: u32, cpus: Option<&str>| Job {
            cpus: cpus.map(|cpus| cpus.parse().expect("CPUs")),
            ..job(id, "453.povray@0.02")
        };
        let jobs = vec![on(0, None), on(1, Some("1")), on(2, Some("0"))];
        let columns = columns(["linux@kernel=2.6.27,linux@kernel=4.2,linux@kernel=6.18"]);
        let variants: Vec<_> =
            columns.expect("valid").iter().map(|column| column.variant).collect();
        let bench = SimBench::without_solo_runs(setting, vec![jobs]).expect("it can run");
        let bench = bench.with_solo_runs(variants.clone()).expect("it can run");
        for variant in variants {
            let alone = bench.alone(variant, 0, 1);
            let seconds = |idx: usize| alone[idx].expect("it ends").as_secs_f64();
            let [free, fast, slow] = [0, 1, 2].map(seconds);
            assert!((free / fast - 1.0).abs() < 1e-3, "{variant:?}: {free} {fast}");
            assert!((1.2..1.3).contains(&(slow / fast)), "{variant:?}: {slow} {fast}");
        }
    }

    /// Returns the seconds of a job alone under a column on a shipped machine, for several seeds.
    fn seconds_under(column: &str, machine: &str) -> Vec<f64> {
        let setting = SimSetting {
            machine: shipped::machine(machine).expect("it ships"),
            options: SimOptions::default(),
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let column = &columns([column]).expect("it is valid")[0];
        let jobs = vec![vec![job(0, "453.povray@0.02")]];
        let bench = SimBench::without_solo_runs(setting, jobs).expect("it can run");
        let seconds = |seed| {
            let run = bench.run((column, 0, seed), &StopFlag::default(), None).expect("it runs");
            let time = run.expect("not stopped").time_of(0, &bench.workloads()[0].jobs()[0]);
            time.expect("it ends").as_secs_f64()
        };
        (1..=12).map(seconds).collect()
    }

    /// Two cores at 2.7 GHz and two at 1.5 GHz; fast cores with two siblings and slow cores without.
    #[test]
    fn a_task_alone_may_stay_on_a_slow_core_under_an_old_kernel_and_runs_on_a_fast_core_under_6_18()
    {
        for machine in ["opteron-2384-uma", "opteron-2384-numa2", "hybrid-desktop"] {
            let new = seconds_under("linux@kernel=6.18", machine);
            let fastest = new.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(new.iter().all(|time| *time < 1.05 * fastest), "{machine}: {new:?}");
            for kernel in ["linux@kernel=2.6.27", "linux@kernel=4.2"] {
                let old = seconds_under(kernel, machine);
                let n_slow = old.iter().filter(|time| 1.5 * fastest < **time).count();
                assert!((3..=9).contains(&n_slow), "{kernel} on {machine}: {old:?}");
            }
        }
        let machine = "opteron-2384-uma";
        let of_file = seconds_under("linux", machine);
        assert_eq!(of_file, seconds_under("linux@kernel=2.6.27", machine));
    }

    #[test]
    fn a_pipeline_has_no_time_alone_on_unlike_cores_unless_its_cpus_are_set() {
        let on = |machine: &str, cpus: Option<&str>| {
            let setting = SimSetting {
                machine: shipped::machine(machine).expect("it ships"),
                options: SimOptions::default(),
                limits: PageMigrationLimits::default(),
                signals: TierOverride::default(),
            };
            let stage = WorkPart { work: 1, phase: None };
            let pipeline = Section::Pipeline { stages: vec![stage; 2], items: 10, queue: 2 };
            let job = Job {
                threads: 2,
                sections: Some(Sections { rounds: 1, sections: vec![pipeline] }),
                cpus: cpus.map(|cpus| cpus.parse().expect("CPUs")),
                ..job(0, "453.povray@0.02")
            };
            let bench = SimBench::new(setting, vec![vec![job]]).expect("it can run");
            bench.alone(MachineVariant::default(), 0, 1)[0].is_some()
        };
        assert!(!on("opteron-2384-uma", None));
        assert!(on("opteron-2384-uma", Some("2-3")));
        assert!(on("xeon-2x4", None));
    }

    /// The machine file enables NUMA balancing.
    #[test]
    fn a_kernel_without_numa_balancing_ignores_the_setting_of_the_machine_file() {
        let setting = SimSetting {
            machine: shipped::machine("xeon-2x4").expect("it ships"),
            options: SimOptions::default(),
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let bench = SimBench::without_solo_runs(setting, Vec::new()).expect("it can run");
        let balances = |column: &str| {
            let column = &columns([column]).expect("it is valid")[0];
            bench.check(column).map(|settings| settings.numa_balancing)
        };
        assert_eq!(balances("linux"), Ok(true));
        assert_eq!(balances("linux@kernel=6.18"), Ok(true));
        assert_eq!(balances("linux@kernel=2.6.27"), Ok(false));
        assert_eq!(
            balances("linux@kernel=2.6.27+numa-balancing"),
            Err(SimError::NoNumaBalancing("linux-2.6.27"))
        );
    }

    #[test]
    fn a_draw_changes_the_programs_with_ranges_for_all_policies_and_not_what_policies_see() {
        let own = shipped::profile("lbm@0.02").expect("it ships");
        let own = Profile { name: "lbm@0.02".to_owned(), class_cache: None, ..own };
        let file = Job { found: Some(Arc::new(own)), ..job(1, "lbm@0.02") };
        let jobs = vec![job(0, "lbm@0.02"), file];
        assert_eq!(jobs_without_ranges(&jobs), ["job1"], "a file of the user has no ranges");
        let setting = SimSetting {
            machine: Machine::synthetic("cores=2").expect("a machine"),
            options: SimOptions { variation: Variation::OFF, ..SimOptions::default() },
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let columns = columns(["linux,spread"]).expect("they are valid");
        let plan = ComparePlan::new(columns, None, vec!["w".to_owned()], (1..=4).collect());
        let plan = plan.and_then(|plan| plan.with_draws(2)).expect("enough seeds");
        let bench = SimBench::new(setting, vec![jobs.clone()])
            .and_then(|bench| bench.with_drawn_profiles(&plan))
            .and_then(|bench| bench.with_solo_runs([MachineVariant::default()]))
            .expect("it can run");
        let alone = |seed| bench.alone(MachineVariant::default(), 0, seed).to_vec();
        assert_eq!((alone(1), alone(2)), (alone(3), alone(4)));
        assert_ne!(alone(1)[0], alone(2)[0]);
        assert_eq!(alone(1)[1], alone(2)[1]);
        assert_eq!(bench.workload(0, 2).jobs(), jobs);
    }

    /// The text of every plan of a run.
    #[derive(Default)]
    struct Plans(String);

    impl Sink for Plans {
        fn record(&mut self, record: &engine::TurnRecord<'_>) -> std::io::Result<()> {
            if !record.plan.is_empty() {
                self.0 += &format!("{:?} {:?}\n", record.turn.at, record.plan);
            }
            Ok(())
        }
    }

    /// Runs a policy on programs that contend, with a relative error of declared values.
    fn plans(policy: &str, declared_error: f64, counters: bool) -> (String, RunMetrics) {
        let capabilities = host_sim::Capabilities {
            counters,
            controllers: counters,
            ..host_sim::Capabilities::default()
        };
        let setting = SimSetting {
            machine: Machine::synthetic("nodes=2 cores=2").expect("a machine"),
            options: SimOptions { declared_error, capabilities, ..SimOptions::default() },
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let class = |id: u32| program::Class::new(4 + 3 * (id as u8 % 3));
        let declared = |id: u32, profile: &str| Job { class: class(id), ..job(id, profile) };
        let programs = ["lbm@0.02", "povray@0.02", "mcf@0.02", "lbm@0.02", "namd@0.02", "mcf@0.02"];
        let jobs = (0..).zip(programs).map(|(id, profile)| declared(id, profile)).collect();
        let bench = SimBench::without_solo_runs(setting, vec![jobs]).expect("it can run");
        let column = &columns([policy]).expect("it is valid")[0];
        let mut sink = Plans::default();
        let built = policy::build(policy, 1).expect("a policy");
        let stop = StopFlag::default();
        let run = bench.run_policy(built, (column, 0, 1), &stop, Some(&mut sink));
        (sink.0, run.expect("it runs").expect("not stopped"))
    }

    #[test]
    fn an_error_of_declared_values_changes_no_simulated_program() {
        for error in [0.5, 10.0] {
            assert_eq!(plans("linux", error, true), plans("linux", 0.0, true));
        }
    }

    /// `dfs` uses the declared class of a job until it is counted, `nmass` its profile and its sensitivity, and `di` only
    /// the miss rates of profiles.
    #[test]
    fn policies_with_counters_decide_the_same_for_every_error_of_declared_values() {
        let by_declaration = ["dfs", "di", "nmass"];
        for name in policy::registry().iter().map(|info| info.name) {
            let exact = plans(name, 0.0, true);
            let is_equal = |error| plans(name, error, true) == exact;
            let reads_declared = by_declaration.contains(&name);
            assert_eq!([0.5, 10.0].map(is_equal), [!reads_declared; 2], "{name}");
        }
    }

    #[test]
    fn policies_without_counters_depend_on_the_error_of_declared_values() {
        for name in ["dfs", "di", "dio", "dino", "animal"] {
            assert_ne!(plans(name, 0.0, false).0, plans(name, 3.0, false).0, "{name}");
        }
    }

    #[test]
    fn resctrl_counters_give_the_loads_of_llc_domains_in_one_node() {
        let tiers = |resctrl: bool| {
            let capabilities =
                host_sim::Capabilities { resctrl, ..host_sim::Capabilities::default() };
            let setting = SimSetting {
                machine: Machine::synthetic("nodes=1 llcs=2 cores=2").expect("a machine"),
                options: SimOptions { capabilities, ..SimOptions::default() },
                limits: PageMigrationLimits::default(),
                signals: TierOverride::default(),
            };
            let jobs = (0..3).map(|id| job(id, "lbm@0.02")).collect();
            let bench = SimBench::without_solo_runs(setting, vec![jobs]).expect("it can run");
            let policy = "dfs[domains=llc]";
            let column = &columns([policy]).expect("it is valid")[0];
            let mut sink = Tiers::default();
            let built = policy::build(policy, 1).expect("a policy");
            let run =
                bench.run_policy(built, (column, 0, 1), &StopFlag::default(), Some(&mut sink));
            assert_eq!(run.expect("it runs").expect("not stopped").error, None);
            sink.0
        };
        assert!(tiers(true).contains(&sched::SignalTier::Bandwidth));
        assert!(!tiers(false).contains(&sched::SignalTier::Bandwidth));
    }

    /// The tiers of the loads.
    #[derive(Default)]
    struct Tiers(BTreeSet<sched::SignalTier>);

    impl Sink for Tiers {
        fn record(&mut self, record: &engine::TurnRecord<'_>) -> std::io::Result<()> {
            self.0.extend(record.loads.map(|sample| sample.loads.tier));
            Ok(())
        }
    }
}
