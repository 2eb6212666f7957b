//! Why jobs ran where they did, in plain sentences. Nothing is told but what a journal holds.

mod sentence;
mod teller;
mod text;

use base::JobId;
use journal::{JournalError, Recording};

use crate::describe::{record, words};
use crate::units::seconds;
use teller::Teller;

record! {
    /// What a journal tells of its run.
    Explanation {
        format: u32, "Format", Plain, "The version of this format.";
        run: String, "Run", Plain, "What the run is called.";
        policy: String, "Policy", Plain, "Who decided, with its parameters.";
        replay_of: Option<String>, "Replay of", Plain, "The run that this is a replay of: what jobs did is told of that run, and beside it what the policy here would have done, which was never carried out.";
        end: Option<String>, "Ended", Plain, "How the run ended; absent if evenkeel was killed or still runs.";
        notes: Vec<Told>, "Notes", Plain, "What the policy and the host said of the whole.";
        jobs: Vec<JobStory>, "Jobs", Plain, "What happened to each job, in start order.";
    }
}

record! {
    /// What happened to a job.
    JobStory {
        id: u32, "Number", Plain, "Its number.";
        name: String, "Job", Plain, "Its name.";
        command: String, "Command", Plain, "What it runs.";
        class: Option<u32>, "Class", Plain, "Its declared memory class; absent counts as 0.";
        events: Vec<Told>, "Events", Plain, "What happened, in order.";
    }
}

record! {
    /// One thing that happened.
    Told {
        at_ns: u64, "When", Nanos, "When; of several times the first.";
        last_at_ns: u64, "Last", Nanos, "When, the last time.";
        n: u64, "Times", Count, "How often: 1 but for what is only wished, which a policy has again turn after turn.";
        kind: EventWord, "Kind", Plain, "What kind of thing.";
        text: String, "Sentence", Plain, "The whole of it in words, the reason among it.";
        code: Option<String>, "Code", Plain, "The code of the reason, if there was one.";
    }
}

words! {
    /// What kind of thing happened.
    EventWord {
        Before "before" "It happened in a part of the journal that is gone.";
        Note "note" "Somebody said something of the whole run.";
        Start "start" "The job was started.";
        NotStarted "not-started" "The job could not be started.";
        Move "move" "The job was bound to other CPUs.";
        Kept "kept" "It was to be bound where it was bound already: nothing had to be changed.";
        Memory "memory" "It was told where its memory comes from.";
        Release "release" "The job got back what it had.";
        Pages "pages" "A move of its memory to another node was begun.";
        PagesMoved "pages-moved" "A move of its memory ended.";
        Wish "wish" "What the policy would have done: the run only watches, or this is a replay and the recorded run did not do it.";
        Appeared "appeared" "Somebody else started it, and it is watched from here on.";
        Left "left" "It is watched no longer.";
        Refused "refused" "Something was wanted and not done.";
        HandsOff "hands-off" "The job is left alone from here on.";
        End "end" "The job ended.";
    }
}

/// Reads a journal to its end and tells of all jobs, or of one.
///
/// # Errors
/// A line of it cannot be read or understood.
pub fn explain(mut recording: Recording, only: Option<JobId>) -> Result<Explanation, JournalError> {
    let mut teller = Teller::new(recording.header(), only);
    if let Some(so_far) = recording.so_far() {
        teller.before(so_far);
    }
    for turn in &mut recording {
        teller.turn(&turn?.record());
    }
    if let Some(place) = recording.torn() {
        let text = format!("the last line of the journal is torn and was left out: {place}");
        teller.note(text, None);
    }
    let end = recording.end().map(|end| {
        let error = end.error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
        format!("{} after {} s{error}", end.how.name(), seconds(end.wall.0))
    });
    Ok(teller.finish(end))
}
