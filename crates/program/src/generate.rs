//! Random workloads from a program list and a seed (spec 1.9).
//!
//! The draw, in this order, from one stream: the start of every job, uniform on the span in whole
//! milliseconds; which of them are hogs; then, in start order, the program of each. A program that
//! already runs as often as it may, or for which memory is short, is left out of that draw. The same
//! list, wish and seed give the same workload on every machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::{Bytes, JobId, Nanos, Rng};

use crate::assemble::{PLACEHOLDER, is_emptied, numbered, put_number};
use crate::{Job, N_JOBS_MAX, Program, ProgramList, TIME_MAX, Workload};

/// What workload is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorOptions {
    /// How many jobs.
    pub n_jobs: usize,
    /// Where chance begins.
    pub seed: u64,
    /// Jobs start between 0 and this.
    pub span: Nanos,
    /// The share of jobs that are hogs, 0 to 1; rounded to whole jobs.
    pub hog_fraction: f64,
    /// The relative weight of suites; empty: only the programs' own weights count, whatever their
    /// suite. A suite that is not named is not drawn.
    pub suite_weights: BTreeMap<String, u64>,
    /// Memory for all instances at a time; absent: no limit.
    pub memory: Option<Bytes>,
}

/// Why there is no such workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// Too few or too many jobs.
    #[error("{0} jobs cannot be generated; ask for 1 to {N_JOBS_MAX}")]
    Count(usize),
    /// A span that no workload may have.
    #[error("a span of {0} is more than 366 days; ask for less")]
    Span(Nanos),
    /// A share that is none.
    #[error("a hog fraction of {0} is no share; ask for 0 to 1")]
    HogFraction(f64),
    /// A suite that the list does not have.
    #[error("no program of the list belongs to the suite {found:?}; there are: {known}")]
    Suite {
        /// As asked for.
        found: String,
        /// Those that the list has.
        known: String,
    },
    /// Nothing of a kind that is needed.
    #[error("the list has no program to draw {0} from; add one, or give one a weight above 0")]
    Nothing(&'static str),
    /// At some moment nothing may start.
    #[error(
        "at {at} every program that could be drawn already runs as often as it may or finds no \
         memory; ask for fewer jobs, a longer span or more memory, or raise max in the list"
    )]
    Full {
        /// The start of the job that found no program.
        at: Nanos,
    },
}

/// The workload that belongs to a wish. Its name tells the seed; its folder is empty.
pub fn generate(list: &ProgramList, wish: &GeneratorOptions) -> Result<Workload, GenerateError> {
    check(list, wish)?;
    let mut rng = Rng::new(wish.seed);
    let mut starts: Vec<Nanos> = (0..wish.n_jobs).map(|_| start(&mut rng, wish.span)).collect();
    starts.sort_unstable();
    let hogs = hogs(&mut rng, wish);
    let mut draw = Draw::new(list, wish, rng);
    let jobs = starts.into_iter().zip(hogs).zip(0..);
    let jobs = jobs.map(|((start, hog), number)| draw.job(JobId(number), start, hog));
    Ok(Workload {
        name: format!("generated-{}", wish.seed),
        folder: PathBuf::new(),
        jobs: jobs.collect::<Result<_, _>>()?,
        read_only: Vec::new(),
    })
}

fn check(list: &ProgramList, wish: &GeneratorOptions) -> Result<(), GenerateError> {
    if !(1..=N_JOBS_MAX).contains(&wish.n_jobs) {
        return Err(GenerateError::Count(wish.n_jobs));
    }
    if TIME_MAX < wish.span {
        return Err(GenerateError::Span(wish.span));
    }
    if !(0.0..=1.0).contains(&wish.hog_fraction) {
        return Err(GenerateError::HogFraction(wish.hog_fraction));
    }
    let known = list.suites();
    match wish.suite_weights.keys().find(|suite| !known.contains(suite.as_str())) {
        None => Ok(()),
        Some(found) => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(GenerateError::Suite { found: found.clone(), known })
        }
    }
}

/// A whole millisecond of the span, its end included.
fn start(rng: &mut Rng, span: Nanos) -> Nanos {
    Nanos::from_millis(rng.below(span.0 / 1_000_000 + 1))
}

/// For each job whether it is a hog: a random choice of exactly the wished number.
fn hogs(rng: &mut Rng, wish: &GeneratorOptions) -> Vec<bool> {
    let n_hogs = (wish.hog_fraction * wish.n_jobs as f64).round() as usize;
    let mut order: Vec<usize> = (0..wish.n_jobs).collect();
    let mut hogs = vec![false; wish.n_jobs];
    for drawn in 0..n_hogs.min(wish.n_jobs) {
        let other = drawn + rng.below((wish.n_jobs - drawn) as u64) as usize;
        order.swap(drawn, other);
        hogs[order[drawn]] = true;
    }
    hogs
}

/// The draw as it goes through the starts.
struct Draw<'l> {
    programs: &'l [Program],
    wish: &'l GeneratorOptions,
    rng: Rng,
    /// For each program when its running instances end.
    running: Vec<Vec<Nanos>>,
    /// For each program the number of its last instance.
    n_drawn: Vec<u32>,
    /// The files that jobs write so far.
    outputs: BTreeSet<PathBuf>,
}

impl<'l> Draw<'l> {
    fn new(list: &'l ProgramList, wish: &'l GeneratorOptions, rng: Rng) -> Self {
        let n_programs = list.programs.len();
        let running = vec![Vec::new(); n_programs];
        Draw {
            programs: &list.programs,
            wish,
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
        self.running[program_idx].push(start.saturating_add(program.lasts));
        let number = self.next_number(program_idx);
        self.n_drawn[program_idx] = number;
        let name = numbered(&program.job.name, number);
        let mut job = Job { id, name, start, ..program.job.clone() };
        put_number(&mut job, &number.to_string());
        job.output = output_of(&program.job, number);
        self.outputs.extend(job.output.clone().filter(|output| is_emptied(output)));
        Ok(job)
    }

    /// The next number that gives the program an instance whose name no other program of the list has
    /// (beside `a` there may be an `a.2`), and whose output no job has yet.
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

    /// Draws the suite, if suites have weights, and then the program.
    fn program(&mut self, at: Nanos, hog: bool) -> Result<usize, GenerateError> {
        let eligible = self.eligible(hog)?;
        let free: Vec<usize> = eligible.into_iter().filter(|&idx| self.may_start(idx)).collect();
        let suites: Vec<(&str, u64)> = match hog {
            true => Vec::new(),
            false => self.wish.suite_weights.iter().map(|(name, w)| (name.as_str(), *w)).collect(),
        };
        let among = if suites.is_empty() { free } else { self.in_a_suite(&suites, free) };
        let weights: Vec<u64> = among.iter().map(|&idx| self.programs[idx].weight).collect();
        let drawn = self.rng.weighted(&weights).ok_or(GenerateError::Full { at })?;
        Ok(among[drawn])
    }

    /// Those that a draw of this kind could ever give.
    fn eligible(&self, hog: bool) -> Result<Vec<usize>, GenerateError> {
        let weights = &self.wish.suite_weights;
        let wanted = |program: &Program| {
            let suite = program.suite.as_ref().and_then(|suite| weights.get(suite));
            let in_suites = hog || weights.is_empty() || suite.is_some_and(|&weight| 0 < weight);
            program.hog == hog && 0 < program.weight && in_suites
        };
        let all = self.programs.iter().enumerate();
        let eligible: Vec<usize> = all.filter(|(_, p)| wanted(p)).map(|(idx, _)| idx).collect();
        match eligible.is_empty() {
            true => Err(GenerateError::Nothing(if hog { "hogs" } else { "jobs" })),
            false => Ok(eligible),
        }
    }

    /// The free programs of a suite drawn from those that have some.
    fn in_a_suite(&mut self, suites: &[(&str, u64)], free: Vec<usize>) -> Vec<usize> {
        let of = |name: &str| {
            let own = |&&idx: &&usize| self.programs[idx].suite.as_deref() == Some(name);
            free.iter().filter(own).copied().collect::<Vec<_>>()
        };
        let members: Vec<Vec<usize>> = suites.iter().map(|(name, _)| of(name)).collect();
        let open = |(&(_, weight), members): (&(&str, u64), &Vec<usize>)| {
            if members.is_empty() { 0 } else { weight }
        };
        let weights: Vec<u64> = suites.iter().zip(&members).map(open).collect();
        let drawn = self.rng.weighted(&weights);
        drawn.and_then(|idx| members.into_iter().nth(idx)).unwrap_or_default()
    }

    fn may_start(&self, program_idx: usize) -> bool {
        let program = &self.programs[program_idx];
        let n_running = self.running[program_idx].len();
        let room = self.wish.memory.is_none_or(|all| self.used_with(program) <= all.0);
        room && program.instances_max.is_none_or(|max| n_running < max as usize)
    }

    /// The memory that is held when one more of a program runs.
    fn used_with(&self, program: &Program) -> u64 {
        let running = self.programs.iter().zip(&self.running).map(held);
        running.fold(program.footprint.0, u64::saturating_add)
    }
}

/// The output of an instance. Each begins by emptying its own, so those of one program have a file
/// each: with `{copy}` in its name as the list says, else with the number behind it.
fn output_of(job: &Job, number: u32) -> Option<PathBuf> {
    let text = job.output.as_ref()?.to_string_lossy();
    match is_emptied(Path::new(&*text)) && !text.contains(PLACEHOLDER) {
        true => Some(numbered(&text, number).into()),
        false => Some(text.replace(PLACEHOLDER, &number.to_string()).into()),
    }
}

/// The memory that a program's running instances hold.
fn held((program, running): (&Program, &Vec<Nanos>)) -> u64 {
    program.footprint.0.saturating_mul(running.len() as u64)
}
