//! `runs.jsonl`: the finished runs of a comparison.
//!
//! ```text
//!   {"compare":6,"tool":…,"machine":…,"workloads":…,"policies":…,"seeds":…,"options":…}    identity of the comparison
//!   {"run":0,"column":"linux","workload":"w","seed":1,"last_end_ns":…,"jobs":[[start,end,user,system],…],…}
//!   {"run":2,…}                                              in the order in which runs finish
//! ```
//!
//! Repeating the command resumes the comparison. A directory of another comparison is rejected, so that metrics are
//! never mixed. An incomplete last line, left by SIGKILL, is discarded. A lock on the file excludes a second writer.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use base::{Nanos, NodeId};
use files::OutputDir;
use program::{FilePosition, Job};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use topology::{Machine, MachineParts};

use super::{
    ComparePlan, Completion, ControllerTraffic, JobTimes, OracleSearch, RunKey, RunMetrics,
};
use crate::assignment::ModelGap;

/// Name of the file in the directory of a comparison.
pub const RUNS_FILE: &str = "runs.jsonl";
/// Version of the file format.
const VERSION: u32 = 6;

/// Description of a file with another version, for the error.
const OTHER_VERSION: &str = "another version of the file";

/// Identity of a comparison. A run of the command resumes a comparison only if all fields are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    compare: u32,
    tool: String,
    machine: String,
    workloads: Vec<String>,
    policies: Vec<String>,
    seeds: Vec<u64>,
    options: BTreeMap<String, String>,
}

impl Identity {
    /// Creates the identity of a plan on a machine. `jobs` are the jobs of the workloads of the plan, in order;
    /// `options` are all other settings that affect the metrics.
    pub fn new(
        plan: &ComparePlan,
        machine: &Machine,
        jobs: &[Vec<Job>],
        options: BTreeMap<String, String>,
    ) -> Self {
        let workload = |(name, jobs): (&String, &Vec<Job>)| {
            // The path of a file does not affect the metrics.
            let bare =
                |job: &Job| Job { origin: FilePosition::default(), found_in: None, ..job.clone() };
            let jobs: Vec<Job> = jobs.iter().map(bare).collect();
            format!("{name} {}", fingerprint(&jobs))
        };
        Identity {
            compare: VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            machine: fingerprint(&without_free_memory(machine)),
            workloads: plan.workloads.iter().zip(jobs).map(workload).collect(),
            policies: plan.columns.iter().map(|column| column.text.clone()).collect(),
            seeds: plan.seeds.clone(),
            options,
        }
    }

    /// Returns the first difference to another identity, in words.
    fn differs(&self, found: &Identity) -> Option<&'static str> {
        let parts = [
            (OTHER_VERSION, self.compare == found.compare),
            ("another version of evenkeel", self.tool == found.tool),
            ("other policies", self.policies == found.policies),
            ("other workloads", self.workloads == found.workloads),
            ("other seeds", self.seeds == found.seeds),
            ("another machine", self.machine == found.machine),
            ("other options", self.options == found.options),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(difference, _)| difference)
    }
}

/// Returns the machine without its free memory, which changes between runs.
fn without_free_memory(machine: &Machine) -> MachineParts {
    let mut parts = machine.parts().clone();
    parts.nodes.iter_mut().for_each(|node| node.memory_free = None);
    parts
}

/// Returns the hash of the debug text of a value (FNV-1a, 64 bits).
fn fingerprint(value: &impl Debug) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in format!("{value:?}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// Error: a directory cannot be used. Each message contains a remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum RunStoreError {
    #[error("cannot write {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{dir} contains another comparison ({difference}): choose another directory with --out"
    )]
    Other { dir: PathBuf, difference: &'static str },
    #[error(
        "another evenkeel runs the comparison in {0}: wait for it, or choose another directory with --out"
    )]
    Busy(PathBuf),
    #[error(
        "{path}:{line}: not a run of this comparison: remove the line, or choose another directory with --out"
    )]
    Line { path: PathBuf, line: usize },
}

/// The finished runs of a comparison, in memory and in its file.
#[derive(Debug)]
pub struct RunStore {
    file: File,
    path: PathBuf,
    /// Whether a write has failed. Nothing is written afterwards, because the file may end with an incomplete line.
    is_closed: bool,
    /// Finished runs.
    pub done: BTreeMap<RunKey, RunMetrics>,
    /// Times of jobs alone, by workload, if they were measured.
    pub alone: BTreeMap<usize, Vec<Option<Nanos>>>,
}

impl RunStore {
    /// Starts a comparison in an existing directory, or resumes the comparison of that directory.
    ///
    /// # Errors
    /// The directory contains another comparison, or cannot be written.
    pub fn open(
        dir: &OutputDir,
        identity: &Identity,
        plan: &ComparePlan,
    ) -> Result<Self, RunStoreError> {
        let path = dir.path().join(RUNS_FILE);
        let io = |source| RunStoreError::Io { path: path.clone(), source };
        let mut file = dir.open_or_create(RUNS_FILE).map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(RunStoreError::Busy(dir.path().to_owned()));
            }
            locked => locked.map_err(io::Error::from).map_err(io)?,
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let n_whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(&bytes[..n_whole]).into_owned();
        let (done, alone) = (BTreeMap::new(), BTreeMap::new());
        let mut store = RunStore { file, path, is_closed: false, done, alone };
        match text.lines().next() {
            Some(first) => store.take_first(dir, first, identity)?,
            None => {
                store.cut(0)?;
                store.write(identity)?;
                return Ok(store);
            }
        }
        store.cut(n_whole as u64)?;
        for (idx, line) in text.lines().enumerate().skip(1) {
            let wrong = || RunStoreError::Line { path: store.path.clone(), line: idx + 1 };
            let line: StoredLine = serde_json::from_str(line).map_err(|_| wrong())?;
            store
                .take(line, plan)
                .ok_or_else(|| RunStoreError::Line { path: store.path.clone(), line: idx + 1 })?;
        }
        Ok(store)
    }

    fn take_first(
        &self,
        dir: &OutputDir,
        first: &str,
        expected: &Identity,
    ) -> Result<(), RunStoreError> {
        let other = |difference| RunStoreError::Other { dir: dir.path().to_owned(), difference };
        /// The version of a file, which is checked first because other versions have other fields.
        #[derive(Deserialize)]
        struct FileVersion {
            compare: u32,
        }
        if serde_json::from_str::<FileVersion>(first)
            .is_ok_and(|found| found.compare != expected.compare)
        {
            return Err(other(OTHER_VERSION));
        }
        let found: Identity = serde_json::from_str(first).map_err(|_| other("not a comparison"))?;
        expected.differs(&found).map_or(Ok(()), |difference| Err(other(difference)))
    }

    fn take(&mut self, line: StoredLine, plan: &ComparePlan) -> Option<()> {
        match line {
            StoredLine::Run(run) if plan.number(&run.key) == Some(run.run) => {
                self.done.insert(run.key.clone(), run.metrics());
            }
            StoredLine::SoloTimes { workload, alone_ns } if workload < plan.workloads.len() => {
                let alone = alone_ns.into_iter().map(|time| time.map(Nanos)).collect();
                self.alone.insert(workload, alone);
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds a finished run of a plan, and appends it to the file.
    ///
    /// # Errors
    /// The file cannot be written. The error is returned once: later runs are added in memory only.
    pub fn save(
        &mut self,
        key: RunKey,
        metrics: RunMetrics,
        plan: &ComparePlan,
    ) -> Result<(), RunStoreError> {
        let number = plan.number(&key).expect("a run of this plan");
        let line = RunLine::new(number, key.clone(), &metrics);
        self.done.insert(key, metrics);
        self.write(&line)
    }

    /// Adds the time of each job of a workload alone on the idle machine, and appends the times to the file.
    ///
    /// # Errors
    /// See [`RunStore::save`].
    pub fn save_solo_times(
        &mut self,
        workload: usize,
        alone: Vec<Option<Nanos>>,
    ) -> Result<(), RunStoreError> {
        let alone_ns = alone.iter().map(|time| time.map(|time| time.0)).collect();
        self.alone.insert(workload, alone);
        self.write(&StoredLine::SoloTimes { workload, alone_ns })
    }

    /// Returns the runs that are not finished, in order.
    pub fn unfinished_runs(&self, plan: &ComparePlan) -> Vec<RunKey> {
        plan.keys().filter(|key| !self.done.contains_key(key)).collect()
    }

    /// Truncates the file at this offset.
    fn cut(&mut self, at: u64) -> Result<(), RunStoreError> {
        let cut = self.file.set_len(at).and_then(|()| self.file.seek(SeekFrom::End(0)));
        cut.map(|_| ()).map_err(|source| RunStoreError::Io { path: self.path.clone(), source })
    }

    /// Appends a line in one write, so that SIGKILL leaves at most one incomplete line, at the end.
    fn write(&mut self, line: &impl Serialize) -> Result<(), RunStoreError> {
        if self.is_closed {
            return Ok(());
        }
        let text = base::json::to_line(line).map_err(io::Error::from);
        let written = text.and_then(|text| self.file.write_all((text + "\n").as_bytes()));
        self.is_closed = written.is_err();
        written.map_err(|source| RunStoreError::Io { path: self.path.clone(), source })
    }
}

/// A line of the file, except the first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum StoredLine {
    Run(Box<RunLine>),
    SoloTimes { workload: usize, alone_ns: Vec<Option<u64>> },
}

/// A run in the file.
#[derive(Debug, Serialize, Deserialize)]
struct RunLine {
    run: usize,
    #[serde(flatten)]
    key: RunKey,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    last_end_ns: u64,
    /// Start, end, CPU time in user mode and CPU time in kernel mode of each job.
    jobs: Vec<[Option<u64>; 4]>,
    n_migrations: u64,
    n_moves: u64,
    pages_moved_bytes: u64,
    /// Node, bytes read, bytes written.
    controllers: Vec<(Option<u32>, u64, u64)>,
    /// Search of the policy `oracle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    oracle: Option<OracleSearch>,
    /// [`RunMetrics::model_gap`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model_gap: Option<ModelGap>,
    /// [`RunMetrics::nothing_to_decide`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nothing_to_decide: Option<String>,
}

const STATUSES: [(Completion, &str); 3] = [
    (Completion::Finished, "finished"),
    (Completion::Failed, "failed"),
    (Completion::Stopped, "stopped"),
];

fn job_values(job: &JobTimes) -> [Option<Nanos>; 4] {
    [job.start, job.end, job.user, job.system]
}

impl RunLine {
    fn new(number: usize, key: RunKey, metrics: &RunMetrics) -> Self {
        let status = STATUSES.iter().find(|(status, _)| *status == metrics.status);
        let nanos = |time: Option<Nanos>| time.map(|time| time.0);
        RunLine {
            run: number,
            key,
            status: status.map_or("", |(_, word)| word).to_owned(),
            error: metrics.error.clone(),
            last_end_ns: metrics.last_end.0,
            jobs: metrics.jobs.iter().map(|job| job_values(job).map(nanos)).collect(),
            n_migrations: metrics.n_migrations,
            n_moves: metrics.n_moves,
            pages_moved_bytes: metrics.pages_moved_bytes,
            controllers: (metrics.controllers.iter())
                .map(|traffic| {
                    (traffic.node.map(|node| node.0), traffic.read_bytes, traffic.written_bytes)
                })
                .collect(),
            oracle: metrics.oracle.clone(),
            model_gap: metrics.model_gap,
            nothing_to_decide: metrics.nothing_to_decide.clone(),
        }
    }

    fn metrics(self) -> RunMetrics {
        let status = STATUSES.iter().find(|(_, word)| *word == self.status);
        let nanos = |time: Option<u64>| time.map(Nanos);
        let job = |values: [Option<u64>; 4]| {
            let [start, end, user, system] = values.map(nanos);
            JobTimes { start, end, user, system }
        };
        let controller = |(node, read_bytes, written_bytes): (Option<u32>, u64, u64)| {
            ControllerTraffic { node: node.map(NodeId), read_bytes, written_bytes }
        };
        RunMetrics {
            status: status.map_or(Completion::Failed, |(status, _)| *status),
            error: self.error,
            last_end: Nanos(self.last_end_ns),
            jobs: self.jobs.into_iter().map(job).collect(),
            n_migrations: self.n_migrations,
            n_moves: self.n_moves,
            pages_moved_bytes: self.pages_moved_bytes,
            controllers: self.controllers.into_iter().map(controller).collect(),
            oracle: self.oracle,
            model_gap: self.model_gap,
            nothing_to_decide: self.nothing_to_decide,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::columns;

    fn open_dir(dir: &tempfile::TempDir) -> OutputDir {
        OutputDir::create(dir.path(), files::ForeignDir::Reject).expect("a directory")
    }

    fn plan(seeds: &[u64]) -> ComparePlan {
        let columns = columns(["linux,dfs"]).expect("sound");
        ComparePlan::new(columns, None, vec!["w".to_owned()], seeds.to_vec()).expect("sound")
    }

    fn identity(plan: &ComparePlan, machine: &str) -> Identity {
        let machine = Machine::synthetic(machine).expect("a machine");
        Identity::new(plan, &machine, &[Vec::new()], BTreeMap::new())
    }

    fn metrics(last_end: u64) -> RunMetrics {
        RunMetrics {
            last_end: Nanos(last_end),
            jobs: vec![JobTimes {
                start: Some(Nanos(5)),
                user: Some(Nanos(3)),
                ..JobTimes::default()
            }],
            error: Some("a \"quote\"".to_owned()),
            status: Completion::Stopped,
            controllers: vec![
                ControllerTraffic { node: None, read_bytes: 1, written_bytes: 2 },
                ControllerTraffic { node: Some(NodeId(3)), read_bytes: 4, written_bytes: 5 },
            ],
            oracle: Some(OracleSearch {
                candidate: "this".to_owned(),
                n_placements: 3,
                is_all: true,
                above_bound: Some(0.25),
                bound_term: Some("the longest job".to_owned()),
            }),
            nothing_to_decide: Some("all cores are equal".to_owned()),
            ..RunMetrics::default()
        }
    }

    fn nth(plan: &ComparePlan, number: usize) -> RunKey {
        plan.keys().nth(number).expect("a run of the plan")
    }

    #[test]
    fn saved_runs_are_read_at_the_next_start_and_the_others_remain() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = plan(&[1, 2]);
        let open = || RunStore::open(&open_dir(&dir), &identity(&plan, "cores=2"), &plan);
        let mut store = open().expect("new");
        store.save(nth(&plan, 2), metrics(7), &plan).expect("written");
        store.save_solo_times(0, vec![Some(Nanos(9)), None]).expect("written");
        drop(store);
        let reopened = open().expect("the same");
        assert_eq!(reopened.done, BTreeMap::from([(nth(&plan, 2), metrics(7))]));
        assert_eq!(reopened.alone, BTreeMap::from([(0, vec![Some(Nanos(9)), None])]));
        assert_eq!(reopened.unfinished_runs(&plan), [0, 1, 3].map(|number| nth(&plan, number)));
    }

    #[test]
    fn an_incomplete_line_is_dropped_and_written_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = plan(&[1, 2]);
        let open = || RunStore::open(&open_dir(&dir), &identity(&plan, "cores=2"), &plan);
        let mut store = open().expect("new");
        store.save(nth(&plan, 0), metrics(7), &plan).expect("written");
        store.save(nth(&plan, 1), metrics(8), &plan).expect("written");
        drop(store);
        let path = dir.path().join(RUNS_FILE);
        let whole = std::fs::read(&path).expect("there");
        for cut in 1..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let mut store = open().expect("complete lines are valid");
            for (key, time) in plan.keys().zip([7, 8]) {
                if !store.done.contains_key(&key) {
                    store.save(key, metrics(time), &plan).expect("written");
                }
            }
            drop(store);
            assert_eq!(std::fs::read(&path).expect("there"), whole, "cut at {cut}");
        }
    }

    #[test]
    fn the_directory_of_another_comparison_is_rejected_and_unchanged() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = plan(&[1, 2]);
        drop(RunStore::open(&open_dir(&dir), &identity(&first, "cores=2"), &first).expect("new"));
        let before = std::fs::read(dir.path().join(RUNS_FILE)).expect("there");
        let message = |plan: &ComparePlan, machine: &str| {
            let opened = RunStore::open(&open_dir(&dir), &identity(plan, machine), plan);
            let message = opened.expect_err("another").to_string();
            message.replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(
            message(&plan(&[1, 2, 3]), "cores=2"),
            "DIR contains another comparison (other seeds): choose another directory with --out"
        );
        assert!(message(&first, "cores=4").contains("(another machine)"));
        assert_eq!(std::fs::read(dir.path().join(RUNS_FILE)).expect("there"), before);
        std::fs::write(dir.path().join(RUNS_FILE), "my diary\n").expect("written");
        assert!(message(&first, "cores=2").contains("(not a comparison)"));
    }

    #[test]
    fn a_second_writer_is_rejected_and_an_invalid_line_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = plan(&[1]);
        let open = || RunStore::open(&open_dir(&dir), &identity(&plan, "cores=2"), &plan);
        let first = open().expect("new");
        assert!(matches!(open(), Err(RunStoreError::Busy(_))));
        drop(first);
        let path = dir.path().join(RUNS_FILE);
        let mut text = std::fs::read_to_string(&path).expect("there");
        text.push_str("{\"run\":99}\n");
        std::fs::write(&path, text).expect("written");
        let message = open().expect_err("no such run").to_string();
        assert!(message.contains("runs.jsonl:2: not a run of this comparison"), "{message}");
    }
}
