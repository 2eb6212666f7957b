//! `evenkeel restore` after SIGKILL: the affinity masks of all jobs on several nodes.

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::{all_cpus, is_running, mask};

use crate::Promise;
use crate::nodes::{self, KernelSetting, hog};

pub const ALL: &[Promise] = &[
    ("undo::after_sigkill_restore_restores_the_mask_of_every_job", killed),
    ("undo::restore_while_a_cpu_is_offline_restores_the_full_mask", killed_and_cut),
];

fn jobs() -> String {
    hog("hog", "2M", "class = 8\ncopies = 8")
}

fn killed() {
    let all = all_cpus();
    let mut run = EvenkeelRun::new(Dir::new(), &jobs(), &["--policy", "dfs"]);
    let pids = run.wait_for_start(8);
    assert!(pids.iter().all(|&pid| mask(pid).is_some_and(|mask| mask.len() == 1)));
    run.end_by(Signal::KILL);
    // A mask that another program has set is not restored.
    linux::affinity::set(pids[0], &nodes::cpus(3)).expect("root privileges");
    println!("{}", run.restore(None));
    assert_eq!(mask(pids[0]), Some(nodes::cpus(3)));
    for &pid in &pids[1..] {
        assert!(is_running(pid), "a job outlives evenkeel");
        assert_eq!(mask(pid).as_ref(), Some(&all), "{pid}");
    }
}

fn killed_and_cut() {
    let all = all_cpus();
    let mut run = EvenkeelRun::new(Dir::new(), &jobs(), &["--policy", "spread"]);
    let pids = run.wait_for_start(8);
    run.end_by(Signal::KILL);
    let setting = KernelSetting::offline(7);
    println!("{}", run.restore(None));
    drop(setting);
    for &pid in &pids {
        assert_eq!(mask(pid).as_ref(), Some(&all), "{pid}");
    }
}
