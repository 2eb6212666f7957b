//! `runs.jsonl`: what is done of a comparison, kept as it finishes.
//!
//! ```text
//!   {"compare":1,"tool":…,"machine":…,"workloads":…,"policies":…,"seeds":…,"options":…}    whose folder it is
//!   {"run":0,"policy":"linux","workload":"w","seed":1,"whole_ns":…,"jobs":[[start,end],…],…}
//!   {"run":2,…}                                              in the order in which they finished
//! ```
//!
//! The same command finds its runs there and goes on; any other is refused, since figures of two
//! comparisons must not be mixed. A line that a kill cut off is dropped. One evenkeel at a time writes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use base::{Nanos, NodeId};
use program::{Job, Origin};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use topology::{Machine, MachineParts};

use super::{Controller, Ended, Figures, Found, JobFigures, Plan};

/// The name of the file in the folder of a comparison.
const NAME: &str = "runs.jsonl";
/// The version of the file.
const VERSION: u32 = 1;

/// What a file of another one is told to be.
const OTHER_VERSION: &str = "another version of the file";

/// What makes two comparisons the same one.
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
    /// Of a plan on a machine. `jobs` are those of its workloads, in order; `options` is everything else
    /// that changes a figure.
    pub fn new(
        plan: &Plan,
        machine: &Machine,
        jobs: &[Vec<Job>],
        options: BTreeMap<String, String>,
    ) -> Self {
        let workload = |(name, jobs): (&String, &Vec<Job>)| {
            // Where a file lies changes no figure, only what it says.
            let bare = |job: &Job| Job { origin: Origin::default(), ..job.clone() };
            let jobs: Vec<Job> = jobs.iter().map(bare).collect();
            format!("{name} {}", fingerprint(&jobs))
        };
        Identity {
            compare: VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            machine: fingerprint(&lasting(machine)),
            workloads: plan.workloads.iter().zip(jobs).map(workload).collect(),
            policies: plan.columns.iter().map(|column| column.text.clone()).collect(),
            seeds: plan.seeds.clone(),
            options,
        }
    }

    /// The first thing that another one has differently, in words.
    fn differs(&self, there: &Identity) -> Option<&'static str> {
        let parts = [
            (OTHER_VERSION, self.compare == there.compare),
            ("another version of evenkeel", self.tool == there.tool),
            ("other policies", self.policies == there.policies),
            ("other workloads", self.workloads == there.workloads),
            ("other seeds", self.seeds == there.seeds),
            ("another machine", self.machine == there.machine),
            ("other options", self.options == there.options),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }
}

/// What does not change from one start to the next: memory that is free now tells nothing.
fn lasting(machine: &Machine) -> MachineParts {
    let mut parts = machine.parts().clone();
    parts.nodes.iter_mut().for_each(|node| node.memory_free = None);
    parts
}

/// A number that stands for a value's whole text (FNV-1a, 64 bits).
fn fingerprint(value: &impl Debug) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in format!("{value:?}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// Why a folder cannot take a comparison. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("cannot write {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It belongs to another comparison.
    #[error("{folder} holds another comparison ({what}): choose another folder with --out")]
    Other {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// Somebody else writes it.
    #[error(
        "another evenkeel is at work on the comparison in {0}: wait for it, or choose another folder with --out"
    )]
    Busy(PathBuf),
    /// A line of it makes no sense.
    #[error(
        "{path}:{line}: this is no run of this comparison: remove the line, or choose another folder with --out"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// What a folder holds of a comparison.
#[derive(Debug)]
pub struct Store {
    file: File,
    path: PathBuf,
    /// Runs that are done, by number.
    pub done: BTreeMap<usize, Figures>,
    /// How long jobs took alone, by workload, where that was measured.
    pub alone: BTreeMap<usize, Vec<Option<Nanos>>>,
}

impl Store {
    /// Begins a comparison in a folder that is there, or goes on with it.
    ///
    /// # Errors
    /// It belongs to another one, or cannot be written.
    pub fn open(folder: &Path, identity: &Identity, plan: &Plan) -> Result<Self, StoreError> {
        let path = folder.join(NAME);
        let io = |source| StoreError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(StoreError::Busy(folder.to_owned())),
            locked => locked.map_err(io::Error::from).map_err(io)?,
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let mut store = Store { file, path, done: BTreeMap::new(), alone: BTreeMap::new() };
        match text.lines().next() {
            Some(first) => store.take_first(folder, first, identity)?,
            None => {
                store.cut(0)?;
                store.write(identity)?;
                return Ok(store);
            }
        }
        store.cut(whole as u64)?;
        for (idx, line) in text.lines().enumerate().skip(1) {
            let wrong = || StoreError::Line { path: store.path.clone(), line: idx + 1 };
            let line: Line = serde_json::from_str(line).map_err(|_| wrong())?;
            store
                .take(line, plan)
                .ok_or_else(|| StoreError::Line { path: store.path.clone(), line: idx + 1 })?;
        }
        Ok(store)
    }

    fn take_first(&self, folder: &Path, first: &str, mine: &Identity) -> Result<(), StoreError> {
        let other = |what| StoreError::Other { folder: folder.to_owned(), what };
        /// Another version may have other fields, so nothing else is looked at before it.
        #[derive(Deserialize)]
        struct Version {
            compare: u32,
        }
        if serde_json::from_str::<Version>(first).is_ok_and(|there| there.compare != mine.compare) {
            return Err(other(OTHER_VERSION));
        }
        let there: Identity = serde_json::from_str(first).map_err(|_| other("not one of ours"))?;
        mine.differs(&there).map_or(Ok(()), |what| Err(other(what)))
    }

    fn take(&mut self, line: Line, plan: &Plan) -> Option<()> {
        match line {
            Line::Run(run) if run.run < plan.n_runs() => {
                self.done.insert(run.run, run.figures());
            }
            Line::Alone { workload, alone_ns } if workload < plan.workloads.len() => {
                let alone = alone_ns.into_iter().map(|time| time.map(Nanos)).collect();
                self.alone.insert(workload, alone);
            }
            _ => return None,
        }
        Some(())
    }

    /// Keeps a run that is done.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, number: usize, figures: Figures, plan: &Plan) -> Result<(), StoreError> {
        self.write(&RunLine::new(number, &figures, plan))?;
        self.done.insert(number, figures);
        Ok(())
    }

    /// Keeps how long the jobs of a workload took alone.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_alone(
        &mut self,
        workload: usize,
        alone: Vec<Option<Nanos>>,
    ) -> Result<(), StoreError> {
        let alone_ns = alone.iter().map(|time| time.map(|time| time.0)).collect();
        self.write(&Line::Alone { workload, alone_ns })?;
        self.alone.insert(workload, alone);
        Ok(())
    }

    /// Runs of a plan that are not done yet, in order.
    pub fn left(&self, plan: &Plan) -> Vec<usize> {
        (0..plan.n_runs()).filter(|number| !self.done.contains_key(number)).collect()
    }

    /// Everything from there on is dropped.
    fn cut(&mut self, at: u64) -> Result<(), StoreError> {
        let cut = self.file.set_len(at).and_then(|()| self.file.seek(SeekFrom::End(0)));
        cut.map(|_| ()).map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }

    /// A line in one write, so that a kill leaves whole lines and at most one torn one at the end.
    fn write(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(line).map_err(io::Error::from);
        let written = text.and_then(|text| self.file.write_all((text + "\n").as_bytes()));
        written.map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}

/// A line after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Run(Box<RunLine>),
    Alone { workload: usize, alone_ns: Vec<Option<u64>> },
}

/// A run in the file.
#[derive(Debug, Serialize, Deserialize)]
struct RunLine {
    run: usize,
    policy: String,
    workload: String,
    seed: u64,
    ended: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    whole_ns: u64,
    /// Start and end of each.
    jobs: Vec<[Option<u64>; 2]>,
    n_migrations: u64,
    n_moves: u64,
    pages_moved_bytes: u64,
    /// Node, bytes read, bytes written.
    controllers: Vec<(Option<u32>, u64, u64)>,
    /// Of the oracle: which way, how many placements, whether those are all, how far above the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    found: Option<(String, u64, bool, Option<f64>)>,
}

const ENDS: [(Ended, &str); 3] =
    [(Ended::Finished, "finished"), (Ended::Failed, "failed"), (Ended::Stopped, "stopped")];

impl RunLine {
    fn new(number: usize, figures: &Figures, plan: &Plan) -> Self {
        let key = plan.key(number);
        let ended = ENDS.iter().find(|(ended, _)| *ended == figures.ended);
        let nanos = |time: Option<Nanos>| time.map(|time| time.0);
        RunLine {
            run: number,
            policy: plan.columns[key.column].text.clone(),
            workload: plan.workloads[key.workload].clone(),
            seed: plan.seeds[key.seed],
            ended: ended.map_or("", |(_, word)| word).to_owned(),
            error: figures.error.clone(),
            whole_ns: figures.whole.0,
            jobs: figures.jobs.iter().map(|job| [nanos(job.start), nanos(job.end)]).collect(),
            n_migrations: figures.n_migrations,
            n_moves: figures.n_moves,
            pages_moved_bytes: figures.pages_moved_bytes,
            controllers: (figures.controllers.iter())
                .map(|it| (it.node.map(|node| node.0), it.read_bytes, it.written_bytes))
                .collect(),
            found: (figures.found.as_ref())
                .map(|it| (it.way.clone(), it.n_placements, it.is_all, it.above_bound)),
        }
    }

    fn figures(self) -> Figures {
        let ended = ENDS.iter().find(|(_, word)| *word == self.ended);
        let nanos = |time: Option<u64>| time.map(Nanos);
        let job =
            |[start, end]: [Option<u64>; 2]| JobFigures { start: nanos(start), end: nanos(end) };
        let controller = |(node, read_bytes, written_bytes): (Option<u32>, u64, u64)| Controller {
            node: node.map(NodeId),
            read_bytes,
            written_bytes,
        };
        Figures {
            ended: ended.map_or(Ended::Failed, |(ended, _)| *ended),
            error: self.error,
            whole: Nanos(self.whole_ns),
            jobs: self.jobs.into_iter().map(job).collect(),
            n_migrations: self.n_migrations,
            n_moves: self.n_moves,
            pages_moved_bytes: self.pages_moved_bytes,
            controllers: self.controllers.into_iter().map(controller).collect(),
            found: self.found.map(|(way, n_placements, is_all, above_bound)| Found {
                way,
                n_placements,
                is_all,
                above_bound,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::columns;

    fn plan(seeds: &[u64]) -> Plan {
        let columns = columns(["linux,dfs"]).expect("sound");
        Plan::new(columns, None, vec!["w".to_owned()], seeds.to_vec()).expect("sound")
    }

    fn identity(plan: &Plan, machine: &str) -> Identity {
        let machine = Machine::synthetic(machine).expect("a machine");
        Identity::new(plan, &machine, &[Vec::new()], BTreeMap::new())
    }

    fn figures(whole: u64) -> Figures {
        Figures {
            whole: Nanos(whole),
            jobs: vec![JobFigures { start: Some(Nanos(5)), end: None }],
            error: Some("a \"quote\"".to_owned()),
            ended: Ended::Stopped,
            controllers: vec![
                Controller { node: None, read_bytes: 1, written_bytes: 2 },
                Controller { node: Some(NodeId(3)), read_bytes: 4, written_bytes: 5 },
            ],
            found: Some(Found {
                way: "this".to_owned(),
                n_placements: 3,
                is_all: true,
                above_bound: Some(0.25),
            }),
            ..Figures::default()
        }
    }

    #[test]
    fn what_was_kept_is_there_at_the_next_start_and_the_rest_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan(&[1, 2]);
        let open = || Store::open(folder.path(), &identity(&plan, "cores=2"), &plan);
        let mut store = open().expect("new");
        store.keep(2, figures(7), &plan).expect("written");
        store.keep_alone(0, vec![Some(Nanos(9)), None]).expect("written");
        drop(store);
        let again = open().expect("the same");
        assert_eq!(again.done, BTreeMap::from([(2, figures(7))]));
        assert_eq!(again.alone, BTreeMap::from([(0, vec![Some(Nanos(9)), None])]));
        assert_eq!(again.left(&plan), [0, 1, 3]);
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped_and_written_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan(&[1, 2]);
        let open = || Store::open(folder.path(), &identity(&plan, "cores=2"), &plan);
        let mut store = open().expect("new");
        store.keep(0, figures(7), &plan).expect("written");
        store.keep(1, figures(8), &plan).expect("written");
        drop(store);
        let path = folder.path().join(NAME);
        let whole = std::fs::read(&path).expect("there");
        for cut in 1..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let mut store = open().expect("what is whole is whole");
            for (number, time) in [(0, 7), (1, 8)] {
                if !store.done.contains_key(&number) {
                    store.keep(number, figures(time), &plan).expect("written");
                }
            }
            drop(store);
            assert_eq!(std::fs::read(&path).expect("there"), whole, "cut at {cut}");
        }
    }

    #[test]
    fn the_folder_of_another_comparison_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = plan(&[1, 2]);
        drop(Store::open(folder.path(), &identity(&first, "cores=2"), &first).expect("new"));
        let before = std::fs::read(folder.path().join(NAME)).expect("there");
        let said = |plan: &Plan, machine: &str| {
            let opened = Store::open(folder.path(), &identity(plan, machine), plan);
            let said = opened.expect_err("another").to_string();
            said.replace(&folder.path().display().to_string(), "DIR")
        };
        assert_eq!(
            said(&plan(&[1, 2, 3]), "cores=2"),
            "DIR holds another comparison (other seeds): choose another folder with --out"
        );
        assert!(said(&first, "cores=4").contains("(another machine)"));
        assert_eq!(std::fs::read(folder.path().join(NAME)).expect("there"), before);
        std::fs::write(folder.path().join(NAME), "my diary\n").expect("written");
        assert!(said(&first, "cores=2").contains("(not one of ours)"));
    }

    #[test]
    fn two_at_once_are_not_possible_and_a_strange_line_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan(&[1]);
        let open = || Store::open(folder.path(), &identity(&plan, "cores=2"), &plan);
        let first = open().expect("new");
        assert!(matches!(open(), Err(StoreError::Busy(_))));
        drop(first);
        let path = folder.path().join(NAME);
        let mut text = std::fs::read_to_string(&path).expect("there");
        text.push_str("{\"run\":99}\n");
        std::fs::write(&path, text).expect("written");
        let said = open().expect_err("no such run").to_string();
        assert!(said.contains("runs.jsonl:2: this is no run of this comparison"), "{said}");
    }
}
