//! The state file, kept up to date: at once when something happened, else every few seconds.
//!
//! It is no part of the work: where it cannot be written, that is said once and watching goes on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use base::{JobId, Nanos};
use engine::TurnRecord;
use host_live::{Board, LeftAlone, Managed};
use journal::Header;
use linux::state::StateFile;
use linux::{procfs, system, undo};
use report::status::{AloneRow, ManagedRow, STATE_FORMAT, VerdictWord, WatchState};
use sched::{Action, Code, Deed, JobEvent, OutcomeResult, Reason, Target};

use super::Args;
use crate::status::unix_seconds;

/// Nothing happened: it is written anew so often all the same, so that readers see that we live.
const WRITE_EVERY: Nanos = Nanos::from_secs(5);

/// Writes the state; takes part in watching as a sink.
pub(super) struct StateSink {
    file: Option<StateFile>,
    state: WatchState,
    board: Rc<RefCell<Board>>,
    reasons: BTreeMap<JobId, String>,
    written_at: Option<Nanos>,
}

impl StateSink {
    pub(super) fn new(header: &Header, args: &Args, board: Rc<RefCell<Board>>) -> Self {
        let pid = std::process::id();
        let file = StateFile::create(&header.run_id, &undo::folders());
        if let Err(error) = &file {
            eprintln!("evenkeel: status will not tell of this: {error}");
        }
        let verdict = if args.act { VerdictWord::NotJudged } else { VerdictWord::Watches };
        let state = WatchState {
            evenkeel_state: STATE_FORMAT,
            tool: header.tool.clone(),
            run: header.run_id.clone(),
            pid,
            born_ticks: procfs::stat("/".as_ref(), pid).map_or(0, |stat| stat.born_ticks),
            boot: system::boot_id("/".as_ref()).unwrap_or_default(),
            started_unix_s: header.started_unix_s,
            written_unix_s: header.started_unix_s,
            at_ns: 0,
            acts: args.act,
            choice: header.workload.clone(),
            policy: header.policy.spec.clone(),
            tier: "none".to_owned(),
            level: String::new(),
            way: String::new(),
            n_known: 0,
            n_asleep: 0,
            n_heirs: 0,
            n_moves: 0,
            pages_moved_bytes: 0,
            verdict,
            verdict_text: None,
            managed: Vec::new(),
            left_alone: Vec::new(),
            journal: args.journal.as_ref().map(|path| path.display().to_string()),
        };
        StateSink { file: file.ok(), state, board, reasons: BTreeMap::new(), written_at: None }
    }

    fn learn(&mut self, record: &TurnRecord<'_>) {
        self.state.at_ns = record.turn.at.0;
        if let Some(footing) = record.footing_now() {
            self.state.tier = footing.tier.to_string();
            self.state.level = footing.level.to_string();
        }
        for event in &record.sample.jobs {
            if let JobEvent::Left(job, _) = event {
                self.reasons.remove(job);
            }
        }
        for ask in &record.plan.asks {
            if let (Target::Job(job), Action::Place(_)) = (ask.target, &ask.action) {
                self.reasons.insert(job, ask.reason.to_string());
            }
        }
        let placed = record.outcomes.iter().filter(|outcome| {
            let is_done = matches!(outcome.result, OutcomeResult::Done { n } if n != 0);
            is_done && matches!(outcome.deed, Deed::Place(_))
        });
        self.state.n_moves += placed.count() as u64;
        let moved = record.sample.moved.iter().map(|moved| moved.moved.0);
        self.state.pages_moved_bytes =
            moved.fold(self.state.pages_moved_bytes, u64::saturating_add);
        record.plan.notes.iter().for_each(|note| self.judge(note));
    }

    fn judge(&mut self, note: &Reason) {
        let verdict = match note.code {
            Code::JudgedBetter => VerdictWord::Helps,
            Code::JudgedWorse | Code::JudgedNoBetter => VerdictWord::Rests,
            Code::TriesAgain => VerdictWord::Tries,
            _ => return,
        };
        self.state.verdict = verdict;
        self.state.verdict_text = Some(note.to_string());
    }

    fn take_board(&mut self) {
        let board = self.board.borrow();
        self.state.way.clone_from(&board.way);
        (self.state.n_known, self.state.n_asleep) = (board.n_known, board.n_asleep);
        self.state.n_heirs = board.n_heirs;
        let row = |managed: &Managed| managed_row(managed, self.reasons.get(&managed.job));
        self.state.managed = board.managed.iter().map(row).collect();
        let alone = |(why, alone): (&LeftAlone, &host_live::Alone)| AloneRow {
            why: why.name().to_owned(),
            text: why.to_string(),
            n: alone.n,
            examples: alone.examples.iter().map(|(pid, name)| format!("{name}.{pid}")).collect(),
        };
        self.state.left_alone = board.left_alone.iter().map(alone).collect();
    }

    fn write(&mut self) {
        let Some(file) = &self.file else { return };
        self.state.written_unix_s = unix_seconds();
        let written = serde_json::to_string(&self.state)
            .map_err(io::Error::from)
            .and_then(|text| file.write(&text));
        if let Err(error) = written {
            eprintln!("evenkeel: status will not tell of this any more: {error}");
            self.file = None;
        }
    }
}

fn managed_row(managed: &Managed, reason: Option<&String>) -> ManagedRow {
    ManagedRow {
        name: managed.name.clone(),
        pid: managed.pid,
        born_ticks: managed.born_ticks,
        since_ns: managed.since.0,
        cpus_before: managed.before.to_string(),
        cpus_placed: managed.placed.as_ref().map(ToString::to_string),
        reason: reason.cloned(),
        hands_off: managed.hands_off,
    }
}

impl engine::Sink for StateSink {
    fn turn(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.learn(record);
        let is_news = !record.sample.jobs.is_empty()
            || !record.sample.moved.is_empty()
            || !record.outcomes.is_empty()
            || !record.plan.notes.is_empty();
        let is_old = self.written_at.is_none_or(|at| at + WRITE_EVERY <= record.turn.at);
        if is_news || is_old {
            self.written_at = Some(record.turn.at);
            self.take_board();
            self.write();
        }
        Ok(())
    }
}
