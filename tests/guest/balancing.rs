//! Automatic NUMA balancing of the kernel during a run: disabled, and enabled with a note in the report.

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::process::mask;

use crate::Promise;
use crate::nodes::{self, KernelSetting, hog};

pub const ALL: &[Promise] = &[
    ("balancing::disabled_pages_stay_on_the_node_of_their_first_touch", off),
    ("balancing::enabled_a_note_is_printed_and_the_mask_stays", on),
];

const HOG_KIB: u64 = 16 * 1024;

fn off() {
    let _no_balancing = KernelSetting::no_balancing();
    // The preferred node of the memory is 3, although the job runs on node 0.
    let far = hog("far", "16M", "class = 8\nmemory = \"preferred:3\"\ncpus = \"0-1\"");
    let mut run = EvenkeelRun::new(Dir::new(), &far, &["--policy", "linux"]);
    let pid = run.wait_for_start(1)[0];
    let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
    nodes::check_share(&memory, 3, 950);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let memory = nodes::anonymous_kib(pid);
    nodes::check_share(&memory, 3, 950);
    run.end_by(Signal::TERM);
    assert!(!run.output.contains("NUMA balancing is enabled"), "{}", run.output);
}

fn on() {
    let _balancing = KernelSetting::set("/proc/sys/kernel/numa_balancing", "1");
    // First touch allocates the pages on node 0, and the job is then bound to node 3: only the kernel migrates the
    // pages.
    let text = hog("hog", "16M", "class = 8\ncpus = \"0-1\"");
    let mut run = EvenkeelRun::new(Dir::new(), &text, &["--policy", "dfs"]);
    let pid = run.wait_for_start(1)[0];
    let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
    nodes::check_share(&memory, 0, 900);
    for tid in linux::procfs::threads("/".as_ref(), pid).expect("the process exists") {
        linux::affinity::set(tid, &nodes::cpus(3)).expect("root privileges");
    }
    assert_eq!(mask(pid), Some(nodes::cpus(3)));
    // evenkeel does not promise how many pages the kernel migrates, or when: after some boots the kernel migrates no
    // page.
    let begin = std::time::Instant::now();
    let mut moved = 0;
    while moved < 500 && begin.elapsed() < std::time::Duration::from_secs(20) {
        std::thread::sleep(std::time::Duration::from_millis(200));
        moved = nodes::permille_on(&nodes::anonymous_kib(pid), 3);
    }
    println!("the kernel migrated {moved} permille of the pages");
    assert_eq!(mask(pid), Some(nodes::cpus(3)), "a mask set by another program stays");
    run.end_by(Signal::TERM);
    assert!(run.output.contains("NUMA balancing is enabled"), "{}", run.output);
}
