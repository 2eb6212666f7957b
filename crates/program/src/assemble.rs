//! From the lines of a file to its workload: copies, names, order, and what only the whole can break.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use base::toml_reader::SourceText;
use base::{JobId, Nanos};

use crate::error::{N_JOBS_MAX, WorkloadFault};
use crate::time::{TIME_MAX, seconds};
use crate::{Command, Ending, Job, Workload, WorkloadError};

/// A line of a file: a job that may stand for several.
pub(crate) struct JobLine {
    /// As written; absent: made from the program's.
    pub(crate) name: Option<String>,
    /// As written; only then is `{copy}` replaced.
    pub(crate) copies: Option<u32>,
    /// The time between the starts of two copies.
    pub(crate) every: Nanos,
    /// The job, without id and name.
    pub(crate) job: Job,
    /// Where the line begins.
    pub(crate) offset: usize,
    /// Where its name stands.
    pub(crate) name_offset: usize,
    /// Where its output stands.
    pub(crate) output_offset: usize,
}

/// What a file says beside its jobs.
pub(crate) struct FileHeader {
    /// The name of the workload, if the file says one.
    pub(crate) name: Option<String>,
    /// Files that may be copied per node.
    pub(crate) read_only: Vec<PathBuf>,
    /// A job to add when there is none.
    pub(crate) example: &'static str,
}

/// The workload of these lines.
pub(crate) fn workload(
    text: &SourceText<'_>,
    frame: FileHeader,
    lines: Vec<JobLine>,
) -> Result<Workload, WorkloadError> {
    let n_jobs: usize = lines.iter().map(|line| line.copies.unwrap_or(1) as usize).sum();
    if let Some(last) = lines.last().filter(|_| N_JOBS_MAX < n_jobs) {
        return Err(text.error_at(last.offset, WorkloadFault::TooManyJobs));
    }
    let mut names = Names::default();
    for line in lines.iter().filter(|line| line.name.is_some()) {
        names.claim(text, line)?;
    }
    let mut jobs = Vec::with_capacity(n_jobs);
    let mut outputs = Outputs::default();
    for line in &lines {
        let n_before = jobs.len();
        copies(text, line, &mut names, &mut jobs)?;
        for job in &jobs[n_before..] {
            outputs.claim(text, line, job)?;
        }
    }
    check_whole(text, &jobs, frame.example)?;
    jobs.sort_by_key(|job| job.start); // Stable: equal starts keep the order of the file.
    jobs.iter_mut().zip(0..).for_each(|(job, number)| job.id = JobId(number));
    let folder = text.file.parent().unwrap_or(Path::new("")).to_owned();
    let name = frame.name.unwrap_or_else(|| file_name(text.file.file_stem()));
    Ok(Workload { name, folder, jobs, read_only: frame.read_only })
}

/// A name that can name a file and stand in a table.
pub(crate) fn check_name(name: &str) -> Result<(), WorkloadFault> {
    let fine = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || c.is_control());
    fine.then_some(()).ok_or_else(|| WorkloadFault::Name { found: name.to_owned() })
}

/// With `.100000` behind it a name still leaves room for `.stdout` in the 255 bytes of a file name.
const NAME_BYTES_MAX: usize = 100;

/// Any text, mended so that it can be a name.
fn mended(text: &str) -> String {
    let mut name: String = text.trim_start_matches('.').chars().map(mended_char).collect();
    while NAME_BYTES_MAX < name.len() {
        name.pop();
    }
    if name.is_empty() { "job".to_owned() } else { name }
}

fn mended_char(c: char) -> char {
    if c == '/' || c.is_control() { '_' } else { c }
}

fn file_name(name: Option<&std::ffi::OsStr>) -> String {
    mended(&name.unwrap_or_default().to_string_lossy())
}

/// What a job without a name is called, before it is made unique.
fn natural_name(command: &Command) -> String {
    match command {
        Command::Program { program, .. } => file_name(program.file_name()),
        Command::Shell(_) => "sh".to_owned(),
        Command::Load(args) => args.first().map_or("load".to_owned(), |kind| mended(kind)),
    }
}

/// The names that are taken, with the line that took them.
#[derive(Default)]
struct Names {
    taken: BTreeMap<String, usize>,
    /// The next number to try behind a natural name.
    next: BTreeMap<String, u32>,
}

impl Names {
    /// Takes the written name of a line for all its copies.
    fn claim(&mut self, text: &SourceText<'_>, line: &JobLine) -> Result<(), WorkloadError> {
        let Some(name) = &line.name else { return Ok(()) };
        for number in 1..=line.copies.unwrap_or(1) {
            let name = numbered(name, number);
            let here = text.line(line.name_offset);
            if let Some(other_line) = self.taken.insert(name.clone(), here) {
                return Err(
                    text.error_at(line.name_offset, WorkloadFault::Duplicate { name, other_line })
                );
            }
        }
        Ok(())
    }

    /// The first of `name`, `name.2`, `name.3` … that is free.
    fn free(&mut self, name: String, line: usize) -> String {
        let next = self.next.entry(name.clone()).or_insert(1);
        loop {
            let tried = numbered(&name, *next);
            *next += 1;
            if !self.taken.contains_key(&tried) {
                self.taken.insert(tried.clone(), line);
                return tried;
            }
        }
    }
}

/// The name of a copy: the first keeps the plain one.
pub(crate) fn numbered(name: &str, number: u32) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}.{number}") }
}

/// Adds every copy of a line.
fn copies(
    text: &SourceText<'_>,
    line: &JobLine,
    names: &mut Names,
    jobs: &mut Vec<Job>,
) -> Result<(), WorkloadError> {
    check_outputs(text, line)?;
    let n_copies = line.copies.unwrap_or(1);
    let last = u128::from(line.every.0) * u128::from(n_copies - 1) + u128::from(line.job.start.0);
    if u128::from(TIME_MAX.0) < last {
        let found = seconds(line.every);
        return Err(text.error_at(line.offset, WorkloadFault::TimeTooLong { key: "every", found }));
    }
    for number in 1..=n_copies {
        let mut job = line.job.clone();
        job.start += Nanos(line.every.0 * u64::from(number - 1));
        job.name = match &line.name {
            Some(name) => numbered(name, number),
            None => names.free(natural_name(&job.command), job.origin.line),
        };
        if line.copies.is_some() {
            put_number(&mut job, &number.to_string());
        }
        jobs.push(job);
    }
    Ok(())
}

/// Copies that write one file would each begin by emptying it.
fn check_outputs(text: &SourceText<'_>, line: &JobLine) -> Result<(), WorkloadError> {
    let shared =
        |output: &&PathBuf| is_emptied(output) && !output.to_string_lossy().contains(PLACEHOLDER);
    match &line.job.output.as_ref().filter(shared) {
        Some(_) if 1 < line.copies.unwrap_or(1) => {
            Err(text.error_at(line.output_offset, WorkloadFault::SharedOutput { key: "output" }))
        }
        _ => Ok(()),
    }
}

/// Whether this is a file that loses what it held when a job begins to write. A device does not; what
/// `/dev/shm` holds are files.
pub(crate) fn is_emptied(output: &Path) -> bool {
    !output.starts_with("/dev") || output.starts_with("/dev/shm")
}

/// The files that jobs write, by their names alone: what is one file under two names is found by
/// the host, which can look.
#[derive(Default)]
struct Outputs {
    /// With the line that writes it.
    taken: BTreeMap<PathBuf, usize>,
}

impl Outputs {
    fn claim(
        &mut self,
        text: &SourceText<'_>,
        line: &JobLine,
        job: &Job,
    ) -> Result<(), WorkloadError> {
        let Some(output) = job.output.as_deref().filter(|path| is_emptied(path)) else {
            return Ok(());
        };
        let folder = text.file.parent().unwrap_or(Path::new(""));
        let place = |path: &Path| plain(&folder.join(path));
        let path = place(output);
        let refuse = |fault| Err(text.error_at(line.output_offset, fault));
        if job.input.as_deref().is_some_and(|input| place(input) == path) {
            return refuse(WorkloadFault::OutputIsInput);
        }
        if plain(text.file) == path {
            return refuse(WorkloadFault::OutputIsWorkload);
        }
        match self.taken.insert(path, job.origin.line) {
            Some(other_line) => refuse(WorkloadFault::TakenOutput {
                path: output.display().to_string(),
                other_line,
            }),
            None => Ok(()),
        }
    }
}

/// A path without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// What becomes the number of the copy.
pub(crate) const PLACEHOLDER: &str = "{copy}";

/// Puts the number of a copy wherever `{copy}` stands.
pub(crate) fn put_number(job: &mut Job, number: &str) {
    let put = |text: &mut String| *text = text.replace(PLACEHOLDER, number);
    match &mut job.command {
        Command::Program { args, .. } | Command::Load(args) => args.iter_mut().for_each(put),
        Command::Shell(line) => put(line),
    }
    for path in [&mut job.dir, &mut job.input, &mut job.output].into_iter().flatten() {
        *path = path.to_string_lossy().replace(PLACEHOLDER, number).into();
    }
    job.env.values_mut().for_each(put);
}

/// What no single line can break.
fn check_whole(
    text: &SourceText<'_>,
    jobs: &[Job],
    example: &'static str,
) -> Result<(), WorkloadError> {
    let Some(first) = jobs.first() else {
        return Err(text.error_at(0, WorkloadFault::NoJob { example }));
    };
    match jobs.iter().all(|job| job.ending == Ending::RestartUntilOthersDone) {
        true => Err(text.error_at(text.start_of(first.origin.line), WorkloadFault::EndlessRun)),
        false => Ok(()),
    }
}
