//! The evenkeel executable under test.
//!
//! `cargo test` does not provide the path of another package's executable, but both are built into the same target
//! directory. If the executable is missing or older than a source file, the executable is built first: tests never use
//! an outdated executable.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("tests is a directory of the repository").to_owned()
}

/// Returns the path of the executable. Builds the executable if it is missing or outdated.
pub fn path() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let tool = profile_dir().join("evenkeel");
        // In a guest the executable was built before the boot, because cargo is slow in the guest.
        if std::env::var_os("NUMA_VM").is_none() && !is_fresh(&tool) {
            build();
        }
        assert!(tool.is_file(), "no executable at {}; run cargo build", tool.display());
        tool
    })
}

/// Returns a command that runs evenkeel with /dev/null as standard input.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(args).stdin(std::process::Stdio::null());
    // Profiles of the user would change decisions.
    command.env("XDG_DATA_HOME", "/proc/nonexistent");
    command
}

/// Runs evenkeel to completion.
pub fn run(args: &[&str]) -> Output {
    command(args).output().expect("the program starts")
}

/// Returns the standard output of a command line that must succeed.
pub fn success(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the error line of a command that must be rejected: exit status 2, one line, no output on standard output.
pub fn rejection(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{command:?}: {stderr}");
    assert_eq!((stderr.lines().count(), text(&output.stdout).as_str()), (1, ""), "{stderr}");
    assert!(stderr.starts_with("evenkeel: "), "{stderr}");
    stderr
}

/// Lists the violations of a shipped schema.
pub fn schema_errors(schema: &str, document: &serde_json::Value) -> Vec<String> {
    let schema = std::fs::read_to_string(root().join("docs").join(schema)).expect("it is shipped");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors = validator.iter_errors(document);
    errors.map(|error| format!("{error} at {}", error.instance_path())).collect()
}

/// Returns output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns `target/debug` or similar: the parent of the directory with this test executable.
fn profile_dir() -> PathBuf {
    let test_executable =
        std::env::current_exe().expect("the path of the test executable is known");
    test_executable.ancestors().nth(2).expect("it is in target/PROFILE/deps").to_owned()
}

fn is_fresh(tool: &Path) -> bool {
    let Some(built) = modified(tool) else { return false };
    newest(&root().join("crates")).max(modified(&root().join("Cargo.toml"))) <= Some(built)
}

/// Returns the modification time of the newest file below a directory.
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

/// Builds the executable in the target directory and profile of the tests.
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
