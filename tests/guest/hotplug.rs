//! A CPU goes offline under a job that is bound to it, and comes back.

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::play::{World, mask};
use crate::undo::Tool;

pub const ALL: &[Promise] =
    &[("hotplug::a_job_whose_cpu_goes_offline_is_placed_again_and_told_why", offline)];

const CPU7: &str = "/sys/devices/system/cpu/cpu7/online";

fn offline() {
    let world = World::new();
    // Eight jobs on eight CPUs: one of them is on the last.
    let text = "[[job]]\nname = \"hog\"\nload = \"hog --size 2M --for 120s --no-self-check\"\n\
                class = 8\ncopies = 8\n";
    let mut run = Tool::run(&world, text, &["--policy", "dfs"]);
    let pids = run.begin(8);
    let is_on_7 = |pid: u32| mask(pid).is_some_and(|mask| mask.contains(base::CpuId(7)));
    let victim = pids.iter().copied().find(|&pid| is_on_7(pid)).expect("somebody is on CPU 7");
    let knob = Knob::set(CPU7, "0");
    nodes::until("the job is bound elsewhere", || {
        mask(victim).is_some_and(|mask| mask.len() == 1 && !mask.contains(base::CpuId(7)))
    });
    drop(knob);
    run.stop();
    assert!(run.explain().contains("became unusable"), "{}", run.explain());
}
