//! A cgroup of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Mount point of the unified hierarchy.
pub const UNIFIED: &str = "/sys/fs/cgroup";

/// A cgroup. Drop moves its processes to the root of its hierarchy and removes the cgroup.
pub struct TestCgroup {
    pub dir: PathBuf,
    root: PathBuf,
    created: Vec<PathBuf>,
}

impl TestCgroup {
    /// Creates a cgroup below the root of a hierarchy. Returns `None` without permission.
    pub fn new(root: &str, path: &str) -> Option<Self> {
        let root = PathBuf::from(root);
        let mut cgroup = TestCgroup { dir: root.clone(), root, created: Vec::new() };
        for part in Path::new(path) {
            cgroup.dir.push(part);
            if cgroup.dir.is_dir() {
                continue;
            }
            if let Err(error) = fs::create_dir(&cgroup.dir) {
                println!("skipped: cannot create {}: {error}", cgroup.dir.display());
                return None;
            }
            cgroup.created.push(cgroup.dir.clone());
        }
        Some(cgroup)
    }

    /// Creates a cgroup in the hierarchy that groups processes: the unified one, or systemd's named hierarchy.
    pub fn of_processes(path: &str) -> Option<Self> {
        if Path::new("/run/systemd/system").is_dir() {
            println!("skipped: systemd manages the cgroups");
            return None;
        }
        let is_unified = Path::new(UNIFIED).join("cgroup.controllers").exists();
        TestCgroup::new(if is_unified { UNIFIED } else { "/sys/fs/cgroup/systemd" }, path)
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.dir.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Moves a process into the cgroup.
    pub fn add(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    /// Moves a process to the root of the hierarchy.
    pub fn remove(&self, pid: u32) {
        fs::write(self.root.join("cgroup.procs"), pid.to_string()).expect("the process exists");
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        for created in self.created.iter().rev() {
            // An exiting process delays the removal.
            for _ in 0..100 {
                let pids = fs::read_to_string(created.join("cgroup.procs")).unwrap_or_default();
                for pid in pids.lines() {
                    let _ = fs::write(self.root.join("cgroup.procs"), pid);
                }
                if fs::remove_dir(created).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
