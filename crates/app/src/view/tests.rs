//! The view as text: frames as cell buffers, events as lines.

use base::{CpuSet, JobId, Nanos};
use engine::LoadSample;
use expect_test::{Expect, expect};
use journal::PolicyUsed;
use program::{Command, Job};
use ratatui::buffer::Buffer;
use sched::{
    Action, Cause, DomainLoads, ExitStatus, JobEvent, JobExit, Outcome, OutcomeResult, Plan,
    Reason, ReasonCode, RejectCause, Sample, SignalTier, Target, Turn, UnmanagedCause,
};
use topology::{Level, Machine};

use super::*;

const ROUND_ROBIN: ReasonCode = ReasonCode::new(
    "round-robin",
    "{domain} was next in round-robin order; {cpus} had the fewest jobs there",
);

fn job(id: u32, name: &str) -> Job {
    Job::new(JobId(id), name, Command::Shell(String::new()))
}

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

fn done_outcome(id: u32, action: Option<Action>) -> Outcome {
    Outcome { target: Target::Job(JobId(id)), action, result: OutcomeResult::Done { n: 1 } }
}

#[derive(Default)]
struct TurnBuilder {
    turn: Turn,
    sample: Sample,
    loads: Option<LoadSample>,
    plan: Plan,
    outcomes: Vec<Outcome>,
}

impl TurnBuilder {
    fn at(millis: u64) -> Self {
        let turn =
            Turn { at: Nanos::from_millis(millis), causes: vec![Cause::Interval], number: 0 };
        TurnBuilder { turn, ..TurnBuilder::default() }
    }

    fn start(mut self, id: u32, list: &str) -> Self {
        let reason = Reason::new(ROUND_ROBIN)
            .with("domain", "core 0".to_owned())
            .with("cpus", "cpu 0".to_owned());
        self.plan.request(JobId(id), Action::Place(cpus(list)), reason);
        self.outcomes
            .extend([done_outcome(id, Some(Action::Place(cpus(list)))), done_outcome(id, None)]);
        self
    }

    fn place(mut self, id: u32, list: &str) -> Self {
        let reason = Reason::new(ROUND_ROBIN)
            .with("domain", "core 1".to_owned())
            .with("cpus", "cpu 1".to_owned());
        self.plan.request(JobId(id), Action::Place(cpus(list)), reason);
        self.outcomes.push(done_outcome(id, Some(Action::Place(cpus(list)))));
        self
    }

    fn end(mut self, id: u32, status: ExitStatus) -> Self {
        let end = JobExit::new(status, Nanos::from_millis(1500));
        self.sample.jobs.push(JobEvent::Ended(JobId(id), Box::new(end)));
        self
    }

    fn loads(mut self, loads: &[u64], millis: &[u64]) -> Self {
        self.loads = Some(LoadSample {
            level: Level::Core,
            numbers: (0..loads.len() as u32).collect(),
            loads: DomainLoads {
                tier: SignalTier::Declared,
                loads: loads.to_vec(),
                readable: true,
            },
            cpu_time: millis.iter().map(|&millis| Nanos::from_millis(millis)).collect(),
        });
        self
    }

    fn record(&self) -> TurnRecord<'_> {
        TurnRecord {
            turn: &self.turn,
            sample: &self.sample,
            tasks: &[],
            loads: self.loads.as_ref(),
            load_basis: None,
            signals: None,
            plan: &self.plan,
            rejected: &[],
            outcomes: &self.outcomes,
        }
    }
}

/// Reports a run with every kind of event.
fn run() -> Vec<TurnBuilder> {
    let mut broken = TurnBuilder::at(750).place(0, "1").end(1, ExitStatus::Signaled(11));
    let detail = "no such file: /bin/none".to_owned();
    let result = OutcomeResult::Rejected { cause: RejectCause::StartFailed, detail };
    broken.outcomes.push(Outcome { target: Target::Job(JobId(3)), action: None, result });
    let mut rebound = TurnBuilder::at(1000).loads(&[361_000, 45_000], &[250, 125]);
    let cause = UnmanagedCause::AffinityChanged(cpus("0"));
    rebound.sample.jobs.push(JobEvent::Unmanaged(JobId(0), cause));
    rebound.sample.degraded.push("no descriptors left: counters are off".to_owned());
    vec![
        TurnBuilder::at(0).start(0, "0").start(1, "1"),
        TurnBuilder::at(250).loads(&[1000, 2000], &[250, 100]),
        broken,
        rebound,
        TurnBuilder::at(1250)
            .start(2, "1")
            .end(0, ExitStatus::Exited(0))
            .loads(&[90_250, 0], &[200, 0]),
    ]
}

fn machine() -> Machine {
    Machine::synthetic("nodes=1 llcs=1 cores=2").expect("a machine")
}

fn header(jobs: Vec<Job>) -> Header {
    Header {
        tool: String::new(),
        run_id: String::new(),
        started_unix_s: 0,
        host: String::new(),
        policy: PolicyUsed::default(),
        seed: 0,
        machine: machine(),
        workload: String::new(),
        dir: Default::default(),
        jobs,
        options: Default::default(),
        replay_of: None,
    }
}

fn names() -> Vec<Job> {
    let names = ["hog", "a job with a rather long name", "\u{1b}[31mred\n", "none", "later"];
    (0..).zip(names).map(|(id, name)| job(id, name)).collect()
}

fn text(frame: &Buffer) -> String {
    let width = usize::from(frame.area.width);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    };
    frame.content().chunks(width).map(line).collect()
}

fn check_frame(size: (u16, u16), expected: Expect) {
    let mut reporter = ProgressReporter::new(&header(names()));
    let mut live = LiveView::new(names().len(), "dfs[cooldown=4]");
    for turn in run() {
        let events = reporter.events(&turn.record());
        live.record(&turn.record(), events, reporter.domain_names());
    }
    expected.assert_eq(&text(&live.frame(size)));
}

#[test]
fn a_frame_has_jobs_loads_and_the_last_events() {
    check_frame(
        (80, 24),
        expect![[r#"
            evenkeel  dfs[cooldown=4]                                                  1.2 s
            jobs       ━━━━━━━━━━━━━━━━━────────────  1 waiting  1 running  1 done  2 failed
            core 0     █████████████████████████████████████████████   361 k/s     0.8 CPUs
            core 1                                                         0/s     0.0 CPUs
                0.750 s  move       hog  core 0 -> core 1  because core 1 was next in round-
                1.000 s  unmanaged  hog  no longer placed: another program bound it to cpu 0
                1.000 s  note       no descriptors left: counters are off
                1.250 s  end        hog  exited with status 0 after 1.500 s
                1.250 s  start      \u001b[31mred\u000a  on core 1  because core 0 was next
        "#]],
    );
}

#[test]
fn a_narrow_terminal_truncates_lines_and_a_low_terminal_omits_events() {
    check_frame(
        (40, 6),
        expect![[r#"
            evenkeel  dfs[cooldown=4]          1.2 s
            jobs         1 waiting  1 running  1 don
            core 0     █████   361 k/s     0.8 CPUs
            core 1                 0/s     0.0 CPUs
                0.750 s  move       hog  core 0 -> c
        "#]],
    );
}

#[test]
fn every_terminal_size_has_a_frame() {
    let mut live = LiveView::new(3, "dfs");
    live.record(
        &TurnBuilder::at(250).loads(&[1; 20], &[1; 20]).record(),
        Vec::new(),
        ProgressReporter::new(&header(Vec::new())).domain_names(),
    );
    for width in 0..200 {
        for height in 0..12 {
            let frame = live.frame((width, height));
            assert!(frame.area.height < height.max(2), "{width} x {height}");
        }
    }
}

#[test]
fn lines_are_complete_and_control_characters_in_names_are_replaced() {
    let mut reporter = ProgressReporter::new(&header(names()));
    let events = run().iter().flat_map(|turn| reporter.events(&turn.record())).collect::<Vec<_>>();
    // The text is trimmed, because expected texts lose their indentation.
    let lines: String =
        events.iter().map(|event| event.line().trim_start().to_owned() + "\n").collect();
    expect![[r#"
        0.000 s  start      hog  on core 0  because core 0 was next in round-robin order; cpu 0 had the fewest jobs there
        0.000 s  start      a job with a rather long name  on core 1  because core 0 was next in round-robin order; cpu 0 had the fewest jobs there
        0.750 s  failed     a job with a rather long name  killed by signal 11 after 1.500 s
        0.750 s  failed     none  start failed: no such file: /bin/none
        0.750 s  move       hog  core 0 -> core 1  because core 1 was next in round-robin order; cpu 1 had the fewest jobs there
        1.000 s  unmanaged  hog  no longer placed: another program bound it to cpu 0
        1.000 s  note       no descriptors left: counters are off
        1.250 s  end        hog  exited with status 0 after 1.500 s
        1.250 s  start      \u001b[31mred\u000a  on core 1  because core 0 was next in round-robin order; cpu 0 had the fewest jobs there
    "#]].assert_eq(&lines);
}

#[test]
fn frames_are_at_least_250_ms_apart_unless_the_run_is_stopping() {
    let mut live = LiveView::new(0, "dfs");
    let domain_names = ProgressReporter::new(&header(Vec::new()));
    let mut drawn = Vec::new();
    for (millis, cause) in [
        (0, Cause::Ended),
        (100, Cause::Ended),
        (250, Cause::Ended),
        (260, Cause::Ended),
        (270, Cause::Stopping),
        (280, Cause::Ended),
    ] {
        let mut turn = TurnBuilder::at(millis);
        turn.turn.causes = vec![cause];
        live.record(&turn.record(), Vec::new(), domain_names.domain_names());
        if live.is_time_to_draw() {
            drawn.push(millis);
        }
    }
    assert_eq!(drawn, [0, 250, 270]);
}
