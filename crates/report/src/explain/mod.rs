//! The placement of each job with its reasons, as sentences. The only source is the journal.

mod history;
mod sentence;

use base::JobId;
use journal::{JournalError, Recording, RunStatus};

use crate::describe::{names, record};
use crate::format::seconds;
use crate::phrases::stop_cause;
use crate::table::fold;
use history::Explainer;

/// Version of the format of `evenkeel explain --json`.
pub const FORMAT: u32 = 2;

/// Code of a policy that detects phases: a phase may begin.
pub const PHASE_CHANGED: &str = "ib-change";
/// Code: the phase is filtered.
pub const PHASE_FILTERED: &str = "ib-phase-filtered";
/// Codes: the phase causes a reschedule, with or without a request.
pub const PHASE_RESCHEDULED: [&str; 2] = ["ib-phase", "ib-phase-queued"];

record! {
    /// The events of a run and their reasons.
    Explanation {
        format: u32, "Format", Plain, "Version of this format.";
        run: String, "Run", Plain, "Id of the run.";
        policy: String, "Policy", Plain, "The policy with its parameters.";
        replay_of: Option<String>, "Replay of", Plain, "Id of the replayed run. The events of jobs are those of that run; the requests are those of this policy and were not carried out.";
        n_journal_parts_missing: u32, "Journal parts missing", Count, "Number of first parts of the journal that the size limit (--journal-part) removed. The events of these parts are missing.";
        end: Option<String>, "End", Plain, "Status at the end of the run; absent if evenkeel was killed or still runs.";
        notes: Vec<EventRow>, "Notes", Plain, "Notes of the policy and the host.";
        jobs: Vec<JobEvents>, "Jobs", Plain, "The events of each job, in start order.";
    }
}

record! {
    /// The events of a job.
    JobEvents {
        id: u32, "Number", Plain, "Job number.";
        name: String, "Job", Plain, "Name of the job.";
        command: String, "Command", Plain, "The command line.";
        class: Option<u32>, "Class", Plain, "Declared memory class; absent counts as 0.";
        n_phases: u64, "Phases", Count, "Number of detected phases, including those that were filtered, of the job and of its threads that are placed separately; 0 if the policy detects no phases.";
        n_phases_filtered: u64, "Filtered", Count, "Number of these phases that were filtered.";
        n_reschedules: u64, "Reschedules", Count, "Number of reschedules because of a phase.";
        n_moves: u64, "Moves", Count, "Number of events of the kind `move`.";
        events: Vec<EventRow>, "Events", Plain, "The events in order.";
    }
}

record! {
    /// An event or a note.
    EventRow {
        at_ns: u64, "Time", Nanos, "Time of the first occurrence.";
        last_at_ns: u64, "Last", Nanos, "Time of the last occurrence.";
        n: u64, "Times", Count, "Number of occurrences: 1 except for requests that were not carried out, which a policy repeats.";
        kind: JobEventKind, "Kind", Plain, "Kind of the event.";
        text: String, "Sentence", Plain, "The event as a sentence, with its reason.";
        tid: Option<u32>, "Thread", Plain, "TID of the thread that the event is about; absent if it is about the whole job.";
        code: Option<String>, "Code", Plain, "Code of the reason.";
        values: Vec<ReasonNumber>, "Values", Plain, "The numbers in the reason, not rounded.";
    }
}

record! {
    /// A number in a reason.
    ReasonNumber {
        name: String, "Name", Plain, "Name of the value.";
        value: f64, "Value", Plain, "The value.";
    }
}

names! {
    /// Kind of an event.
    JobEventKind {
        Checkpoint "checkpoint" "State at the checkpoint; the earlier parts of the journal are missing.";
        Note "note" "A note about the whole run.";
        Observed "observed" "The policy observed something about the job or a thread, such as a phase, and requested nothing.";
        Start "start" "The job was started.";
        NotStarted "not-started" "The job could not be started.";
        Move "move" "The job or the thread was bound to other CPUs.";
        Unchanged "unchanged" "The job or the thread was bound to the requested CPUs already.";
        MemoryPolicy "memory-policy" "The memory policy of the job was set.";
        Release "release" "The affinity from before evenkeel's placement was restored.";
        PageMigrationStarted "page-migration-started" "A page migration was started.";
        PageMigrationEnded "page-migration-ended" "A page migration ended.";
        NotCarriedOut "dry-run" "A request that was not carried out: in a watch without --act, or in a replay.";
        Attached "attached" "The job was running already and is managed from this time on.";
        Detached "detached" "The job is no longer managed.";
        Rejected "rejected" "A request was rejected.";
        Unmanaged "unmanaged" "evenkeel stopped placing the job.";
        End "end" "The job ended.";
    }
}

/// Reads a journal to its end and explains all jobs, or only one job.
///
/// # Errors
/// A line of the journal is invalid.
pub fn explain(mut recording: Recording, only: Option<JobId>) -> Result<Explanation, JournalError> {
    let mut explainer = Explainer::new(recording.header(), only);
    if let Some(checkpoint) = recording.checkpoint() {
        explainer.resume(checkpoint, recording.n_parts_missing());
    }
    for turn in &mut recording {
        explainer.observe(&turn?.record());
    }
    if let Some(place) = recording.truncated() {
        let text = format!("the last line of the journal is truncated and was ignored: {place}");
        explainer.add_note(text, None);
    }
    let end = recording.end().map(|end| {
        let error = end.error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
        let failed = explainer.failed_jobs();
        let ended = match end.status {
            RunStatus::Interrupted => format!("stopped {}", stop_cause(end.stopped_by)),
            // Journals of earlier versions contain `finished` for a run with failed jobs.
            RunStatus::Finished if failed.is_some() => RunStatus::Failed.name().to_owned(),
            status => status.name().to_owned(),
        };
        let failed = failed.map_or(String::new(), |failed| format!("; {failed}"));
        format!("{ended} after {} s{error}{failed}", seconds(end.wall.0))
    });
    Ok(explainer.finish(end))
}

/// Width of `  12.250 s  `.
const INDENT: usize = 13;

impl Explanation {
    /// Returns one paragraph per job, in lines of at most `width` columns.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.clamp(40, 200);
        let mut text = self.head(width);
        for note in &self.notes {
            text.push_str(&line(note, width));
        }
        for job in &self.jobs {
            text.push('\n');
            text.push_str(&paragraph(job, width));
        }
        text
    }

    /// Returns the result as one JSON object, documented in `docs/report-fields.md`, without a line feed at the end.
    ///
    /// # Errors
    /// No error is known: numbers, strings and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        base::json::to_indented(self)
    }

    fn head(&self, width: usize) -> String {
        let end = match &self.end {
            Some(end) => end,
            None => "the journal has no end: evenkeel was killed or still runs",
        };
        let (run, policy) = (&self.run, &self.policy);
        let text = match &self.replay_of {
            Some(original) => format!(
                "Run {run}, policy {policy}: {end}. This is an open-loop replay of run {original}: the \
                 events of jobs are those of the recorded run. The requests are those of this policy \
                 and were not carried out."
            ),
            None => format!("Run {run}, policy {policy}: {end}."),
        };
        fold(&text, width, "", 0)
    }
}

fn paragraph(job: &JobEvents, width: usize) -> String {
    let class = job.class.map_or("no class".to_owned(), |class| format!("class {class}"));
    let mut text = fold(&format!("{} ({class}): {}", job.name, job.command), width, "", 2);
    if job.events.is_empty() {
        text.push_str("  no events: the job was not yet due\n");
    }
    text.push_str(&counts(job));
    for event in &job.events {
        text.push_str(&line(event, width));
    }
    text
}

/// Returns the numbers of phases and moves of a job as a line; empty without a phase and a move.
fn counts(job: &JobEvents) -> String {
    let phases = format!(
        "phases: {}, filtered: {}, reschedules: {}, ",
        job.n_phases, job.n_phases_filtered, job.n_reschedules
    );
    match (job.n_phases, job.n_moves) {
        (0, 0) => String::new(),
        (0, n_moves) => format!("  moves: {n_moves}\n"),
        (_, n_moves) => format!("  {phases}moves: {n_moves}\n"),
    }
}

fn line(event: &EventRow, width: usize) -> String {
    fold(&event.text, width, &format!("{:>9} s  ", seconds(event.at_ns)), INDENT)
}
