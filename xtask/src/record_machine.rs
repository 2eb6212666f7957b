//! `cargo xtask record-machine`: writes an archive of this machine that `evenkeel machine --root` can read after
//! unpacking, for bug reports and fixtures.
//!
//! The archive contains only the files that evenkeel reads. From files with private data (`/proc/cpuinfo` has serial
//! numbers on some machines, `/proc/self/status` names a process) the archive has only the lines that evenkeel reads.
//! The archive contains the affinity and the cpuset that the cgroups define, and no names of cgroups. The same machine
//! in the same state gives the same bytes: names are sorted; times, owners and modes are constant.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use bzip2::Compression;
use bzip2::write::BzEncoder;
use linux::topology::{self as linux_topology, files};
use topology::Machine;

/// Directory of the machine in the archive.
const INSIDE: &str = "machine";
/// Size limit of a file. A file in `/sys` has at most one page; only `/proc/cpuinfo` is longer, and is shortened.
const FILE_BYTES_MAX: usize = 8 << 20;

/// Options of `record-machine`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write the archive to this file
    #[arg(long, value_name = "FILE", default_value = "machine.tar.bz2")]
    out: PathBuf,
    /// Read /sys and /proc below this directory (default: this machine)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    let archive = record(&args.root)?;
    let out = args.out.display();
    fs::write(&args.out, &archive).with_context(|| format!("cannot write {out}"))?;
    println!("{out}: {} bytes with the files of this machine that evenkeel reads.", archive.len());
    println!("To list its contents before you send it: tar -tjf {out}");
    println!("To print the machine: tar -xjf {out} && evenkeel machine --root {INSIDE}");
    Ok(())
}

/// Creates the archive of the machine below `root`.
fn record(root: &Path) -> anyhow::Result<Vec<u8>> {
    let machine = linux_topology::read(root)?;
    let mut tar = tar::Builder::new(BzEncoder::new(Vec::new(), Compression::best()));
    let status = status(&machine);
    add(&mut tar, "proc/self/status", status.as_bytes())?;
    for path in files::below(root).iter().filter(|path| *path != "proc/self/status") {
        let from = root.join(path);
        if is_bare_dir(path) {
            add_dir(&mut tar, path)?;
        } else if let Some(bytes) = content(&from, path) {
            add(&mut tar, path, &bytes)?;
        }
    }
    Ok(tar.into_inner()?.finish()?)
}

/// Returns whether only the name of the directory is relevant: an offline CPU, or a node in the distances of another
/// node.
fn is_bare_dir(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_numbered =
        |start: &str| name.strip_prefix(start).is_some_and(|n| n.parse::<u32>().is_ok());
    is_numbered("cpu") || is_numbered("node")
}

/// Reads the contents of a file without private data; `None` if the file is unreadable.
fn content(from: &Path, path: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(from).ok().filter(|bytes| bytes.len() <= FILE_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let content = match path {
        "proc/cpuinfo" => lines(&text, cpuinfo_line),
        "proc/filesystems" => {
            lines(&text, |line| line.contains("resctrl").then(|| line.to_owned()))
        }
        _ if path.ends_with("meminfo") => lines(&text, memory_line),
        _ => text.into_owned(),
    };
    Some(content.into_bytes())
}

fn lines(text: &str, keep: impl Fn(&str) -> Option<String>) -> String {
    text.lines().filter_map(|line| Some(keep(line)? + "\n")).collect()
}

/// Selects the lines of CPU model and position. An s390 line of a CPU also has the serial number of the machine.
fn cpuinfo_line(line: &str) -> Option<String> {
    const KEPT: [&str; 9] = [
        "processor",
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "physical id",
        "core id",
        "cpu",
        "cpu model",
    ];
    let Some((key, _)) = line.split_once(':') else {
        return line.trim().is_empty().then(String::new);
    };
    let key = key.trim();
    if key.strip_prefix("processor ").is_some_and(|number| number.parse::<u32>().is_ok()) {
        return Some(format!("{key}: recorded"));
    }
    KEPT.contains(&key).then(|| line.to_owned())
}

fn memory_line(line: &str) -> Option<String> {
    let is_read = line.contains("MemTotal:") || line.contains("MemFree:");
    is_read.then(|| line.to_owned())
}

/// Returns the allowed CPUs and nodes, in the format of `/proc/self/status`.
fn status(machine: &Machine) -> String {
    let (cpus, mems) = (machine.allowed(), machine.nodes_allowed());
    format!("Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n")
}

type Tar = tar::Builder<BzEncoder<Vec<u8>>>;

fn add(tar: &mut Tar, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let mut header = header(tar::EntryType::Regular, 0o644);
    header.set_size(bytes.len() as u64);
    append(tar, &mut header, path, bytes)
}

fn add_dir(tar: &mut Tar, path: &str) -> anyhow::Result<()> {
    let mut header = header(tar::EntryType::Directory, 0o755);
    header.set_size(0);
    append(tar, &mut header, path, &[])
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn append(tar: &mut Tar, header: &mut tar::Header, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
    ensure!(!path.contains(".."), "{path} is outside of the archive");
    tar.append_data(header, format!("{INSIDE}/{path}"), bytes)
        .with_context(|| format!("cannot record {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unpacks an archive and reads its machine.
    fn read_again(archive: &[u8]) -> Machine {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut tar = tar::Archive::new(bzip2::read::BzDecoder::new(archive));
        tar.unpack(dir.path()).expect("it is an archive");
        linux_topology::read(&dir.path().join(INSIDE)).expect("it contains a machine")
    }

    /// Returns the machine without free memory, which changes, and without total memory, which changes in virtual
    /// machines.
    fn without_memory(machine: &Machine) -> Machine {
        let mut parts = machine.parts().clone();
        parts.nodes.iter_mut().for_each(|node| (node.memory, node.memory_free) = (None, None));
        Machine::new(parts).expect("still a machine")
    }

    #[test]
    fn a_recording_of_this_machine_has_the_same_topology() {
        let recorded = record(Path::new("/")).expect("this machine can be read");
        let direct = linux_topology::read(Path::new("/")).expect("this machine can be read");
        assert_eq!(without_memory(&read_again(&recorded)), without_memory(&direct));
    }

    #[test]
    fn recording_a_recorded_machine_is_lossless_and_reproducible() {
        let repository = crate::root();
        for name in ["4fake-4gr1nu1pu", "fakeheterocpunuma", "offline-cpu0-node0", "2ps3-2t"] {
            let path = repository.join(format!("fixtures/machines/{name}.tar.bz2"));
            let dir = tempfile::tempdir().expect("a temporary directory");
            let packed = fs::File::open(path).expect(name);
            tar::Archive::new(bzip2::read::BzDecoder::new(packed)).unpack(dir.path()).expect(name);
            let root = dir.path().join(name);
            let recorded = record(&root).expect(name);
            assert_eq!(read_again(&recorded), linux_topology::read(&root).expect(name), "{name}");
            assert_eq!(recorded, record(&root).expect(name), "{name}: the bytes differ");
        }
    }

    #[test]
    fn serial_numbers_and_load_are_not_recorded() {
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu\nSerial\t\t: 00000000deadbeef\n\n\
                       processor 3: version = FF,  identification = 0AB123,  machine = 2817\n";
        let recorded = lines(cpuinfo, cpuinfo_line);
        assert_eq!(recorded, "processor\t: 0\n\nprocessor 3: recorded\n");
        let meminfo = "Node 0 MemTotal: 16 kB\nNode 0 MemFree: 4 kB\nNode 0 Active: 3 kB\n";
        assert_eq!(lines(meminfo, memory_line).lines().count(), 2);
    }
}
