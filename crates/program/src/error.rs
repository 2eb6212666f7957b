//! What can be wrong in a workload or a program list, and where.
//!
//! Each mistake is one line: `file:line:column: what is wrong; what to do`. The first mistake in
//! the file is the one reported, since later ones often follow from it.

use std::path::{Path, PathBuf};

use base::ParseSetError;

/// More jobs than this in one file are a mistake.
pub const N_JOBS_MAX: usize = 100_000;

/// More threads than this in one job are a mistake: Linux itself stops at 8192 CPUs.
pub const N_THREADS_MAX: u32 = 65_536;

/// A mistake in a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {fault}", file.display())]
pub struct WorkloadError {
    /// The file as the user named it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong there.
    pub fault: WorkloadFault,
}

/// What is wrong at some place of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadFault {
    /// The text is no TOML at all.
    #[error("broken TOML: {0}")]
    BrokenToml(String),
    /// The file is not text.
    #[error("this is no UTF-8 text")]
    NotText,
    /// A key that means nothing there.
    #[error("unknown key {key:?} in {whose}; {}", hint(*.nearest, known))]
    UnknownKey {
        /// The key as written.
        key: String,
        /// In what: `a job`, `the workload`.
        whose: &'static str,
        /// The known key that is spelt almost so.
        nearest: Option<&'static str>,
        /// Every key that is known there.
        known: &'static [&'static str],
    },
    /// A key that has its place elsewhere.
    #[error("{key} may not stand in {whose}: it belongs to a single job or program")]
    Misplaced {
        /// The key.
        key: String,
        /// In what.
        whose: &'static str,
    },
    /// A path with nothing in it.
    #[error("{key} is empty; write a path, or leave the key out")]
    EmptyPath {
        /// The key.
        key: &'static str,
    },
    /// A key that must be there is not.
    #[error("{whose} has no {key:?}; add {example}")]
    Missing {
        /// The key.
        key: &'static str,
        /// In what.
        whose: &'static str,
        /// A line that would do.
        example: &'static str,
    },
    /// A value of the wrong kind.
    #[error("{key} must be {expected}, not {found}")]
    WrongKind {
        /// The key.
        key: String,
        /// What it must be, with an example.
        expected: &'static str,
        /// The kind found.
        found: &'static str,
    },
    /// A number that lies outside what makes sense.
    #[error("{key} is {found}, which is out of range; write {range}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The number as written.
        found: String,
        /// What would do.
        range: &'static str,
    },
    /// A text that is no time.
    #[error("{found:?} is no time; write {}", base::TIME_EXAMPLE)]
    NoTime {
        /// The text.
        found: String,
    },
    /// A time before the start of the run.
    #[error("{key} is {found}, but no time here is negative; write 0 or more")]
    NegativeTime {
        /// The key.
        key: &'static str,
        /// The time as written.
        found: String,
    },
    /// A time so large that it must be a mistake.
    #[error("{key} is {found}, more than 366 days; write {}", base::TIME_EXAMPLE)]
    AbsurdTime {
        /// The key.
        key: &'static str,
        /// The time as written.
        found: String,
    },
    /// A length of time that must not be nothing.
    #[error("{key} must be longer than 0")]
    NoLength {
        /// The key.
        key: &'static str,
    },
    /// A class beyond 15, or none at all.
    #[error("class {found} is out of range; classes are whole numbers from 0 to 15")]
    Class {
        /// As written.
        found: String,
    },
    /// A sensitivity that is none.
    #[error(
        "{found:?} is no sensitivity: write a class from 0 to 15, or remote, and a slow-down from 0 to 100 in steps of 0.001"
    )]
    Sensitivity {
        /// As written.
        found: String,
    },
    /// A name that could not name a file or would break a table.
    #[error(
        "{found:?} cannot be a name: use 1 to 100 bytes without a slash, a control character or a dot in front"
    )]
    Name {
        /// As written.
        found: String,
    },
    /// The name of a program of a list that leaves no room for the numbers of its instances.
    #[error("{found:?} is too long: use at most 93 bytes, so that .2, .3 and so on fit behind it")]
    ProgramName {
        /// As written.
        found: String,
    },
    /// Two jobs of one name.
    #[error("the name {name:?} is taken already in line {other_line}; rename one")]
    Duplicate {
        /// The name.
        name: String,
        /// Where the first one stands.
        other_line: usize,
    },
    /// A job that runs nothing.
    #[error("this job runs nothing; add command = [\"program\", \"argument\"], shell or load")]
    NoCommand,
    /// A job that runs two things.
    #[error("{first} and {second} in one job; keep one, or make two jobs")]
    TwoCommands {
        /// One key.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A command without a program.
    #[error("{key} is empty; write the program and its arguments")]
    EmptyCommand {
        /// The key.
        key: &'static str,
    },
    /// A program of the built-in ones that does not exist.
    #[error("there is no built-in program {found:?}; {}", hint(*.nearest, crate::LOADS))]
    NoLoad {
        /// As written.
        found: String,
        /// The one that is spelt almost so.
        nearest: Option<&'static str>,
    },
    /// More jobs than [`N_JOBS_MAX`].
    #[error("more than {N_JOBS_MAX} jobs in one file; lower copies or split the file")]
    TooManyJobs,
    /// `every` with nothing to space out.
    #[error("every needs copies of 2 or more: it is the time between their starts")]
    NothingToSpace,
    /// Copies that would write over each other's output.
    #[error("{key} is the same file for every copy; put {{copy}} into its name")]
    SharedOutput {
        /// The key.
        key: &'static str,
    },
    /// Two lines that would each begin by emptying the other's output.
    #[error("the output {path} is that of the job in line {other_line} already; name another file")]
    TakenOutput {
        /// The file as this line names it.
        path: String,
        /// Where the other job stands.
        other_line: usize,
    },
    /// A job that would empty what it is about to read.
    #[error("output is its input too, and would be emptied before it is read; name another file")]
    OutputIsInput,
    /// A job that would empty the file it stands in.
    #[error("output is this workload file itself, which would be emptied; name another file")]
    OutputIsWorkload,
    /// A text that is no list of CPUs or nodes.
    #[error("{key}: {source}")]
    Set {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        source: ParseSetError,
    },
    /// A list with nothing in it.
    #[error("{key} names none; write a list such as 0-3,8, or leave the key out")]
    EmptySet {
        /// The key.
        key: &'static str,
    },
    /// A text that is no memory policy.
    #[error(
        "{found:?} is no memory policy; write bind:NODES, preferred:NODES, interleave:NODES or weighted-interleave:NODES"
    )]
    Memory {
        /// As written.
        found: String,
    },
    /// A value of `restart` that does not exist.
    #[error("restart is {found}; write \"until-others-done\" or \"no\"")]
    Restart {
        /// As written.
        found: String,
    },
    /// A job that ends in two ways.
    #[error("stop_after and restart in one job; keep one")]
    EndsTwice,
    /// Only jobs that wait for the others.
    #[error("every job is restarted until the others are done, so none ever ends; let one end")]
    NobodyEnds,
    /// Nothing to run.
    #[error("there is no job; add one, such as: {example}")]
    NoJob {
        /// A line that would do.
        example: &'static str,
    },
    /// The name of a variable that no environment can hold.
    #[error("{found:?} cannot be the name of a variable; leave out = and make it not empty")]
    VariableName {
        /// As written.
        found: String,
    },
    /// A NUL character where the kernel takes none.
    #[error("{key} holds a NUL character, which no program can be given; take it out")]
    Nul {
        /// The key.
        key: String,
    },
    /// A file of a later version.
    #[error("version {found} is not known here; this evenkeel reads version 1")]
    Version {
        /// As written.
        found: String,
    },
    /// A line of the classic form with fewer than its three fields.
    #[error(
        "a job is START CLASS PATH [ARGUMENT …], and the {missing} is missing; {}",
        class_hint(missing)
    )]
    MissingField {
        /// The first that is missing.
        missing: &'static str,
    },
    /// `@ro` without a path.
    #[error("@ro names no file; write @ro PATH")]
    NoPath,
    /// TOML in a file that is read as the classic form.
    #[error("this is TOML, and the name of the file does not end in .toml; rename it")]
    TomlByAnotherName,
    /// A program or file of the classic form that is not given from the root.
    #[error("{found:?} does not begin with /; the classic form takes absolute paths only")]
    RelativePath {
        /// As written.
        found: String,
    },
    /// A quotation mark without its partner.
    #[error("the quotation mark that opens here is never closed; add \" at the end")]
    OpenQuote,
    /// A line that begins with @ and something unknown.
    #[error("unknown line {found:?}; the only one with @ is @ro PATH")]
    Directive {
        /// The first field.
        found: String,
    },
    /// Something after the end of a line that takes one path.
    #[error("{found:?} stands after the path; quote a path that holds blanks")]
    Surplus {
        /// The first field that is too many.
        found: String,
    },
    /// A size that is none.
    #[error("{key}: {found:?} is no size; write bytes, or a number with K, M, G or T such as 64M")]
    NoSize {
        /// The key.
        key: &'static str,
        /// As written.
        found: String,
    },
    /// Phases whose parts do not make a whole.
    #[error("the shares of all phases add up to {found}, and must add up to 1")]
    Shares {
        /// The sum.
        found: String,
    },
    /// A list of a curve that is not as long as that of the sizes.
    #[error("{key} has {found} numbers for {sizes} sizes in cache_bytes; write one for each")]
    CurveLength {
        /// The key.
        key: &'static str,
        /// How many it has.
        found: usize,
        /// How many it should have.
        sizes: usize,
    },
    /// Sizes of a curve that do not rise.
    #[error("cache_bytes must rise from one size above 0 to the next; sort them, each once")]
    CurveSizes,
    /// Something in a figure that means nothing there.
    #[error("{found:?} means nothing in {key}; a figure has value, source and error")]
    InFigure {
        /// The figure.
        key: &'static str,
        /// The word in it.
        found: String,
    },
    /// A source that is none.
    #[error("{found:?} is no source of a figure; {}", hint(*.nearest, &["counters", "traced", "declared", "estimated"]))]
    NoSource {
        /// As written.
        found: String,
        /// The one that is spelt almost so.
        nearest: Option<&'static str>,
    },
    /// A text that is no build id.
    #[error("{found:?} is no build id; write its hexadecimal digits, as file(1) shows them")]
    BuildId {
        /// As written.
        found: String,
    },
}

fn class_hint(missing: &str) -> &'static str {
    if missing == "class" {
        "write - for none"
    } else {
        "name the program from the root, as /bin/true"
    }
}

/// The nearest name, or all there are.
fn hint(nearest: Option<&str>, known: &[&str]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// The known name that a mistyped one most likely meant: at most a third of its letters differ.
pub(crate) fn nearest(found: &str, known: &'static [&'static str]) -> Option<&'static str> {
    let likeness = |name: &str| strsim::damerau_levenshtein(&found.to_lowercase(), name);
    let best = known.iter().copied().min_by_key(|name| likeness(name))?;
    (likeness(best) * 3 <= best.len().max(3)).then_some(best)
}

/// A text that knows where its lines begin, to turn an offset into a place.
pub(crate) struct Text<'t> {
    pub(crate) text: &'t str,
    pub(crate) file: &'t Path,
    line_starts: Vec<usize>,
}

impl<'t> Text<'t> {
    pub(crate) fn new(text: &'t str, file: &'t Path) -> Self {
        let after_newline =
            text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Text { text, file, line_starts: std::iter::once(0).chain(after_newline).collect() }
    }

    /// The line of a byte offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// The byte offset at which a line begins.
    pub(crate) fn start_of(&self, line: usize) -> usize {
        self.line_starts.get(line - 1).copied().unwrap_or_default()
    }

    /// The mistake at a byte offset.
    pub(crate) fn fault(&self, offset: usize, fault: WorkloadFault) -> WorkloadError {
        let line = self.line(offset);
        let before = self.text.get(self.line_starts[line - 1]..offset).unwrap_or_default();
        let column = before.chars().count() + 1;
        WorkloadError { file: self.file.to_owned(), line, column, fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_1() {
        let text = Text::new("a\nüb\n", Path::new("w"));
        let place = |offset| {
            let error = text.fault(offset, WorkloadFault::NotText);
            (error.line, error.column)
        };
        assert_eq!([place(0), place(2), place(4), place(6)], [(1, 1), (2, 1), (2, 2), (3, 1)]);
        assert_eq!(place(99).0, 3, "an offset beyond the end stays in the last line");
    }

    #[test]
    fn a_slip_of_the_keyboard_is_recognised_and_nonsense_is_not() {
        const KNOWN: &[&str] = &["command", "class", "cpus", "stop_after"];
        for (found, meant) in [
            ("comand", Some("command")),
            ("Class", Some("class")),
            ("cpu", Some("cpus")),
            ("stop-after", Some("stop_after")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(found, KNOWN), meant, "{found}");
        }
    }
}
