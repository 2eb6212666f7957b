//! Policies against contention at work on real programs: di, dio, di-migrate, dino, animal and divided.
//!
//! Nothing counts misses here, so that programs are what their profiles declare; without a profile either
//! a policy that needs figures says so and ends the run, or goes on with what it has.

use std::collections::BTreeSet;

use crate::Promise;
use crate::nodes;
use crate::stage::{Stage, cast, hog, world};
use crate::undo::Tool;

pub const ALL: &[Promise] = &[
    ("at_work::di_deals_devils_out_to_all_caches_as_they_start", di),
    ("at_work::dio_parts_two_devils_that_began_on_one_cache", dio),
    ("at_work::di_migrate_takes_memory_along_to_the_other_node", di_migrate),
    ("at_work::dino_parts_two_devils_and_moves_their_memory", dino),
    ("at_work::dino_does_nothing_at_all_where_all_are_turtles", all_turtles),
    ("at_work::animal_swaps_devils_apart", animal),
    ("at_work::divided_keeps_who_hurts_off_the_sockets_of_who_is_hurt", divided),
    ("at_work::without_counters_and_profiles_who_needs_them_ends_and_says_so", unreadable),
    ("at_work::without_counters_and_profiles_others_go_on_and_spread", does_less),
];

/// Jobs whose letter in a cast is `d`.
fn devils(letters: &str) -> Vec<usize> {
    letters.chars().enumerate().filter(|(_, letter)| *letter == 'd').map(|(idx, _)| idx).collect()
}

/// Whether these jobs are bound, each within a node of its own.
fn are_apart(stage: &Stage, jobs: &[usize]) -> bool {
    let nodes: Option<BTreeSet<u32>> = jobs.iter().map(|&job| stage.node(job)).collect();
    nodes.is_some_and(|nodes| nodes.len() == jobs.len())
}

/// The last begins on the cache of the first: all count as devils until they have shown what they are.
const ROUND: &str = "dtttd";
/// As dino seats them, to and fro, the last two begin on one cache.
const TO_AND_FRO: &str = "tttdd";

/// The misses of these jobs are known before they start.
fn di() {
    let letters = "ddtdd";
    let stage = Stage::begin("di", &cast(letters), 5);
    stage.until("a devil on each node", || are_apart(&stage, &devils(letters)));
    stage.put_back();
}

fn dio() {
    let stage = Stage::begin("dio[interval=500ms]", &cast(ROUND), 5);
    stage.until("the devils apart", || are_apart(&stage, &devils(ROUND)));
    let told = stage.explain();
    assert_eq!(told.matches("on llc 0 because llc 0 had the fewest").count(), 2, "{told}");
    stage.put_back();
}

/// Until the devils are apart and each has his memory with him; somebody's was moved for that.
fn part_with_memory(policy: &str, letters: &str) {
    let stage = Stage::begin(policy, &cast(letters), letters.len());
    let with_memory = |&job: &usize| stage.node(job).is_some_and(|n| stage.has_memory_on(job, n));
    let devils = devils(letters);
    stage.until("the devils apart and their memory with them", || {
        are_apart(&stage, &devils) && devils.iter().all(with_memory)
    });
    let told = stage.explain();
    assert!(told.contains("of its pages migrated"), "{told}");
    stage.put_back();
}

fn di_migrate() {
    part_with_memory("di-migrate[interval=500ms]", ROUND);
}

fn dino() {
    part_with_memory("dino[interval=500ms]", TO_AND_FRO);
}

fn all_turtles() {
    let stage = Stage::begin("dino[interval=500ms]", &cast("ttt"), 3);
    // They count as devils before they have shown what they are; after that nothing is done any more.
    stage.until("so many intervals", || 14 <= stage.journal().lines().count());
    let journal = stage.journal();
    let (begin, later): (Vec<_>, Vec<_>) =
        journal.lines().enumerate().partition(|(idx, _)| *idx < 10);
    assert!(begin.iter().any(|(_, line)| line.contains("\"place\":")), "they are seated");
    let done = later.iter().find(|(_, line)| line.contains("\"place\":"));
    assert_eq!(done, None);
    assert!(!journal.contains("move_pages"), "nobody's memory is moved");
    stage.put_back();
}

fn animal() {
    let stage = Stage::begin("animal[interval=500ms,pairs=8]", &cast(ROUND), 5);
    stage.until("the devils apart", || are_apart(&stage, &devils(ROUND)));
    stage.put_back();
}

fn divided() {
    let letters = "drdrt";
    let stage = Stage::begin("divided[interval=500ms]", &cast(letters), 5);
    let on = |kind: char| -> BTreeSet<Option<u32>> {
        let its = letters.chars().enumerate().filter(|(_, letter)| *letter == kind);
        its.map(|(job, _)| stage.node(job)).collect()
    };
    stage.until("no devil beside a rabbit", || {
        let (devils, rabbits) = (on('d'), on('r'));
        !devils.contains(&None) && !rabbits.contains(&None) && devils.is_disjoint(&rabbits)
    });
    stage.put_back();
}

fn unreadable() {
    for policy in ["dio", "di-migrate", "dino", "animal", "nmass"] {
        let (world, text) = (world(), hog("unknown", ""));
        let mut run = Tool::run(&world, &text, &["--policy", &format!("{policy}[interval=100ms]")]);
        run.wait_for(1);
        let said = "evenkeel: the policy gave up: cache misses and instructions of tasks were neither counted nor declared";
        assert_eq!(
            run.said.lines().filter(|line| line.starts_with(said)).count(),
            1,
            "{}",
            run.said
        );
        assert!(run.processes().into_values().all(|pid| !crate::play::lives(pid)), "{policy}");
        assert!(run.records().is_empty(), "{policy}");
    }
}

fn does_less() {
    for policy in ["dfs", "divided", "maximum-local"] {
        let jobs: String = (0..4).map(|job| hog(&format!("unknown-{job}"), "")).collect();
        let stage = Stage::begin(&format!("{policy}[interval=250ms]"), &jobs, 4);
        stage.until("everybody on a node of his own", || are_apart(&stage, &[0, 1, 2, 3]));
        assert_eq!(stage.by_node().keys().copied().collect::<Vec<_>>(), nodes::all(), "{policy}");
        stage.put_back();
    }
}
