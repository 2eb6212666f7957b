//! Resolves the command-line options that select processes: users by name, units and cgroups by their directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use host_live::{Criteria, Selection};
use linux::proc_dir::ProcDir;
use linux::procfs;

use super::Args;
use crate::input;

/// The options that select processes. A reload of the configuration applies them without a restart of the watch.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SelectionArgs {
    /// Select this process and its descendants; may be repeated; several selections select their union
    #[arg(long, value_name = "PID", value_parser = input::pid, allow_hyphen_values = true)]
    pub pid: Vec<u32>,
    /// Select processes of this user, by name or UID
    #[arg(long, value_name = "USER")]
    pub user: Vec<String>,
    /// Select processes of all users by --command, --comm and --all (default: only processes of this user)
    #[arg(long)]
    pub all_users: bool,
    /// Select processes whose whole command line matches a pattern with * and ?: '*/java *server.jar*'
    #[arg(long, value_name = "PATTERN")]
    pub command: Vec<String>,
    /// Select processes whose name (comm, the first 15 bytes of the program's name) matches a pattern with * and ?
    #[arg(long, value_name = "PATTERN")]
    pub comm: Vec<String>,
    /// Select processes in this cgroup and its descendants: /user.slice, or its directory
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<PathBuf>,
    /// Select processes of this systemd unit: cron.service
    #[arg(long, value_name = "NAME")]
    pub unit: Vec<String>,
    /// Select all processes of this user, or with --all-users of all users
    #[arg(long)]
    pub all: bool,
    /// Exclude processes whose name (comm) matches a pattern; takes precedence over every selection
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Exclude processes whose whole command line matches a pattern
    #[arg(long, value_name = "PATTERN")]
    pub exclude_command: Vec<String>,
    /// Exclude processes of this user
    #[arg(long, value_name = "USER")]
    pub exclude_user: Vec<String>,
    /// Exclude processes in this cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub exclude_cgroup: Vec<PathBuf>,
}

pub(super) struct SelectedProcesses {
    pub selection: Selection,
    /// Directories of the selected cgroups.
    pub dirs: Vec<PathBuf>,
    /// Description of the selection.
    pub text: String,
}

/// Mount point of the cgroup file systems.
const TOP: &str = "/sys/fs/cgroup";
/// Maximum depth of a unit below its slice.
const DEPTH_MAX: u32 = 8;

/// Resolves all selection options. A selected user, process, unit or cgroup that does not exist is an error.
pub(super) fn select(args: &Args) -> anyhow::Result<SelectedProcesses> {
    let Args { selection: args, program, .. } = args;
    let mut selection = Selection {
        all: args.all,
        owner: (!args.all_users).then(|| rustix::process::getuid().as_raw()),
        ends_with_pids: !program.is_empty(),
        ..Selection::default()
    };
    for &pid in &args.pid {
        selection.pids.insert(pid, start_time(pid)?);
    }
    selection.included = criteria(&args.user, &args.comm, &args.command)?;
    selection.excluded = criteria(&args.exclude_user, &args.exclude, &args.exclude_command)?;
    if let Some(reason) = never_matches(args, &selection) {
        bail!("no process can be managed: {reason}; select other processes too");
    }
    let mut dirs = Vec::new();
    for path in &args.cgroup {
        dirs.push(add_cgroup(path, &mut selection.included)?);
    }
    for unit in &args.unit {
        let dir = unit_dir(unit)?;
        dirs.push(add_cgroup(&dir, &mut selection.included)?);
    }
    for path in &args.exclude_cgroup {
        add_cgroup(path, &mut selection.excluded)?;
    }
    Ok(SelectedProcesses { selection, dirs, text: selection_text(args) })
}

/// Reads the start time of a process. Rejects thread ids, because /proc has a directory for each thread id too.
fn start_time(pid: u32) -> anyhow::Result<u64> {
    let absent = || format!("there is no process {pid}");
    let proc = ProcDir::open("/".as_ref()).context("cannot read /proc")?;
    let start_time_ticks = proc.stat(pid).ok().with_context(absent)?.start_time_ticks;
    let process = proc.status(pid).ok().with_context(absent)?.process;
    if process != pid {
        bail!("{pid} is a thread of process {process}; use --pid {process}");
    }
    Ok(start_time_ticks)
}

/// Returns the reason why a selection is rejected that contains only unmanaged processes without children.
fn never_matches(args: &SelectionArgs, selection: &Selection) -> Option<String> {
    let has_criteria = args.all || selection.included != Criteria::default();
    let has_criteria = has_criteria || !args.cgroup.is_empty() || !args.unit.is_empty();
    if has_criteria || selection.pids.is_empty() {
        return None;
    }
    let reasons: Option<Vec<String>> =
        selection.pids.keys().map(|&pid| never_managed(pid)).collect();
    reasons.map(|reasons| reasons.join(", "))
}

fn never_managed(pid: u32) -> Option<String> {
    let root = Path::new("/");
    if procfs::stat(root, pid).is_ok_and(|stat| stat.is_kernel_thread) {
        return Some(format!("process {pid} is a kernel thread"));
    }
    let is_childless = || procfs::children(root, pid, pid).is_ok_and(|all| all.is_empty());
    (pid == 1 && is_childless())
        .then(|| "process 1 is never managed and has no children".to_owned())
}

fn criteria(users: &[String], comms: &[String], commands: &[String]) -> anyhow::Result<Criteria> {
    let users = users.iter().map(|user| uid(user)).collect::<anyhow::Result<_>>()?;
    if comms.iter().chain(commands).any(String::is_empty) {
        bail!("a pattern must not be empty");
    }
    let (comms, commands) = (comms.to_vec(), commands.to_vec());
    Ok(Criteria { users, comms, commands, cgroups: Vec::new() })
}

fn uid(user: &str) -> anyhow::Result<u32> {
    if let Ok(number) = user.parse::<u32>() {
        let is_none = number == u32::MAX; // UID -1 is not valid: (uid_t)-1 means no user.
        return if is_none { bail!("there is no user {user:?}") } else { Ok(number) };
    }
    let found = nix::unistd::User::from_name(user)
        .with_context(|| format!("cannot look up user {user:?}"))?;
    let found = found.with_context(|| format!("there is no user {user:?}"))?;
    Ok(found.uid.as_raw())
}

/// A cgroup hierarchy: its mount point, and the prefix of its cgroup names
/// ([`linux::proc_dir::parse_cgroups`]).
struct Hierarchy {
    mount: PathBuf,
    prefix: String,
}

/// Hierarchies that group processes: the unified one, and with cgroup v1 the named hierarchy of systemd.
fn hierarchies() -> Vec<Hierarchy> {
    let is_unified = Path::new(TOP).join("cgroup.controllers").is_file();
    let mounts =
        if is_unified { vec![TOP.into()] } else { vec![below("unified"), below("systemd")] };
    mounts.into_iter().map(|mount| Hierarchy { mount, prefix: String::new() }).collect()
}

/// Finds the v1 hierarchy of a directory such as `/sys/fs/cgroup/cpu,cpuacct`.
fn of_controller(dir: &Path) -> Option<Hierarchy> {
    let name = dir.strip_prefix(TOP).ok()?.iter().next()?.to_str()?;
    let prefix = format!("{}:", name.split(',').next()?);
    Some(Hierarchy { mount: below(name), prefix })
}

fn below(name: &str) -> PathBuf {
    Path::new(TOP).join(name)
}

/// Adds a cgroup, given as the path in the hierarchy or as the directory. Returns the directory.
fn add_cgroup(path: &Path, criteria: &mut Criteria) -> anyhow::Result<PathBuf> {
    let mounted = hierarchies();
    let by_dir = mounted
        .iter()
        .rev()
        .find_map(|hierarchy| Some((hierarchy, path.strip_prefix(&hierarchy.mount).ok()?)));
    let controller = of_controller(path);
    let by_controller = || {
        controller
            .as_ref()
            .and_then(|hierarchy| Some((hierarchy, path.strip_prefix(&hierarchy.mount).ok()?)))
    };
    let candidates: Vec<(&Hierarchy, &Path)> = match by_dir.or_else(by_controller) {
        Some(candidate) => vec![candidate],
        None => {
            let inside = path.strip_prefix("/").unwrap_or(path);
            mounted.iter().rev().map(|hierarchy| (hierarchy, inside)).collect()
        }
    };
    for (Hierarchy { mount, prefix }, inside) in candidates {
        let dir = mount.join(inside);
        if dir.join("cgroup.procs").is_file() {
            criteria.cgroups.push(format!("{prefix}/{}", inside.display()));
            return Ok(dir);
        }
    }
    bail!(
        "there is no cgroup {}; write it as in /proc/PID/cgroup, or as a directory",
        path.display()
    )
}

/// Finds the cgroup directory of a systemd unit, in any slice.
fn unit_dir(unit: &str) -> anyhow::Result<PathBuf> {
    if unit.contains('/') || unit.is_empty() {
        bail!("{unit:?} is not a unit name; write it as systemctl does, such as cron.service");
    }
    let name = match unit.contains('.') {
        true => unit.to_owned(),
        false => format!("{unit}.service"),
    };
    let found = hierarchies().iter().find_map(|hierarchy| find(&hierarchy.mount, &name, 0));
    found.with_context(|| format!("no unit {unit:?} has processes; see systemctl status"))
}

fn find(dir: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    let mut below: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    below.sort();
    let matches = |path: &&PathBuf| {
        path.file_name().is_some_and(|file| file == name) && path.join("cgroup.procs").is_file()
    };
    if let Some(found) = below.iter().find(matches) {
        return Some(found.clone());
    }
    if DEPTH_MAX <= depth {
        return None;
    }
    below.iter().find_map(|path| find(path, name, depth + 1))
}

fn selection_text(args: &SelectionArgs) -> String {
    let mut words = Vec::new();
    if args.all {
        words.push("all".to_owned());
    }
    if args.all_users {
        words.push("of all users".to_owned());
    }
    words.extend(args.pid.iter().map(|pid| format!("process {pid}")));
    words.extend(args.user.iter().map(|user| format!("user {user}")));
    words.extend(args.command.iter().map(|pattern| format!("command line {pattern}")));
    words.extend(args.comm.iter().map(|pattern| format!("name {pattern}")));
    words.extend(args.cgroup.iter().map(|path| format!("cgroup {}", path.display())));
    words.extend(args.unit.iter().map(|unit| format!("unit {unit}")));
    words.extend(args.exclude.iter().map(|pattern| format!("not name {pattern}")));
    words.extend(args.exclude_command.iter().map(|pattern| format!("not command line {pattern}")));
    words.extend(args.exclude_user.iter().map(|user| format!("not user {user}")));
    words.extend(args.exclude_cgroup.iter().map(|path| format!("not cgroup {}", path.display())));
    words.join(", ")
}
