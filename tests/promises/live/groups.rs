//! Jobs have monitoring groups of resctrl of their own, where the kernel has them: here in a tree that
//! stands for the kernel's. What the kernel would count, the job writes itself.

use base::{Bytes, JobId, LlcId};
use sched::CounterReading;

use super::play::{Play, World};

const GROUPS: &str = "resctrl/sys/fs/resctrl/mon_groups";

fn write(world: &World, path: &str, text: &str) {
    let path = world.path("resctrl").join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn there(world: &World) -> Vec<String> {
    let entries = std::fs::read_dir(world.path(GROUPS)).expect("there").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_traffic_of_a_job_is_read_from_a_group_that_ends_with_it() {
    let machine = super::play::machine();
    let Some(llc) = machine.llcs().iter().find(|llc| llc.level == 3) else {
        println!("not run: this machine has no third cache level");
        return;
    };
    let Some(cpu) = llc.cpus.first() else { return };
    let world = World::new();
    let cache = format!("sys/devices/system/cpu/cpu{}/cache/index3", cpu.0);
    write(&world, &format!("{cache}/level"), "3\n");
    write(&world, &format!("{cache}/id"), "7\n");
    write(&world, "sys/fs/resctrl/mon_data/mon_L3_07/mbm_total_bytes", "9000\n");
    write(&world, "sys/fs/resctrl/mon_groups/theirs/tasks", "1\n");
    let root = world.path("resctrl");
    let script = format!(
        "cd {}/evenkeel-*-0-a && mkdir -p mon_data/mon_L3_07 && \
         until test -s tasks; do sleep 0.01; done; cat tasks; echo; echo $$; \
         echo 640 > mon_data/mon_L3_07/mbm_total_bytes; echo 64 > mon_data/mon_L3_07/llc_occupancy; \
         while :; do :; done",
        world.path(GROUPS).display()
    );
    let text = format!("[[job]]\nname = \"a\"\nshell = \"\"\"{script}\"\"\"\n");
    let mut play = Play::within(world, &text, |options| options.resctrl_root = root);
    let read = |play: &Play, llc: LlcId| {
        let groups = play.story.iter().flat_map(|scene| &scene.sample.mon_groups);
        let of = |bytes| Some(CounterReading::unmultiplexed(bytes));
        groups.clone().any(|group| {
            let traffic = group.traffic;
            (group.job, group.llc) == (JobId(0), llc)
                && traffic.total_bytes == of(640)
                && traffic.local_bytes.is_none()
                && traffic.occupancy == Some(Bytes(64))
        })
    };
    let llc = llc.id;
    play.until("its traffic", |play| read(play, llc));
    let said = play.world.read("a.out");
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words[0], words[1], "its first process is in its group");
    play.host_stop();
    play.finish();
    assert_eq!(there(&play.world), ["theirs"], "only its own group is removed");
    assert_eq!(std::fs::read_dir(play.world.path("state")).expect("there").count(), 0);
}
