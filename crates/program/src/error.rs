//! Errors of workloads, program lists and profiles.
//!
//! Each error is one line: `file:line:column: problem; what to do`. Only the first error of a file is
//! reported, because later ones are often consequences of it.

use base::ParseSetError;
use base::suggest::did_you_mean;
use base::toml_reader::{Located, TomlFault};

/// Most jobs in one file. A larger number is a typing error.
pub const N_JOBS_MAX: usize = 100_000;

/// Most threads in one job. Linux supports at most 8192 CPUs, so a larger number is a typing error.
pub const N_THREADS_MAX: u32 = 65_536;

/// An error in a file, with its position.
pub type WorkloadError = Located<WorkloadFault>;

/// An error in a workload, a program list or a profile. `found` is the text as written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadFault {
    /// An error of the TOML reader.
    #[error(transparent)]
    Toml(#[from] TomlFault),
    /// The file is not UTF-8 text.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// The path under this key is empty.
    #[error("{0} is empty; write a path, or remove the key")]
    EmptyPath(&'static str),
    /// Not a time.
    #[error("{:?} is not a time; write {}", .0, base::TIME_EXAMPLE)]
    Time(String),
    /// A time before the start of the run.
    #[error("{key} is {found}, and times cannot be negative; write 0 or more")]
    NegativeTime {
        /// The key.
        key: &'static str,
        /// As written.
        found: String,
    },
    /// A time above [`crate::TIME_MAX`].
    #[error("{key} is {found}, more than 366 days; write {}", base::TIME_EXAMPLE)]
    TimeTooLong {
        /// The key.
        key: &'static str,
        /// As written.
        found: String,
    },
    /// A time that must not be zero.
    #[error("{0} must be longer than 0")]
    ZeroTime(&'static str),
    /// Not a class.
    #[error("class {0} is out of range; classes are integers from 0 to 15")]
    Class(String),
    /// Not an entry of a sensitivity table.
    #[error(
        "{0:?} is not a sensitivity: write a class from 0 to 15, or remote, and a slowdown from 0 to 100 in steps of 0.001"
    )]
    Sensitivity(String),
    /// A name that cannot be used in a file name or a table.
    #[error(
        "{0:?} cannot be a name: use 1 to 100 bytes without a slash, a control character or a leading dot"
    )]
    Name(String),
    /// The name of a listed program is too long for the suffixes of its instances.
    #[error("{0:?} is too long: use at most 93 bytes, so that the suffixes .2, .3 and so on fit")]
    ProgramName(String),
    /// Two jobs with one name.
    #[error("the name {name:?} is already used in line {other_line}; rename one")]
    Duplicate {
        /// The name.
        name: String,
        /// The line of the first job.
        other_line: usize,
    },
    /// A job without a command.
    #[error("the job has no command; add command = [\"program\", \"argument\"], shell or load")]
    NoCommand,
    /// A job with two commands.
    #[error("{first} and {second} in one job; keep one, or make two jobs")]
    TwoCommands {
        /// One key.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A command without a program.
    #[error("{0} is empty; write the program and its arguments")]
    EmptyCommand(&'static str),
    /// Not a built-in program.
    #[error("there is no built-in program {:?}; {}", .0, did_you_mean(.0, crate::LOADS.iter().copied()))]
    UnknownLoad(String),
    /// More jobs than [`N_JOBS_MAX`].
    #[error("more than {N_JOBS_MAX} jobs in one file; lower copies or split the file")]
    TooManyJobs,
    /// `every` in a job with one copy.
    #[error("every needs copies of 2 or more: it is the time between their starts")]
    EveryWithoutCopies,
    /// All copies of a job write the same file.
    #[error("{0} is the same file for every copy; put {{copy}} into its name")]
    SharedOutput(&'static str),
    /// Two jobs write the same file.
    #[error("the output {path} is already that of the job in line {other_line}; name another file")]
    TakenOutput {
        /// The file as this job names it.
        path: String,
        /// The line of the other job.
        other_line: usize,
    },
    /// A job truncates the file that it reads.
    #[error(
        "output is also the input, and would be truncated before it is read; name another file"
    )]
    OutputIsInput,
    /// A job truncates its own workload file.
    #[error("output is this workload file itself, which would be truncated; name another file")]
    OutputIsWorkload,
    /// Not a set of CPUs or nodes.
    #[error("{key}: {source}")]
    Set {
        /// The key.
        key: &'static str,
        /// The error in the list.
        source: ParseSetError,
    },
    /// An empty set of CPUs or nodes.
    #[error("{0} is empty; write a list such as 0-3,8, or remove the key")]
    EmptySet(&'static str),
    /// Not a memory policy.
    #[error(
        "{0:?} is not a memory policy; write bind:NODES, preferred:NODES, interleave:NODES or weighted-interleave:NODES"
    )]
    Memory(String),
    /// Not a value of `restart`.
    #[error("restart is {0}; write \"until-others-done\" or \"no\"")]
    Restart(String),
    /// A job with two endings.
    #[error("stop_after and restart in one job; keep one")]
    TwoEndings,
    /// Every job waits for the others to end.
    #[error(
        "every job is restarted until the others are done, so the run never ends; let one job end"
    )]
    EndlessRun,
    /// A workload without jobs.
    #[error("there is no job; add one, such as: {0}")]
    NoJob(&'static str),
    /// Not a name of an environment variable.
    #[error("{0:?} cannot be the name of a variable; it must not be empty or contain =")]
    VariableName(String),
    /// A NUL character in a string for the kernel.
    #[error("{0} contains a NUL character, which no argument can hold; remove it")]
    Nul(String),
    /// A line of the classic form with fewer than three fields.
    #[error(
        "a job is START CLASS PATH [ARGUMENT …], and the {} is missing; {}",
        .0,
        class_hint(.0)
    )]
    MissingField(&'static str),
    /// `@ro` without a path.
    #[error("@ro has no file; write @ro PATH")]
    NoPath,
    /// TOML in a file that is read in the classic form.
    #[error("the file is TOML, but its name does not end in .toml; rename it")]
    TomlWithoutSuffix,
    /// A relative path in the classic form.
    #[error("{0:?} does not begin with /; the classic form needs absolute paths")]
    RelativePath(String),
    /// A quotation mark without its partner.
    #[error("the quotation mark that opens here is never closed; add \" at the end")]
    OpenQuote,
    /// An unknown directive.
    #[error("unknown line {0:?}; the only line with @ is @ro PATH")]
    Directive(String),
    /// A field after the path of a directive.
    #[error("{0:?} follows the path; put a path with blanks into quotation marks")]
    ExtraField(String),
    /// Not a size.
    #[error(
        "{key}: {found:?} is not a size; write bytes, or a number with K, M, G or T such as 64M"
    )]
    Size {
        /// The key.
        key: &'static str,
        /// As written.
        found: String,
    },
    /// The shares of the phases are not a whole.
    #[error("the shares of all phases add up to {0}; they must add up to 1")]
    Shares(String),
    /// Two lists of a curve differ in length.
    #[error("{key} has {found} numbers for {sizes} sizes in cache_bytes; write one for each size")]
    CurveLength {
        /// The key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The length of `cache_bytes`.
        sizes: usize,
    },
    /// The sizes of a curve are not increasing.
    #[error(
        "cache_bytes must increase from a first size above 0; sort the sizes and write each once"
    )]
    CurveSizes,
    /// An unknown key in a profile value.
    #[error("unknown key {found:?} in {key}; known are value, source and error")]
    ProfileValueKey {
        /// The key of the profile value.
        key: &'static str,
        /// The unknown key in it.
        found: String,
    },
    /// Not a source of a profile value.
    #[error("{:?} is not a source of a value; {}", .0, did_you_mean(.0, ["counters", "traced", "declared", "estimated"]))]
    ValueSource(String),
    /// Not a build id.
    #[error("{0:?} is not a build id; write its hexadecimal digits, as file(1) prints them")]
    BuildId(String),
}

fn class_hint(missing: &str) -> &'static str {
    match missing {
        "class" => "write - for no class",
        _ => "write the absolute path of the program, such as /bin/true",
    }
}
