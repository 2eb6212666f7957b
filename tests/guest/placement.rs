//! A job is bound before its program begins, so its first touch of memory falls where it runs.

use sched::Action;

use crate::Promise;
use crate::nodes;
use crate::play::{self, Play, World, mask};

pub const ALL: &[Promise] = &[
    ("placement::memory_comes_from_the_node_where_a_job_begins", memory_comes_with_the_job),
    ("placement::what_a_job_starts_later_begins_there_too", children_too),
    ("placement::dfs_spreads_equal_jobs_over_all_nodes", dfs_spreads),
];

/// 24 MiB, touched by the program itself and never by us.
const HOG: &str = "hog --size 24M --for 120s --no-self-check";
const HOG_KIB: u64 = 24 * 1024;

fn hogs(text: &str) -> Play {
    Play::with(text, |options| options.tool = Some(crate::tool::path().to_owned()))
}

fn memory_comes_with_the_job() {
    let mut play = hogs(&format!(
        "[[job]]\nname = \"two\"\nload = \"{HOG}\"\n[[job]]\nname = \"three\"\nload = \"{HOG}\"\n"
    ));
    for (name, node) in [("two", 2), ("three", 3)] {
        play.wish(name, Action::Place(nodes::cpus(node)));
    }
    for (name, node) in [("two", 2), ("three", 3)] {
        let pid = play.begin(name);
        let memory = nodes::anonymous_from(pid, HOG_KIB);
        assert!(980 <= nodes::permille_on(&memory, node), "{name}: {memory:?}");
    }
    play.host_stop();
    play.finish();
}

fn children_too() {
    let tool = crate::tool::path().display().to_string();
    let mut play = Play::new(&format!(
        "[[job]]\nname = \"parent\"\nshell = '''{tool} load {HOG} & echo $! > child; wait'''\n"
    ));
    play.wish("parent", Action::Place(nodes::cpus(1)));
    play.begin("parent");
    nodes::until("the child", || play.world.path("child").metadata().is_ok_and(|m| 1 < m.len()));
    let child: u32 = play.world.read("child").trim().parse().expect("a number");
    assert_eq!(mask(child), Some(nodes::cpus(1)));
    let memory = nodes::anonymous_from(child, HOG_KIB);
    assert!(980 <= nodes::permille_on(&memory, 1), "{memory:?}");
    play.host_stop();
    play.finish();
}

/// The whole program with a policy of its own: four jobs, four nodes.
fn dfs_spreads() {
    let world = World::new();
    let text = format!("[[job]]\nname = \"hog\"\nload = \"{HOG}\"\nclass = 9\ncopies = 4\n");
    let mut run = crate::undo::Tool::run(&world, &text, &["--policy", "dfs"]);
    let pids = run.begin(4);
    let mut seen: Vec<u32> = Vec::new();
    for pid in pids {
        let memory = nodes::anonymous_from(pid, HOG_KIB);
        let node = mask(pid).as_ref().and_then(nodes::node_of).expect("bound within a node");
        assert!(980 <= nodes::permille_on(&memory, node), "{node}: {memory:?}");
        seen.push(node);
    }
    seen.sort_unstable();
    assert_eq!(seen, nodes::all());
    run.stop();
    assert!(play::machine().nodes().len() >= crate::NODES_NEEDED);
}
