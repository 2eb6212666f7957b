//! A watch with a configuration file: SIGHUP reads the file again.
//!
//! ```text
//!   changed selection or classes   applied to the running watch
//!   any other change               the watch ends, and another watch starts in this process
//!   invalid file                   nothing changes
//! ```

use std::path::{Path, PathBuf};

use host_live::{AttachError, AttachHost};

use super::config::WatchConfig;
use super::select::{self, SelectedProcesses};
use super::{Watch, WatchEnd};
use crate::command_result::{CommandResult, OrUsageError};
use crate::print::Priority;

/// Manages processes with the options of a file. A changed file is applied in place if possible, otherwise by a restart
/// of the watch in this process.
pub(super) fn by_config(file: &Path) -> CommandResult {
    // A signal between two watches must neither end this process nor be lost.
    let mut signals = host_live::block_signals()?;
    let mut config = WatchConfig::load(file).or_usage_error()?;
    let result = loop {
        let reload = Reload { file: file.to_owned(), current: config };
        match Watch::start(&reload.current.args.clone(), Some(reload)).and_then(Watch::run) {
            Ok(WatchEnd { next: Some(next), .. }) => config = next,
            result => break result.map(|_| ()),
        }
    };
    signals.take();
    result
}

/// The configuration of a watch that SIGHUP reads again.
pub(super) struct Reload {
    file: PathBuf,
    current: WatchConfig,
}

impl Reload {
    /// Reads the file again. An invalid file changes nothing. If the watch must restart, the host ends, and `restart` is
    /// the next configuration. Returns the result for the user.
    pub(super) fn apply(
        &mut self,
        host: &mut AttachHost,
        restart: &mut Option<WatchConfig>,
    ) -> (Priority, String) {
        let file = self.file.display();
        let next = WatchConfig::load(&self.file).and_then(|next| Ok((selected(&next)?, next)));
        let text = match next {
            Err(error) => {
                let text = format!("{error:#}; the previous configuration stays active");
                return (Priority::Error, text);
            }
            Ok((_, next)) if next.needs_restart(&self.current) => {
                host.stop_to_reload();
                *restart = Some(next);
                format!("{file}: restarting with the new configuration")
            }
            Ok((selected, next)) => {
                host.reselect(selected.selection, selected.dirs, next.args.class.clone());
                self.current = next;
                format!("{file}: the new selection is active")
            }
        };
        (Priority::Notice, text)
    }
}

/// Resolves the selection of a configuration, and checks its core kinds.
pub(super) fn selected(config: &WatchConfig) -> anyhow::Result<SelectedProcesses> {
    let selected = select::select(&config.args)?;
    anyhow::ensure!(!selected.selection.is_empty(), AttachError::NothingSelected);
    if config.args.core_kinds.is_given() {
        config.args.core_kinds.apply(linux::topology::read(Path::new("/"))?)?;
    }
    Ok(selected)
}
