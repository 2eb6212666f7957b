//! evenkeel in a cpuset: jobs use the CPUs and nodes of the cpuset, and follow changes of the cpuset.

use base::CpuSet;

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::{mask, until};

use crate::nodes::{self, hog};
use crate::{Promise, cpuset};

pub const ALL: &[Promise] = &[
    ("cpusets::jobs_stay_in_the_cpuset_of_evenkeel", within),
    ("cpusets::jobs_follow_a_change_of_the_cpuset", follows),
];

fn text(n_jobs: u32) -> String {
    hog("hog", "4M", &format!("class = 8\ncopies = {n_jobs}"))
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

fn within() {
    let cgroup = cpuset("evenkeel-within", "2-5", "1-2");
    let mut run = EvenkeelRun::in_cgroup(&cgroup, None, Dir::new(), &text(4), &["--policy", "dfs"]);
    let allowed = set("2-5");
    for pid in run.wait_for_start(4) {
        let mask = mask(pid).expect("the process exists");
        assert!(mask.iter().all(|cpu| allowed.contains(cpu)), "{mask}");
        let memory = nodes::wait_for_anonymous(pid, 4096);
        assert_eq!(nodes::permille_on(&memory, 0) + nodes::permille_on(&memory, 3), 0);
    }
    run.end_by(Signal::TERM);
}

fn follows() {
    let cgroup = cpuset("evenkeel-follows", "0-7", "0-3");
    let mut run = EvenkeelRun::in_cgroup(&cgroup, None, Dir::new(), &text(4), &["--policy", "dfs"]);
    let pids = run.wait_for_start(4);
    cgroup.write("cpuset.cpus", "4-7");
    let allowed = set("4-7");
    until("every job is placed within the new cpuset", || {
        let placed = |&pid: &u32| {
            mask(pid)
                .is_some_and(|mask| mask.len() == 1 && mask.iter().all(|c| allowed.contains(c)))
        };
        pids.iter().all(placed)
    });
    run.end_by(Signal::TERM);
    assert!(run.explain().contains("became unusable"), "{}", run.explain());
}
