//! Warnings that are reported once.

use std::collections::BTreeSet;

/// Warnings, each reported once.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    known: BTreeSet<String>,
    new: Vec<String>,
}

impl Warnings {
    pub(crate) fn add(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.known.insert(text.clone()) {
            self.new.push(text);
        }
    }

    /// The warnings that were added since the last call.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }
}
