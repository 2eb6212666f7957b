//! A job is bound before its program starts, so the first touch allocates memory on the node of its CPUs.

use rustix::process::Signal;
use sched::Action;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::live_run::LiveRun;
use tests::process::{mask, until};
use tests::tool;

use crate::Promise;
use crate::nodes::{self, hog};

pub const ALL: &[Promise] = &[
    (
        "placement::memory_is_allocated_on_the_node_of_the_first_placement",
        memory_is_on_the_node_of_the_job,
    ),
    ("placement::child_processes_inherit_the_placement", children_too),
    ("placement::dfs_spreads_equal_jobs_over_all_nodes", dfs_spreads),
];

/// Memory of each hog, first touched by the program.
const SIZE: &str = "24M";
const HOG_KIB: u64 = 24 * 1024;

fn memory_is_on_the_node_of_the_job() {
    let mut run = LiveRun::with_tool(&(hog("two", SIZE, "") + &hog("three", SIZE, "")));
    for (name, node) in [("two", 2), ("three", 3)] {
        run.request(name, Action::Place(nodes::cpus(node)));
    }
    for (name, node) in [("two", 2), ("three", 3)] {
        let pid = run.wait_until_started(name);
        let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
        nodes::check_share(&memory, node, 980);
    }
    run.stop();
}

fn children_too() {
    let tool = tool::path().display().to_string();
    let mut run = LiveRun::new(&format!(
        "[[job]]\nname = \"parent\"\nshell = '''{tool} load hog --size {SIZE} --for 120s --no-self-check & echo $! > child; wait'''\n"
    ));
    run.request("parent", Action::Place(nodes::cpus(1)));
    run.wait_until_started("parent");
    until("the child", || 1 < run.dir.text("child").len());
    let child: u32 = run.dir.read("child").trim().parse().expect("a number");
    assert_eq!(mask(child), Some(nodes::cpus(1)));
    let memory = nodes::wait_for_anonymous(child, HOG_KIB);
    nodes::check_share(&memory, 1, 980);
    run.stop();
}

/// Runs `evenkeel run` with the dfs policy: four jobs on four nodes.
fn dfs_spreads() {
    let text = hog("hog", SIZE, "class = 9\ncopies = 4");
    let mut run = EvenkeelRun::new(Dir::new(), &text, &["--policy", "dfs"]);
    let pids = run.wait_for_start(4);
    let mut used: Vec<u32> = Vec::new();
    for pid in pids {
        let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
        let node = mask(pid).as_ref().and_then(nodes::node_of).expect("bound to one node");
        nodes::check_share(&memory, node, 980);
        used.push(node);
    }
    used.sort_unstable();
    assert_eq!(used, nodes::all());
    run.end_by(Signal::TERM);
}
