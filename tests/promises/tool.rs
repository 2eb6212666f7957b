//! The built program, to try promises on.
//!
//! `cargo test` does not tell a package where another package's program lies, but both are built
//! into one folder. It is built first if it is missing or older than a source file, so that a test
//! never judges yesterday's program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the tests lie in the repository").to_owned()
}

/// The program.
pub fn path() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let tool = profile_dir().join("evenkeel");
        // In a guest it was built before the boot, and cargo is slow there.
        if std::env::var_os("NUMA_VM").is_none() && !is_fresh(&tool) {
            build();
        }
        assert!(tool.is_file(), "no program at {}: run cargo build", tool.display());
        tool
    })
}

/// A command that runs the program, with nothing to read.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(args).stdin(std::process::Stdio::null());
    // Profiles that somebody has at home change what is decided.
    command.env("XDG_DATA_HOME", "/nonexistent");
    command
}

/// Runs the program to its end.
pub fn run(args: &[&str]) -> Output {
    command(args).output().expect("the program starts")
}

/// What a program said, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints UTF-8")
}

/// `target/debug` or its like: the folder above that of the test's own program.
fn profile_dir() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own program");
    own.ancestors().nth(2).expect("it lies in target/PROFILE/deps").to_owned()
}

fn is_fresh(tool: &Path) -> bool {
    let Some(built) = modified(tool) else { return false };
    newest(&root().join("crates")).max(modified(&root().join("Cargo.toml"))) <= Some(built)
}

/// When the youngest file below a folder was changed.
fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let age = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => newest(&entry.path()),
        _ => modified(&entry.path()),
    };
    entries.filter_map(age).max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

/// Builds it where the tests were built, in the profile that they were built in.
fn build() {
    let dir = profile_dir();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "app", "--bin", "evenkeel"]);
    command.current_dir(root()).env("CARGO_TARGET_DIR", dir.parent().unwrap_or(&dir));
    if dir.file_name().is_some_and(|name| name == "release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "cargo build failed");
}
