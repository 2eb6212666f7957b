//! A temporary directory with the files of a test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tool;

pub struct Dir(tempfile::TempDir);

impl Default for Dir {
    fn default() -> Self {
        Dir(tempfile::tempdir().expect("a temporary directory"))
    }
}

impl Dir {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a directory with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let dir = Dir::new();
        files.iter().for_each(|(name, text)| dir.write(name, text));
        dir
    }

    /// Creates a directory inside another directory. Each directory is removed when it is dropped.
    pub fn inside(parent: &Path) -> Self {
        let dir = tempfile::Builder::new().disable_cleanup(true).tempdir_in(parent);
        Dir(dir.expect("a temporary directory"))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a path as text, for an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file and creates its directory.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect(name);
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    /// Reads the text of a file; empty if the file does not exist.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the directories of undo records and state files.
    pub fn state(&self) -> Vec<PathBuf> {
        vec![self.path("state")]
    }

    /// Returns the sorted names of the files in the directory.
    pub fn listing(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root()).expect("the directory exists").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns the command of the evenkeel executable with this working directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = tool::command(args);
        command.current_dir(self.root());
        command
    }

    /// Returns [`Dir::command`] with undo records and state files in `state`.
    pub fn command_with_state(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env(linux::undo::STATE_VARIABLE, self.path("state"));
        command
    }

    /// Runs a command line by a POSIX shell in this directory, with evenkeel in `PATH`.
    pub fn shell(&self, command: &str) -> Output {
        let tools = tool::path().parent().expect("a directory").display().to_string();
        let path = format!("{tools}:{}", std::env::var("PATH").expect("a path"));
        let mut shell = Command::new("dash");
        shell.args(["-c", command]).current_dir(self.root()).env("PATH", path);
        shell.env("XDG_DATA_HOME", "/proc/nonexistent");
        shell.env(linux::undo::STATE_VARIABLE, self.path("state"));
        shell.output().expect("dash starts")
    }

    /// Runs evenkeel to completion.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("evenkeel starts")
    }

    /// Returns the standard output of a command line that must succeed.
    pub fn success(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", tool::text(&output.stderr));
        tool::text(&output.stdout)
    }

    /// Returns the error line of a command line that must be rejected without a new file. DIR is the path of the
    /// directory.
    pub fn rejection(&self, args: &[&str]) -> String {
        let before = self.listing();
        let stderr = tool::rejection(&mut self.command(args));
        assert_eq!(self.listing(), before, "{args:?}: a job was started or a file created");
        stderr.replace(&self.root().display().to_string(), "DIR")
    }
}
