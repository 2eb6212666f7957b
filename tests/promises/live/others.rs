//! Affinity of jobs changed by other programs during a run.

use sched::{Action, JobEvent, RejectCause, UnmanagedCause};

use super::play::{Play, mask, two_cpus};
use super::why;

/// A job that is always runnable, so that it is sampled in every turn.
const BUSY: &str = "[[job]]\nname = \"a\"\nshell = \"while :; do :; done\"\n";

#[test]
fn a_job_with_externally_changed_affinity_keeps_it_and_is_no_longer_managed() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    play.wish("a", Action::Place(first.clone()));
    let pid = play.begin("a");
    // A different mask: the engine skips a placement that changes nothing.
    let both = first.or(&last);
    play.wish("a", Action::Place(both));
    // After the decision, before the action.
    play.step_with(|| linux::affinity::set(pid, &last).expect("permitted"));
    assert_eq!(why(&play.places("a")[1]), Some(RejectCause::Unmanaged));
    assert_eq!(mask(pid), Some(last.clone()));
    let job = play.job("a");
    let expected = JobEvent::Unmanaged(job, UnmanagedCause::AffinityChanged(last.clone()));
    play.until("the event", |play| play.events().any(|event| *event == expected));
    play.host_stop();
    play.finish();
}

#[test]
fn an_external_change_of_affinity_is_noticed_without_an_action() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut play = Play::new(BUSY);
    play.wish("a", Action::Place(first));
    let pid = play.begin("a");
    linux::affinity::set(pid, &last).expect("permitted");
    let expected =
        JobEvent::Unmanaged(play.job("a"), UnmanagedCause::AffinityChanged(last.clone()));
    play.until("the event", |play| play.events().any(|event| *event == expected));
    assert_eq!(mask(pid), Some(last));
    play.host_stop();
    play.finish();
}

#[test]
fn a_job_set_externally_to_its_original_or_previous_mask_keeps_it() {
    let Some((all, first, last)) = two_cpus() else { return };
    for to in [&all, &first] {
        let mut play = Play::new(BUSY);
        play.wish("a", Action::Place(first.clone()));
        let pid = play.begin("a");
        play.until("it ran", |play| play.story.iter().any(|scene| !scene.sample.tasks.is_empty()));
        play.wish("a", Action::Place(last.clone()));
        play.until("the move", |play| play.places("a").len() == 2);
        play.until("a sample on that CPU", |play| play.ran_on("a", last.first()));
        // Its original mask, or the mask before our last placement.
        linux::affinity::set(pid, to).expect("permitted");
        let expected =
            JobEvent::Unmanaged(play.job("a"), UnmanagedCause::AffinityChanged(to.clone()));
        play.until("the event", |play| play.events().any(|event| *event == expected));
        assert_eq!(mask(pid).as_ref(), Some(to));
        play.host_stop();
        play.finish();
    }
}
