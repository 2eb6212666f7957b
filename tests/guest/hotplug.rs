//! The CPU of a bound job goes offline and comes back.

use crate::Promise;
use crate::evenkeel_run::EvenkeelRun;
use crate::live_run::{World, mask};
use crate::nodes::{self, KernelSetting};

pub const ALL: &[Promise] =
    &[("hotplug::a_job_whose_cpu_goes_offline_is_placed_again_with_the_reason", offline)];

const CPU7: &str = "/sys/devices/system/cpu/cpu7/online";

fn offline() {
    let world = World::new();
    // Eight jobs on eight CPUs: one of them is on CPU 7.
    let text = "[[job]]\nname = \"hog\"\nload = \"hog --size 2M --for 120s --no-self-check\"\n\
                class = 8\ncopies = 8\n";
    let mut run = EvenkeelRun::run(&world, text, &["--policy", "dfs"]);
    let pids = run.wait_for_start(8);
    let is_on_7 = |pid: u32| mask(pid).is_some_and(|mask| mask.contains(base::CpuId(7)));
    let victim = pids.iter().copied().find(|&pid| is_on_7(pid)).expect("a job on CPU 7");
    let setting = KernelSetting::set(CPU7, "0");
    nodes::until("another placement of the job", || {
        mask(victim).is_some_and(|mask| mask.len() == 1 && !mask.contains(base::CpuId(7)))
    });
    drop(setting);
    run.stop();
    assert!(run.explain().contains("became unusable"), "{}", run.explain());
}
