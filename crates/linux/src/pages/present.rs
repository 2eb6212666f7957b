//! Which stretches of a process's addresses have pages at all.
//!
//! Programs reserve far more addresses than they use: garbage collectors a terabyte, address sanitizers
//! sixteen. Page tables know the holes: since Linux 6.7 the kernel tells the next page that is there
//! (`PAGEMAP_SCAN`), and passes a hole of a gigabyte in one step. So a mapping is cut into cells, and of
//! each cell only the first page is asked for:
//!
//! ```text
//!   mapping   │▓▓ ▓│    │    │    │ ▓  │▓▓▓▓│        next page? ─► its cell counts, go on behind it
//!   occupied  │────│              │────╵────│        5 questions here, however long the holes are
//! ```
//!
//! Stretches that are together hardly longer than what is resident are taken as they are: most programs
//! use what they map. Cells are as large as 512 of them hold all that is resident. Where questions run out (pages strewn
//! thinly) the cells grow and all begins again; what is still open after the third time counts as
//! occupied, and so does everything where the kernel does not know the question.
//!
//! Addresses in bytes. A question behind 4 TiB of nothing takes some microseconds (`cargo test -p linux --lib
//! terabytes -- --nocapture` prints it), more where page tables are there and empty.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::fault;

/// No cell is smaller: what one huge page takes on most machines.
const LEAST: u64 = 2 << 20;
/// Questions each time.
const QUESTIONS: u32 = 1536;
/// So often cells grow, to the eightfold.
const TIMES: u32 = 3;

/// A stretch of addresses: the first, and the first behind it.
pub type Stretch = (u64, u64);

/// A process's page tables.
#[derive(Debug)]
pub struct Tables {
    pagemap: File,
}

/// What `PAGEMAP_SCAN` takes (`struct pm_scan_arg` of `linux/fs.h`).
#[repr(C)]
#[derive(Default)]
struct Question {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    answers: u64,
    n_answers: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

/// What it tells (`struct page_region`).
#[repr(C)]
#[derive(Default)]
struct Answer {
    start: u64,
    end: u64,
    categories: u64,
}

impl Tables {
    /// The page tables of a process.
    ///
    /// # Errors
    /// Whatever opening says: it is gone, or somebody else's.
    pub fn open(root: &Path, pid: u32) -> io::Result<Self> {
        let path = root.join(format!("proc/{pid}/pagemap"));
        Ok(Tables { pagemap: fault::retry("open", || File::open(&path))? })
    }

    /// The first page that is there, of the stretch.
    ///
    /// # Errors
    /// Of the kind `Unsupported`, or number `ENOTTY`, before Linux 6.7; others when the process is gone.
    pub fn next(&self, (start, end): Stretch) -> io::Result<Option<u64>> {
        const IS_PRESENT: u64 = 1 << 3;
        const IS_ZERO: u64 = 1 << 5; // The page that all share who only read.
        /// `_IOWR('f', 16, struct pm_scan_arg)`
        const PAGEMAP_SCAN: u64 = 0xc060_6610;
        fault::refuse("ioctl")?;
        let mut answer = Answer::default();
        let mut question = Question {
            size: size_of::<Question>() as u64,
            start,
            end,
            answers: &raw mut answer as u64,
            n_answers: 1,
            max_pages: 1,
            inverted: IS_ZERO,
            all_of: IS_PRESENT | IS_ZERO,
            told: IS_PRESENT,
            ..Question::default()
        };
        // SAFETY: the kernel reads and writes the question, and writes one answer at most to the address in
        // it; both live until it returns.
        let n_answers = unsafe {
            libc::ioctl(self.pagemap.as_raw_fd(), PAGEMAP_SCAN as libc::Ioctl, &raw mut question)
        };
        if n_answers < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((0 < n_answers).then(|| answer.start.clamp(start, end)))
    }
}

/// The parts of stretches that have pages, about `resident` bytes of them; each with the number of the
/// stretch that it is of. Where that cannot be told all of a stretch counts.
pub fn occupied(
    root: &Path,
    pid: u32,
    stretches: &[Stretch],
    resident: u64,
) -> Vec<(usize, Stretch)> {
    let all = || stretches.iter().copied().enumerate().collect();
    let Ok(tables) = Tables::open(root, pid) else { return all() };
    occupied_by(stretches, resident, |stretch| tables.next(stretch)).unwrap_or_else(|_| all())
}

fn occupied_by(
    stretches: &[Stretch],
    resident: u64,
    mut next: impl FnMut(Stretch) -> io::Result<Option<u64>>,
) -> io::Result<Vec<(usize, Stretch)>> {
    let length = stretches.iter().fold(0u64, |sum, (start, end)| sum.saturating_add(end - start));
    if length <= resident.saturating_add(resident / 4) {
        return Ok(stretches.iter().copied().enumerate().collect()); // Hardly a hole to be found.
    }
    let mut cell = (resident / 512).max(LEAST).next_power_of_two();
    let mut found = Vec::new();
    for _ in 0..TIMES {
        let mut questions = QUESTIONS;
        found.clear();
        for (idx, &stretch) in stretches.iter().enumerate() {
            cells(stretch, cell, &mut questions, &mut next, |cell| found.push((idx, cell)))?;
        }
        if questions != 0 {
            break;
        }
        cell = cell.saturating_mul(8);
    }
    Ok(found)
}

/// Cells of a stretch with a page in them, neighbours as one.
fn cells(
    (start, end): Stretch,
    cell: u64,
    questions: &mut u32,
    next: &mut impl FnMut(Stretch) -> io::Result<Option<u64>>,
    mut tell: impl FnMut(Stretch),
) -> io::Result<()> {
    let (mut at, mut open) = (start, None::<Stretch>);
    while at < end {
        let first = if end - start <= cell || *questions == 0 {
            at
        } else {
            *questions -= 1;
            let Some(page) = next((at, end))? else { break };
            (page - page % cell).max(at)
        };
        let whole = end - start <= cell || *questions == 0;
        let behind = if whole { end } else { (first - first % cell).saturating_add(cell).min(end) };
        match &mut open {
            Some(open) if open.1 == first => open.1 = behind,
            open => _ = open.replace((first, behind)).map(&mut tell),
        }
        at = behind;
    }
    open.map(tell);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// In MiB: stretches, where pages are, what is resident. What is occupied, and how much was asked.
    fn told(
        stretches: &[Stretch],
        pages: &[Stretch],
        resident: u64,
    ) -> (Vec<(usize, Stretch)>, u32) {
        let mut n_asked = 0;
        let bytes = |(a, b): Stretch| (a * MIB, b * MIB);
        let stretches: Vec<Stretch> = stretches.iter().copied().map(bytes).collect();
        let next = |(start, end)| {
            n_asked += 1;
            let idx = pages.partition_point(|page| bytes(*page).1 <= start);
            let page = pages.get(idx).map(|page| bytes(*page).0.max(start));
            Ok(page.filter(|page| *page < end))
        };
        let found = occupied_by(&stretches, resident * MIB, next).expect("it answers");
        (found.iter().map(|&(i, (a, b))| (i, (a / MIB, b / MIB))).collect(), n_asked)
    }

    #[test]
    fn holes_however_long_are_passed_over() {
        let tib = 1 << 20;
        let (found, n_asked) =
            told(&[(1, 3), (10, 16 * tib)], &[(1, 2), (100, 104), (9 * tib, 9 * tib + 3)], 8);
        assert_eq!(found, [(0, (1, 3)), (1, (100, 104)), (1, (9 * tib, 9 * tib + 4))]);
        assert!(n_asked < 10, "{n_asked}");
    }

    #[test]
    fn a_stretch_without_pages_is_not_occupied() {
        assert_eq!(told(&[(8, 80), (90, 99)], &[(90, 92)], 2).0, [(1, (90, 92))]);
    }

    #[test]
    fn what_is_used_nearly_whole_is_taken_as_it_is_without_a_question() {
        let nearly = [(1, 41), (50, 90)];
        let all = (vec![(0, (1, 41)), (1, (50, 90))], 0);
        assert_eq!(told(&nearly, &[(1, 33), (50, 82)], 64), all);
        assert_ne!(told(&nearly, &[(1, 33), (50, 60)], 42).1, 0);
    }

    #[test]
    fn pages_strewn_thinly_make_cells_grow_and_questions_end() {
        let strewn = |n: u64, apart: u64| -> Vec<Stretch> {
            (0..n).map(|idx| (idx * apart, idx * apart + 1)).collect()
        };
        let (found, n_asked) = told(&[(0, 1 << 20)], &strewn(4000, 8), 4000);
        assert_eq!(found, [(0, (0, 32_000))]);
        assert!(n_asked <= TIMES * QUESTIONS, "{n_asked}");
        let (found, n_asked) = told(&[(0, 1 << 30)], &strewn(20_000, 1 << 12), 1);
        assert_eq!(found.last().map(|last| last.1.1), Some(1 << 30), "what is open counts");
        assert_eq!(n_asked, TIMES * QUESTIONS);
    }
}
