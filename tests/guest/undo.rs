//! `evenkeel restore` after SIGKILL: the affinity masks of all jobs on several nodes.

use base::CpuSet;

use crate::Promise;
use crate::evenkeel_run::EvenkeelRun;
use crate::live_run::{World, is_running, mask};
use crate::nodes::{self, KernelSetting};

pub const ALL: &[Promise] = &[
    ("undo::after_sigkill_restore_restores_the_mask_of_every_job", killed),
    ("undo::restore_while_a_cpu_is_offline_restores_the_full_mask", killed_and_cut),
];

const JOBS: &str = "[[job]]\nname = \"hog\"\nload = \"hog --size 2M --for 300s --no-self-check\"\n\
                    class = 8\ncopies = 8\n";

fn all_cpus() -> CpuSet {
    linux::affinity::get(0).expect("own mask")
}

fn killed() {
    let (world, all) = (World::new(), all_cpus());
    let mut run = EvenkeelRun::run(&world, JOBS, &["--policy", "dfs"]);
    let pids = run.wait_for_start(8);
    assert!(pids.iter().all(|&pid| mask(pid).is_some_and(|mask| mask.len() == 1)));
    run.kill();
    // A mask that another program has set in the meantime stays.
    linux::affinity::set(pids[0], &nodes::cpus(3)).expect("root privileges");
    println!("{}", run.restore());
    assert_eq!(mask(pids[0]), Some(nodes::cpus(3)));
    for &pid in &pids[1..] {
        assert!(is_running(pid), "a job outlives evenkeel");
        assert_eq!(mask(pid).as_ref(), Some(&all), "{pid}");
    }
}

fn killed_and_cut() {
    let (world, all) = (World::new(), all_cpus());
    let mut run = EvenkeelRun::run(&world, JOBS, &["--policy", "spread"]);
    let pids = run.wait_for_start(8);
    run.kill();
    let setting = KernelSetting::set("/sys/devices/system/cpu/cpu7/online", "0");
    println!("{}", run.restore());
    drop(setting);
    for &pid in &pids {
        assert_eq!(mask(pid).as_ref(), Some(&all), "{pid}");
    }
}
