//! The sentences on a terminal.

use super::{Explanation, JobStory, Told};
use crate::text::fold;
use crate::units::seconds;

/// Width of `  12.250 s  `.
const INDENT: usize = 13;

impl Explanation {
    /// A paragraph per job, in lines of at most so many columns.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.clamp(40, 200);
        let mut text = self.head(width);
        for note in &self.notes {
            text.push_str(&line(note, width));
        }
        for job in &self.jobs {
            text.push('\n');
            text.push_str(&story(job, width));
        }
        text
    }

    /// One object; its fields are documented in `docs/report-fields.md`. No line end after it.
    ///
    /// # Errors
    /// None that we know of: numbers, texts and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    fn head(&self, width: usize) -> String {
        let end = match &self.end {
            Some(end) => format!("it {end}"),
            None => {
                "the journal does not tell its end: evenkeel was killed, or still runs".to_owned()
            }
        };
        let decided = match &self.replay_of {
            Some(run) => format!(
                "decided by {} over the recording of {run}; open loop: what jobs did is told of the \
                 recorded run; what would have been done is what this policy wanted, and nothing of it \
                 was carried out",
                self.policy
            ),
            None => format!("decided by {}", self.policy),
        };
        fold(&format!("Run {}, {decided}; {end}.", self.run), width, "", 0)
    }
}

fn story(job: &JobStory, width: usize) -> String {
    let class = job.class.map_or("no class".to_owned(), |class| format!("class {class}"));
    let mut text = fold(&format!("{} ({class}): {}", job.name, job.command), width, "", 2);
    if job.events.is_empty() {
        text.push_str("  nothing is told of it: its time had not come\n");
    }
    for event in &job.events {
        text.push_str(&line(event, width));
    }
    text
}

fn line(told: &Told, width: usize) -> String {
    fold(&told.text, width, &format!("{:>9} s  ", seconds(told.at_ns)), INDENT)
}
