//! A study for programs: every text of it, and every figure as a number.

use crate::describe::{record, words};

/// The version of what `evenkeel reproduce --json` prints. It grows when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

record! {
    /// What `evenkeel reproduce` found.
    StudyAccount {
        format: u32, "Format", Plain, "The version of this format.";
        tool: String, "Made by", Plain, "The version of evenkeel that ran it.";
        command: String, "Command", Plain, "The command that prints the same again; how many runs take place at a time changes nothing.";
        study: String, "Study", Plain, "The study by its name on the command line.";
        source: String, "Source", Plain, "What was published.";
        only: Vec<String>, "Only", Plain, "The experiments that were asked for; empty: all of the study.";
        seeds: Vec<u64>, "Seeds", Plain, "Every seed. An experiment that takes others says so.";
        draws: u64, "Draws", Count, "How often experiments draw from the ranges of uncertain profiles.";
        machines: Vec<String>, "Machines", Plain, "The machines of all experiments that were done, by name; those that ship are files in workloads/machines.";
        experiments: Vec<StudyExperiment>, "Experiments", Plain, "What was done, in order.";
        left_out: Vec<String>, "Left out", Plain, "Experiments that were asked for and not done, since somebody stopped it.";
    }
}

record! {
    /// One thing that a paper shows or asks.
    StudyExperiment {
        name: String, "Name", Plain, "Its name on the command line.";
        title: String, "Title", Plain, "What it is about.";
        says: String, "Source", Plain, "What the source says.";
        limit: String, "Limit", Plain, "When the verdict is that it reproduces, and where the limit comes from.";
        how: String, "How", Plain, "How ours is reckoned.";
        machines: Vec<String>, "Machines", Plain, "The machines that it is done on, before anything of them is changed; a line of text is a machine that is made up.";
        tables: Vec<StudyTable>, "Tables", Plain, "What came out, as figures.";
        claims: Vec<StudyClaim>, "Claims", Plain, "What is claimed, each with its verdict.";
        notes: Vec<String>, "Notes", Plain, "Why it is so, and what must be known before the figures are believed, a sentence each.";
    }
}

record! {
    /// Figures in rows.
    StudyTable {
        title: String, "Title", Plain, "What it shows.";
        columns: Vec<StudyColumn>, "Columns", Plain, "Its columns; the first names the row.";
        rows: Vec<Vec<StudyCell>>, "Rows", Plain, "Its rows, as many cells as there are columns in each.";
    }
}

record! {
    /// A column of a table.
    StudyColumn {
        head: String, "Head", Plain, "What stands over it.";
        unit: String, "Unit", Plain, "The unit of its figures, unless a figure says another; 1 for plain numbers.";
        is_published: bool, "Published", Plain, "Whether its figures are the paper's, and not ours.";
    }
}

record! {
    /// A cell of a table.
    StudyCell {
        text: String, "Text", Plain, "The cell as people read it; a dash where there is no figure.";
        figures: Vec<StudyFigure>, "Figures", Plain, "Its figures; empty where it holds words or a dash.";
    }
}

record! {
    /// A figure. A mean with its interval is whole; what has no interval is as rounded as its text.
    StudyFigure {
        value: Option<f64>, "Value", Plain, "The figure, or the mean; absent of a range.";
        low: Option<f64>, "Low", Plain, "The lower end of its 95 % interval, or of a range; absent where there is none.";
        high: Option<f64>, "High", Plain, "The upper end.";
        n_of: Option<u64>, "Of", Count, "So many there are in all, where the value counts some of them.";
        unit: String, "Unit", Plain, "Its unit: %, points (of %), s, MB/s, million/s, GiB, 1/s, 1/min, 1/h, GiB/h, count, or 1 for a plain number.";
    }
}

record! {
    /// Something that the source says, and whether it comes out.
    StudyClaim {
        claim: String, "Claim", Plain, "What is claimed, with its limit.";
        reading: ReadingWord, "Reading", Plain, "Under which rules it was looked at.";
        found: String, "Found", Plain, "What came out, in words.";
        figures: Vec<StudyFigure>, "Figures", Plain, "The figures that the verdict rests on, where they are few; else the tables have them.";
        verdict: StudyVerdict, "Verdict", Plain, "What follows.";
    }
}

words! {
    /// Which rules ran.
    ReadingWord {
        Paper "paper" "As printed, faults included.";
        Ours "ours" "As mended.";
        Either "either" "Nothing of it hangs on the reading.";
    }
}

words! {
    /// What is said of a claim.
    StudyVerdict {
        Reproduces "reproduces" "It comes out here.";
        DoesNotReproduce "does-not-reproduce" "It does not.";
        DependsOnTheProfile "depends-on-the-profile" "In some draws from the ranges of the profiles it does, in others not.";
        NotJudged "not-judged" "Too few runs ended well, or the data cannot tell; the words found say why.";
    }
}

impl StudyAccount {
    /// Documented in `docs/report-fields.md` and `docs/reproduce.schema.json`; no line end after it.
    ///
    /// # Errors
    /// None that we know of: numbers, texts and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}
