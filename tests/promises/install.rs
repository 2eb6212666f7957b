//! `make install` into a directory, and its removal.

use std::path::Path;
use std::process::Command;

use tests::dir::Dir;
use tests::tool;

/// Runs scripts/install for a prefix of a user.
fn install(dir: &Dir, args: &[&str]) {
    let mut script = Command::new(tool::root().join("scripts/install"));
    script.args(args).env("EVENKEEL", tool::path()).env("DESTDIR", dir.root());
    script.env("PREFIX", "/opt/evk").env("SYSCONFDIR", "/opt/evk/etc");
    let output = script.output().expect("bash");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
}

/// Returns the files below a directory.
fn files(below: &Path) -> Vec<String> {
    let listed = Command::new("find").args([".", "-type", "f"]).current_dir(below).output();
    tool::text(&listed.expect("find").stdout).lines().map(str::to_owned).collect()
}

#[test]
fn the_files_name_the_directories_of_the_installation_and_are_removed_except_the_configuration() {
    let dir = Dir::new();
    install(&dir, &[]);
    let unit = dir.read("opt/evk/lib/systemd/system/evenkeel-watch.service");
    assert!(unit.contains("ConditionPathExists=/opt/evk/etc/evenkeel/watch.toml\n"), "{unit}");
    let start = "ExecStart=/opt/evk/bin/evenkeel watch --config /opt/evk/etc/evenkeel/watch.toml\n";
    assert!(unit.contains(start) && !unit.contains("DIR@"), "{unit}");
    let page = dir.read("opt/evk/share/man/man1/evenkeel-run.1");
    let synopsis = page.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1);
    let synopsis = synopsis.expect("a section").replace("\\-", "-");
    assert_eq!(synopsis, "\\fBevenkeel run\\fR [OPTIONS] [WORKLOAD] [-- <CMD>...]");
    // A linked page is named, and it is installed.
    assert!(page.contains("(running.md)"), "{page}");
    assert!(page.contains("\\fBshare/doc/evenkeel/docs\\fR"), "{page}");
    assert!(dir.path("opt/evk/share/doc/evenkeel/docs/running.md").is_file());
    install(&dir, &["--remove"]);
    assert_eq!(files(dir.root()), ["./opt/evk/etc/evenkeel/watch.toml"]);
}
