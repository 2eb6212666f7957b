//! Selection of the processes of a watch. A process is selected if one criterion matches and no exclusion matches.
//!
//! Names are the first 15 bytes of a program's name, as in `/proc/PID/comm`. Command lines are the arguments, separated
//! by spaces. A pattern matches the whole name or the whole command line; `*` matches any bytes and `?` one byte. A
//! cgroup includes its descendants. Children of a selected PID are also selected.
//!
//! Names, command lines and `all` select only processes of one user, unless the selection includes all users. PIDs, users
//! and cgroups name their processes of any user.

use std::collections::{BTreeMap, BTreeSet};

/// Criteria and exclusions of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Whether all processes are selected.
    pub all: bool,
    /// The user whose processes are selected by name, by command line and by `all`; `None`: all users.
    pub owner: Option<u32>,
    /// Whether the watch ends when the processes of `pids` have exited, also if their children run.
    pub ends_with_pids: bool,
    /// Processes by PID and start time (clock ticks since boot), with their children.
    pub pids: BTreeMap<u32, u64>,
    /// Processes by user, name, command line and cgroup.
    pub included: Criteria,
    /// Exclusions by user, name, command line and cgroup.
    pub excluded: Criteria,
}

/// Users, names, command lines and cgroups of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Users by UID.
    pub users: BTreeSet<u32>,
    /// Patterns of names (`/proc/PID/comm`).
    pub comms: Vec<String>,
    /// Patterns of command lines.
    pub commands: Vec<String>,
    /// Cgroup paths: `/system.slice/cron.service` in v2, `cpuset:/jobs` in a v1 hierarchy.
    pub cgroups: Vec<String>,
}

/// The properties of a process that a selection depends on. Unused properties may be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Name of the process.
    pub comm: &'a str,
    /// Command line of the process.
    pub command_line: &'a str,
    /// Real UID of the process.
    pub uid: Option<u32>,
    /// Cgroups of the process, in the form of [`Criteria::cgroups`].
    pub cgroups: &'a [String],
    /// Whether the process is selected by PID, or is a descendant of such a process.
    pub is_selected_by_pid: bool,
}

/// Whether a process is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// A criterion matches, and no exclusion matches.
    Yes,
    /// No criterion matches.
    No,
    /// Only a name, a command line or `all` matches, and the process belongs to another user than the selected one.
    OtherUser,
    /// A criterion matches, and the name or the command line of the process is excluded.
    ExcludedName,
    /// A criterion matches, and the user of the process is excluded.
    ExcludedUser,
    /// A criterion matches, and the cgroup of the process is excluded.
    ExcludedCgroup,
}

impl Selection {
    /// Returns whether the selection has no criterion.
    pub fn is_empty(&self) -> bool {
        !self.all && self.pids.is_empty() && self.included == Criteria::default()
    }

    /// Returns whether a criterion depends on the user of a process.
    pub fn needs_users(&self) -> bool {
        let has_owner = self.owner.is_some() && self.depends_on_owner();
        has_owner || !self.included.users.is_empty() || !self.excluded.users.is_empty()
    }

    /// Returns whether a criterion depends on the command line of a process.
    pub fn needs_command_lines(&self) -> bool {
        !self.included.commands.is_empty() || !self.excluded.commands.is_empty()
    }

    /// Returns whether a criterion selects only processes of the owner.
    fn depends_on_owner(&self) -> bool {
        self.all || self.has_patterns()
    }

    /// Returns whether names or command lines are selected.
    pub(super) fn has_patterns(&self) -> bool {
        !self.included.comms.is_empty() || !self.included.commands.is_empty()
    }

    /// Returns whether a criterion depends on the cgroup of a process.
    pub fn needs_cgroups(&self) -> bool {
        !self.included.cgroups.is_empty() || !self.excluded.cgroups.is_empty()
    }

    /// Returns whether only cgroups are selected, so that `cgroup.procs` lists all selected processes.
    pub fn only_cgroups(&self) -> bool {
        let Criteria { users, cgroups, .. } = &self.included;
        let has_other_criteria =
            self.depends_on_owner() || !self.pids.is_empty() || !users.is_empty();
        !has_other_criteria && !cgroups.is_empty()
    }

    /// Returns whether only PIDs are selected. After the exit of these processes and their children, no process can be
    /// selected.
    pub fn only_pids(&self) -> bool {
        !self.all && !self.pids.is_empty() && self.included == Criteria::default()
    }

    /// Returns whether a process is selected.
    pub fn check(&self, candidate: &Candidate<'_>) -> Selected {
        let is_named = candidate.is_selected_by_pid
            || self.included.has_user(candidate)
            || self.included.has_cgroup(candidate);
        if !(is_named || self.all || self.included.has_name(candidate)) {
            return Selected::No;
        }
        if !is_named && self.owner.is_some_and(|owner| candidate.uid != Some(owner)) {
            return Selected::OtherUser;
        }
        if self.excluded.has_name(candidate) {
            Selected::ExcludedName
        } else if self.excluded.has_user(candidate) {
            Selected::ExcludedUser
        } else if self.excluded.has_cgroup(candidate) {
            Selected::ExcludedCgroup
        } else {
            Selected::Yes
        }
    }
}

impl Criteria {
    fn has_user(&self, candidate: &Candidate<'_>) -> bool {
        candidate.uid.is_some_and(|uid| self.users.contains(&uid))
    }

    /// Returns whether the name or the command line matches a pattern.
    fn has_name(&self, candidate: &Candidate<'_>) -> bool {
        let line = candidate.command_line.as_bytes();
        self.comms.iter().any(|pattern| name_matches(pattern, candidate.comm))
            || self.commands.iter().any(|pattern| glob(pattern.as_bytes(), line))
    }

    fn has_cgroup(&self, candidate: &Candidate<'_>) -> bool {
        let contains = |cgroup: &String| candidate.cgroups.iter().any(|path| is_in(path, cgroup));
        self.cgroups.iter().any(contains)
    }
}

/// Returns whether a path is a cgroup or one of its descendants.
fn is_in(path: &str, cgroup: &str) -> bool {
    let group = cgroup.trim_end_matches('/');
    path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether a name matches a pattern. If more than 15 bytes precede the first `*`, the pattern is truncated to
/// 15 bytes, as the kernel truncates names.
pub fn name_matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.as_bytes();
    let n_fixed = pattern.iter().position(|&byte| byte == b'*').unwrap_or(pattern.len());
    let truncated = if COMM_BYTES < n_fixed { &pattern[..COMM_BYTES] } else { pattern };
    glob(truncated, name.as_bytes())
}

/// Length of a name in the kernel.
const COMM_BYTES: usize = 15;

/// Matches a pattern. Backtracks only to the last `*`.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(b'?') => (p, n) = (p + 1, n + 1),
            Some(&byte) if byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses criteria separated by `;`: `all`, `owner N`, `user N`, `name P`, `line P`, `cgroup P`, each with `not` for an
    /// exclusion.
    fn selection(text: &str) -> Selection {
        let mut selection = Selection::default();
        for line in text.split(';').map(str::trim) {
            let (line, criteria) = match line.strip_prefix("not ") {
                Some(rest) => (rest, &mut selection.excluded),
                None => (line, &mut selection.included),
            };
            match line.split_once(' ') {
                Some(("user", uid)) => drop(criteria.users.insert(uid.parse().expect("a number"))),
                Some(("name", name)) => criteria.comms.push(name.to_owned()),
                Some(("line", line)) => criteria.commands.push(line.to_owned()),
                Some(("owner", uid)) => selection.owner = uid.parse().ok(),
                Some(("cgroup", path)) => criteria.cgroups.push(path.to_owned()),
                _ => selection.all |= line == "all",
            }
        }
        selection
    }

    fn check(text: &str, comm: &str, uid: u32, cgroup: &str, expected: Selected) {
        let groups: Vec<String> = cgroup.split(' ').map(str::to_owned).collect();
        let candidate = Candidate {
            comm: comm.split(' ').next().unwrap_or_default(),
            command_line: comm,
            uid: Some(uid),
            cgroups: &groups,
            is_selected_by_pid: comm == "named",
        };
        assert_eq!(selection(text).check(&candidate), expected, "{text}: {comm} {uid} {cgroup}");
    }

    #[test]
    fn several_criteria_are_a_union() {
        let text = "user 7; name sort*; cgroup /a.slice";
        check(text, "x", 7, "/", Selected::Yes);
        check(text, "sorting", 1, "/", Selected::Yes);
        check(text, "x", 1, "/a.slice/b", Selected::Yes);
        check(text, "x", 1, "/a.slice2", Selected::No);
        check("name absent", "named", 1, "/", Selected::Yes);
        check("cgroup cpu:/a", "x", 1, "/ cpu:/a/b", Selected::Yes);
        check("cgroup cpu:/a", "x", 1, "/a cpu:/b", Selected::No);
    }

    #[test]
    fn exclusions_have_priority() {
        let text = "all; not name ssh?; not user 0; not cgroup /x";
        check(text, "sshd", 1, "/", Selected::ExcludedName);
        check(text, "named", 0, "/", Selected::ExcludedUser);
        check(text, "a", 1, "/x/y", Selected::ExcludedCgroup);
        check(text, "a", 1, "/", Selected::Yes);
    }

    #[test]
    fn a_pattern_of_command_lines_matches_the_whole_line() {
        let line = "java -jar my server.jar --port 80";
        check("line *server.jar*", line, 1, "/", Selected::Yes);
        check("line java -jar *", line, 1, "/", Selected::Yes);
        check("line server.jar", line, 1, "/", Selected::No);
        check("name java", line, 1, "/", Selected::Yes);
        check("name *server*", line, 1, "/", Selected::No);
        check("all; not line *server*", line, 1, "/", Selected::ExcludedName);
    }

    #[test]
    fn names_and_all_select_only_processes_of_the_owner() {
        for text in ["owner 7; name a", "owner 7; line a*", "owner 7; all"] {
            check(text, "a", 7, "/", Selected::Yes);
            check(text, "a", 8, "/", Selected::OtherUser);
        }
        // A user, a cgroup and a PID name the process.
        for text in ["owner 7; all; user 8", "owner 7; name a; cgroup /x", "owner 7"] {
            check(text, "named", 8, "/x", Selected::Yes);
        }
        check("owner 7; cgroup /x", "a", 8, "/x/y", Selected::Yes);
        check("owner 7; user 8", "a", 8, "/", Selected::Yes);
        assert!(selection("owner 7; all").needs_users());
        assert!(!selection("owner 7; cgroup /x").needs_users());
        assert!(selection("owner 7; cgroup /x").only_cgroups());
        assert!(!selection("cgroup /x; line a").only_cgroups());
    }

    #[test]
    fn patterns_match_whole_names_and_are_truncated_like_names() {
        let fits = |pattern, name| name_matches(pattern, name);
        assert!(fits("a*c", "abbc") && fits("*", "") && fits("a?", "ab") && fits("**", "x"));
        assert!(!fits("a", "ab") && !fits("?", "") && !fits("a*c", "abcd"));
        assert!(fits("a-very-long-name-indeed", "a-very-long-nam"));
    }

    #[test]
    fn exclusions_alone_select_nothing() {
        assert!(selection("not user 3").is_empty() && !selection("all").is_empty());
        assert!(selection("cgroup /x; not user 3").only_cgroups());
        assert!(!selection("cgroup /x; user 3").only_cgroups());
    }
}
