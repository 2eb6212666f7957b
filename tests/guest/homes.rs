//! Policies that keep programs and memory together or draw lots, at work on real programs: maximum-local,
//! nmass, home-cluster, dfs with memory that follows, and random.

use base::CpuSet;

use crate::Promise;
use crate::nodes;
use crate::stage::{Stage, cast, hog};

pub const ALL: &[Promise] = &[
    ("at_work::maximum_local_runs_jobs_where_their_memory_lies", maximum_local),
    ("at_work::maximum_local_finds_memory_that_nobody_declared", undeclared),
    ("at_work::nmass_takes_who_suffers_least_off_a_crowded_node", nmass),
    ("at_work::home_cluster_gives_each_job_cpus_and_pages_of_one_node", home_cluster),
    ("at_work::dfs_moves_the_only_load_when_told_and_its_memory_follows", dfs),
    ("at_work::random_draws_the_same_lots_from_the_same_seed_and_new_ones_when_told", random),
];

fn maximum_local() {
    let jobs: String = [3, 1, 2, 0]
        .map(|node| hog(&format!("on-{node}"), &format!("memory = \"bind:{node}\"")))
        .concat();
    let stage = Stage::begin("maximum-local[interval=250ms]", &jobs, 4);
    let at_home =
        |(job, node): (usize, u32)| stage.node(job) == Some(node) && stage.has_memory_on(job, node);
    stage.until("everybody at home", || [3, 1, 2, 0].into_iter().enumerate().all(at_home));
    stage.put_back();
}

/// A program that binds its own memory to node 3, wherever it runs: only where its pages are found tells.
fn undeclared() {
    let this = std::env::current_exe().expect("this program");
    let binds = crate::groups::BINDS_ITSELF;
    let text = format!(
        "[[job]]\nname = \"wilful\"\ncommand = [\"{}\", \"{binds}\", \"3\"]\n",
        this.display()
    );
    let stage = Stage::begin("maximum-local[interval=250ms]", &text, 1);
    stage.until("it is bound to the CPUs of node 3", || stage.node(0) == Some(3));
    assert!(stage.memory(0).get(&3).is_some_and(|kib| 16 * 1024 <= *kib), "{:?}", stage.memory(0));
    stage.put_back();
}

fn nmass() {
    let devil = |name: &str, remote: &str| {
        let lines = format!(
            "profile = \"devil\"\nmemory = \"bind:0\"\nsensitivity = {{ 4 = 0.0, remote = {remote} }}"
        );
        hog(name, &lines)
    };
    let jobs = devil("suffers", "0.5") + &devil("does-not", "0.02");
    let stage = Stage::begin("nmass[interval=250ms]", &jobs, 2);
    stage.until("one of them leaves node 0", || stage.node(1).is_some_and(|node| node != 0));
    assert_eq!(stage.node(0), Some(0), "who would suffer stays");
    for job in 0..2 {
        assert!(stage.has_memory_on(job, 0), "memory is never moved: {:?}", stage.memory(job));
    }
    stage.put_back();
}

fn home_cluster() {
    let jobs: String = (0..4).map(|job| hog(&format!("job-{job}"), "threads = 2")).collect();
    let stage = Stage::begin("home-cluster", &jobs, 4);
    let homes: Vec<u32> = (0..4).filter_map(|job| stage.node(job)).collect();
    for (job, &home) in homes.iter().enumerate() {
        assert_eq!(stage.mask(job), nodes::cpus(home), "two threads, two CPUs");
        assert!(stage.has_memory_on(job, home), "{home}: {:?}", stage.memory(job));
    }
    let mut sorted = homes;
    sorted.sort_unstable();
    assert_eq!(sorted, nodes::all(), "a home of its own for each");
    stage.put_back();
}

/// One program loads one node and no other; so told it is moved, and told again not before long.
fn dfs() {
    let policy = "dfs[only_job=move,memory=follow,cooldown=4]";
    let stage = Stage::begin(policy, &hog("only", "class = 9"), 1);
    let begins = stage.node(0);
    stage.until("its memory on another node", || {
        let node = stage.node(0);
        node != begins && node.is_some_and(|node| stage.has_memory_on(0, node))
    });
    let told = stage.explain();
    assert!(told.contains("of its pages migrated"), "{told}");
    stage.put_back();
}

fn random() {
    let masks = |stage: &Stage| (0..3).map(|job| stage.mask(job)).collect::<Vec<CpuSet>>();
    let drawn = [0, 1].map(|_| {
        let stage = Stage::begin("random", &cast("ttt"), 3);
        let drawn = masks(&stage);
        stage.put_back();
        drawn
    });
    assert_eq!(drawn[0], drawn[1]);
    assert!(drawn[0].iter().all(|mask| mask.len() == 1), "{drawn:?}");
    let stage = Stage::begin("random[every=500ms]", &cast("ttt"), 3);
    stage.until("other lots", || masks(&stage) != drawn[0]);
    assert!(masks(&stage).iter().all(|mask| mask.len() == 1));
    stage.put_back();
}
