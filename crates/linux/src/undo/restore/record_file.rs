//! Locks, reads and parses the file of one record.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::RestoreVerdict;
use super::control::RestoreRun;
use crate::proc_stat::ProcStat;
use crate::undo::dir::lock;
use crate::undo::record::{Records, UndoHeader, UndoLine};
use crate::{fault, procfs, system};

/// Number of attempts to take a lock: a child between fork and exec shares the lock of its exited parent.
const LOCK_STEPS: u32 = 200;
const LOCK_STEP: std::time::Duration = std::time::Duration::from_millis(10);
/// Upper bound of the size of a record. A run rewrites its record when most of its lines are obsolete.
const BYTES_MAX: usize = 64 << 20;

/// Locks a file. If the file cannot be locked, returns the reason. If the owner has exited, only a child before its
/// exec can hold the lock, so the call waits for a short time.
pub(super) fn lock_with_timeout(
    file: &OwnedFd,
    run: &RestoreRun<'_>,
) -> io::Result<Option<RestoreVerdict>> {
    for _ in 0..LOCK_STEPS {
        if lock(file)? {
            return Ok(None);
        }
        if run.is_stop_requested() {
            return Ok(Some(RestoreVerdict::Kept));
        }
        let (Some(header), ..) = parse(&read_all(file)?) else { break };
        match belongs(&header)? {
            RestoreVerdict::Complete if !owner_may_be_running(&header) => {
                run.control.clock.pause(LOCK_STEP);
            }
            RestoreVerdict::Complete => break,
            // The record belongs to another user, boot or namespace, so its PIDs are not valid here.
            other => return Ok(Some(other)),
        }
    }
    Ok(Some(RestoreVerdict::InUse))
}

fn owner_may_be_running(header: &UndoHeader) -> bool {
    let is_owner = |stat: &ProcStat| {
        header.start_time_ticks == 0 || stat.start_time_ticks == header.start_time_ticks
    };
    match procfs::stat(Path::new("/"), header.pid) {
        Ok(stat) => !stat.has_exited() && is_owner(&stat),
        // An owner that cannot be read may be running, so its record is not changed.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

pub(super) fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let offset = bytes.len() as u64;
        match fault::retry("pread", || Ok(rustix::io::pread(file, &mut piece, offset)?))? {
            0 => return Ok(bytes),
            n_bytes => bytes.extend_from_slice(&piece[..n_bytes]),
        }
        if BYTES_MAX < bytes.len() {
            return Err(io::Error::other(format!(
                "the file is larger than {} MiB",
                BYTES_MAX >> 20
            )));
        }
    }
}

/// Parses a record. Returns the header, the state after all lines, and the line numbers of malformed lines. An
/// incomplete last line does not count: its writer was killed before the change was made.
pub(super) fn parse(bytes: &[u8]) -> (Option<UndoHeader>, Records, Vec<usize>) {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    lines.pop();
    let mut records = Records::default();
    let mut damaged = Vec::new();
    let Some((first, following)) = lines.split_first() else { return (None, records, damaged) };
    let header = serde_json::from_slice::<UndoHeader>(first).ok().filter(UndoHeader::is_known);
    damaged.extend(header.is_none().then_some(1));
    for (idx, line) in following.iter().enumerate() {
        match serde_json::from_slice::<UndoLine>(line) {
            Ok(line) => records.apply(&line),
            Err(_) => damaged.push(idx + 2),
        }
    }
    (header, records, damaged)
}

/// Returns whether the first line has a version that is not supported.
pub(super) fn is_of_other_version(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct UndoVersion {
        evenkeel_undo: u32,
    }
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<UndoVersion>(first)
        .is_ok_and(|found| !UndoHeader::is_known_version(found.evenkeel_undo))
}

/// Returns whether the record was written in another time namespace: no start time in it is valid here.
fn is_of_other_time(header: &UndoHeader) -> io::Result<bool> {
    let recorded = &header.time_namespace;
    Ok(!recorded.is_empty() && *recorded != system::time_namespace(Path::new("/"))?)
}

pub(super) fn belongs(header: &UndoHeader) -> io::Result<RestoreVerdict> {
    let root = Path::new("/");
    Ok(if header.uid != rustix::process::geteuid().as_raw() {
        RestoreVerdict::OtherUser
    } else if header.boot != system::boot_id(root)? {
        RestoreVerdict::OtherBoot
    } else if header.pid_namespace != system::pid_namespace(root)? || is_of_other_time(header)? {
        RestoreVerdict::OtherNamespace
    } else {
        RestoreVerdict::Complete
    })
}
