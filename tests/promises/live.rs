//! A workload runs live: real programs are started bound, followed, watched, moved and ended.
//!
//! No test here judges by the clock: each goes on turn by turn until what it waits for holds, and
//! gives up after very many turns.

pub mod cgroups;
mod command;
mod ends;
mod figures;
mod groups;
mod leftovers;
mod others;
pub mod play;
mod strangers;
mod wakes;

use base::Nanos;
use program::MemoryPolicy;
use sched::{Action, ExitStatus, JobEvent, OutcomeResult, RejectCause, Target};

use play::{Play, lives, mask, signal, two_cpus};
use rustix::process::Signal;

fn why(result: &OutcomeResult) -> Option<RejectCause> {
    match result {
        OutcomeResult::Rejected { cause: why, .. } => Some(*why),
        OutcomeResult::Done { .. } | OutcomeResult::InProgress => None,
    }
}

#[test]
fn a_job_begins_in_its_own_group_of_our_session_with_nothing_to_read_and_our_limit() {
    let mut play = Play::new(
        r#"
        [[job]]
        name = "tell"
        shell = "cut -d' ' -f5,6 /proc/$$/stat; echo $$; readlink /proc/$$/fd/0; ulimit -Sn; echo $EVENKEEL_JOB; pwd; echo oops >&2"
        "#,
    );
    let session = linux::procfs::stat("/".as_ref(), std::process::id()).expect("own line").session;
    // The limit as it would be without us: the host raises it for itself only.
    let limit = {
        let own = std::fs::read_to_string("/proc/self/limits").expect("own limits");
        let line = own.lines().find(|line| line.starts_with("Max open files")).expect("a line");
        line.split_ascii_whitespace()
            .nth(3)
            .expect("the soft limit")
            .parse::<u64>()
            .expect("a number")
    };
    play.finish();
    let said = play.world.read("tell.out");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("{} {session}", lines[1]), "own group, same session");
    assert_eq!(lines[2], "/dev/null");
    assert!(lines[3].parse::<u64>().is_ok_and(|its| its <= limit), "{} of {limit}", lines[3]);
    assert_eq!(lines[4], "tell");
    assert_eq!(play.world.read("tell.err"), "oops\n");
    assert_eq!(
        std::path::Path::new(lines[5]),
        play.world.folder.path().canonicalize().expect("there")
    );
}

#[test]
fn a_job_is_bound_before_its_first_instruction() {
    let Some((_, first, last)) = two_cpus() else { return };
    for cpus in [first, last] {
        let mut play = Play::new(
            "[[job]]\nname = \"a\"\nshell = \"grep Cpus_allowed_list /proc/self/status\"\n",
        );
        play.wish("a", Action::Place(cpus.clone()));
        play.finish();
        assert_eq!(play.places("a"), [OutcomeResult::Done { n: 1 }]);
        assert_eq!(play.world.read("a.out"), format!("Cpus_allowed_list:\t{cpus}\n"));
    }
}

#[test]
fn the_memory_of_a_job_comes_from_where_the_plan_or_its_line_says() {
    if play::machine().nodes().is_empty() {
        println!("not run: this kernel tells of no memory nodes");
        return;
    }
    let node0: base::NodeSet = play::machine().nodes_allowed().first().into_iter().collect();
    let text = format!(
        "[[job]]\nname = \"plan\"\ncommand = [\"cat\", \"/proc/self/numa_maps\"]\n\
         [[job]]\nname = \"line\"\ncommand = [\"cat\", \"/proc/self/numa_maps\"]\nmemory = \"interleave:{node0}\"\n"
    );
    let mut play = Play::new(&text);
    play.wish("plan", Action::MemoryPolicy(MemoryPolicy::Bind(node0.clone())));
    play.finish();
    assert!(play.world.read("plan.out").contains(&format!("bind:{node0}")));
    assert!(play.world.read("line.out").contains(&format!("interleave:{node0}")));
}

/// On any machine with a node; with one there is nothing to move, and that is told too.
#[test]
fn a_move_of_memory_is_begun_and_a_later_turn_tells_how_it_ended() {
    let machine = play::machine();
    let Some(node) = machine.nodes_with_memory().first() else {
        println!("not run: this kernel tells of no memory nodes");
        return;
    };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    play.begin("a");
    let limit = base::Bytes::from_mib(1);
    play.wish("a", Action::MovePages { from: None, to: node, limit });
    play.until("the end of the move", |play| {
        play.story.iter().any(|scene| !scene.sample.page_moves_completed.is_empty())
    });
    let begun = play.story.iter().flat_map(|scene| &scene.outcomes);
    let begun = begun.filter(|outcome| outcome.result == OutcomeResult::InProgress).count();
    let ends: Vec<_> =
        play.story.iter().flat_map(|scene| &scene.sample.page_moves_completed).collect();
    assert_eq!((begun, ends.len()), (1, 1));
    let ended = ends[0];
    let sum = ended.moved.0 + ended.failed.total().0 + ended.not_attempted.0;
    assert_eq!((ended.job, ended.to, ended.requested.0), (play.job("a"), node, sum));
    play.host_stop();
    play.finish();
}

#[test]
fn a_job_that_runs_is_moved_with_all_of_its_threads_and_given_back_what_it_had() {
    let Some((all, first, last)) = two_cpus() else { return };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    play.wish("a", Action::Place(first.clone()));
    let pid = play.begin("a");
    assert_eq!(mask(pid), Some(first));
    play.wish("a", Action::Place(last.clone()));
    play.until("the move", |play| play.places("a").len() == 2);
    assert_eq!(mask(pid), Some(last));
    play.wish("a", Action::Release);
    play.until("the release", |play| play.places("a").len() == 3);
    assert_eq!(mask(pid), Some(all));
    play.host_stop();
    play.finish();
    assert!(!lives(pid));
    assert!(play.ends("a")[0].stopped_by_host);
}

#[test]
fn what_a_job_forks_is_followed_and_moved_even_when_its_parent_is_gone_and_its_session_another() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut play = Play::new(
        r#"
        [[job]]
        name = "a"
        shell = "sleep 601 & echo $!; (setsid sh -c 'echo $$; exec sleep 602' &); wait"
        "#,
    );
    play.wish("a", Action::Place(first));
    play.begin("a");
    play.until("two children", |play| play.world.read("a.out").lines().count() == 2);
    let said = play.world.read("a.out");
    let pids: Vec<u32> = said.lines().map(|line| line.parse().expect("a number")).collect();
    let seen = |play: &Play, pid| {
        play.story.iter().flat_map(|told| &told.sample.tasks).any(|task| task.process == pid)
    };
    play.until("both seen", |play| pids.iter().all(|&pid| seen(play, pid)));
    play.wish("a", Action::Place(last.clone()));
    play.until("the move", |play| play.places("a").len() == 2);
    for &pid in &pids {
        assert_eq!(mask(pid), Some(last.clone()), "{pid} of {said}");
    }
    play.host_stop();
    play.finish();
    assert!(!pids.iter().any(|&pid| lives(pid)), "{said}");
}

#[test]
fn a_child_that_bound_itself_is_left_alone_and_the_rest_of_its_job_is_moved() {
    let Some((all, first, last)) = two_cpus() else { return };
    let mut play = Play::new(
        "[[job]]\nname = \"a\"\nshell = \"sleep 600 & echo $!; sleep 600 & echo $!; wait\"\n",
    );
    let pid = play.begin("a");
    play.until("two children", |play| play.world.read("a.out").lines().count() == 2);
    let said = play.world.read("a.out");
    let children: Vec<u32> = said.lines().map(|line| line.parse().expect("a number")).collect();
    linux::affinity::set(children[0], &first).expect("ours");
    play.wish("a", Action::Place(last.clone()));
    play.until("the move", |play| play.places("a").len() == 1);
    assert!(why(&play.places("a")[0]).is_none(), "{:?}", play.places("a"));
    assert_eq!(
        [pid, children[1], children[0]].map(mask),
        [Some(last.clone()), Some(last), Some(first)]
    );
    let _ = all;
    play.host_stop();
    play.finish();
}

#[test]
fn a_job_that_ends_between_sample_and_action_is_an_everyday_outcome() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    play.wish("a", Action::Place(first));
    let pid = play.begin("a");
    play.wish("a", Action::Place(last));
    play.step_with(|| {
        signal(pid, Signal::KILL);
        while lives(pid) {
            std::thread::yield_now();
        }
    });
    assert_eq!(why(&play.places("a")[1]), Some(RejectCause::Exited));
    play.finish();
    assert_eq!(play.ends("a")[0].status, ExitStatus::Signaled(9));
    assert!(!play.ends("a")[0].stopped_by_host);
}

#[test]
fn what_a_job_leaves_behind_is_ended_and_counted() {
    let mut play = Play::new(
        r#"
        [[job]]
        name = "a"
        shell = "sleep 600 & echo $!; trap '' TERM; setsid sleep 600 & echo $!"
        "#,
    );
    play.finish();
    assert_eq!(play.ends("a")[0].n_orphans, 2);
    assert_eq!(play.ends("a")[0].status, ExitStatus::Exited(0));
    let said = play.world.read("a.out");
    assert!(!said.lines().any(|pid| lives(pid.parse().expect("a number"))), "{said}");
}

#[test]
fn a_job_that_ignores_being_told_to_end_is_killed_after_the_grace_time() {
    let mut play = Play::with(
        "[[job]]\nname = \"a\"\nshell = \"trap '' TERM; echo ready; while :; do sleep 0.1; done\"\n",
        |options| options.grace = Nanos::from_millis(200),
    );
    play.begin("a");
    play.until("its trap", |play| play.world.read("a.out").contains("ready"));
    play.host_stop();
    play.finish();
    assert_eq!(play.ends("a")[0].status, ExitStatus::Signaled(9));
    assert!(play.ends("a")[0].stopped_by_host);
}

const FAILING: &str = r#"
    [[job]]
    name = "fails"
    shell = "exit 3"
    [[job]]
    name = "absent"
    command = ["/no/such/program"]
    [[job]]
    name = "later"
    shell = "exit 0"
    start = "200ms"
"#;

#[test]
fn a_job_that_fails_or_cannot_start_does_not_stop_the_rest() {
    let mut play = Play::new(FAILING);
    play.finish();
    assert_eq!(play.ends("fails")[0].status, ExitStatus::Exited(3));
    assert_eq!(play.ends("later")[0].status, ExitStatus::Exited(0));
    let refused = play
        .story
        .iter()
        .flat_map(|told| &told.outcomes)
        .find(|o| o.action.is_none() && why(&o.result).is_some());
    let OutcomeResult::Rejected { cause: why, detail } = &refused.expect("one is refused").result
    else {
        unreachable!("it was chosen for being refused")
    };
    assert_eq!(*why, RejectCause::StartFailed);
    assert!(detail.contains("/no/such/program"), "{detail}");
}

#[test]
fn with_fail_fast_a_failing_job_stops_the_run() {
    let mut play = Play::with(FAILING, |options| options.fail_fast = true);
    play.finish();
    assert!(play.ends("later").is_empty(), "it was never started");
}

#[test]
fn a_job_is_ended_after_its_time_and_one_that_restarts_when_the_others_are_done() {
    let mut play = Play::new(
        r#"
        [[job]]
        name = "timed"
        command = ["sleep", "600"]
        stop_after = "300ms"
        [[job]]
        name = "again"
        shell = "echo once more"
        restart = "until-others-done"
        "#,
    );
    play.finish();
    let timed = play.ends("timed");
    assert!(timed[0].stopped_by_host && timed.len() == 1);
    let again = play.ends("again");
    assert!(2 <= again.len(), "it was started again");
    let (last, earlier) = again.split_last().expect("ends");
    assert!(!last.restarts && earlier.iter().all(|end| end.restarts && !end.stopped_by_host));
    assert!(again.len() <= play.world.read("again.out").lines().count() + 1);
}

#[test]
fn figures_of_a_job_are_kept() {
    let mut play = Play::new(
        "[[job]]\nname = \"a\"\nshell = \"i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done\"\n",
    );
    play.finish();
    let end = play.ends("a")[0];
    assert!(Nanos::ZERO < end.user && end.user <= end.wall, "{end:?}");
    assert!(end.wait.is_some() && end.n_migrations.is_some(), "{end:?}");
    assert!(100_000 < end.max_resident.0, "{end:?}");
    let last = play.story.iter().flat_map(|told| &told.sample.tasks).last().expect("seen");
    // What the thread used and what its parent was told differ by the way of counting only.
    let told = end.user + end.system;
    assert!(last.cpu_time.saturating_sub(told) < Nanos::from_millis(50), "{last:?} {end:?}");
    assert!(told.saturating_sub(last.cpu_time) < Nanos::from_millis(50), "{last:?} {end:?}");
}

#[test]
fn one_thread_can_be_placed_apart_from_its_job() {
    let Some((all, first, _)) = two_cpus() else { return };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    let pid = play.begin("a");
    play.until("its thread", |play| play.story.iter().any(|told| !told.sample.tasks.is_empty()));
    let task = play.story.iter().find_map(|told| told.sample.tasks.first()).expect("seen").task;
    play.wish_for(Target::Task(task), Action::Place(first.clone()));
    let about = |play: &Play| {
        play.story
            .iter()
            .flat_map(|told| &told.outcomes)
            .filter(|o| o.target == Target::Task(task))
            .count()
    };
    play.until("the move", |play| about(play) == 1);
    assert_eq!(mask(pid), Some(first));
    play.wish_for(Target::Task(task), Action::Release);
    play.until("the release", |play| about(play) == 2);
    assert_eq!(mask(pid), Some(all));
    play.host_stop();
    play.finish();
}

#[test]
fn a_thousand_jobs_at_once_all_start_and_end() {
    let mut play =
        Play::new("[[job]]\nname = \"many\"\ncommand = [\"sleep\", \"0.5\"]\ncopies = 1000\n");
    play.finish();
    let ended = play.events().filter(
        |event| matches!(event, JobEvent::Ended(_, end) if end.status == ExitStatus::Exited(0)),
    );
    assert_eq!(ended.count(), 1000);
}
