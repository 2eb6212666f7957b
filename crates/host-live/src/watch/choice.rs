//! Whom to look after, as the user said it: several ways of choosing are a union, exclusions win.
//!
//! Names are the first 15 bytes of a program's name, as the kernel keeps them; patterns know `*` (any
//! bytes) and `?` (one). A cgroup means itself and everything below it. Who was started by a chosen
//! process belongs to the choice too.

use std::collections::{BTreeMap, BTreeSet};

/// Who is chosen, and who is not in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Everybody.
    pub all: bool,
    /// Processes by number and birth (clock ticks since boot), and what they start.
    pub pids: BTreeMap<u32, u64>,
    /// Others by the criteria that a process may have itself.
    pub wanted: Marks,
    /// Never these.
    pub excluded: Marks,
}

/// What processes can be told by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Users by number.
    pub users: BTreeSet<u32>,
    /// Patterns of names.
    pub commands: Vec<String>,
    /// Paths in the hierarchy of cgroups, `/system.slice/cron.service`, or in that of a controller,
    /// `cpuset:/jobs`.
    pub cgroups: Vec<String>,
}

/// What is known of a process when it is chosen or not. What nobody asks for need not be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The name of its program.
    pub comm: &'a str,
    /// Its real user.
    pub uid: Option<u32>,
    /// Its cgroups, as marks name them.
    pub cgroups: &'a [String],
    /// It was named by number, or comes from one that was.
    pub is_named: bool,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// It is to be looked after.
    Yes,
    /// It is nobody's choice.
    No,
    /// It would be, and is excluded by name.
    ExcludedName,
    /// It would be, and its user is excluded.
    ExcludedUser,
    /// It would be, and its cgroup is excluded.
    ExcludedCgroup,
}

impl Choice {
    /// Whether nothing is chosen at all.
    pub fn is_empty(&self) -> bool {
        !self.all && self.pids.is_empty() && self.wanted == Marks::default()
    }

    /// Whether users have to be known.
    pub fn asks_users(&self) -> bool {
        !self.wanted.users.is_empty() || !self.excluded.users.is_empty()
    }

    /// Whether cgroups have to be known.
    pub fn asks_cgroups(&self) -> bool {
        !self.wanted.cgroups.is_empty() || !self.excluded.cgroups.is_empty()
    }

    /// Whether only cgroups are chosen, so that their own lists tell of everybody.
    pub fn only_cgroups(&self) -> bool {
        let Marks { users, commands, cgroups } = &self.wanted;
        let others = self.all || !self.pids.is_empty() || !users.is_empty() || !commands.is_empty();
        !others && !cgroups.is_empty()
    }

    /// Whether only processes by number are chosen: when these have ended, and whatever they started,
    /// nobody else can come.
    pub fn only_pids(&self) -> bool {
        !self.all && !self.pids.is_empty() && self.wanted == Marks::default()
    }

    /// Whether a process is chosen.
    pub fn of(&self, candidate: &Candidate<'_>) -> Chosen {
        if !(self.all || candidate.is_named || self.wanted.any(candidate)) {
            return Chosen::No;
        }
        let Marks { users, .. } = &self.excluded;
        if self.excluded.has_name(candidate) {
            Chosen::ExcludedName
        } else if candidate.uid.is_some_and(|uid| users.contains(&uid)) {
            Chosen::ExcludedUser
        } else if self.excluded.has_cgroup(candidate) {
            Chosen::ExcludedCgroup
        } else {
            Chosen::Yes
        }
    }
}

impl Marks {
    fn any(&self, candidate: &Candidate<'_>) -> bool {
        candidate.uid.is_some_and(|uid| self.users.contains(&uid))
            || self.has_name(candidate)
            || self.has_cgroup(candidate)
    }

    fn has_name(&self, candidate: &Candidate<'_>) -> bool {
        self.commands.iter().any(|pattern| matches(pattern, candidate.comm))
    }

    fn has_cgroup(&self, candidate: &Candidate<'_>) -> bool {
        let is_in = |group: &String| candidate.cgroups.iter().any(|path| is_below(path, group));
        self.cgroups.iter().any(is_in)
    }
}

/// Whether a path is that of a cgroup, or lies below it.
fn is_below(path: &str, group: &str) -> bool {
    let group = group.trim_end_matches('/');
    path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a name fits a pattern. What the kernel cut off cannot be asked for: a pattern that is longer
/// than a name before its first star is cut like the name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.as_bytes();
    let n_fixed = pattern.iter().position(|&byte| byte == b'*').unwrap_or(pattern.len());
    let cut = if COMM_BYTES < n_fixed { &pattern[..COMM_BYTES] } else { pattern };
    glob(cut, name.as_bytes())
}

/// The kernel keeps so much of a name.
const COMM_BYTES: usize = 15;

/// One star is remembered, and the name is tried from one byte further on when the rest fails.
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

    /// `all`, `user N`, `name P`, `cgroup P`, with `not` before what is excluded.
    fn choice(text: &str) -> Choice {
        let mut choice = Choice::default();
        for line in text.split(';').map(str::trim) {
            let (line, marks) = match line.strip_prefix("not ") {
                Some(rest) => (rest, &mut choice.excluded),
                None => (line, &mut choice.wanted),
            };
            match line.split_once(' ') {
                Some(("user", uid)) => drop(marks.users.insert(uid.parse().expect("a number"))),
                Some(("name", name)) => marks.commands.push(name.to_owned()),
                Some(("cgroup", path)) => marks.cgroups.push(path.to_owned()),
                _ => choice.all |= line == "all",
            }
        }
        choice
    }

    fn check(text: &str, comm: &str, uid: u32, cgroup: &str, expected: Chosen) {
        let groups: Vec<String> = cgroup.split(' ').map(str::to_owned).collect();
        let candidate =
            Candidate { comm, uid: Some(uid), cgroups: &groups, is_named: comm == "named" };
        assert_eq!(choice(text).of(&candidate), expected, "{text}: {comm} {uid} {cgroup}");
    }

    #[test]
    fn several_ways_of_choosing_are_a_union() {
        let text = "user 7; name sort*; cgroup /a.slice";
        check(text, "x", 7, "/", Chosen::Yes);
        check(text, "sorting", 1, "/", Chosen::Yes);
        check(text, "x", 1, "/a.slice/b", Chosen::Yes);
        check(text, "x", 1, "/a.slice2", Chosen::No);
        check("name nobody", "named", 1, "/", Chosen::Yes);
        check("cgroup cpu:/a", "x", 1, "/ cpu:/a/b", Chosen::Yes);
        check("cgroup cpu:/a", "x", 1, "/a cpu:/b", Chosen::No);
    }

    #[test]
    fn exclusions_win_over_every_choice() {
        let text = "all; not name ssh?; not user 0; not cgroup /x";
        check(text, "sshd", 1, "/", Chosen::ExcludedName);
        check(text, "named", 0, "/", Chosen::ExcludedUser);
        check(text, "a", 1, "/x/y", Chosen::ExcludedCgroup);
        check(text, "a", 1, "/", Chosen::Yes);
    }

    #[test]
    fn patterns_are_whole_names_and_cut_as_the_kernel_cuts() {
        let fits = |pattern, name| matches(pattern, name);
        assert!(fits("a*c", "abbc") && fits("*", "") && fits("a?", "ab") && fits("**", "x"));
        assert!(!fits("a", "ab") && !fits("?", "") && !fits("a*c", "abcd"));
        assert!(fits("a-very-long-name-indeed", "a-very-long-nam"));
    }

    #[test]
    fn nothing_chosen_is_empty_whatever_is_excluded() {
        assert!(choice("not user 3").is_empty() && !choice("all").is_empty());
        assert!(choice("cgroup /x; not user 3").only_cgroups());
        assert!(!choice("cgroup /x; user 3").only_cgroups());
    }
}
