//! What `evenkeel calibrate` found, for programs.

use crate::describe::record;

/// The version of what `evenkeel calibrate --json` prints. It grows when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

record! {
    /// The limits of `divided` for a machine, and what they were found from.
    Calibration {
        format: u32, "Format", Plain, "The version of this format.";
        tool: String, "Made by", Plain, "The version of evenkeel that found them.";
        machine: String, "Machine", Plain, "What the machine of the runs is called.";
        policy: String, "Policy", Plain, "The policy with these limits, as --policy takes it.";
        th_sq: u64, "th_sq", Plain, "More full queues than this in a second of CPU time are many: the geometric mean of the two neighbours below and above.";
        th_sq_below: u64, "Below th_sq", Plain, "The largest rate of full queues that is few.";
        th_sq_above: u64, "Above th_sq", Plain, "The smallest that is many.";
        th_ref: u64, "th_ref", Plain, "The same for references to the last-level cache.";
        th_ref_below: u64, "Below th_ref", Plain, "The largest rate of references that is few.";
        th_ref_above: u64, "Above th_ref", Plain, "The smallest that is many.";
        programs: Vec<CalibratedProgram>, "Programs", Plain, "Every program of the runs, most full queues first; of equal ones most references first, then by name and run.";
    }
}

record! {
    /// What a program did alone.
    CalibratedProgram {
        name: String, "Program", Plain, "The name of the job.";
        run: String, "Run", Plain, "The run that it ran in, by its id.";
        sq_per_s: u64, "Full queues/s", Plain, "Cycles in which its queue of requests was full, in a second of CPU time.";
        ref_per_s: u64, "References/s", Plain, "References to the last-level cache, in a second of CPU time.";
    }
}

impl Calibration {
    /// Documented in `docs/report-fields.md` and `docs/calibrate.schema.json`; no line end after it.
    ///
    /// # Errors
    /// None that we know of: numbers, texts and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}
