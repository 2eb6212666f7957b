//! Decides whether a restore needs another pass over the processes.
//!
//! ```text
//!   recorded threads restored ─► pass ─► pass ─► … ─► a pass without a changed thread ─► complete
//!                                 └ children that were forked before their parent was restored
//! ```
//!
//! A child that is forked after the restoration of its parent has the original mask, so it needs nothing. Only children
//! of threads with a changed mask inherit that mask. Every pass restores all changed threads that it finds, so a new
//! changed thread can only be a child that was forked between two passes or whose fork was in progress
//! ([`crate::fork_latency`]). A program that only forks therefore delays a restore by a few passes.

use std::time::Duration;

use super::control::RestoreLimits;

/// Maximum number of passes that wait for processes in execve(2), whose environment cannot be read.
const EXEC_PASSES_MAX: u32 = 50;
/// Time between two passes if the last one found no changed thread.
const WAIT_STEP: Duration = Duration::from_millis(10);

/// The result of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pass {
    /// Threads that were restored.
    pub(super) n_restored: u64,
    /// Longest time for which a fork of a restored process can be invisible.
    pub(super) fork_latency: Duration,
    /// Whether a process may belong to a job and is in execve(2).
    pub(super) has_undecided: bool,
    /// Processes that were not inspected, because the pass was interrupted.
    pub(super) n_not_inspected: usize,
    /// Processes whose environment was not read, so that it is unknown whether they belong to a job.
    pub(super) n_unread: usize,
}

/// Cause of the early end of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedCause {
    /// A signal requested the end.
    Stopped,
    /// The limit of time or passes was reached.
    Limit,
    /// The time limit was reached before all large environments were read.
    LargeEnvironments,
}

/// A restore that ended before a pass without a changed thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedRestore {
    /// The cause.
    pub cause: UnfinishedCause,
    /// Processes of the jobs that the last pass did not inspect. If there are none: processes whose environment was not
    /// read.
    pub n_not_inspected: usize,
    /// Threads that the last pass restored. They may have forked changed children since.
    pub n_restored_last: u64,
}

/// What follows a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Pass,
    PassAfter(Duration),
    End(Option<UnfinishedRestore>),
}

/// State of the passes over one record.
#[derive(Debug)]
pub(super) struct PassRule {
    n_passes_max: u32,
    deadline: Duration,
    n_passes: u32,
    n_exec_passes: u32,
    /// Time at which every fork in progress has become visible.
    forks_until: Duration,
}

impl PassRule {
    pub(super) fn new(limits: RestoreLimits, deadline: Duration) -> Self {
        PassRule {
            n_passes_max: limits.n_passes_max,
            deadline,
            n_passes: 0,
            n_exec_passes: 0,
            forks_until: Duration::ZERO,
        }
    }

    /// Adds the time for which forks of processes that were just restored can be invisible.
    pub(super) fn wait_for_forks(&mut self, now: Duration, latency: Duration) {
        self.forks_until = self.forks_until.max(now + latency);
    }

    /// Returns whether a running pass has to end. The first pass is complete unless a stop is requested.
    pub(super) fn interrupts(&self, now: Duration, is_stop_requested: bool) -> bool {
        is_stop_requested || self.n_passes != 0 && self.deadline <= now
    }

    /// Returns what follows a pass.
    pub(super) fn after(&mut self, pass: Pass, now: Duration, is_stop_requested: bool) -> NextStep {
        self.n_passes += 1;
        if pass.n_restored != 0 {
            self.wait_for_forks(now, pass.fork_latency);
        }
        let n_not_inspected =
            if pass.n_not_inspected == 0 { pass.n_unread } else { pass.n_not_inspected };
        let found_none = pass.n_restored == 0 && n_not_inspected == 0;
        let waits_for_exec = pass.has_undecided && self.n_exec_passes < EXEC_PASSES_MAX;
        if found_none && !waits_for_exec && self.forks_until <= now {
            return NextStep::End(None);
        }
        let is_limit_reached = self.deadline <= now || self.n_passes_max <= self.n_passes;
        let cause = match (is_stop_requested, is_limit_reached) {
            (true, _) => Some(UnfinishedCause::Stopped),
            (false, true) if pass.n_unread != 0 => Some(UnfinishedCause::LargeEnvironments),
            (false, true) => Some(UnfinishedCause::Limit),
            (false, false) => None,
        };
        if let Some(cause) = cause {
            return NextStep::End(Some(UnfinishedRestore {
                cause,
                n_not_inspected,
                n_restored_last: pass.n_restored,
            }));
        }
        self.n_exec_passes += u32::from(found_none && pass.has_undecided);
        if found_none { NextStep::PassAfter(WAIT_STEP) } else { NextStep::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Applies the rule to passes. A line of `passes`: the time in milliseconds, then the words `restored=N`,
    /// `undecided`, `left=N`, `unread=N`, `stop`. The deadline is at 10 s, the fork latency 50 ms.
    fn check(passes: &str, expected: &Expect) {
        let limits = RestoreLimits { n_passes_max: 6, ..RestoreLimits::default() };
        let mut rule = PassRule::new(limits, Duration::from_secs(10));
        let mut output = String::new();
        for line in passes.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let now = words.next().and_then(|word| word.parse().ok()).expect("a time");
            let words: Vec<&str> = words.collect();
            let number = |name: &str| {
                let value = words.iter().find_map(|word| word.strip_prefix(name));
                value.map_or(0, |value| value.parse().expect("a number"))
            };
            let pass = Pass {
                n_restored: number("restored="),
                fork_latency: Duration::from_millis(50),
                has_undecided: words.contains(&"undecided"),
                n_not_inspected: usize::try_from(number("left=")).expect("small"),
                n_unread: usize::try_from(number("unread=")).expect("small"),
            };
            let next = rule.after(pass, Duration::from_millis(now), words.contains(&"stop"));
            output += &match next {
                NextStep::Pass => format!("{line}: pass\n"),
                NextStep::PassAfter(time) => format!("{line}: pass after {time:?}\n"),
                NextStep::End(None) => format!("{line}: complete\n"),
                NextStep::End(Some(end)) => format!("{line}: {end:?}\n"),
            };
        }
        expected.assert_eq(&output);
    }

    #[test]
    fn a_restore_ends_after_a_pass_without_a_changed_thread_when_every_fork_is_visible() {
        check(
            "0 restored=3
             5 restored=1
             20
             54
             55",
            &expect![[r#"
                0 restored=3: pass
                5 restored=1: pass
                20: pass after 10ms
                54: pass after 10ms
                55: complete
            "#]],
        );
        check("0", &expect!["0: complete\n"]);
    }

    #[test]
    fn a_restore_ends_at_its_limits_although_every_pass_finds_changed_threads() {
        check(
            "0 restored=9
             9999 restored=9
             10000 restored=2 left=7",
            &expect![[r#"
                0 restored=9: pass
                9999 restored=9: pass
                10000 restored=2 left=7: UnfinishedRestore { cause: Limit, n_not_inspected: 7, n_restored_last: 2 }
            "#]],
        );
        check(
            &"1 restored=1\n".repeat(6),
            &expect![[r#"
                1 restored=1: pass
                1 restored=1: pass
                1 restored=1: pass
                1 restored=1: pass
                1 restored=1: pass
                1 restored=1: UnfinishedRestore { cause: Limit, n_not_inspected: 0, n_restored_last: 1 }
            "#]],
        );
    }

    #[test]
    fn a_stop_request_ends_a_restore_and_states_what_was_not_inspected() {
        check(
            "0 restored=4 left=8 stop",
            &expect![[r#"
                0 restored=4 left=8 stop: UnfinishedRestore { cause: Stopped, n_not_inspected: 8, n_restored_last: 4 }
            "#]],
        );
        check("0 stop", &expect!["0 stop: complete\n"]);
    }

    #[test]
    fn a_restore_is_not_complete_before_every_environment_is_read() {
        check(
            "0 unread=2
             9999 unread=2
             10000 unread=2",
            &expect![[r#"
                0 unread=2: pass
                9999 unread=2: pass
                10000 unread=2: UnfinishedRestore { cause: LargeEnvironments, n_not_inspected: 2, n_restored_last: 0 }
            "#]],
        );
        check(
            "0 unread=2 stop",
            &expect![[r#"
                0 unread=2 stop: UnfinishedRestore { cause: Stopped, n_not_inspected: 2, n_restored_last: 0 }
            "#]],
        );
    }

    #[test]
    fn a_process_in_execve_delays_the_end_by_a_bounded_number_of_passes() {
        let mut rule = PassRule::new(RestoreLimits::default(), Duration::from_secs(10));
        let pass = Pass { has_undecided: true, ..Pass::default() };
        let n_waits = (0..1000).take_while(|_| {
            rule.after(pass, Duration::ZERO, false) == NextStep::PassAfter(WAIT_STEP)
        });
        assert_eq!(n_waits.count(), EXEC_PASSES_MAX as usize);
    }

    #[test]
    fn only_a_stop_request_interrupts_the_first_pass() {
        let mut rule = PassRule::new(RestoreLimits::default(), Duration::from_secs(10));
        let late = Duration::from_secs(11);
        assert!(!rule.interrupts(late, false) && rule.interrupts(Duration::ZERO, true));
        rule.after(Pass { n_restored: 1, ..Pass::default() }, Duration::ZERO, false);
        assert!(rule.interrupts(late, false) && !rule.interrupts(Duration::ZERO, false));
    }
}
