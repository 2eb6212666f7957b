//! A cgroup of a test, in the unified hierarchy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Mount point of the unified hierarchy.
pub const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup. Dropping it moves its processes to the root and removes it.
pub struct TestCgroup(pub PathBuf);

impl TestCgroup {
    /// Creates a cgroup with the cpuset controller at a path below the root.
    pub fn new(path: &str) -> Self {
        let root = Path::new(ROOT);
        fs::write(root.join("cgroup.subtree_control"), "+cpuset").expect("cgroup v2 in the guest");
        let folder = root.join(path);
        fs::create_dir_all(&folder).expect("a cgroup of this test");
        TestCgroup(folder)
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Moves a process into the cgroup.
    pub fn add(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }
}

/// Moves a process to the root of the hierarchy.
pub fn move_to_root(pid: u32) {
    fs::write(format!("{ROOT}/cgroup.procs"), pid.to_string()).expect("the process exists");
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // An exiting process delays the removal.
        for _ in 0..100 {
            let pids = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for pid in pids.lines() {
                let _ = fs::write(format!("{ROOT}/cgroup.procs"), pid);
            }
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
