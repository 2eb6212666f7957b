//! The kernel's own NUMA balancing beside us: on and off, noticed and said.

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::play::{World, mask};
use crate::undo::Tool;

pub const ALL: &[Promise] = &[
    ("balancing::while_it_is_off_pages_stay_where_they_were_touched", off),
    ("balancing::while_it_is_on_we_say_so_and_pages_follow_the_job", on),
];

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const HOG_KIB: u64 = 16 * 1024;

/// A hog whose memory is preferred on node 3 although it runs on node 0.
const FAR: &str = "[[job]]\nname = \"far\"\nload = \"hog --size 16M --for 120s --no-self-check\"\n\
                   class = 8\nmemory = \"preferred:3\"\ncpus = \"0-1\"\n";

fn off() {
    let _knob = Knob::set(BALANCING, "0");
    let world = World::new();
    let mut run = Tool::run(&world, FAR, &["--policy", "linux"]);
    let pid = run.begin(1)[0];
    let memory = nodes::anonymous_from(pid, HOG_KIB);
    assert!(950 <= nodes::permille_on(&memory, 3), "{memory:?}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let memory = nodes::anonymous_kib(pid);
    assert!(950 <= nodes::permille_on(&memory, 3), "{memory:?}");
    run.stop();
    assert!(!run.said.contains("NUMA balancing is enabled"), "{}", run.said);
}

fn on() {
    let _knob = Knob::set(BALANCING, "1");
    let world = World::new();
    // First touch on node 0, then bound to node 3: only the kernel moves its pages.
    let text = "[[job]]\nname = \"hog\"\nload = \"hog --size 16M --for 120s --no-self-check\"\n\
                class = 8\ncpus = \"0-1\"\n";
    let mut run = Tool::run(&world, text, &["--policy", "dfs"]);
    let pid = run.begin(1)[0];
    let memory = nodes::anonymous_from(pid, HOG_KIB);
    assert!(900 <= nodes::permille_on(&memory, 0), "{memory:?}");
    for tid in linux::procfs::threads("/".as_ref(), pid).expect("it lives") {
        linux::affinity::set(tid, &nodes::cpus(3)).expect("we are root");
    }
    assert_eq!(mask(pid), Some(nodes::cpus(3)));
    // The kernel takes its time, and is not ours to judge: in some boots it moves nothing at all.
    let begin = std::time::Instant::now();
    let mut moved = 0;
    while moved < 500 && begin.elapsed() < std::time::Duration::from_secs(20) {
        std::thread::sleep(std::time::Duration::from_millis(200));
        moved = nodes::permille_on(&nodes::anonymous_kib(pid), 3);
    }
    println!("the kernel moved {moved} thousandths of its pages");
    assert_eq!(mask(pid), Some(nodes::cpus(3)), "what somebody else set stays");
    run.stop();
    assert!(run.said.contains("NUMA balancing is enabled"), "{}", run.said);
}
