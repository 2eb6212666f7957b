//! File names of profiles, and the match between a profile and a program.
//!
//! ```text
//!   The program's directory is searched first, then each profile directory:
//!     NAME.profile.toml                    for any build, unless the file has a build id
//!     NAME-0123456789ab.profile.toml       for one build: the first digits of its build id
//! ```
//!
//! Another build of a program may behave differently. Therefore a profile with another build id is rejected. A
//! profile that matches only by name is accepted, and the host prints a message.

use std::path::PathBuf;

use super::Profile;

/// The suffix of profile files.
pub const SUFFIX: &str = ".profile.toml";

/// Number of build id digits in a file name. Collisions on one machine are unlikely.
const ID_DIGITS: usize = 12;

/// A profile and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFile {
    /// The path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub profile: Profile,
}

/// Match between a profile and a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The profile belongs to another program or another build.
    Mismatch,
    /// The names match, but the profile or the program has no build id.
    Name,
    /// The names and the build ids match.
    Build,
}

/// Compares a profile with the name and the build id of a program.
pub fn fit(profile: &Profile, name: &str, build_id: Option<&str>) -> Fit {
    match (&profile.build_id, build_id) {
        _ if profile.name != name => Fit::Mismatch,
        (Some(one), Some(other)) if one.eq_ignore_ascii_case(other) => Fit::Build,
        (Some(_), Some(_)) => Fit::Mismatch,
        _ => Fit::Name,
    }
}

/// Returns the profile name of a built-in program. The executable is evenkeel, so the build id is not used.
pub fn load_name(kind: &str) -> String {
    format!("load-{kind}")
}

/// Returns the file name of a profile. It contains the build id if there is one.
pub fn file_name(name: &str, build_id: Option<&str>) -> String {
    match build_id.map(|id| id.get(..ID_DIGITS).unwrap_or(id)) {
        Some(id) => format!("{name}-{id}{SUFFIX}"),
        None => format!("{name}{SUFFIX}"),
    }
}
