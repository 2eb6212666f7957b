//! Builds a workload from the lines of a file: copies, names, start order, and checks across lines.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use base::toml_reader::SourceText;
use base::{JobId, Nanos};

use crate::error::{N_JOBS_MAX, WorkloadFault};
use crate::time::{TIME_MAX, seconds};
use crate::values::NAME_BYTES_MAX;
use crate::{Command, Job, Workload, WorkloadError};

/// A line of a file, which defines one job per copy.
pub(crate) struct WorkloadLine {
    /// The name in the file. If absent, the name is derived from the program.
    pub(crate) name: Option<String>,
    /// The number of copies in the file. If present, `{copy}` in the values of the job is replaced.
    pub(crate) copies: Option<u32>,
    /// Time between the starts of two copies.
    pub(crate) every: Nanos,
    /// The job, without id and name.
    pub(crate) job: Job,
    /// Byte offset of the line.
    pub(crate) offset: usize,
    /// Byte offset of the name.
    pub(crate) name_offset: usize,
    /// Byte offset of the output.
    pub(crate) output_offset: usize,
}

/// The values of a file that apply to all its jobs.
pub(crate) struct FileHeader {
    /// The name of the workload, if the file has one.
    pub(crate) name: Option<String>,
    /// Files that may be replicated per node.
    pub(crate) read_only: Vec<PathBuf>,
    /// A valid job, which is printed in the error for a file without jobs.
    pub(crate) example: &'static str,
}

/// Builds the workload from its lines.
pub(crate) fn workload(
    text: &SourceText<'_>,
    header: FileHeader,
    lines: Vec<WorkloadLine>,
) -> Result<Workload, WorkloadError> {
    let n_jobs: usize = lines.iter().map(|line| line.copies.unwrap_or(1) as usize).sum();
    if let Some(last) = lines.last().filter(|_| N_JOBS_MAX < n_jobs) {
        return Err(text.error_at(last.offset, WorkloadFault::TooManyJobs));
    }
    let mut names = Names::default();
    for line in lines.iter().filter(|line| line.name.is_some()) {
        names.reserve(text, line)?;
    }
    let mut jobs = Vec::with_capacity(n_jobs);
    let mut outputs = Outputs::default();
    for line in &lines {
        let n_before = jobs.len();
        copies(text, line, &mut names, &mut jobs)?;
        for job in &jobs[n_before..] {
            outputs.reserve(text, line, job)?;
        }
    }
    check_jobs(text, &jobs, header.example)?;
    jobs.sort_by_key(|job| job.start); // The sort is stable: jobs with equal starts keep the order of the file.
    jobs.iter_mut().zip(0..).for_each(|(job, number)| job.id = JobId(number));
    let dir = text.file.parent().unwrap_or(Path::new("")).to_owned();
    let name = header.name.unwrap_or_else(|| file_name(text.file.file_stem()));
    Ok(Workload { name, dir, jobs, read_only: header.read_only })
}

/// Returns a valid name, derived from any text.
fn sanitized(text: &str) -> String {
    let mut name: String = text.trim_start_matches('.').chars().map(sanitized_char).collect();
    while NAME_BYTES_MAX < name.len() {
        name.pop();
    }
    if name.is_empty() { "job".to_owned() } else { name }
}

fn sanitized_char(c: char) -> char {
    if c == '/' || !base::is_printable(c) { '_' } else { c }
}

fn file_name(name: Option<&std::ffi::OsStr>) -> String {
    sanitized(&name.unwrap_or_default().to_string_lossy())
}

/// Returns the name of a job without a declared name. The name is not yet unique.
pub(crate) fn derived_name(command: &Command) -> String {
    match command {
        Command::Program { program, .. } => file_name(program.file_name()),
        Command::Shell(_) => "sh".to_owned(),
        Command::Load(args) => args.first().map_or("load".to_owned(), |kind| sanitized(kind)),
    }
}

/// The names in use, with the numbers of their lines.
#[derive(Default)]
struct Names {
    used_names: BTreeMap<String, usize>,
    /// The next number to try for each derived name.
    next: BTreeMap<String, u32>,
}

impl Names {
    /// Reserves the declared name of a line for all copies of the line.
    fn reserve(&mut self, text: &SourceText<'_>, line: &WorkloadLine) -> Result<(), WorkloadError> {
        let Some(name) = &line.name else { return Ok(()) };
        for number in 1..=line.copies.unwrap_or(1) {
            let name = numbered(name, number);
            let line_number = text.line(line.name_offset);
            if let Some(other_line) = self.used_names.insert(name.clone(), line_number) {
                return Err(
                    text.error_at(line.name_offset, WorkloadFault::Duplicate { name, other_line })
                );
            }
        }
        Ok(())
    }

    /// Reserves the first unused name of `name`, `name.2`, `name.3`, … and returns it.
    fn unique_name(&mut self, name: String, line: usize) -> String {
        let next = self.next.entry(name.clone()).or_insert(1);
        loop {
            let tried = numbered(&name, *next);
            *next += 1;
            if !self.used_names.contains_key(&tried) {
                self.used_names.insert(tried.clone(), line);
                return tried;
            }
        }
    }
}

/// Returns the name of a copy. The first copy has the name without a number.
pub(crate) fn numbered(name: &str, number: u32) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}.{number}") }
}

/// Adds all copies of a line.
fn copies(
    text: &SourceText<'_>,
    line: &WorkloadLine,
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
            None => names.unique_name(derived_name(&job.command), job.origin.line),
        };
        if line.copies.is_some() {
            replace_placeholder(&mut job, &number.to_string());
        }
        jobs.push(job);
    }
    Ok(())
}

/// Rejects copies that would truncate each other's output.
fn check_outputs(text: &SourceText<'_>, line: &WorkloadLine) -> Result<(), WorkloadError> {
    let shared =
        |output: &&PathBuf| is_truncated(output) && !output.to_string_lossy().contains(PLACEHOLDER);
    match &line.job.output.as_ref().filter(shared) {
        Some(_) if 1 < line.copies.unwrap_or(1) => {
            Err(text.error_at(line.output_offset, WorkloadFault::SharedOutput("output")))
        }
        _ => Ok(()),
    }
}

/// Returns whether opening this file for output truncates it. Devices are not truncated; files under `/dev/shm` are.
pub(crate) fn is_truncated(output: &Path) -> bool {
    !output.starts_with("/dev") || output.starts_with("/dev/shm")
}

/// Output files of the jobs, compared by path. The host detects two paths of one file.
#[derive(Default)]
struct Outputs {
    /// Line of the job that writes the file.
    writer_lines: BTreeMap<PathBuf, usize>,
}

impl Outputs {
    fn reserve(
        &mut self,
        text: &SourceText<'_>,
        line: &WorkloadLine,
        job: &Job,
    ) -> Result<(), WorkloadError> {
        let Some(output) = job.output.as_deref().filter(|path| is_truncated(path)) else {
            return Ok(());
        };
        let dir = text.file.parent().unwrap_or(Path::new(""));
        let resolved = |path: &Path| without_dots(&dir.join(path));
        let path = resolved(output);
        let reject = |fault| Err(text.error_at(line.output_offset, fault));
        if job.input.as_deref().is_some_and(|input| resolved(input) == path) {
            return reject(WorkloadFault::OutputIsInput);
        }
        if without_dots(text.file) == path {
            return reject(WorkloadFault::OutputIsWorkload);
        }
        match self.writer_lines.insert(path, job.origin.line) {
            Some(other_line) => reject(WorkloadFault::TakenOutput {
                path: output.display().to_string(),
                other_line,
            }),
            None => Ok(()),
        }
    }
}

/// Removes `.` components from a path.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// Placeholder for the number of the copy.
pub(crate) const PLACEHOLDER: &str = "{copy}";

/// Replaces [`PLACEHOLDER`] in all text values of a job.
pub(crate) fn replace_placeholder(job: &mut Job, number: &str) {
    let replace = |text: &mut String| *text = text.replace(PLACEHOLDER, number);
    match &mut job.command {
        Command::Program { args, .. } | Command::Load(args) => args.iter_mut().for_each(replace),
        Command::Shell(line) => replace(line),
    }
    for path in [&mut job.dir, &mut job.input, &mut job.output].into_iter().flatten() {
        *path = path.to_string_lossy().replace(PLACEHOLDER, number).into();
    }
    job.env.values_mut().for_each(replace);
}

/// Checks values that depend on other jobs.
fn check_jobs(
    text: &SourceText<'_>,
    jobs: &[Job],
    example: &'static str,
) -> Result<(), WorkloadError> {
    let Some(first) = jobs.first() else {
        return Err(text.error_at(0, WorkloadFault::NoJob(example)));
    };
    match jobs.iter().all(|job| !job.ending.is_awaited()) {
        true => Err(text.error_at(text.start_of(first.origin.line), WorkloadFault::EndlessRun)),
        false => Ok(()),
    }
}
