//! Affinity of jobs changed by other programs during a run.

use sched::{Action, JobEvent, RejectCause, UnmanagedCause};
use tests::live_run::LiveRun;
use tests::process::{mask, two_cpus};

use super::reject_cause;

/// A job that is always runnable, so that it is sampled in every turn.
const BUSY: &str = "[[job]]\nname = \"a\"\nshell = \"while :; do :; done\"\n";

#[test]
fn a_job_with_externally_changed_affinity_keeps_it_and_is_no_longer_managed() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut run = LiveRun::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    run.request("a", Action::Place(first.clone()));
    let pid = run.wait_until_started("a");
    // The mask differs from the current mask: the engine skips a placement that changes nothing.
    let both = first.or(&last);
    run.request("a", Action::Place(both));
    // The change occurs between the decision and the action.
    run.step_with(|| linux::affinity::set(pid, &last).expect("permitted"));
    assert_eq!(reject_cause(&run.placements("a")[1]), Some(RejectCause::Unmanaged));
    assert_eq!(mask(pid), Some(last.clone()));
    let job = run.job("a");
    let expected = JobEvent::Unmanaged(job, UnmanagedCause::AffinityChanged(last.clone()));
    run.until("the event", |run| run.events().any(|event| *event == expected));
    run.stop();
}

#[test]
fn an_external_change_of_affinity_is_noticed_without_an_action() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut run = LiveRun::new(BUSY);
    run.request("a", Action::Place(first));
    let pid = run.wait_until_started("a");
    linux::affinity::set(pid, &last).expect("permitted");
    let expected = JobEvent::Unmanaged(run.job("a"), UnmanagedCause::AffinityChanged(last.clone()));
    run.until("the event", |run| run.events().any(|event| *event == expected));
    assert_eq!(mask(pid), Some(last));
    run.stop();
}

#[test]
fn a_job_set_externally_to_its_original_or_previous_mask_keeps_it() {
    let Some((all, first, last)) = two_cpus() else { return };
    for to in [&all, &first] {
        let mut run = LiveRun::new(BUSY);
        run.request("a", Action::Place(first.clone()));
        let pid = run.wait_until_started("a");
        run.until("it ran", |run| run.turns.iter().any(|turn| !turn.sample.tasks.is_empty()));
        run.request("a", Action::Place(last.clone()));
        run.until("the move", |run| run.placements("a").len() == 2);
        run.until("a sample on that CPU", |run| run.ran_on("a", last.first()));
        // `to` is the original mask, or the mask before the last placement.
        linux::affinity::set(pid, to).expect("permitted");
        let expected =
            JobEvent::Unmanaged(run.job("a"), UnmanagedCause::AffinityChanged(to.clone()));
        run.until("the event", |run| run.events().any(|event| *event == expected));
        assert_eq!(mask(pid).as_ref(), Some(to));
        run.stop();
    }
}
