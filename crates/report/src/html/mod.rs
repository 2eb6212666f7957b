//! One self-contained page.

use crate::Report;

impl Report {
    /// The page.
    pub fn to_html(&self) -> String {
        String::from("<!doctype html><title>evenkeel</title>\n")
    }
}
