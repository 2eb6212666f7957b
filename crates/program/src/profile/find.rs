//! Which profile belongs to a program.
//!
//! ```text
//!   the program's folder, then each profile folder:
//!     NAME.profile.toml                    of any build, unless the file says of which
//!     NAME-0123456789ab.profile.toml       of one build: the first digits of its build id
//! ```
//!
//! Another build of a program may do other things, so a profile that names another build id is no
//! profile of this one. A name alone is believed, and whoever uses it says so.

use std::path::PathBuf;

use super::Profile;

/// How the names of profile files end.
pub const SUFFIX: &str = ".profile.toml";

/// Digits of a build id in a file's name: enough that two builds on one machine differ.
const ID_DIGITS: usize = 12;

/// A profile and the file it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFile {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says.
    pub profile: Profile,
}

/// How well a profile and a program go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It was measured on another build, or on another program.
    Not,
    /// The names are the same; one of the two has no build id.
    Name,
    /// The names and the build ids are the same.
    Build,
}

/// Whether a profile is that of a program with this name and build id.
pub fn fit(profile: &Profile, name: &str, build_id: Option<&str>) -> Fit {
    match (&profile.build_id, build_id) {
        _ if profile.name != name => Fit::Not,
        (Some(one), Some(other)) if one.eq_ignore_ascii_case(other) => Fit::Build,
        (Some(_), Some(_)) => Fit::Not,
        _ => Fit::Name,
    }
}

/// What the profile of a built-in program is called: the program is evenkeel itself, whose build says
/// nothing about it.
pub fn load_name(kind: &str) -> String {
    format!("load-{kind}")
}

/// The name of the file for a profile: with the build id if there is one.
pub fn file_name(name: &str, build_id: Option<&str>) -> String {
    match build_id.map(|id| id.get(..ID_DIGITS).unwrap_or(id)) {
        Some(id) => format!("{name}-{id}{SUFFIX}"),
        None => format!("{name}{SUFFIX}"),
    }
}
