//! Promises that need a machine with several NUMA nodes, tested on a real kernel.
//!
//! `make test-vm` boots one guest with four nodes and runs these tests in the guest, one after another. The guest is
//! emulated: placement of threads and pages is real, but the results of the tests do not depend on run times.
//!
//! On other machines (`cargo test` on one node) all tests are listed as ignored, and a line prints the reason.

mod balancing;
mod contention;
mod core_kinds;
mod cpusets;
mod hotplug;
mod locality;
mod memory_cgroups;
mod memory_speed;
mod nodes;
mod pages;
mod placement;
mod policies;
mod policy_run;
mod undo;
mod watched;
mod watching;

use libtest_mimic::{Arguments, Failed, Trial};
use tests::cgroup::{TestCgroup, UNIFIED};

/// Nodes with memory and CPUs that the tests require.
const NODES_NEEDED: usize = 4;

/// Name and function of a test.
type Promise = (&'static str, fn());

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, command, node] = &args[..]
        && command == memory_cgroups::BIND_OWN_MEMORY
    {
        return memory_cgroups::bind_own_memory(node);
    }
    let mut arguments = Arguments::from_args();
    // The tests share one machine and take its CPUs offline.
    arguments.test_threads = Some(1);
    let all: [&[Promise]; 6] = [
        placement::ALL,
        policies::ALL,
        cpusets::ALL,
        memory_cgroups::ALL,
        hotplug::ALL,
        balancing::ALL,
    ];
    let promises = all.into_iter().chain([pages::ALL, undo::ALL, watching::ALL, watched::ALL]);
    let promises = promises
        .chain([contention::ALL, locality::ALL, memory_speed::ALL, core_kinds::ALL])
        .flatten();
    let reason = reason_not_to_run();
    if let Some(reason) = &reason {
        println!("not run: {reason}; make test-vm runs these in a guest");
    }
    let trial = |&(name, promise): &Promise| {
        Trial::test(name, move || {
            promise();
            Ok::<(), Failed>(())
        })
        .with_ignored_flag(reason.is_some())
    };
    libtest_mimic::run(&arguments, promises.map(trial).collect()).exit();
}

/// Creates a cgroup of the unified hierarchy with the cpuset controller.
fn cgroup(path: &str) -> TestCgroup {
    let controllers = std::path::Path::new(UNIFIED).join("cgroup.subtree_control");
    std::fs::write(controllers, "+cpuset").expect("cgroup v2 in the guest");
    TestCgroup::new(UNIFIED, path).expect("root privileges")
}

/// Creates a cgroup with these CPUs and nodes.
fn cpuset(name: &str, cpus: &str, mems: &str) -> TestCgroup {
    let cgroup = cgroup(name);
    cgroup.write("cpuset.cpus", cpus);
    cgroup.write("cpuset.mems", mems);
    cgroup
}

/// Returns the reason why these tests cannot run on this machine.
fn reason_not_to_run() -> Option<String> {
    let n_nodes = nodes::all().len();
    let is_root = rustix::process::getuid().is_root();
    match (n_nodes < NODES_NEEDED, is_root, std::env::var_os("NUMA_VM").is_some()) {
        (true, ..) => Some(format!("this machine has {n_nodes} node(s) of {NODES_NEEDED}")),
        (_, false, _) => Some("taking CPUs offline and creating cgroups needs root".to_owned()),
        // The tests take CPUs offline and fill nodes, which affects every other process.
        (_, _, false) => Some("this is not a throw-away guest".to_owned()),
        _ => None,
    }
}
