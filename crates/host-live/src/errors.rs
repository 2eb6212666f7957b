//! Errors of a live run, their text on one line, and warnings that are reported once.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;

/// Reason why a live run cannot start or continue. An error of a single job is reported as an outcome.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum LiveError {
    #[error("cannot wait for events ({facility})")]
    Events { facility: &'static str, source: io::Error },
    #[error("cannot start the supervisor that kills the jobs when evenkeel is killed")]
    Supervisor(#[source] io::Error),
    #[error("cannot read the CPU affinity of evenkeel")]
    OwnCpus(#[source] io::Error),
}

pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// Returns the message of a system call error without the appended error number.
pub(crate) fn kernel_message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Set of warnings. Each text is reported once.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    reported: BTreeSet<String>,
    pending: Vec<String>,
}

impl Warnings {
    pub(crate) fn add(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.reported.insert(text.clone()) {
            self.pending.push(text);
        }
    }

    /// Returns the warnings that were added since the last call.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending)
    }
}
