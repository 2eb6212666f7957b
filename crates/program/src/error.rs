//! Errors of workloads, program lists and profiles.
//!
//! Each error is one line: `file:line:column: problem; what to do`. Only the first error of a file is reported,
//! because later errors are often consequences of the first.

use base::ParseSetError;
use base::suggest::did_you_mean;
use base::toml_reader::{Located, TomlFault};

/// Maximum number of jobs in one file. A larger number is probably a typing error.
pub const N_JOBS_MAX: usize = 100_000;

/// Maximum number of threads in one job. Linux supports at most 8192 CPUs, so a larger number is probably a typing
/// error.
pub const N_THREADS_MAX: u32 = 65_536;

/// An error in a file, with its position.
pub type WorkloadError = Located<WorkloadFault>;

/// An error in a workload, a program list or a profile. `found` is the text in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum WorkloadFault {
    #[error(transparent)]
    Toml(#[from] TomlFault),
    #[error("the file is not UTF-8 text")]
    NotText,
    #[error("{0:?} is empty; write a path, or remove the key")]
    EmptyPath(&'static str),
    #[error("{:?} is not a time; write {}", .0, base::TIME_EXAMPLE)]
    Time(String),
    #[error("{} is {found}, and times cannot be negative; write 0 or more", subject(.key))]
    NegativeTime { key: &'static str, found: String },
    #[error("{} is {found}, more than 366 days; write {}", subject(.key), base::TIME_EXAMPLE)]
    TimeTooLong { key: &'static str, found: String },
    #[error("{0:?} must be longer than 0")]
    ZeroTime(&'static str),
    #[error("class {0} is not an integer from 0 to 15")]
    Class(String),
    #[error(
        "this is not a line of a workload: write START CLASS PATH [ARGUMENT …], such as {0}, or use a file .toml"
    )]
    NotClassic(&'static str),
    #[error(
        "{0:?} is not a sensitivity: write a class from 0 to 15, or remote, and a slowdown from 0 to 100 in steps of 0.001"
    )]
    Sensitivity(String),
    #[error(
        "{0:?} cannot be a name: use 1 to 100 bytes without a slash, a control or invisible character, or a leading dot"
    )]
    Name(String),
    #[error("{0:?} is too long: use at most 93 bytes, so that the suffixes .2, .3 and so on fit")]
    ProgramName(String),
    #[error("the name {name:?} is already used in line {other_line}; rename one")]
    Duplicate { name: String, other_line: usize },
    #[error("the job has no command; add command = [\"program\", \"argument\"], shell or load")]
    NoCommand,
    #[error("{first:?} and {second:?} in one job; keep one, or make two jobs")]
    TwoCommands { first: &'static str, second: &'static str },
    #[error("{0:?} is empty; write the program and its arguments")]
    EmptyCommand(&'static str),
    #[error("there is no built-in program {:?}; {}", .0, did_you_mean(.0, crate::LOADS.iter().copied()))]
    UnknownLoad(String),
    #[error(
        "\"throttle\" slows CPUs down and cannot be a job; start evenkeel load throttle before the run"
    )]
    ThrottleJob,
    #[error("more than {N_JOBS_MAX} jobs in one file; lower copies or split the file")]
    TooManyJobs,
    #[error("\"every\" is the time between the starts of copies: set copies to 2 or more")]
    EveryWithoutCopies,
    #[error("{0:?} is the same file for every copy; put {{copy}} into its name")]
    SharedOutput(&'static str),
    #[error(
        "the output {path} is also the output of the job in line {other_line}; name another file"
    )]
    TakenOutput { path: String, other_line: usize },
    #[error(
        "\"output\" is also the input, and would be truncated before it is read; name another file"
    )]
    OutputIsInput,
    #[error("\"output\" is this workload file itself, which would be truncated; name another file")]
    OutputIsWorkload,
    #[error("{key:?}: {source}")]
    Set { key: &'static str, source: ParseSetError },
    #[error("{0:?} is empty; write a list such as 0-3,8, or remove the key")]
    EmptySet(&'static str),
    #[error(
        "{0:?} is not a memory policy; write bind:NODES, preferred:NODES, interleave:NODES or weighted-interleave:NODES"
    )]
    Memory(String),
    #[error("\"restart\" is {0}; write \"until-others-done\", \"until-all-done\" or \"no\"")]
    Restart(String),
    #[error("\"stop_after\" and \"restart\" in one job; keep one")]
    TwoEndings,
    #[error(
        "every job is restarted until the others are done, so the run never ends; let one job end"
    )]
    EndlessRun,
    #[error("there is no job; add one, such as: {0}")]
    NoJob(&'static str),
    #[error("{0:?} cannot be the name of a variable; it must not be empty or contain =")]
    VariableName(String),
    #[error("{0} contains a NUL character, which no argument can hold; remove it")]
    Nul(String),
    #[error(
        "a job is START CLASS PATH [ARGUMENT …], and the {} is missing; {}",
        .0,
        class_hint(.0)
    )]
    MissingField(&'static str),
    #[error("@ro has no file; write @ro PATH")]
    NoPath,
    #[error("the file is TOML, but its name does not end in .toml; rename it")]
    TomlWithoutSuffix,
    #[error("{0:?} does not begin with /; the classic format needs absolute paths")]
    RelativePath(String),
    #[error("the quotation mark that opens here is never closed; add \" at the end")]
    OpenQuote,
    #[error("unknown line {0:?}; the only line with @ is @ro PATH")]
    Directive(String),
    #[error("{0:?} follows the path; quote a path that contains spaces")]
    ExtraField(String),
    #[error("{key:?}: {found:?} is not a size; write {}", base::SIZE_EXAMPLE)]
    Size { key: &'static str, found: String },
    #[error("\"rounds\" repeats the sections of a job; add a [[job.section]], or remove the key")]
    RoundsWithoutSection,
    #[error("\"section\" is empty; write a section such as {{ work = 1 }}, or remove the key")]
    NoSection,
    #[error("{0:?} is a key of a pipeline; add \"stages\", or remove it")]
    KeyWithoutStages(&'static str),
    #[error(
        "{0:?} next to \"stages\"; the stages of a pipeline have a thread and a work each, so remove it"
    )]
    KeyWithStages(&'static str),
    #[error(
        "a pipeline of one stage has no queue: a queue has a producer and a consumer; write two stages or more"
    )]
    OneStage,
    #[error("\"phases\" needs a number for each of the {0} works")]
    PhasesOfParts(usize),
    #[error(
        "{0:?} next to the work of each thread; the numbers of \"work\" are the threads, and \"phases\" has their phases, so remove it"
    )]
    KeyWithWorks(&'static str),
    #[error(
        "\"phases\" needs a work for each thread, such as work = [1, 3]; write phase = N for all threads, or the works"
    )]
    PhasesOfTeam,
    #[error(
        "\"work\" has no threads; write the work of each thread, such as [1, 3], or one number"
    )]
    NoWork,
    #[error(
        "some sections have a phase of the profile and others have none; write one for all, or for none"
    )]
    SomePhases,
    #[error("a job with sections needs threads that wait for each other; set threads to 2 or more")]
    SectionsOfOneThread,
    #[error("a section has {most} threads, the job has {threads}; raise \"threads\" of the job")]
    SectionThreads { most: u32, threads: u32 },
    #[error(
        "no section has more than {most} threads, the job has {threads}; lower \"threads\" of the job"
    )]
    UnusedThreads { most: u32, threads: u32 },
    #[error("the threads execute more than 10000000 parts; lower rounds or items")]
    TooManyParts,
    #[error("the shares of all phases add up to {0}; they must add up to 1")]
    Shares(String),
    #[error(
        "{key:?} has {found} numbers for {sizes} sizes in \"cache_bytes\"; write one for each size"
    )]
    CurveLength { key: &'static str, found: usize, sizes: usize },
    #[error(
        "\"cache_bytes\" must increase from a first size above 0; sort the sizes and write each once"
    )]
    CurveSizes,
    #[error("unknown key {found:?} in {key:?}; known are value, source and error")]
    ProfileValueKey { key: &'static str, found: String },
    #[error("{:?} is not a source of a value; {}", .0, did_you_mean(.0, ["counters", "traced", "declared", "estimated"]))]
    ValueSource(String),
    #[error("{0:?} is not a build id; write its hexadecimal digits, as file(1) prints them")]
    BuildId(String),
}

/// Returns a key in quotation marks. For the value of an option, returns a phrase such as "the time".
fn subject(key: &str) -> String {
    if key.contains(' ') { key.to_owned() } else { format!("{key:?}") }
}

fn class_hint(missing: &str) -> &'static str {
    match missing {
        "class" => "write - for no class",
        _ => "write the absolute path of the program, such as /bin/true",
    }
}
