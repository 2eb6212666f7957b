//! The view as text: frames as files in `frames`, events as lines.

use base::{CpuSet, JobId, Nanos, TaskId};
use engine::LoadSample;
use expect_test::{expect, expect_file};
use journal::PolicyUsed;
use program::{Command, Job};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use sched::{
    Action, Cause, DomainLoads, ExitStatus, JobEvent, JobExit, Outcome, OutcomeResult, Plan,
    Reason, ReasonCode, RejectCause, Sample, SignalTier, Target, TaskView, Turn, UnmanagedCause,
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
    tasks: Vec<TaskView>,
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
            unattributed: Nanos::ZERO,
            interval: None,
        });
        self
    }

    fn record(&self) -> TurnRecord<'_> {
        TurnRecord {
            turn: &self.turn,
            sample: &self.sample,
            tasks: &self.tasks,
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
        host: sched::HostKind::Live,
        policy: PolicyUsed { spec: "dfs[cooldown=4]".to_owned(), ..PolicyUsed::default() },
        seed: 0,
        machine: machine(),
        workload: "demo".to_owned(),
        dir: Default::default(),
        jobs,
        options: Default::default(),
        replay_of: None,
        command: None,
    }
}

fn names() -> Vec<Job> {
    let names = ["hog", "a job with a rather long name", "\u{1b}[31mred\n", "none", "later"];
    (0..).zip(names).map(|(id, name)| job(id, name)).collect()
}

/// Returns the state after the turns of [`run`].
fn state_of_run() -> ViewState {
    state_after(&header(names()), &run())
}

fn state_after(header: &Header, turns: &[TurnBuilder]) -> ViewState {
    let mut state = ViewState::new(header, &BTreeMap::new());
    turns.iter().for_each(|turn| state.record(&turn.record()));
    state
}

fn frame_text(state: &ViewState, (width, height): (u16, u16)) -> String {
    let mut frame = Buffer::empty(Rect::new(0, 0, width, height));
    draw::draw(state, &mut frame);
    let line = |cells: &[ratatui::buffer::Cell]| {
        // The cell after a wide character is not drawn.
        let mut n_covered = 0;
        let mut line = String::new();
        for cell in cells {
            if n_covered == 0 {
                line += cell.symbol();
                n_covered = Line::raw(cell.symbol()).width();
            }
            n_covered = n_covered.saturating_sub(1);
        }
        line.trim_end().to_owned() + "\n"
    };
    frame.content().chunks(usize::from(width.max(1))).map(line).collect()
}

fn press(state: &mut ViewState, keys: &[u8]) {
    for key in keys::decode(keys) {
        state.press(key);
    }
}

/// A run of `n_jobs` on a machine with `n_nodes` nodes of four CPUs. Half of the jobs run, some have failed.
fn large_run(n_jobs: u32, n_nodes: u64, tier: SignalTier) -> ViewState {
    let machine = format!("nodes={n_nodes} llcs=1 cores=4");
    let jobs: Vec<Job> = (0..n_jobs)
        .map(|id| Job {
            start: Nanos::from_millis(u64::from(id) * 10),
            ..job(id, &format!("work.{id}"))
        })
        .collect();
    let header =
        Header { machine: Machine::synthetic(&machine).expect("a machine"), ..header(jobs) };
    let mut start = TurnBuilder::at(0);
    for id in 0..n_jobs.div_ceil(2) {
        let first = u64::from(id) % n_nodes * 4;
        start = start.start(id, &format!("{first}-{}", first + 3));
    }
    let mut end = TurnBuilder::at(10_000);
    for id in (0..n_jobs / 2).step_by(7) {
        end = end.end(id, ExitStatus::Exited(i32::from(id % 2 == 0)));
    }
    let loads: Vec<u64> = (0..n_nodes).map(|node| (node * 37 % 100) * 10_000).collect();
    let busy: Vec<u64> = (0..n_nodes).map(|node| (node % 5) * 10_000).collect();
    let mut sampled = end.place(n_jobs.div_ceil(2).saturating_sub(1), "0-3").loads(&loads, &busy);
    let sample = sampled.loads.as_mut().expect("loads");
    (sample.level, sample.loads.tier) = (Level::Node, tier);
    sampled.tasks =
        (0..n_jobs.div_ceil(2)).map(|id| task(id, 2500 + u64::from(id % 7) * 1000)).collect();
    state_after(&header, &[start, sampled])
}

fn task(job: u32, cpu_millis: u64) -> TaskView {
    TaskView {
        task: TaskId { tid: 100 + job, start_time_ticks: 0 },
        process: 100 + job,
        job: JobId(job),
        cpu_time: Nanos::from_millis(cpu_millis),
        wait: None,
        last_cpu: None,
        counters: Default::default(),
    }
}

#[test]
fn a_frame_has_jobs_loads_and_the_last_moves() {
    expect_file!["frames/run_80x24.txt"].assert_eq(&frame_text(&state_of_run(), (80, 24)));
    expect_file!["frames/run_200x50.txt"].assert_eq(&frame_text(&state_of_run(), (200, 50)));
}

#[test]
fn a_small_terminal_shows_the_header_and_the_last_events() {
    expect_file!["frames/run_40x10.txt"].assert_eq(&frame_text(&state_of_run(), (40, 10)));
}

#[test]
fn one_job_on_one_node_without_counters_has_a_bar_of_busy_cpus() {
    let state = large_run(1, 1, SignalTier::None);
    expect_file!["frames/one_job_80x24.txt"].assert_eq(&frame_text(&state, (80, 24)));
}

#[test]
fn of_1000_jobs_the_page_with_the_selected_job_is_drawn() {
    let mut state = large_run(1000, 2, SignalTier::Counters);
    press(&mut state, b"s\x1b[6~\x1b[6~\x1b[6~");
    expect_file!["frames/1000_jobs_80x24.txt"].assert_eq(&frame_text(&state, (80, 24)));
    expect_file!["frames/1000_jobs_200x50.txt"].assert_eq(&frame_text(&state, (200, 50)));
}

#[test]
fn all_of_64_nodes_are_drawn_in_columns_or_as_a_sparkline() {
    let state = large_run(64, 64, SignalTier::Bandwidth);
    expect_file!["frames/64_nodes_80x24.txt"].assert_eq(&frame_text(&state, (80, 24)));
    expect_file!["frames/64_nodes_200x50.txt"].assert_eq(&frame_text(&state, (200, 50)));
}

#[test]
fn a_watch_shows_managed_processes_with_wide_and_escaped_names() {
    let hostile = "\u{1b}]0;title\u{7}\u{202e}\u{9b}31m\n";
    let mut attached = TurnBuilder::at(1000).loads(&[1000, 2000], &[250, 100]);
    for (id, name) in
        ["データベース処理装置の名前", hostile, "e\u{301}\u{200d}🦀"].into_iter().enumerate()
    {
        attached.sample.jobs.push(JobEvent::Attached(Box::new(job(id as u32, name))));
    }
    let mut detached = TurnBuilder::at(2000);
    detached.sample.jobs.push(JobEvent::Detached(
        JobId(2),
        sched::DetachCause::Idle,
        Default::default(),
    ));
    let header =
        Header { host: sched::HostKind::Watch, workload: hostile.to_owned(), ..header(Vec::new()) };
    let mut noted = TurnBuilder::at(3000);
    let note = "auto uses policy linux and binds no job: the usable CPUs have one node and one last-level cache, so \
                there is no second domain to place jobs on";
    noted.sample.degraded.push(note.to_owned());
    let mut state = state_after(&header, &[attached, detached, noted]);
    expect_file!["frames/watch_80x24.txt"].assert_eq(&frame_text(&state, (80, 24)));
    expect_file!["frames/watch_200x50.txt"].assert_eq(&frame_text(&state, (200, 50)));
    press(&mut state, b"je");
    let text = frame_text(&state, (80, 24));
    assert!(text.chars().all(|c| c == '\n' || base::is_printable(c)), "{text:?}");
}

#[test]
fn windows_explain_a_job_list_the_keys_and_confirm_the_end() {
    let mut state = state_of_run();
    for (keys, file) in [
        (&b"jjj\r"[..], expect_file!["frames/explain_80x24.txt"]),
        (b"\x1b?", expect_file!["frames/help_80x24.txt"]),
        (b"q", expect_file!["frames/end_80x24.txt"]),
    ] {
        press(&mut state, keys);
        file.assert_eq(&frame_text(&state, (80, 24)));
    }
}

#[test]
fn every_terminal_size_has_a_frame() {
    let mut states = [
        state_of_run(),
        large_run(200, 64, SignalTier::Declared),
        large_run(0, 1, SignalTier::None),
    ];
    for keys in [&b""[..], b"je", b"?", b"q"] {
        states.iter_mut().for_each(|state| press(state, keys));
        let heights = |width| (0..24).step_by(3).chain([16, 40]).map(move |height| (width, height));
        for (width, height) in
            [0, 1, 5, 39, 59, 60, 61, 80, 110, 112, 200].into_iter().flat_map(heights)
        {
            states.iter().for_each(|state| drop(frame_text(state, (width, height))));
        }
    }
}

#[test]
fn the_time_left_is_taken_from_the_last_run_the_workload_or_a_profile() {
    let mut jobs: Vec<Job> = (0..4).map(|id| job(id, &format!("job{id}"))).collect();
    jobs[0].ending = program::Ending::After(Nanos::from_secs(20));
    let command = Command::Program { program: "/bin/sort".into(), args: vec!["in".to_owned()] };
    let profile = program::Profile {
        command: vec!["/usr/bin/sort".to_owned(), "in".to_owned()],
        cpu_time: Some(Nanos::from_secs(50)),
        ..Default::default()
    };
    (jobs[1].command, jobs[1].found) = (command, Some(profile.into()));
    let last_run = BTreeMap::from([("job2".to_owned(), Nanos::from_secs(40))]);
    let mut state = ViewState::new(&header(jobs), &last_run);
    let mut start = TurnBuilder::at(0);
    for id in 0..4 {
        start = start.start(id, "0");
    }
    let mut sampled = TurnBuilder::at(10_000).loads(&[0, 0], &[0, 0]);
    sampled.tasks = (0..4).map(|id| task(id, 5000)).collect();
    [start, sampled].iter().for_each(|turn| state.record(&turn.record()));
    let left = |id| {
        let left = state.row(JobId(id)).expect("a row").time_left;
        left.map(|left| (left.left, left.is_exact))
    };
    let secs = Nanos::from_secs;
    assert_eq!(left(0), Some((secs(10), true)));
    assert_eq!(left(1), Some((secs(90), false)));
    assert_eq!(left(2), Some((secs(30), false)));
    assert_eq!(left(3), None);
}

#[test]
fn only_a_process_that_evenkeel_had_placed_is_reported_as_restored() {
    let mut reporter = ProgressReporter::new(&header(names()));
    let mut detached = TurnBuilder::at(1000);
    for id in 0..2 {
        let stopped = sched::DetachCause::WatchStopped;
        detached.sample.jobs.push(JobEvent::Detached(JobId(id), stopped, Default::default()));
    }
    reporter.events(&TurnBuilder::at(0).start(0, "0").record());
    let events = reporter.events(&detached.record());
    let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    let end = "detached at the end of the watch";
    assert_eq!(texts, [&format!("{end}; its affinity was restored"), end]);
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
        0.750 s  failed     a job with a rather long name  killed by SIGSEGV after 1.500 s
        0.750 s  failed     none  start failed: no such file: /bin/none
        0.750 s  move       hog  core 0 -> core 1  because core 1 was next in round-robin order; cpu 1 had the fewest jobs there
        1.000 s  unmanaged  hog  no longer placed: bound to cpu 0, not by evenkeel
        1.000 s  note       no descriptors left: counters are off
        1.250 s  end        hog  exited with status 0 after 1.500 s
        1.250 s  start      \u001b[31mred\u000a  on core 1  because core 0 was next in round-robin order; cpu 0 had the fewest jobs there
    "#]].assert_eq(&lines);
}

#[test]
fn a_line_about_a_thread_has_the_name_of_its_job() {
    let thread = TaskId { tid: 101, start_time_ticks: 0 };
    let mut turn = TurnBuilder::at(250);
    turn.sample.tasks.push(sched::TaskSample::new(thread, JobId(0)));
    let action = Some(Action::Place(cpus("1")));
    let result = OutcomeResult::Done { n: 1 };
    turn.outcomes.push(Outcome { target: Target::Task(thread), action, result });
    let mut reporter = ProgressReporter::new(&header(names()));
    let turns = [TurnBuilder::at(0).start(0, "0"), turn];
    let events = turns.iter().flat_map(|turn| reporter.events(&turn.record())).collect::<Vec<_>>();
    assert_eq!(events[1].line(), "    0.250 s  move       hog thread 101  core 0 -> core 1");
}
