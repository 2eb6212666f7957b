//! Links, FIFOs and directories of other users.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};

use super::*;
use crate::{NewFile, open_job_output, write};

/// UID of another user.
const OTHER: u32 = 65534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("not run: only root can change the owner of a file");
    }
    is_root
}

/// A directory with the file `victim`, which must not change, and links and a FIFO in `out`.
struct Planted(tempfile::TempDir);

impl Planted {
    fn new() -> Self {
        let planted = Planted(tempfile::tempdir().expect("a directory"));
        fs::create_dir(planted.at("out")).expect("a directory");
        fs::create_dir(planted.at("private")).expect("a directory");
        fs::write(planted.at("victim"), "keep").expect("a file");
        symlink(planted.at("victim"), planted.at("out/link")).expect("a link");
        symlink(planted.at("private"), planted.at("out/jobs")).expect("a link");
        symlink(planted.at("absent"), planted.at("out/dangling")).expect("a link");
        rustix::fs::mknodat(rustix::fs::CWD, planted.at("out/fifo"), FileType::Fifo, MODE, 0)
            .expect("a FIFO");
        planted
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn out(&self) -> OutputDir {
        OutputDir::create(&self.at("out"), ForeignDir::Accept).expect("a directory")
    }

    fn check_unchanged(&self) {
        assert_eq!(fs::read_to_string(self.at("victim")).expect("a file"), "keep");
        assert_eq!(fs::read_dir(self.at("private")).expect("a directory").count(), 0);
        assert!(!self.at("absent").exists());
    }
}

#[test]
fn no_operation_follows_a_link_or_waits_for_a_fifo() {
    let planted = Planted::new();
    let out = planted.out();
    for name in ["link", "dangling", "fifo"] {
        assert!(out.create_new(name).is_err(), "{name}");
        assert!(NewFile::create(&planted.at("out").join(name)).is_err(), "{name}");
        let opened = [out.open_or_create(name), out.append(name), out.recreate(name)];
        for error in opened.map(|opened| opened.expect_err(name).to_string()) {
            assert_eq!(error, "this is not a regular file; remove it", "{name}");
        }
        assert!(out.replace(name, b"new").is_err(), "{name}");
    }
    assert!(crate::write(&planted.at("out/fifo"), b"new").is_err(), "it has no reader");
    let error = out.subdir("jobs").expect_err("a link").to_string();
    assert_eq!(error, "this is not a directory; remove it");
    for name in ["link", "dangling", "fifo"] {
        out.create_temporary(name).expect("the entry is replaced");
        assert!(planted.at("out").join(name).symlink_metadata().expect("a file").is_file());
    }
    planted.check_unchanged();
}

#[test]
fn a_directory_that_is_replaced_by_a_link_stays_the_directory_that_was_opened() {
    let planted = Planted::new();
    let out = planted.out();
    let below = out.create_subdir("below").expect("a directory");
    fs::rename(planted.at("out/below"), planted.at("moved")).expect("renamed");
    symlink(planted.at("private"), planted.at("out/below")).expect("a link");
    below.create_new("a").expect("a file");
    below.replace("b", b"text").expect("a file");
    assert_eq!(fs::read_to_string(planted.at("moved/b")).expect("a file"), "text");
    assert!(out.subdir("below").is_err());
    out.remove_subdir_all("below").expect("only the link is removed");
    assert!(planted.at("moved/a").exists());
    planted.check_unchanged();
}

#[test]
fn a_replaced_file_is_complete_and_leaves_no_temporary_file() {
    let planted = Planted::new();
    let out = planted.out();
    for text in ["one", "two"] {
        out.replace("report", text.as_bytes()).expect("written");
        assert_eq!(fs::read_to_string(planted.at("out/report")).expect("a file"), text);
    }
    assert_eq!(out.names().expect("a list").len(), 5);
}

#[test]
fn a_hard_link_in_a_directory_of_another_user_is_rejected() {
    if !is_root() {
        return;
    }
    let planted = Planted::new();
    chown(planted.at("out"), Some(OTHER), None).expect("root");
    fs::hard_link(planted.at("victim"), planted.at("out/hard")).expect("a link");
    let out = planted.out();
    assert!(out.open_or_create("hard").is_err() && out.append("hard").is_err());
    out.replace("hard", b"new").expect("a new file");
    planted.check_unchanged();
}

#[test]
fn the_directory_of_another_user_is_rejected_unless_it_is_accepted() {
    if !is_root() {
        return;
    }
    let planted = Planted::new();
    let path = planted.at("out");
    chown(&path, Some(OTHER), None).expect("root");
    let error = OutputDir::create(&path, ForeignDir::Reject).expect_err("another owner");
    let error = error.to_string();
    assert!(error.contains(&format!("belongs to another user (UID {OTHER})")), "{error}");
    assert!(OutputDir::create(&path, ForeignDir::Accept).is_ok());
    assert!(OutputDir::create(&path.join("new"), ForeignDir::Reject).is_ok(), "a foreign parent");
}

#[test]
fn root_follows_no_link_of_another_user_in_the_path_of_a_file() {
    if !is_root() {
        return;
    }
    let planted = Planted::new();
    let own = planted.at("own");
    symlink(planted.at("private"), &own).expect("a link");
    write(&own.join("mine"), b"text").expect("a link of root");
    fs::remove_file(planted.at("private/mine")).expect("the target");
    for link in [&own, &planted.at("out/link"), &planted.at("out/dangling")] {
        lchown(link, Some(OTHER), None).expect("root");
    }
    for path in [own.join("x"), planted.at("out/link"), planted.at("out/dangling")] {
        for error in [write(&path, b"new").err(), open_job_output(&path, false).err()] {
            let error = error.expect("a link of another user").to_string();
            assert!(error.ends_with("a symbolic link of another user; use the path of its target"));
        }
    }
    planted.check_unchanged();
}

#[test]
fn a_device_and_a_linked_file_of_this_user_are_written() {
    let planted = Planted::new();
    write(Path::new("/dev/null"), b"text").expect("a device");
    open_job_output(Path::new("/dev/null"), true).expect("a device");
    crate::check_writable(&planted.at("out/dangling")).expect("the target can be created");
    write(&planted.at("out/dangling"), b"new").expect("a link of this user");
    assert_eq!(fs::read_to_string(planted.at("absent")).expect("a file"), "new");
    assert!(planted.at("out/dangling").is_symlink());
}
