//! Policies that place jobs near their memory, on real programs: maximum-local, nmass, home-cluster and dfs with
//! page migration; and random.

use base::CpuSet;

use crate::Promise;
use crate::nodes::{self, hog};
use crate::policy_run::{PolicyRun, hogs};

pub const ALL: &[Promise] = &[
    ("locality::maximum_local_runs_jobs_on_the_nodes_of_their_memory", maximum_local),
    ("locality::maximum_local_detects_undeclared_memory", undeclared),
    ("locality::nmass_moves_the_least_sensitive_job_off_a_crowded_node", nmass),
    ("locality::home_cluster_assigns_cpus_and_pages_of_one_node_to_each_job", home_cluster),
    ("locality::dfs_with_only_job_moves_the_only_load_and_its_memory", dfs),
    ("locality::random_repeats_its_placement_for_one_seed_and_redraws_with_every", random),
];

fn maximum_local() {
    let jobs: String = [3, 1, 2, 0]
        .map(|node| hog(&format!("on-{node}"), "2M", &format!("memory = \"bind:{node}\"")))
        .concat();
    let run = PolicyRun::start("maximum-local[interval=250ms]", &jobs, 4);
    let at_home =
        |(job, node): (usize, u32)| run.node(job) == Some(node) && run.has_memory_on(job, node);
    run.until("each job on the node of its memory", || {
        [3, 1, 2, 0].into_iter().enumerate().all(at_home)
    });
    run.kill_and_restore();
}

/// Checks that a job follows memory that its program has bound to node 3. Only a sample of the pages shows this
/// binding.
fn undeclared() {
    let this = std::env::current_exe().expect("this program");
    let bind = crate::memory_cgroups::BIND_OWN_MEMORY;
    let text = format!(
        "[[job]]\nname = \"self-bound\"\ncommand = [\"{}\", \"{bind}\", \"3\"]\n",
        this.display()
    );
    let run = PolicyRun::start("maximum-local[interval=250ms]", &text, 1);
    // The policy can place the job before the program has allocated all of its memory.
    run.until("the placement on node 3", || {
        let on_3 = run.memory(0).get(&3).is_some_and(|kib| 16 * 1024 <= *kib);
        on_3 && run.node(0) == Some(3)
    });
    run.kill_and_restore();
}

fn nmass() {
    let devil = |name: &str, remote: &str| {
        let lines = format!(
            "profile = \"devil\"\nmemory = \"bind:0\"\nsensitivity = {{ 4 = 0.0, remote = {remote} }}"
        );
        hog(name, "2M", &lines)
    };
    let jobs = devil("sensitive", "0.5") + &devil("insensitive", "0.02");
    let run = PolicyRun::start("nmass[interval=250ms]", &jobs, 2);
    run.until("the insensitive job leaves node 0", || run.node(1).is_some_and(|node| node != 0));
    assert_eq!(run.node(0), Some(0), "the sensitive job stays");
    for job in 0..2 {
        assert!(run.has_memory_on(job, 0), "memory is never moved: {:?}", run.memory(job));
    }
    run.kill_and_restore();
}

fn home_cluster() {
    let jobs: String = (0..4).map(|job| hog(&format!("job-{job}"), "2M", "threads = 2")).collect();
    let run = PolicyRun::start("home-cluster", &jobs, 4);
    let homes: Vec<u32> = (0..4).filter_map(|job| run.node(job)).collect();
    for (job, &home) in homes.iter().enumerate() {
        assert_eq!(run.mask(job), nodes::cpus(home), "two CPUs for two threads");
        assert!(run.has_memory_on(job, home), "{home}: {:?}", run.memory(job));
    }
    let mut sorted = homes;
    sorted.sort_unstable();
    assert_eq!(sorted, nodes::all(), "a home of its own for each job");
    run.kill_and_restore();
}

/// Checks the placements of dfs. One job loads one node. With `only_job=move` this job migrates. The cooldown delays
/// the next migration.
fn dfs() {
    let policy = "dfs[only_job=move,memory=follow,cooldown=4]";
    let run = PolicyRun::start(policy, &hog("only", "2M", "class = 9"), 1);
    let start = run.node(0);
    run.until("its memory on another node", || {
        let node = run.node(0);
        node != start && node.is_some_and(|node| run.has_memory_on(0, node))
    });
    let explained = run.explain();
    assert!(explained.contains("of its pages migrated"), "{explained}");
    run.kill_and_restore();
}

fn random() {
    let masks = |run: &PolicyRun| (0..3).map(|job| run.mask(job)).collect::<Vec<CpuSet>>();
    let drawn = [0, 1].map(|_| {
        let run = PolicyRun::start("random", &hogs("ttt"), 3);
        let drawn = masks(&run);
        run.kill_and_restore();
        drawn
    });
    assert_eq!(drawn[0], drawn[1]);
    assert!(drawn[0].iter().all(|mask| mask.len() == 1), "{drawn:?}");
    let run = PolicyRun::start("random[every=500ms]", &hogs("ttt"), 3);
    run.until("another placement", || masks(&run) != drawn[0]);
    assert!(masks(&run).iter().all(|mask| mask.len() == 1));
    run.kill_and_restore();
}
