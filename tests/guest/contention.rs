//! Policies against contention on real programs: di, dio, di-migrate, dino, animal and divided.
//!
//! The guest has no hardware counters, so misses come from declared profiles. Without a profile, a policy that needs
//! misses aborts the run with a message. The other policies use the signals that are available.

use std::collections::BTreeSet;

use tests::evenkeel::EvenkeelRun;
use tests::process::is_running;

use crate::Promise;
use crate::nodes::{self, hog};
use crate::policy_run::{PolicyRun, dir_with_profiles, hogs};

pub const ALL: &[Promise] = &[
    ("contention::di_distributes_devils_over_all_caches_at_their_start", di),
    ("contention::dio_separates_two_devils_that_started_on_one_cache", dio),
    ("contention::di_migrate_moves_memory_to_the_node_of_the_job", di_migrate),
    ("contention::dino_separates_two_devils_and_moves_their_memory", dino),
    ("contention::dino_changes_nothing_if_all_jobs_are_turtles", all_turtles),
    ("contention::animal_separates_devils_by_swaps", animal),
    ("contention::divided_separates_devils_and_rabbits_by_socket", divided),
    (
        "contention::without_counters_and_profiles_policies_that_need_misses_abort_with_a_message",
        unreadable,
    ),
    ("contention::without_counters_and_profiles_the_other_policies_spread_jobs", does_less),
];

/// Returns the indices of the letter `d`.
fn devils(classes: &str) -> Vec<usize> {
    classes.chars().enumerate().filter(|(_, class)| *class == 'd').map(|(idx, _)| idx).collect()
}

/// Returns whether each of these jobs is bound to a separate node.
fn are_apart(run: &PolicyRun, jobs: &[usize]) -> bool {
    let nodes: Option<BTreeSet<u32>> = jobs.iter().map(|&job| run.node(job)).collect();
    nodes.is_some_and(|nodes| nodes.len() == jobs.len())
}

/// The last job starts on the cache of the first: unmeasured jobs count as devils.
const FIRST_AND_LAST: &str = "dtttd";
/// The last two jobs start on one cache, because dino assigns caches in ascending, then descending order.
const LAST_TWO: &str = "tttdd";

/// Checks the placement of di. The profiles declare the misses of the jobs before the jobs start.
fn di() {
    let classes = "ddtdd";
    let run = PolicyRun::start("di", &hogs(classes), 5);
    run.until("a devil on each node", || are_apart(&run, &devils(classes)));
    run.kill_and_restore();
}

fn dio() {
    let run = PolicyRun::start("dio[interval=500ms]", &hogs(FIRST_AND_LAST), 5);
    run.until("each devil on a node of its own", || are_apart(&run, &devils(FIRST_AND_LAST)));
    let explained = run.explain();
    assert_eq!(
        explained.matches("on llc 0 because llc 0 had the fewest").count(),
        2,
        "{explained}"
    );
    run.kill_and_restore();
}

/// Checks that each devil has a separate node and has its memory there, and that at least one page migrated.
fn devils_and_their_memory_are_on_separate_nodes(policy: &str, classes: &str) {
    let run = PolicyRun::start(policy, &hogs(classes), classes.len());
    let with_memory = |&job: &usize| run.node(job).is_some_and(|n| run.has_memory_on(job, n));
    let devils = devils(classes);
    run.until("each devil with its memory on a node of its own", || {
        are_apart(&run, &devils) && devils.iter().all(with_memory)
    });
    let explained = run.explain();
    assert!(explained.contains("of its pages migrated"), "{explained}");
    run.kill_and_restore();
}

fn di_migrate() {
    devils_and_their_memory_are_on_separate_nodes("di-migrate[interval=500ms]", FIRST_AND_LAST);
}

fn dino() {
    devils_and_their_memory_are_on_separate_nodes("dino[interval=500ms]", LAST_TWO);
}

fn all_turtles() {
    let run = PolicyRun::start("dino[interval=500ms]", &hogs("ttt"), 3);
    // Unmeasured jobs count as devils. After the first intervals these jobs are turtles, and no request follows.
    run.until("14 journal lines", || 14 <= run.journal().lines().count());
    let journal = run.journal();
    let (begin, later): (Vec<_>, Vec<_>) =
        journal.lines().enumerate().partition(|(idx, _)| *idx < 10);
    assert!(
        begin.iter().any(|(_, line)| line.contains("\"place\":")),
        "the jobs are placed at the start"
    );
    let placement = later.iter().find(|(_, line)| line.contains("\"place\":"));
    assert_eq!(placement, None);
    assert!(!journal.contains("move_pages"), "no memory is moved");
    run.kill_and_restore();
}

fn animal() {
    let run = PolicyRun::start("animal[interval=500ms,pairs=8]", &hogs(FIRST_AND_LAST), 5);
    run.until("each devil on a node of its own", || are_apart(&run, &devils(FIRST_AND_LAST)));
    run.kill_and_restore();
}

fn divided() {
    let classes = "drdrt";
    let run = PolicyRun::start("divided[interval=500ms]", &hogs(classes), 5);
    let nodes_of = |class_of_job: char| -> BTreeSet<Option<u32>> {
        let jobs = classes.chars().enumerate().filter(|(_, class)| *class == class_of_job);
        jobs.map(|(job, _)| run.node(job)).collect()
    };
    run.until("no devil on the node of a rabbit", || {
        let (devils, rabbits) = (nodes_of('d'), nodes_of('r'));
        !devils.contains(&None) && !rabbits.contains(&None) && devils.is_disjoint(&rabbits)
    });
    run.kill_and_restore();
}

fn unreadable() {
    for policy in ["dio", "di-migrate", "dino", "animal", "nmass"] {
        let text = hog("unknown", "2M", "");
        let options = ["--policy", &format!("{policy}[interval=100ms]")];
        let mut run = EvenkeelRun::new(dir_with_profiles(), &text, &options);
        run.expect_status(1);
        let message = "evenkeel: the policy aborted: cache misses and instructions of tasks were neither counted nor declared";
        let n_messages = run.output.lines().filter(|line| line.starts_with(message)).count();
        assert_eq!(n_messages, 1, "{}", run.output);
        assert!(!run.processes().into_values().any(is_running), "{policy}");
        assert!(run.records().is_empty(), "{policy}");
    }
}

fn does_less() {
    for policy in ["dfs", "divided", "maximum-local"] {
        let jobs: String = (0..4).map(|job| hog(&format!("unknown-{job}"), "2M", "")).collect();
        let run = PolicyRun::start(&format!("{policy}[interval=250ms]"), &jobs, 4);
        run.until("each job on a node of its own", || are_apart(&run, &[0, 1, 2, 3]));
        assert_eq!(run.by_node().keys().copied().collect::<Vec<_>>(), nodes::all(), "{policy}");
        run.kill_and_restore();
    }
}
