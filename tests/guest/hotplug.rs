//! The CPU of a bound job goes offline and comes back.

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::{mask, until};

use crate::Promise;
use crate::nodes::{KernelSetting, hog};

pub const ALL: &[Promise] =
    &[("hotplug::a_job_whose_cpu_goes_offline_is_placed_again_with_the_reason", offline)];

fn offline() {
    // Eight jobs on eight CPUs: one of them is on CPU 7.
    let text = hog("hog", "2M", "class = 8\ncopies = 8");
    let mut run = EvenkeelRun::new(Dir::new(), &text, &["--policy", "dfs"]);
    let pids = run.wait_for_start(8);
    let is_on_7 = |pid: u32| mask(pid).is_some_and(|mask| mask.contains(base::CpuId(7)));
    let victim = pids.iter().copied().find(|&pid| is_on_7(pid)).expect("a job on CPU 7");
    let setting = KernelSetting::offline(7);
    until("another placement of the job", || {
        mask(victim).is_some_and(|mask| mask.len() == 1 && !mask.contains(base::CpuId(7)))
    });
    drop(setting);
    run.end_by(Signal::TERM);
    assert!(run.explain().contains("became unusable"), "{}", run.explain());
}
