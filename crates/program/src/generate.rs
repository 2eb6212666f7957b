//! Random workloads from a program list and a seed.
//!
//! All random numbers come from one stream, in this order: the start of every job, uniform from 0 to the span, in
//! whole milliseconds; the choice of the jobs that are hogs; then, in start order, the program of each job. A draw
//! excludes programs that have reached their maximum number of running instances, and programs with a footprint that
//! does not fit into the memory limit. A list, options and a seed give the same workload on every machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::{Bytes, JobId, Nanos, Rng};

use crate::assemble::{PLACEHOLDER, is_truncated, numbered, replace_placeholder};
use crate::{Job, N_JOBS_MAX, Program, ProgramList, TIME_MAX, Workload};

/// Parameters of a generated workload.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorOptions {
    /// Number of jobs.
    pub n_jobs: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Latest start time. Jobs start between 0 and this time.
    pub span: Nanos,
    /// Share of jobs that are hogs, 0 to 1; rounded to whole jobs.
    pub hog_fraction: f64,
    /// Weights of suites. Suites without a weight are not drawn. If the map is empty, programs are drawn by their own
    /// weights.
    pub suite_weights: BTreeMap<String, u64>,
    /// Maximum memory of all running instances together; absent: no limit.
    pub memory: Option<Bytes>,
}

/// An error for options from which no workload can be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum GenerateError {
    #[error("{0} jobs cannot be generated; give 1 to {N_JOBS_MAX}")]
    Count(usize),
    #[error("a span of {0} is more than 366 days; give a shorter one")]
    Span(Nanos),
    #[error("a hog fraction of {0} is not a share; give 0 to 1")]
    HogFraction(f64),
    #[error("no program of the list belongs to the suite {found:?}; known are {known}")]
    Suite { found: String, known: String },
    #[error("the list has no program to draw {0} from; add one, or give one a weight above 0")]
    Nothing(&'static str),
    #[error(
        "at {0} every program of the list has reached its maximum of instances or does not fit into the \
         memory limit; give fewer jobs, a longer span or more memory, or raise max in the list"
    )]
    Full(Nanos),
}

/// Generates a workload. The workload's name contains the seed; its directory is empty.
pub fn generate(list: &ProgramList, options: &GeneratorOptions) -> Result<Workload, GenerateError> {
    check(list, options)?;
    let mut rng = Rng::new(options.seed);
    let mut starts: Vec<Nanos> =
        (0..options.n_jobs).map(|_| start(&mut rng, options.span)).collect();
    starts.sort_unstable();
    let hogs = hogs(&mut rng, options);
    let mut draw = JobDraw::new(list, options, rng);
    let jobs = starts.into_iter().zip(hogs).zip(0..);
    let jobs = jobs.map(|((start, hog), number)| draw.job(JobId(number), start, hog));
    Ok(Workload {
        name: format!("generated-{}", options.seed),
        dir: PathBuf::new(),
        jobs: jobs.collect::<Result<_, _>>()?,
        read_only: Vec::new(),
    })
}

fn check(list: &ProgramList, options: &GeneratorOptions) -> Result<(), GenerateError> {
    if !(1..=N_JOBS_MAX).contains(&options.n_jobs) {
        return Err(GenerateError::Count(options.n_jobs));
    }
    if TIME_MAX < options.span {
        return Err(GenerateError::Span(options.span));
    }
    if !(0.0..=1.0).contains(&options.hog_fraction) {
        return Err(GenerateError::HogFraction(options.hog_fraction));
    }
    let known = list.suites();
    match options.suite_weights.keys().find(|suite| !known.contains(suite.as_str())) {
        None => Ok(()),
        Some(found) => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(GenerateError::Suite { found: found.clone(), known })
        }
    }
}

/// Draws a whole number of milliseconds from 0 to `span`.
fn start(rng: &mut Rng, span: Nanos) -> Nanos {
    Nanos::from_millis(rng.below(span.0 / 1_000_000 + 1))
}

/// Draws which jobs are hogs. The number of hogs is exact.
fn hogs(rng: &mut Rng, options: &GeneratorOptions) -> Vec<bool> {
    let n_hogs = (options.hog_fraction * options.n_jobs as f64).round() as usize;
    let mut order: Vec<usize> = (0..options.n_jobs).collect();
    let mut hogs = vec![false; options.n_jobs];
    for drawn in 0..n_hogs.min(options.n_jobs) {
        let other = drawn + rng.below((options.n_jobs - drawn) as u64) as usize;
        order.swap(drawn, other);
        hogs[order[drawn]] = true;
    }
    hogs
}

/// State of the draw.
struct JobDraw<'l> {
    programs: &'l [Program],
    options: &'l GeneratorOptions,
    rng: Rng,
    /// End times of the running instances, by program.
    running: Vec<Vec<Nanos>>,
    /// Number of the last instance, by program.
    n_drawn: Vec<u32>,
    /// Output files of the jobs that were already drawn.
    outputs: BTreeSet<PathBuf>,
}

impl<'l> JobDraw<'l> {
    fn new(list: &'l ProgramList, options: &'l GeneratorOptions, rng: Rng) -> Self {
        let n_programs = list.programs.len();
        let running = vec![Vec::new(); n_programs];
        JobDraw {
            programs: &list.programs,
            options,
            rng,
            running,
            n_drawn: vec![0; n_programs],
            outputs: BTreeSet::new(),
        }
    }

    fn job(&mut self, id: JobId, start: Nanos, hog: bool) -> Result<Job, GenerateError> {
        self.running.iter_mut().for_each(|ends| ends.retain(|&end| start < end));
        let program_idx = self.program(start, hog)?;
        let program = &self.programs[program_idx];
        self.running[program_idx].push(start.saturating_add(program.run_time));
        let number = self.next_number(program_idx);
        self.n_drawn[program_idx] = number;
        let name = numbered(&program.job.name, number);
        let mut job = Job { id, name, start, ..program.job.clone() };
        replace_placeholder(&mut job, &number.to_string());
        job.output = output_of(&program.job, number);
        self.outputs.extend(job.output.clone().filter(|output| is_truncated(output)));
        Ok(job)
    }

    /// Returns the next instance number of a program. Numbers are skipped if the name belongs to another program (a
    /// list may have `a` and `a.2`) or if another job has the output.
    fn next_number(&self, program_idx: usize) -> u32 {
        let own = &self.programs[program_idx].job;
        let is_free = |number: &u32| {
            let name = numbered(&own.name, *number);
            let output = output_of(own, *number);
            let is_named_so = |program: &Program| program.job.name == name;
            (*number == 1 || !self.programs.iter().any(is_named_so))
                && !output.is_some_and(|output| self.outputs.contains(&output))
        };
        (self.n_drawn[program_idx] + 1..).find(is_free).unwrap_or(u32::MAX)
    }

    /// Draws a suite if suites have weights, then a program.
    fn program(&mut self, at: Nanos, hog: bool) -> Result<usize, GenerateError> {
        let eligible = self.eligible(hog)?;
        let free: Vec<usize> = eligible.into_iter().filter(|&idx| self.may_start(idx)).collect();
        let suites: Vec<(&str, u64)> = match hog {
            true => Vec::new(),
            false => {
                self.options.suite_weights.iter().map(|(name, w)| (name.as_str(), *w)).collect()
            }
        };
        let candidates = if suites.is_empty() { free } else { self.draw_suite(&suites, free) };
        let weights: Vec<u64> = candidates.iter().map(|&idx| self.programs[idx].weight).collect();
        let drawn = self.rng.weighted(&weights).ok_or(GenerateError::Full(at))?;
        Ok(candidates[drawn])
    }

    /// Returns the programs that a draw of hogs, or of other jobs, can return.
    fn eligible(&self, hog: bool) -> Result<Vec<usize>, GenerateError> {
        let weights = &self.options.suite_weights;
        let is_eligible = |program: &Program| {
            let suite = program.suite.as_ref().and_then(|suite| weights.get(suite));
            let in_suites = hog || weights.is_empty() || suite.is_some_and(|&weight| 0 < weight);
            program.hog == hog && 0 < program.weight && in_suites
        };
        let all = self.programs.iter().enumerate();
        let eligible: Vec<usize> =
            all.filter(|(_, p)| is_eligible(p)).map(|(idx, _)| idx).collect();
        match eligible.is_empty() {
            true => Err(GenerateError::Nothing(if hog { "hogs" } else { "jobs" })),
            false => Ok(eligible),
        }
    }

    /// Draws a suite among the suites with programs that may start. Returns these programs of the suite.
    fn draw_suite(&mut self, suites: &[(&str, u64)], free: Vec<usize>) -> Vec<usize> {
        let members_of = |name: &str| {
            let own = |&&idx: &&usize| self.programs[idx].suite.as_deref() == Some(name);
            free.iter().filter(own).copied().collect::<Vec<_>>()
        };
        let members: Vec<Vec<usize>> = suites.iter().map(|(name, _)| members_of(name)).collect();
        let weight_if_free = |(&(_, weight), members): (&(&str, u64), &Vec<usize>)| {
            if members.is_empty() { 0 } else { weight }
        };
        let weights: Vec<u64> = suites.iter().zip(&members).map(weight_if_free).collect();
        let drawn = self.rng.weighted(&weights);
        drawn.and_then(|idx| members.into_iter().nth(idx)).unwrap_or_default()
    }

    fn may_start(&self, program_idx: usize) -> bool {
        let program = &self.programs[program_idx];
        let n_running = self.running[program_idx].len();
        let fits =
            self.options.memory.is_none_or(|all| self.memory_with_instance(program) <= all.0);
        fits && program.instances_max.is_none_or(|max| n_running < max as usize)
    }

    /// Returns the memory in use if one more instance of a program runs.
    fn memory_with_instance(&self, program: &Program) -> u64 {
        let running = self.programs.iter().zip(&self.running).map(memory_of_instances);
        running.fold(program.footprint.0, u64::saturating_add)
    }
}

/// Returns the output of an instance. Every instance truncates its output and therefore has a separate file: `{copy}`
/// in the name is replaced by the number; without `{copy}`, the number is appended.
fn output_of(job: &Job, number: u32) -> Option<PathBuf> {
    let text = job.output.as_ref()?.to_string_lossy();
    match is_truncated(Path::new(&*text)) && !text.contains(PLACEHOLDER) {
        true => Some(numbered(&text, number).into()),
        false => Some(text.replace(PLACEHOLDER, &number.to_string()).into()),
    }
}

/// Returns the memory of the running instances of a program.
fn memory_of_instances((program, running): (&Program, &Vec<Nanos>)) -> u64 {
    program.footprint.0.saturating_mul(running.len() as u64)
}
