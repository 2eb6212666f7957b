//! A job is bound before its program starts, so the first touch allocates memory on the node of its CPUs.

use sched::Action;

use crate::Promise;
use crate::live_run::{self, LiveRun, World, mask};
use crate::nodes;

pub const ALL: &[Promise] = &[
    (
        "placement::memory_is_allocated_on_the_node_of_the_first_placement",
        memory_comes_with_the_job,
    ),
    ("placement::child_processes_inherit_the_placement", children_too),
    ("placement::dfs_spreads_equal_jobs_over_all_nodes", dfs_spreads),
];

/// 24 MiB, first touched by the program.
const HOG: &str = "hog --size 24M --for 120s --no-self-check";
const HOG_KIB: u64 = 24 * 1024;

fn hogs(text: &str) -> LiveRun {
    LiveRun::with(text, |options| options.tool = Some(crate::tool::path().to_owned()))
}

fn memory_comes_with_the_job() {
    let mut run = hogs(&format!(
        "[[job]]\nname = \"two\"\nload = \"{HOG}\"\n[[job]]\nname = \"three\"\nload = \"{HOG}\"\n"
    ));
    for (name, node) in [("two", 2), ("three", 3)] {
        run.request(name, Action::Place(nodes::cpus(node)));
    }
    for (name, node) in [("two", 2), ("three", 3)] {
        let pid = run.wait_until_started(name);
        let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
        assert!(980 <= nodes::permille_on(&memory, node), "{name}: {memory:?}");
    }
    run.stop();
}

fn children_too() {
    let tool = crate::tool::path().display().to_string();
    let mut run = LiveRun::new(&format!(
        "[[job]]\nname = \"parent\"\nshell = '''{tool} load {HOG} & echo $! > child; wait'''\n"
    ));
    run.request("parent", Action::Place(nodes::cpus(1)));
    run.wait_until_started("parent");
    nodes::until("the child", || run.world.path("child").metadata().is_ok_and(|m| 1 < m.len()));
    let child: u32 = run.world.read("child").trim().parse().expect("a number");
    assert_eq!(mask(child), Some(nodes::cpus(1)));
    let memory = nodes::wait_for_anonymous(child, HOG_KIB);
    assert!(980 <= nodes::permille_on(&memory, 1), "{memory:?}");
    run.stop();
}

/// `evenkeel run` with the dfs policy: four jobs on four nodes.
fn dfs_spreads() {
    let world = World::new();
    let text = format!("[[job]]\nname = \"hog\"\nload = \"{HOG}\"\nclass = 9\ncopies = 4\n");
    let mut run = crate::evenkeel_run::EvenkeelRun::run(&world, &text, &["--policy", "dfs"]);
    let pids = run.wait_for_start(4);
    let mut used: Vec<u32> = Vec::new();
    for pid in pids {
        let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
        let node = mask(pid).as_ref().and_then(nodes::node_of).expect("bound to one node");
        assert!(980 <= nodes::permille_on(&memory, node), "{node}: {memory:?}");
        used.push(node);
    }
    used.sort_unstable();
    assert_eq!(used, nodes::all());
    run.stop();
    assert!(live_run::machine().nodes().len() >= crate::NODES_NEEDED);
}
