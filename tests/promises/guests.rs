//! Failed boots of `scripts/numa-vm`: how often it boots again, what it prints and which files it keeps. A shell script
//! replaces QEMU and fails a given number of boots.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tests::dir::Dir;
use tests::tool::{root, text};

/// Replaces QEMU. The first boots, as many as the file `n_failures` contains, write an oops to the kernel log and end. The
/// next boot starts the command, whose output is `measured`. The file `end` contains the end of this boot: `exit` is the
/// exit status 7 of the command, `oops` a kernel failure while the command runs. With `no-kvm` QEMU starts no boot.
const FAKE_QEMU: &str = r#"#!/bin/sh
for arg; do
  case $arg in
    file:*) log=${arg#file:} ;;
    local,id=ctl,path=*) ctl=${arg#local,id=ctl,path=}; ctl=${ctl%%,*} ;;
  esac
done
here=${0%/*}
echo boot >>"$here/boots"
[ "$(cat "$here/end")" = no-kvm ] && { echo 'Could not access KVM kernel module'; exit 1; }
echo 'BUG: unable to handle page fault in text_poke' >>"$log"
[ "$(wc -l <"$here/boots")" -le "$(cat "$here/n_failures")" ] && exit 0
: >"$ctl/begun"
echo measured >"$ctl/out"
[ "$(cat "$here/end")" = oops ] && exit 0
echo 7 >"$ctl/rc"
"#;

struct FakeGuest(Dir);

impl FakeGuest {
    /// Returns `None`, and prints a line, if packages are missing that numa-vm would install.
    fn new(n_failures: u32, end: &str) -> Option<Self> {
        let needs = ["/bin/busybox", "/usr/share/keyrings/debian-archive-keyring.gpg"];
        let has_tools = ["cpio", "xz", "dpkg"].iter().all(|tool| {
            Command::new("sh")
                .args(["-c", &format!("command -v {tool}")])
                .output()
                .is_ok_and(|o| o.status.success())
        });
        if !has_tools || !needs.iter().all(|file| Path::new(file).exists()) {
            println!("skipped: the packages of scripts/setup test are missing");
            return None;
        }
        let dir = Dir::with(&[
            ("bin/qemu-system-x86_64", FAKE_QEMU),
            ("bin/n_failures", &n_failures.to_string()),
            ("bin/end", end),
            ("cache/numa-vm/trixie-backports-6.18/vmlinuz", "kernel"),
            ("cache/numa-vm/trixie-backports-6.18/mod/9p.ko", "module"),
            ("tmp/.keep", ""),
        ]);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path("bin/qemu-system-x86_64"), mode).expect("own file");
        Some(FakeGuest(dir))
    }

    fn run(&self) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new(root().join("scripts/numa-vm"))
            .args(["--", "true"])
            .env("PATH", format!("{}:{path}", self.0.arg("bin")))
            .env("XDG_CACHE_HOME", self.0.path("cache"))
            .env("TMPDIR", self.0.path("tmp"))
            .output()
            .expect("bash starts")
    }

    /// Runs numa-vm. Returns exit status, standard output, and standard error with DIR for the directory.
    fn outcome(&self) -> (Option<i32>, String, String) {
        let output = self.run();
        let stderr = text(&output.stderr).replace(&self.0.root().display().to_string(), "DIR");
        (output.status.code(), text(&output.stdout), stderr)
    }
}

#[test]
fn four_failed_boots_print_one_line_each_and_the_command_runs_in_the_fifth() {
    let Some(guest) = FakeGuest::new(4, "exit") else { return };
    let lines: String = (1..=4)
        .map(|n| format!("numa-vm: boot {n} of 5 failed in the kernel; starting again\n"))
        .collect();
    assert_eq!(guest.outcome(), (Some(7), "measured\n".to_owned(), lines));
}

#[test]
fn after_five_failed_boots_the_log_is_kept_in_a_file_and_not_printed() {
    let Some(guest) = FakeGuest::new(9, "exit") else { return };
    let (status, stdout, stderr) = guest.outcome();
    assert_eq!((status, stdout.as_str(), stderr.lines().count()), (Some(125), "", 5), "{stderr}");
    let last = stderr.lines().last().expect("a line");
    let log = last.strip_prefix("numa-vm: 5 of 5 boots failed in the kernel; kernel log: DIR/");
    let log = guest.0.text(log.expect(last));
    assert!(log.contains("text_poke") && !stderr.contains("text_poke"), "{stderr}");
    assert_eq!(guest.0.read("bin/boots").lines().count(), 5);
}

#[test]
fn a_guest_that_dies_after_its_command_began_is_not_started_again_and_its_output_is_kept() {
    let Some(guest) = FakeGuest::new(1, "oops") else { return };
    let (status, stdout, stderr) = guest.outcome();
    assert_eq!((status, stdout.as_str()), (Some(125), "measured\n"), "{stderr}");
    assert!(
        stderr.contains("failed while the command ran; kernel log: DIR/tmp/numa-vm-"),
        "{stderr}"
    );
    assert_eq!(guest.0.read("bin/boots").lines().count(), 2);
}

#[test]
fn an_error_of_qemu_is_not_a_failed_boot() {
    let Some(guest) = FakeGuest::new(0, "no-kvm") else { return };
    let message = "numa-vm: QEMU did not start the guest: Could not access KVM kernel module\n";
    assert_eq!(guest.outcome(), (Some(125), String::new(), message.to_owned()));
    assert_eq!(guest.0.read("bin/boots").lines().count(), 1);
}
