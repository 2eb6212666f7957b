//! What others do to the masks of our jobs while they run.

use sched::{Action, JobEvent, RejectCause, UnmanagedCause};

use super::play::{Play, mask, two_cpus};
use super::why;

/// A job that never stops running, so that it is looked at in every turn.
const BUSY: &str = "[[job]]\nname = \"a\"\nshell = \"while :; do :; done\"\n";

#[test]
fn a_job_whose_affinity_somebody_changed_stays_there_and_is_left_alone() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n");
    play.wish("a", Action::Place(first.clone()));
    let pid = play.begin("a");
    // To where it is not: the engine would spare us a move to where it was.
    let both = first.or(&last);
    play.wish("a", Action::Place(both));
    // After the decision, before the deed.
    play.step_with(|| linux::affinity::set(pid, &last).expect("ours"));
    assert_eq!(why(&play.places("a")[1]), Some(RejectCause::Unmanaged));
    assert_eq!(mask(pid), Some(last.clone()));
    let job = play.job("a");
    let told = JobEvent::Unmanaged(job, UnmanagedCause::AffinityChanged(last.clone()));
    play.until("the event", |play| play.events().any(|event| *event == told));
    play.host_stop();
    play.finish();
}

#[test]
fn a_change_of_affinity_is_noticed_without_anybody_asking_for_a_move() {
    let Some((_, first, last)) = two_cpus() else { return };
    let mut play = Play::new(BUSY);
    play.wish("a", Action::Place(first));
    let pid = play.begin("a");
    linux::affinity::set(pid, &last).expect("ours");
    let told = JobEvent::Unmanaged(play.job("a"), UnmanagedCause::AffinityChanged(last.clone()));
    play.until("the event", |play| play.events().any(|event| *event == told));
    assert_eq!(mask(pid), Some(last));
    play.host_stop();
    play.finish();
}

#[test]
fn a_job_that_somebody_set_free_or_put_back_stays_so() {
    let Some((all, first, last)) = two_cpus() else { return };
    for to in [&all, &first] {
        let mut play = Play::new(BUSY);
        play.wish("a", Action::Place(first.clone()));
        let pid = play.begin("a");
        play.until("it ran", |play| play.story.iter().any(|scene| !scene.sample.tasks.is_empty()));
        play.wish("a", Action::Place(last.clone()));
        play.until("the move", |play| play.places("a").len() == 2);
        play.until("it is seen there", |play| play.ran_on("a", last.first()));
        // What it had before us, or before our last move.
        linux::affinity::set(pid, to).expect("ours");
        let told = JobEvent::Unmanaged(play.job("a"), UnmanagedCause::AffinityChanged(to.clone()));
        play.until("the event", |play| play.events().any(|event| *event == told));
        assert_eq!(mask(pid).as_ref(), Some(to));
        play.host_stop();
        play.finish();
    }
}
