//! What a running `evenkeel watch` or `evenkeel run` tells of itself, turn by turn: the state file, and `evenkeel status`.
//!
//! Whoever looks after programs writes this down every few seconds, and another evenkeel reads it: who
//! is looked after and where it was put, who is left alone and why, what that stands on, and whether it
//! helps. Whether the writer still lives the file cannot say; the reader asks the kernel.

use crate::describe::{record, words};
use crate::format::{bytes, count, duration};
use crate::table::{Align, Table, fold};

/// The version of the state file. It grows when a field changes its meaning or goes.
pub const STATE_FORMAT: u32 = 2;

record! {
    /// What `evenkeel status --json` prints for each evenkeel that looks after programs.
    #[derive(serde::Deserialize)]
    Status {
        owner: OwnerWord, "Owner", Plain, "Whether the evenkeel that wrote the state still lives.";
        path: String, "File", Plain, "The state file.";
        age_s: u64, "Age", Count, "Seconds since the state was written.";
        state: WatchState, "State", Plain, "What was written.";
    }
}

record! {
    /// What a state file holds.
    #[derive(serde::Deserialize)]
    WatchState {
        evenkeel_state: u32, "Format", Plain, "The version of this format.";
        tool: String, "evenkeel", Plain, "The version of evenkeel that wrote it.";
        kind: KindWord, "Command", Plain, "What it does: watch (programs that run already) or run (a workload).";
        run: String, "Run", Plain, "What the run is called.";
        pid: u32, "Process", Plain, "The process that wrote it.";
        born_ticks: u64, "Born", Plain, "The birth of that process, in clock ticks since boot.";
        boot: String, "Boot", Plain, "The start of the machine that these numbers belong to.";
        started_unix_s: u64, "Started", UnixSeconds, "When it began.";
        written_unix_s: u64, "Written", UnixSeconds, "When this was written.";
        at_ns: u64, "At", Nanos, "The same since it began.";
        acts: bool, "Acts", Plain, "Whether it changes anything, or only says what it would do.";
        choice: String, "Looks after", Plain, "Whom it looks after, as it was told; of a run its workload.";
        policy: String, "Policy", Plain, "Who decides, with its parameters.";
        tier: String, "Signal tier", Plain, "What loads stand on: counters, bandwidth, declared or none.";
        level: String, "Places", Plain, "What programs are placed on: node, llc or core.";
        way: String, "Notices by", Plain, "How new processes are noticed: events (the kernel tells), groups (the lists of cgroups) or numbers (given since the last turn). Empty of a run, which starts them.";
        cpus_targets: Option<String>, "Places on", CpuList, "The CPUs that programs are placed on: those that this evenkeel may use itself and that are not isolated; absent of a run.";
        cpus_whole: Option<String>, "Of", CpuList, "Those that they could be placed on if this evenkeel might use all itself: online and not isolated; absent of a run.";
        n_known: u64, "Known", Count, "Processes that are known, chosen or not; of a run its jobs.";
        n_asleep: u64, "Asleep", Count, "Processes that are chosen and not busy.";
        n_heirs: u64, "Heirs", Count, "Processes that were started by placed ones and have their CPUs by birth.";
        n_moves: u64, "Moves", Count, "How often a process was placed so far.";
        pages_moved_bytes: u64, "Memory moved", Bytes, "Memory that was moved to another node so far; that is not put back.";
        verdict: VerdictWord, "Helps", Plain, "Whether moving helps, as far as that was measured.";
        verdict_text: Option<String>, "Because", Plain, "The last verdict in words.";
        managed: Vec<ManagedRow>, "Looked after", Plain, "The busy processes, by job number.";
        left_alone: Vec<AloneRow>, "Left alone", Plain, "Chosen processes that are left alone, by reason.";
        journal: Option<String>, "Journal", Plain, "The journal of this run.";
    }
}

record! {
    /// A process that is looked after.
    #[derive(serde::Deserialize)]
    ManagedRow {
        name: String, "Process", Plain, "Its program and its number.";
        pid: u32, "Number", Plain, "Its number.";
        born_ticks: u64, "Born", Plain, "Its birth, in clock ticks since boot.";
        since_ns: u64, "Since", Nanos, "Since when it is looked after.";
        cpus_before: String, "Before", CpuList, "The CPUs that it could use before.";
        cpus_placed: Option<String>, "Placed", CpuList, "The CPUs that it was put on; absent if nothing was changed.";
        reason: Option<String>, "Because", Plain, "Why it was put there, or would be.";
        hands_off: bool, "Hands off", Plain, "Somebody else placed it since, or the kernel does not let us.";
    }
}

record! {
    /// Chosen processes that are left alone for one reason.
    #[derive(serde::Deserialize)]
    AloneRow {
        why: String, "Reason", Plain, "The reason as a word.";
        text: String, "In words", Plain, "The same in words.";
        n: u64, "Processes", Count, "How many.";
        examples: Vec<String>, "Such as", Plain, "Some of them, by name and number.";
    }
}

words! {
    /// What the evenkeel does that wrote a state.
    #[derive(serde::Deserialize)]
    KindWord {
        Watch "watch" "It looks after programs that run already.";
        Run "run" "It runs a workload.";
    }
}

words! {
    /// Whether the evenkeel that wrote a state still lives.
    #[derive(serde::Deserialize)]
    OwnerWord {
        Alive "alive" "It lives.";
        Gone "gone" "It was killed: evenkeel restore puts back what it changed.";
    }
}

words! {
    /// Whether moving helps.
    #[derive(serde::Deserialize)]
    VerdictWord {
        NotJudged "not judged yet" "No trial has come to an end.";
        Helps "yes" "The last trial made things better.";
        Rests "no" "The last trial made things worse, or several nothing better: everything was put back, and nothing is moved for a while.";
        Tries "trying again" "After such a rest moves are tried again.";
        Watches "only watching" "Nothing is moved.";
    }
}

impl Status {
    /// The page for people, no wider than so many columns as far as words can give way.
    pub fn to_text(&self, width: usize) -> String {
        let state = &self.state;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            text.push_str(&fold(&value, width, &format!("{name:<16}"), 16));
        };
        let who = format!("process {}, {}", state.pid, age_words(self.age_s));
        line(
            &format!("evenkeel {}", state.kind.word()),
            match self.owner {
                OwnerWord::Alive => who,
                OwnerWord::Gone => {
                    format!("{who}: it is gone without putting things back; run evenkeel restore")
                }
            },
        );
        match state.kind {
            KindWord::Watch => state.watch_words(&mut line),
            KindWord::Run => state.run_words(&mut line),
        }
        line("moves", moves_words(state));
        state.add_managed(&mut text, width);
        state.add_alone(&mut text, width);
        text
    }
}

impl WatchState {
    fn policy_words(&self) -> String {
        match self.level.is_empty() {
            true => self.policy.clone(),
            false => format!("{} on {} domains", self.policy, self.level),
        }
    }

    fn watch_words(&self, line: &mut impl FnMut(&str, String)) {
        line("looks after", self.choice.clone());
        let acts = if self.acts { "yes" } else { "no: it only says what it would do (--act)" };
        line("acts", acts.to_owned());
        line("policy", self.policy_words());
        line("signal tier", self.tier.clone());
        self.cpus_words().into_iter().for_each(|words| line("places on", words));
        line("helps", helps_words(self));
        line("notices by", way_words(&self.way).to_owned());
        let known = format!(
            "{} processes: {} looked after, {} chosen and asleep, {} heirs",
            count(self.n_known),
            self.managed.len(),
            count(self.n_asleep),
            count(self.n_heirs),
        );
        line("known", known);
    }

    /// The CPUs that are targets; nothing of states that do not tell.
    fn cpus_words(&self) -> Option<String> {
        let targets = match self.cpus_targets.as_deref()? {
            "" => "no CPU",
            targets => targets,
        };
        match self.cpus_whole.as_deref() {
            Some(whole) if whole != targets => Some(format!(
                "{targets} of the CPUs {whole}: this evenkeel may use no others itself"
            )),
            _ => Some(format!("CPUs {targets}")),
        }
    }

    fn run_words(&self, line: &mut impl FnMut(&str, String)) {
        line("workload", self.choice.clone());
        line("policy", self.policy_words());
        line("signal tier", self.tier.clone());
        line("jobs", format!("{}, {} running", count(self.n_known), self.managed.len()));
    }

    fn add_managed(&self, text: &mut String, width: usize) {
        if self.managed.is_empty() {
            return;
        }
        use Align::{Left, Right};
        let heads = [
            ("process", Left),
            ("since", Right),
            ("had", Left),
            ("put on", Left),
            ("because", Left),
        ];
        let mut table = Table::new(&heads);
        for row in &self.managed {
            let placed = match (&row.cpus_placed, row.hands_off) {
                (_, true) => "left alone".to_owned(),
                (Some(cpus), false) => cpus.clone(),
                (None, false) => "-".to_owned(),
            };
            let since = duration(self.at_ns.saturating_sub(row.since_ns));
            let reason = row.reason.clone().unwrap_or_default();
            table.row(vec![row.name.clone(), since, row.cpus_before.clone(), placed, reason]);
        }
        text.push('\n');
        text.push_str(&table.to_text(width));
    }

    fn add_alone(&self, text: &mut String, width: usize) {
        if self.left_alone.is_empty() {
            return;
        }
        use Align::{Left, Right};
        let mut table = Table::new(&[("left alone", Left), ("n", Right), ("such as", Left)]);
        for row in &self.left_alone {
            table.row(vec![row.text.clone(), count(row.n), row.examples.join(", ")]);
        }
        text.push('\n');
        text.push_str(&table.to_text(width));
    }
}

fn age_words(age_s: u64) -> String {
    match age_s {
        0..=1 => "written just now".to_owned(),
        n => format!("written {n} s ago"),
    }
}

fn helps_words(state: &WatchState) -> String {
    let word = state.verdict.word();
    state.verdict_text.as_ref().map_or(word.to_owned(), |text| format!("{word}: {text}"))
}

fn moves_words(state: &WatchState) -> String {
    let moves = count(state.n_moves);
    match state.pages_moved_bytes {
        0 => moves,
        moved => format!("{moves}, and {} of memory to other nodes", bytes(moved)),
    }
}

fn way_words(way: &str) -> &str {
    match way {
        "events" => "events of the kernel (proc connector)",
        "groups" => "the lists of the chosen cgroups",
        "numbers" => "asking for process numbers given since the last turn",
        other => other,
    }
}
