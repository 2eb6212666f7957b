//! `evenkeel status`: who is looked after, what was changed, who is left alone and why.
//!
//! It reads the state files that running evenkeels write, and asks the kernel whether their writers
//! still live, by number and birth.

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use linux::{procfs, state, system, undo};
use report::status::{OwnerWord, STATE_FORMAT, Status, WatchState};

use crate::exit::{Done, Stop};

/// Show who is looked after, what was changed and who is left alone
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows all. Fails when one of them was killed and left things changed, so that scripts notice.
pub fn main(args: &Args) -> Done {
    let (all, problems) = read();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        let pages: Vec<String> = all.iter().map(|status| status.to_text(80)).collect();
        match pages.is_empty() {
            true => writeln!(out, "no evenkeel of this user looks after programs")?,
            false => write!(out, "{}", pages.join("\n"))?,
        }
    }
    for problem in &problems {
        writeln!(std::io::stderr(), "evenkeel: {problem}")?;
    }
    let is_gone = |status: &Status| status.owner == OwnerWord::Gone && status.state.acts;
    let failed = !problems.is_empty() || all.iter().any(is_gone);
    if failed { Err(Stop::Said) } else { Ok(()) }
}

/// All states of this boot, and what could not be read.
fn read() -> (Vec<Status>, Vec<String>) {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    let now = unix_seconds();
    for (path, text) in state::read_all(&undo::folders()) {
        let shown = path.display();
        match text.map(|text| serde_json::from_str::<WatchState>(&text)) {
            Err(error) => problems.push(format!("cannot read {shown}: {error}")),
            Ok(Err(error)) => {
                problems.push(format!("{shown} is no state of this evenkeel ({error}): remove it"));
            }
            Ok(Ok(state)) if state.evenkeel_state != STATE_FORMAT => {
                let found = state.evenkeel_state;
                problems.push(format!("{shown} has format {found}, written by another version"));
            }
            // The machine was started anew since: nothing of it is true any more.
            Ok(Ok(state)) if system::boot_id("/".as_ref()).is_ok_and(|boot| boot != state.boot) => {
                let _ = state::remove(&path);
            }
            Ok(Ok(state)) => all.push(status(&path, state, now)),
        }
    }
    (all, problems)
}

fn status(path: &Path, state: WatchState, now: u64) -> Status {
    let stat = procfs::stat("/".as_ref(), state.pid);
    let lives = stat.is_ok_and(|stat| stat.born_ticks == state.born_ticks && stat.state != 'Z');
    Status {
        owner: if lives { OwnerWord::Alive } else { OwnerWord::Gone },
        path: path.display().to_string(),
        age_s: now.saturating_sub(state.written_unix_s),
        state,
    }
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
