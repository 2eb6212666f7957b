//! A process at a glance: all that its one line in `/proc/PID/stat` tells a passer-by.
//!
//! Whoever looks after thousands of processes that mostly sleep looks at each of them seldom, and then
//! shortly: three calls (open, read, close) below a kept descriptor of `/proc`, no allocation, and no
//! descriptor left open. CPU time is that of the whole process, threads that ended too; the kernel
//! tells it in clock ticks (10 ms).

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use base::{CpuSet, NodeSet};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use crate::fault;
use crate::procfs::PF_KTHREAD;

/// The name of a program as the kernel keeps it: 15 bytes at most, then zeros.
pub type Comm = [u8; 16];

/// What one line of `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The name of its program.
    pub comm: Comm,
    /// `Z` and `X` have ended.
    pub state: u8,
    /// The process that started it, or that adopted it.
    pub parent: u32,
    /// Whether the kernel made it for itself.
    pub is_kernel_thread: bool,
    /// CPU time of all its threads, in clock ticks.
    pub cpu_ticks: u64,
    /// When it was created, in clock ticks since boot.
    pub born_ticks: u64,
    /// How many threads it has.
    pub n_threads: u32,
    /// The scheduling policy of its first thread, as `sched.h` numbers them.
    pub class: u32,
}

impl Glance {
    /// Whether it runs no more.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether a scheduling policy of this number gives a task times that placing would break:
    /// FIFO, RR and DEADLINE.
    pub fn is_real_time(class: u32) -> bool {
        matches!(class, 1 | 2 | 6)
    }
}

/// The name as text, whatever bytes it holds.
pub fn comm_text(comm: &Comm) -> String {
    let len = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..len]).into_owned()
}

/// Reads a line of `/proc/PID/stat`. The name may hold blanks and brackets, so fields are counted
/// from the last bracket.
pub fn parse(text: &[u8]) -> Option<Glance> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let name = text.get(open + 1..close)?;
    let mut comm = Comm::default();
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name[..len]);
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    // Numbered as in proc(5); the state is field 3.
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    let user: u64 = fields.nth(4)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let n_threads = fields.nth(4)?.parse().ok()?;
    let born_ticks = fields.nth(1)?.parse().ok()?;
    let class = fields.nth(18)?.parse().ok()?;
    let is_kernel_thread = flags & PF_KTHREAD != 0;
    let cpu_ticks = user.saturating_add(system);
    Some(Glance { comm, state, parent, is_kernel_thread, cpu_ticks, born_ticks, n_threads, class })
}

/// `/proc`, kept open.
#[derive(Debug)]
pub struct ProcFolder {
    folder: OwnedFd,
}

impl ProcFolder {
    /// Opens it below a root.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::open(root.join("proc"), flags, Mode::empty())?);
        let folder = fault::retry("openat", open)?;
        Ok(ProcFolder { folder })
    }

    /// A process now. An error of the kind `NotFound` says that it is gone.
    pub fn glance(&self, pid: u32) -> io::Result<Glance> {
        let mut buffer = [0; 1024];
        let text = self.read(pid, "stat", &mut buffer)?;
        parse(text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// One thread of a process now.
    pub fn glance_thread(&self, pid: u32, tid: u32) -> io::Result<Glance> {
        let mut buffer = [0; 1024];
        let text = self.read(pid, &format!("task/{tid}/stat"), &mut buffer)?;
        parse(text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// Who a process is and what it may use.
    pub fn status(&self, pid: u32) -> io::Result<ProcStatus> {
        let mut buffer = [0; 8192];
        let text = self.read(pid, "status", &mut buffer)?;
        parse_status(&String::from_utf8_lossy(text))
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// The cgroups of a process. First the one that tells who belongs together, in the unified
    /// hierarchy, or in systemd's own where there is no unified one in use:
    /// `/system.slice/cron.service`. Then those of controllers with hierarchies of their own:
    /// `cpuset:/jobs`.
    pub fn cgroups(&self, pid: u32) -> io::Result<Vec<String>> {
        let mut buffer = [0; 4096];
        let text = self.read(pid, "cgroup", &mut buffer)?;
        let groups = parse_cgroups(&String::from_utf8_lossy(text));
        match groups.is_empty() {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(groups),
        }
    }

    fn read<'a>(&self, pid: u32, file: &str, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let path = format!("{pid}/{file}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || Ok(rustix::fs::openat(&self.folder, &path, flags, Mode::empty())?);
        let file = fault::retry("openat", open).map_err(gone)?;
        let read = || Ok(rustix::io::read(&file, &mut *buffer)?);
        let n_bytes = fault::retry("read", read).map_err(gone)?;
        Ok(&buffer[..n_bytes])
    }

    /// Lists all processes from the first on, in the order of the kernel (by number).
    pub fn list(&self, mut each: impl FnMut(u32)) -> io::Result<()> {
        fault::refuse("getdents64")?;
        rustix::fs::seek(&self.folder, SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&self.folder, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            name.and_then(|name| name.parse().ok()).into_iter().for_each(&mut each);
        }
        Ok(())
    }
}

/// Who a process is and what it may use, from `/proc/PID/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStatus {
    /// The process that this thread is part of.
    pub process: u32,
    /// The real user.
    pub uid: u32,
    /// The user whose rights it has.
    pub uid_effective: u32,
    /// What it may do beyond that, a bit each (capabilities that are in effect).
    pub capabilities: u64,
    /// The CPUs that it may use, those that are offline too.
    pub cpus: CpuSet,
    /// The nodes that its memory may come from, as its cpuset says; `None` where there are no cpusets.
    pub nodes: Option<NodeSet>,
}

impl ProcStatus {
    /// Whether who stands like this may bind a process that stands like that: it has the same user, or
    /// the right `CAP_SYS_NICE`. As far as can be told beforehand: namespaces may say otherwise.
    pub fn may_bind(&self, other: &ProcStatus) -> bool {
        const CAP_SYS_NICE: u32 = 23;
        let its = [other.uid, other.uid_effective];
        self.capabilities & 1 << CAP_SYS_NICE != 0 || its.contains(&self.uid_effective)
    }
}

/// Reads `/proc/PID/status`.
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

/// Reads `/proc/PID/cgroup`. Where controllers still are in hierarchies of their own, that of systemd
/// tells who belongs together; without systemd the unified one does. Controllers that share a
/// hierarchy are told one by one.
pub fn parse_cgroups(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        path.starts_with('/').then_some((controllers, path))
    });
    let of = |name: &str| lines.clone().find_map(|(its, path)| (its == name).then_some(path));
    let unified = of("");
    let main = unified.filter(|path| *path != "/").or_else(|| of("name=systemd")).or(unified);
    let of_controllers = lines.clone().flat_map(|(controllers, path)| {
        let names = controllers.split(',').filter(|name| !name.is_empty());
        names.map(move |name| format!("{name}:{path}"))
    });
    main.map(str::to_owned).into_iter().chain(of_controllers).collect()
}

/// The number that was given last to a process or thread, from `/proc/loadavg`: as long as it is the
/// same nobody was born.
pub fn parse_last_number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// CPUs that the administrator keeps for somebody: isolated at boot, free of the tick, or in a cpuset
/// partition of their own. A list that is not there isolates nothing.
///
/// # Errors
/// A list that is there cannot be read: which CPUs are kept is not known.
pub fn isolated(root: &Path) -> io::Result<CpuSet> {
    let files = [
        "sys/devices/system/cpu/isolated",
        "sys/devices/system/cpu/nohz_full",
        "sys/fs/cgroup/cpuset.cpus.isolated",
    ];
    let mut all = CpuSet::new();
    for file in files {
        match fault::retry("read", || std::fs::read_to_string(root.join(file))) {
            // What holds no list is none: `(null)` where no CPU is free of the tick.
            Ok(text) => all = all.or(&text.trim().parse().unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => io::Error::new(io::ErrorKind::NotFound, "the process is gone"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &[u8] = b"5779 (a) b (x) S 5778 5770 5771 0 -1 2097152 4042 49802 0 1 7 4 43 16 20 0 3 \
        0 124425 5124096 970 18446744073709551615 1 2 3 0 0 0 65536 4 1132560123 1 0 0 17 1 50 2 0 0 0";

    #[test]
    fn a_line_tells_cpu_time_birth_and_scheduling_class() {
        let glance = parse(LINE).expect("a line of the kernel");
        assert_eq!(comm_text(&glance.comm), "a) b (x");
        assert_eq!((glance.parent, glance.cpu_ticks, glance.born_ticks), (5778, 11, 124_425));
        assert_eq!((glance.n_threads, glance.class, glance.is_kernel_thread), (3, 2, true));
        assert!(Glance::is_real_time(glance.class) && !glance.has_ended());
    }

    #[test]
    fn this_process_is_found_and_looks_like_itself() {
        let folder = ProcFolder::open("/".as_ref()).expect("proc");
        let own = std::process::id();
        let mut found = false;
        folder.list(|pid| found |= pid == own).expect("a list");
        assert!(found);
        let glance = folder.glance(own).expect("ourselves");
        let stat = crate::procfs::stat("/".as_ref(), own).expect("ourselves");
        assert_eq!((glance.born_ticks, glance.parent), (stat.born_ticks, stat.parent));
        assert_eq!(folder.status(own).expect("ourselves").process, own);
        let gone = folder.glance(u32::MAX >> 1).expect_err("no such number");
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_hierarchy_that_tells_who_belongs_together_is_first_and_controllers_follow() {
        let of = |text: &str| parse_cgroups(text).join(" ");
        assert_eq!(of("0::/a.slice/b\n"), "/a.slice/b");
        assert_eq!(of("9:name=systemd:/s\n0::/\n"), "/s name=systemd:/s");
        assert_eq!(of("3:cpu,cpuacct:/c\n0::/\n"), "/ cpu:/c cpuacct:/c");
        assert_eq!(of("3:cpu:/c:d\n"), "cpu:/c:d");
        assert_eq!(of("3:cpu\n::\n"), "");
    }

    #[test]
    fn binding_others_needs_their_user_or_a_right() {
        let standing = |uids: &str, caps: &str| {
            let text = format!("Tgid:\t7\nUid:\t{uids}\nCapEff:\t{caps}\nCpus_allowed_list:\t0\n");
            parse_status(&text).expect("a standing")
        };
        let nobody = standing("65534 65534 65534 65534", "0");
        let nice = standing("65534 65534 65534 65534", "0000000000800000");
        let root = standing("0 0 0 0", "000001ffffffffff");
        let given_up = standing("65534 0 0 0", "0");
        let may = |one: &ProcStatus, other: &ProcStatus| one.may_bind(other);
        assert!(may(&root, &nobody) && may(&nice, &root) && may(&nobody, &nobody));
        assert!(!may(&nobody, &root) && may(&nobody, &given_up) && may(&given_up, &root));
    }

    #[test]
    fn the_nodes_of_a_cpuset_are_told_where_there_are_cpusets() {
        let nodes = |line: &str| {
            let text =
                format!("Tgid:\t7\nUid:\t0 0 0 0\nCapEff:\t0\nCpus_allowed_list:\t0\n{line}");
            parse_status(&text).expect("a standing").nodes.map(|nodes| nodes.to_string())
        };
        assert_eq!(
            nodes("Mems_allowed:\t3\nMems_allowed_list:\t0-1,4\n").as_deref(),
            Some("0-1,4")
        );
        assert_eq!(nodes(""), None);
    }

    #[test]
    fn isolated_is_what_any_list_names_and_a_list_that_cannot_be_read_is_an_error() {
        let world = tempfile::tempdir().expect("a folder");
        let told = || isolated(world.path()).map(|cpus| cpus.to_string()).ok();
        assert_eq!(told().as_deref(), Some(""));
        let cpu = world.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(&cpu).expect("ours");
        std::fs::write(cpu.join("isolated"), "2-3\n").expect("ours");
        std::fs::write(cpu.join("nohz_full"), "  (null)\n").expect("ours");
        assert_eq!(told().as_deref(), Some("2-3"));
        std::fs::write(cpu.join("nohz_full"), "3-4\n").expect("ours");
        assert_eq!(told().as_deref(), Some("2-4"));
        std::fs::remove_file(cpu.join("isolated")).expect("ours");
        std::fs::create_dir(cpu.join("isolated")).expect("ours");
        assert_eq!(told(), None);
    }

    #[test]
    fn the_last_number_stands_at_the_end_of_loadavg() {
        assert_eq!(parse_last_number(b"0.51 0.47 11.54 3/103 22703\n"), Some(22703));
        assert_eq!(parse_last_number(b"0.51"), None);
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_makes_the_parsers_fail(bytes: Vec<u8>, text: String) {
            let _ = (parse(&bytes), parse_last_number(&bytes));
            let _ = (parse_status(&text), parse_cgroups(&text));
        }
    }
}
