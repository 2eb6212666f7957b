//! The result of `evenkeel calibrate`.

use crate::describe::record;

/// Version of the format of `evenkeel calibrate --json`.
pub const FORMAT: u32 = 2;

record! {
    /// The thresholds of `divided` for a machine, and the programs that they were computed from.
    Calibration {
        format: u32, "Format", Plain, "Version of this format.";
        tool: String, "Version", Plain, "Version of evenkeel that computed the thresholds.";
        command: Option<String>, "Repeat with", Plain, "The command that repeats the computation, quoted for a shell, without options of the output.";
        machine: String, "Machine", Plain, "Name of the machine of the runs.";
        policy: String, "Policy", Plain, "The policy with these thresholds, in the syntax of --policy.";
        th_sq: u64, "th_sq", Plain, "Threshold of queue-full cycles per second of CPU time: the geometric mean of the adjacent rates below and above.";
        th_sq_below: u64, "Below th_sq", Plain, "Largest rate below the threshold.";
        th_sq_above: u64, "Above th_sq", Plain, "Smallest rate above the threshold.";
        th_ref: u64, "th_ref", Plain, "Threshold of last-level cache references per second of CPU time: the geometric mean of the adjacent rates below and above.";
        th_ref_below: u64, "Below th_ref", Plain, "Largest rate below the threshold.";
        th_ref_above: u64, "Above th_ref", Plain, "Smallest rate above the threshold.";
        programs: Vec<CalibratedProgram>, "Programs", Plain, "All programs of the runs, by queue-full cycles, then references (both descending), then name and run.";
    }
}

record! {
    /// The rates of a program that ran alone.
    CalibratedProgram {
        name: String, "Program", Plain, "Name of the job.";
        run: String, "Run", Plain, "Id of the run of the program.";
        queue_full_per_s: u64, "Queue full/s", Plain, "Queue-full cycles per second of CPU time.";
        llc_references_per_s: u64, "References/s", Plain, "References to the last-level cache, per second of CPU time.";
    }
}

impl Calibration {
    /// Returns the result as one JSON object, documented in `docs/report-fields.md` and `docs/calibrate.schema.json`,
    /// without a line feed at the end.
    ///
    /// # Errors
    /// No error is known: numbers, strings and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        base::json::to_indented(self)
    }
}
