//! Recordings of kernel interfaces, byte by byte, and their replay.
//!
//! ```text
//!   Live ──► Tee ──► collectors          record: every read is also written to a file
//!             └───► stream (JSON lines)
//!                     └──► Recorded ──► collectors          replay: the same bytes
//! ```
//!
//! A stream is text with one JSON object per line:
//!
//! ```text
//!   {"evenkeel_stream":1,"tool":…,"machine":TOML,"interval_ns":N,"jobs":[{"pid":P,"name":…}]}
//!   {"list":DIR,"names":[…]}                        a directory; "errno" instead of names after an error
//!   {"file":PATH,"text":…}                             a file; "hex" if it is not UTF-8
//!   {"open":NR,"task":TID | "cpu":N,"events":[{"name":…,"type":T,"config":[a,b,c],"number":I,…}]}
//!   {"group":NR,"hex":…}                               one read() of a group
//!   {"turn":N,"at_ns":T}                               the following lines were read at T
//! ```
//!
//! Lines before the first turn are the setup. A read of the setup is valid in every turn that does not contain the same
//! read. The order of lines within a turn has no meaning: reads are found by name.

mod lines;
mod recorded;
mod tee;

pub use lines::{RecordedJob, StreamHeader, StreamLine, VERSION};
pub use recorded::{Recorded, StreamError, is_stream, read};
pub use tee::Tee;
