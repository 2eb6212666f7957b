//! `/proc` through one directory descriptor that stays open, for the inspection of thousands of processes.
//!
//! Most processes sleep and are inspected rarely. Each inspection makes three system calls (openat, read, close) and
//! leaves no descriptor open.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use base::{CpuSet, NodeSet, TaskId};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use crate::fault;
use crate::proc_stat::{ProcStat, parse_stat};
use crate::procfs::not_found_if_exited;

/// An open descriptor of `/proc`.
#[derive(Debug)]
pub struct ProcDir {
    dir: OwnedFd,
}

/// Length of a command line that is compared with patterns.
pub const COMMAND_LINE_BYTES: usize = 4096;
/// Maximum number of reads of the command line of a process in execve(2).
const N_READS_IN_EXEC: u32 = 1000;

impl ProcDir {
    /// Opens `proc` below a root.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::open(root.join("proc"), flags, Mode::empty())?);
        let dir = fault::retry("openat", open)?;
        Ok(ProcDir { dir })
    }

    /// Reads the current state of a process. The error has the kind `NotFound` if the process has exited.
    pub fn stat(&self, pid: u32) -> io::Result<ProcStat> {
        self.stat_at(&format!("{pid}/stat"))
    }

    /// Reads the current state of one thread of a process.
    pub fn thread_stat(&self, pid: u32, tid: u32) -> io::Result<ProcStat> {
        self.stat_at(&format!("{pid}/task/{tid}/stat"))
    }

    fn stat_at(&self, path: &str) -> io::Result<ProcStat> {
        let mut buffer = [0; 1024];
        parse_stat(self.read(path, &mut buffer)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads the identity and the permissions of a process.
    pub fn status(&self, pid: u32) -> io::Result<ProcStatus> {
        let mut buffer = [0; 8192];
        let text = self.read(&format!("{pid}/status"), &mut buffer)?;
        parse_status(&String::from_utf8_lossy(text))
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads the cgroups of a process in the order of [`parse_cgroups`].
    pub fn cgroups(&self, pid: u32) -> io::Result<Vec<String>> {
        let mut buffer = [0; 4096];
        let text = self.read(&format!("{pid}/cgroup"), &mut buffer)?;
        let groups = parse_cgroups(&String::from_utf8_lossy(text));
        match groups.is_empty() {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(groups),
        }
    }

    /// Reads the command line of a process: the arguments, separated by spaces. Only the first [`COMMAND_LINE_BYTES`] are
    /// read. Empty for a kernel thread and for a process that exits.
    pub fn command_line(&self, pid: u32) -> io::Result<String> {
        // During execve(2) the command line is empty for some microseconds.
        for _ in 0..N_READS_IN_EXEC {
            let mut buffer = [0; COMMAND_LINE_BYTES];
            let text = self.read(&format!("{pid}/cmdline"), &mut buffer)?;
            if !text.is_empty() || !self.stat(pid)?.is_in_exec() {
                let text = text.strip_suffix(b"\0").unwrap_or(text);
                return Ok(String::from_utf8_lossy(text).replace('\0', " "));
            }
            std::thread::yield_now();
        }
        Ok(String::new())
    }

    /// Opens the executable of a process, and reads its path in the mount namespace of the process. In the namespace of
    /// evenkeel this path may be that of another file.
    pub fn executable(&self, process: TaskId) -> io::Result<(File, PathBuf)> {
        let exe = format!("{}/exe", process.tid);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::openat(&self.dir, &exe, flags, Mode::empty())?);
        let file = fault::retry("openat", open).map_err(not_found_if_exited)?;
        let readlink = || Ok(rustix::fs::readlinkat(&self.dir, &exe, Vec::new())?);
        let path = fault::retry("readlink", readlink).map_err(not_found_if_exited)?;
        // The PID may have been reused.
        match self.stat(process.tid)?.start_time_ticks == process.start_time_ticks {
            true => Ok((file.into(), OsString::from_vec(path.into_bytes()).into())),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn read<'a>(&self, path: &str, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::openat(&self.dir, path, flags, Mode::empty())?);
        let file = fault::retry("openat", open).map_err(not_found_if_exited)?;
        let read = || Ok(rustix::io::read(&file, &mut *buffer)?);
        let n_bytes = fault::retry("read", read).map_err(not_found_if_exited)?;
        Ok(&buffer[..n_bytes])
    }

    /// Passes the PIDs of all processes to `each`, in the order of the kernel (ascending).
    pub fn list(&self, mut each: impl FnMut(u32)) -> io::Result<()> {
        fault::inject("getdents64")?;
        rustix::fs::seek(&self.dir, SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&self.dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            name.and_then(|name| name.parse().ok()).into_iter().for_each(&mut each);
        }
        Ok(())
    }
}

/// Identity, permissions, affinity and cpuset of a process, from `/proc/PID/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStatus {
    /// The process (`Tgid`) to which the thread belongs.
    pub process: u32,
    /// Real user id.
    pub uid: u32,
    /// Effective user id.
    pub uid_effective: u32,
    /// Effective capabilities, one bit each.
    pub capabilities: u64,
    /// Affinity mask, including offline CPUs.
    pub cpus: CpuSet,
    /// Memory nodes of the cpuset; `None` without cpusets.
    pub nodes: Option<NodeSet>,
}

impl ProcStatus {
    /// Returns whether this process may set the affinity of `other`: both have the same user, or this process has
    /// `CAP_SYS_NICE`. The kernel may still reject the call, for example in another user namespace.
    pub fn may_bind(&self, other: &ProcStatus) -> bool {
        let uids = [other.uid, other.uid_effective];
        self.has_sys_nice() || uids.contains(&self.uid_effective)
    }

    /// Returns whether this process has `CAP_SYS_NICE`.
    pub fn has_sys_nice(&self) -> bool {
        const CAP_SYS_NICE: u32 = 23;
        self.capabilities & 1 << CAP_SYS_NICE != 0
    }
}

/// Parses `/proc/PID/status`.
pub fn parse_status(text: &str) -> Option<ProcStatus> {
    let fields = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_ascii_whitespace())
    };
    let field = |name: &str| fields(name)?.next();
    Some(ProcStatus {
        process: field("Tgid")?.parse().ok()?,
        uid: field("Uid")?.parse().ok()?,
        uid_effective: fields("Uid")?.nth(1)?.parse().ok()?,
        capabilities: u64::from_str_radix(field("CapEff")?, 16).ok()?,
        cpus: field("Cpus_allowed_list")?.parse().ok()?,
        nodes: field("Mems_allowed_list").and_then(|list| list.parse().ok()),
    })
}

/// Parses `/proc/PID/cgroup`. The first entry is the cgroup that identifies the service or session
/// (`/system.slice/cron.service`). This cgroup belongs to the unified hierarchy or, if the unified hierarchy is not in
/// use, to the named hierarchy of systemd. One entry for each v1 controller follows (`cpuset:/jobs`), even if
/// controllers share a hierarchy.
pub fn parse_cgroups(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        path.starts_with('/').then_some((controllers, path))
    });
    let path_in =
        |name: &str| lines.clone().find_map(|(known, path)| (known == name).then_some(path));
    let unified = path_in("");
    let main = unified.filter(|path| *path != "/").or_else(|| path_in("name=systemd")).or(unified);
    let with_controllers = lines.clone().flat_map(|(controllers, path)| {
        let names = controllers.split(',').filter(|name| !name.is_empty());
        names.map(move |name| format!("{name}:{path}"))
    });
    main.map(str::to_owned).into_iter().chain(with_controllers).collect()
}

/// Parses the PID or TID that the kernel assigned last, from `/proc/loadavg`. If the value is unchanged, no task was
/// started.
pub fn parse_last_pid(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_process_is_listed_with_its_start_time_and_a_missing_one_is_not_found() {
        let dir = ProcDir::open("/".as_ref()).expect("proc");
        let this_pid = std::process::id();
        let mut found = false;
        dir.list(|pid| found |= pid == this_pid).expect("a list");
        assert!(found);
        let stat = dir.stat(this_pid).expect("own process");
        let other = crate::procfs::stat("/".as_ref(), this_pid).expect("own process");
        assert_eq!((stat.start_time_ticks, stat.parent), (other.start_time_ticks, other.parent));
        assert_eq!(dir.status(this_pid).expect("own process").process, this_pid);
        let missing = dir.stat(u32::MAX >> 1).expect_err("no such PID");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_identifying_cgroup_is_first_and_controllers_follow() {
        let parsed = |text: &str| parse_cgroups(text).join(" ");
        assert_eq!(parsed("0::/a.slice/b\n"), "/a.slice/b");
        assert_eq!(parsed("9:name=systemd:/s\n0::/\n"), "/s name=systemd:/s");
        assert_eq!(parsed("3:cpu,cpuacct:/c\n0::/\n"), "/ cpu:/c cpuacct:/c");
        assert_eq!(parsed("3:cpu:/c:d\n"), "cpu:/c:d");
        assert_eq!(parsed("3:cpu\n::\n"), "");
    }

    fn status(uids: &str, caps: &str, more: &str) -> ProcStatus {
        let text =
            format!("Tgid:\t7\nUid:\t{uids}\nCapEff:\t{caps}\nCpus_allowed_list:\t0\n{more}");
        parse_status(&text).expect("all fields")
    }

    #[test]
    fn setting_the_affinity_of_a_process_needs_its_user_or_cap_sys_nice() {
        let user = status("65534 65534 65534 65534", "0", "");
        let nice = status("65534 65534 65534 65534", "0000000000800000", "");
        let root = status("0 0 0 0", "000001ffffffffff", "");
        let setuid = status("65534 0 0 0", "0", "");
        let may = |one: &ProcStatus, other: &ProcStatus| one.may_bind(other);
        assert!(may(&root, &user) && may(&nice, &root) && may(&user, &user));
        assert!(!may(&user, &root) && may(&user, &setuid) && may(&setuid, &root));
    }

    #[test]
    fn a_process_without_cpuset_has_no_list_of_nodes() {
        let nodes = |line| status("0 0 0 0", "0", line).nodes.map(|nodes| nodes.to_string());
        let listed = nodes("Mems_allowed:\t3\nMems_allowed_list:\t0-1,4\n");
        assert_eq!((listed.as_deref(), nodes("")), (Some("0-1,4"), None));
    }

    #[test]
    fn the_last_pid_is_the_fifth_field_of_loadavg() {
        assert_eq!(parse_last_pid(b"0.51 0.47 11.54 3/103 22703\n"), Some(22703));
        assert_eq!(parse_last_pid(b"0.51"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(bytes: Vec<u8>, text: String) {
            let _ = (parse_last_pid(&bytes), parse_status(&text), parse_cgroups(&text));
        }
    }
}
