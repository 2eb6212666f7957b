//! Recordings of what the kernel said, byte by byte, and reading them as if they were the kernel.
//!
//! ```text
//!   Live ──► Tee ──► whoever reads          record: what passes is written down
//!             └───► file of lines
//!                     └──► Recorded ──► whoever reads          replay: the same bytes again
//! ```
//!
//! A stream is text, a JSON object a line:
//!
//! ```text
//!   {"evenkeel_stream":1,"tool":…,"machine":TOML,"interval_ns":N,"jobs":[{"pid":P,"name":…}]}
//!   {"list":FOLDER,"names":[…]}                        a folder; "errno" instead of names if refused
//!   {"file":PATH,"text":…}                             a file; "hex" where it is no text
//!   {"open":NR,"task":TID | "cpu":N,"events":[{"name":…,"type":T,"config":[a,b,c],"number":I,…}]}
//!   {"group":NR,"hex":…}                               one read() of a group
//!   {"turn":N,"at_ns":T}                               what follows was read at T
//! ```
//!
//! What stands before the first turn was read when everything was set up, and stays true where no
//! turn says otherwise. Within a turn order means nothing: what is asked for is found by name.

mod lines;
mod recorded;
mod tee;

pub use lines::{Header, JobLine, Line, VERSION};
pub use recorded::{Recorded, StreamError, is_stream, read};
pub use tee::Tee;
