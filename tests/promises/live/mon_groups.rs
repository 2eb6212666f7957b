//! Each job has its own resctrl monitoring group. The test uses a copy of the resctrl file system, and the job itself
//! writes the counter values that the kernel would write.

use base::{Bytes, JobId, LlcId};
use sched::RawCounter;
use tests::dir::Dir;
use tests::live_run::LiveRun;
use tests::process::machine;

const GROUPS: &str = "resctrl/sys/fs/resctrl/mon_groups";

fn group_names(dir: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path(GROUPS)).expect("it exists").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn memory_traffic_is_read_from_the_monitoring_group_of_the_job_which_is_removed_at_its_exit() {
    let machine = machine();
    let Some(llc) = machine.llcs().iter().find(|llc| llc.level == 3) else {
        println!("skipped: this machine has no L3 cache");
        return;
    };
    let Some(cpu) = llc.cpus.first() else { return };
    let dir = Dir::new();
    let cache = format!("resctrl/sys/devices/system/cpu/cpu{}/cache/index3", cpu.0);
    dir.write(&format!("{cache}/level"), "3\n");
    dir.write(&format!("{cache}/id"), "7\n");
    dir.write("resctrl/sys/fs/resctrl/mon_data/mon_L3_07/mbm_total_bytes", "9000\n");
    dir.write("resctrl/sys/fs/resctrl/mon_groups/other/tasks", "1\n");
    let root = dir.path("resctrl");
    let script = format!(
        "cd {}/evenkeel-*-0-a && mkdir -p mon_data/mon_L3_07 && \
         until test -s tasks; do sleep 0.01; done; cat tasks; echo; echo $$; \
         echo 640 > mon_data/mon_L3_07/mbm_total_bytes; echo 64 > mon_data/mon_L3_07/llc_occupancy; \
         while :; do :; done",
        dir.path(GROUPS).display()
    );
    let text = format!("[[job]]\nname = \"a\"\nshell = \"\"\"{script}\"\"\"\n");
    let mut run = LiveRun::within(dir, &text, |options| options.resctrl_root = root);
    let has_traffic = |run: &LiveRun, llc: LlcId| {
        let groups = run.turns.iter().flat_map(|turn| &turn.sample.mon_groups);
        let bytes = |bytes| Some(RawCounter::unmultiplexed(bytes));
        groups.clone().any(|group| {
            let traffic = group.traffic;
            (group.job, group.llc) == (JobId(0), llc)
                && traffic.total_bytes == bytes(640)
                && traffic.local_bytes.is_none()
                && traffic.occupancy == Some(Bytes(64))
        })
    };
    let llc = llc.id;
    run.until("its traffic", |run| has_traffic(run, llc));
    let output = run.dir.read("a.out");
    let words: Vec<&str> = output.split_whitespace().collect();
    assert_eq!(
        words[0], words[1],
        "the main process of the job is in the monitoring group of the job"
    );
    run.stop();
    assert_eq!(group_names(&run.dir), ["other"], "only the group of the run is removed");
    assert_eq!(std::fs::read_dir(run.dir.path("state")).expect("it exists").count(), 0);
}
