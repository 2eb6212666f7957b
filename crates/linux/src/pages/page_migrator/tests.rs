//! Migrations of a simulated process. The simulated kernel returns errors that a seed selects.

use std::collections::BTreeMap;

use base::Rng;
use expect_test::{Expect, expect};

use super::*;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

/// A process and the nodes of its machine.
#[derive(Default)]
struct Fake {
    /// Node of each page.
    node_of: BTreeMap<u64, i32>,
    /// First addresses of huge pages.
    huge: Vec<u64>,
    ranges: Vec<MigrationRange>,
    /// Status of pages that do not move.
    stuck: BTreeMap<u64, i32>,
    available: Option<u64>,
    unlisted: u64,
    /// Resident pages of files, in bytes.
    files: u64,
    /// Number of requests after which the process exits.
    exits_after: Option<u32>,
    n_requests: u32,
    n_whole: u32,
    requested: Vec<u64>,
    /// Share of calls that fail, in permille.
    chance: Option<(Rng, u64)>,
    cpu_time: u64,
    /// Time for which each request waits for a CPU.
    wait: u64,
}

impl Fake {
    fn range(mut self, start_mib: u64, n_pages: u64, node: i32, is_huge: bool) -> Self {
        let start = start_mib << 20;
        let end = start + n_pages * PAGE;
        self.node_of.extend((start..end).step_by(PAGE as usize).map(|addr| (addr, node)));
        if is_huge {
            let first = start.next_multiple_of(HUGE);
            let heads = (first..).step_by(HUGE as usize).take_while(|head| head + HUGE <= end);
            self.huge.extend(heads);
        }
        let may_be_huge = is_huge;
        self.ranges.push(MigrationRange {
            start,
            end,
            page_size: PAGE,
            may_be_huge,
            to_move: end - start,
        });
        self
    }

    /// Adds file pages, so that the process is too large for one call.
    fn with_files(self) -> Self {
        Fake { files: 64 << 20, ..self }
    }

    fn inject(&mut self) -> io::Result<()> {
        let Some((rng, permille)) = &mut self.chance else { return Ok(()) };
        if rng.below(1000) < *permille {
            let errors = crate::fault::ERRORS;
            let idx = rng.below(errors.len() as u64) as usize;
            return Err(io::Error::from_raw_os_error(errors[idx]));
        }
        Ok(())
    }

    fn move_one(&mut self, addr: u64, to: NodeId) -> i32 {
        let head = addr - addr % HUGE;
        let of_huge = self.huge.contains(&head);
        let pages: Vec<u64> = match of_huge {
            true => (head..head + HUGE).step_by(PAGE as usize).collect(),
            false => vec![addr],
        };
        match self.node_of.get(&addr) {
            None => return -libc::ENOENT,
            Some(&node) if node == to.0 as i32 => return node,
            Some(_) => {}
        }
        if let Some(&answer) = self.stuck.get(&addr) {
            return answer;
        }
        let bytes = pages.len() as u64 * PAGE;
        if let Some(available) = &mut self.available {
            if *available < bytes {
                return -libc::ENOMEM;
            }
            *available -= bytes;
        }
        pages.into_iter().for_each(|page| _ = self.node_of.insert(page, to.0 as i32));
        to.0 as i32
    }
}

impl MigratableMemory for Fake {
    fn ranges(&mut self, _request: &PageMigrationRequest) -> io::Result<Vec<MigrationRange>> {
        self.inject()?;
        Ok(self.ranges.clone())
    }

    fn unlisted_bytes(&self) -> u64 {
        self.unlisted
    }

    fn is_same(&mut self) -> io::Result<bool> {
        self.inject()?;
        Ok(self.exits_after.is_none_or(|n| self.n_requests < n))
    }

    fn query(&mut self, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
        self.inject()?;
        let node = |page| self.node_of.get(page).copied().unwrap_or(-libc::ENOENT);
        *status = pages.iter().map(node).collect();
        Ok(())
    }

    /// If one page does not move, the status of all pages stays unwritten, as in the kernel.
    fn request(&mut self, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()> {
        self.n_requests += 1;
        self.cpu_time += pages.len() as u64 * 1000;
        self.inject()?;
        self.requested.extend(pages);
        let answers: Vec<i32> = pages.iter().map(|&page| self.move_one(page, to)).collect();
        let stops = answers.contains(&-libc::EBUSY);
        *status = match stops {
            true => vec![UNWRITTEN; pages.len()],
            false => answers,
        };
        Ok(())
    }

    fn migrate_all(&mut self, from: NodeId, to: NodeId) -> io::Result<()> {
        self.n_requests += 1;
        self.n_whole += 1;
        self.inject()?;
        let on_source = self.node_of.iter().filter(|(_, n)| **n == from.0 as i32);
        for page in on_source.map(|(page, _)| *page).collect::<Vec<u64>>() {
            self.move_one(page, to);
        }
        Ok(())
    }

    fn resident_bytes(&mut self) -> Option<u64> {
        Some(self.node_of.len() as u64 * PAGE + self.files)
    }

    fn available_bytes(&mut self, _node: NodeId) -> Option<u64> {
        self.available
    }

    fn page_sizes(&self) -> (u64, u64) {
        (PAGE, HUGE)
    }

    fn now(&mut self) -> Nanos {
        Nanos(self.cpu_time + u64::from(self.n_requests) * self.wait)
    }

    fn cpu_time(&mut self) -> Nanos {
        Nanos(self.cpu_time)
    }
}

fn request(limit: u64) -> PageMigrationRequest {
    PageMigrationRequest { from: Some(NodeId(0)), to: NodeId(2), limit }
}

fn run(fake: Fake, request: PageMigrationRequest) -> (ProcessMigrationTotals, Fake) {
    let mut migrator = ProcessPageMigrator::new(fake, request, &[]).expect("ranges");
    let totals = (0..100_000).find_map(|_| migrator.step()).expect("the migration ends");
    (totals, migrator.memory)
}

fn check(fake: Fake, request: PageMigrationRequest, expected: Expect) -> Fake {
    let (totals, fake) = run(fake, request);
    let kib = |bytes: u64| bytes / 1024;
    let failed = format!("{:?}", totals.failed).replace("FailedPageCounts ", "");
    let parts = failed.split([',', '{', '}']).map(str::trim).filter(|part| !part.ends_with(": 0"));
    let failed = parts.collect::<Vec<_>>().join(" ");
    expected.assert_eq(&format!(
        "requested {} moved {} failed{}not attempted {}: {:?}",
        kib(totals.requested),
        kib(totals.moved),
        if failed.trim().is_empty() { " ".to_owned() } else { failed },
        kib(totals.not_attempted),
        totals.stop
    ));
    fake
}

#[test]
fn all_pages_move_and_are_on_the_target() {
    let fake = check(
        Fake::default().range(1, 3000, 0, false).range(100, 50, 1, false),
        request(u64::MAX),
        expect!["requested 12000 moved 12000 failed not attempted 0: Done"],
    );
    assert_eq!(fake.node_of.values().filter(|&&node| node == 2).count(), 3000, "node 1 stays");
}

#[test]
fn a_small_process_migrates_in_one_call() {
    let fake = check(
        Fake::default().range(1, 200, 0, false).range(9, 9, 1, true),
        request(u64::MAX),
        expect!["requested 800 moved 800 failed not attempted 0: Done"],
    );
    assert_eq!((fake.n_whole, fake.requested.len()), (1, 0));
}

#[test]
fn a_small_process_without_limit_migrates_in_one_call_per_node() {
    let fake = || Fake::default().range(1, 3000, 0, false).range(100, 900, 1, true);
    let expected = || expect!["requested 15600 moved 15600 failed not attempted 0: Done"];
    let from_all = PageMigrationRequest { from: None, ..request(u64::MAX) };
    let whole = check(fake(), from_all, expected());
    assert_eq!((whole.n_whole, whole.requested.len()), (2, 0));
    let with_files = check(fake().with_files(), from_all, expected());
    assert_eq!(with_files.n_whole, 0, "too large");
    let limited = check(fake(), PageMigrationRequest { limit: 1 << 30, ..from_all }, expected());
    assert_eq!(limited.n_whole, 0, "the call has no limit");
}

#[test]
fn pages_that_one_call_does_not_move_have_a_cause() {
    let mut fake = Fake::default().range(1, 1000, 0, false);
    fake.stuck.insert((1 << 20) + 5 * PAGE, -libc::EACCES);
    let fake = check(
        fake,
        request(u64::MAX),
        expect!["requested 4000 moved 3996 failed not_permitted: 4096 not attempted 0: Done"],
    );
    assert_eq!((fake.n_whole, fake.requested.len()), (1, 1));
}

#[test]
fn the_measured_cost_of_a_page_applies_to_the_next_process() {
    let mut slow = BatchSize::default();
    slow.update(256, base::Nanos::from_millis(20));
    let fake = Fake::default().range(1, 1000, 0, false);
    let mut migrator =
        ProcessPageMigrator::new(fake, request(u64::MAX), &[]).expect("ranges").with_batch(slow);
    let totals = (0..100).find_map(|_| migrator.step()).expect("the migration ends");
    assert_eq!((totals.moved, migrator.memory.n_whole), (1000 * PAGE, 0));
    assert!(
        1000 < migrator.batch().n_pages_single_call(),
        "a page of this process takes a microsecond"
    );
}

#[test]
fn a_huge_page_is_requested_once_and_moves_as_a_whole() {
    let fake = check(
        Fake::default().range(1, 2048, 0, true),
        request(u64::MAX),
        expect!["requested 8192 moved 8192 failed not attempted 0: Done"],
    );
    let inside = fake.requested.iter().filter(|addr| {
        let head = **addr - **addr % HUGE;
        fake.huge.contains(&head) && **addr != head
    });
    assert_eq!(inside.count(), 0, "no part of a huge page is requested");
}

#[test]
fn a_block_of_base_pages_moves_page_by_page() {
    let mut fake = Fake::default().range(2, 1024, 0, true);
    fake.huge.clear();
    check(
        fake,
        request(u64::MAX),
        expect!["requested 4096 moved 4096 failed not attempted 0: Done"],
    );
}

#[test]
fn a_limit_ends_a_migration_and_no_huge_page_is_split() {
    check(
        Fake::default().range(1, 3000, 0, false),
        request(4 << 20),
        expect!["requested 4096 moved 4096 failed not attempted 0: Limit"],
    );
    check(
        Fake::default().range(2, 2048, 0, true),
        request(5 << 20),
        expect!["requested 4096 moved 4096 failed not attempted 0: Limit"],
    );
}

#[test]
fn a_full_target_ends_a_migration() {
    let fake = || Fake::default().range(1, 3000, 0, false);
    check(
        Fake { available: Some(6 << 20), ..fake() },
        request(u64::MAX),
        expect!["requested 12000 moved 3072 failed not attempted 8928: Full"],
    );
    check(
        Fake { available: Some(0), ..fake() },
        request(u64::MAX),
        expect!["requested 12000 moved 0 failed not attempted 12000: Full"],
    );
}

#[test]
fn failed_pages_are_counted_by_the_status_of_the_kernel() {
    let mut fake = Fake::default().range(1, 1000, 0, false).with_files();
    fake.stuck.insert((1 << 20) + 5 * PAGE, -libc::EACCES);
    fake.stuck.insert((1 << 20) + 300 * PAGE, -libc::EBUSY);
    fake.stuck.insert((1 << 20) + 301 * PAGE, -libc::EIO);
    fake.stuck.insert((1 << 20) + 302 * PAGE, 2);
    check(
        fake,
        request(u64::MAX),
        expect![
            "requested 4000 moved 3984 failed busy: 12288 not_permitted: 4096 not attempted 0: Done"
        ],
    );
}

#[test]
fn pages_of_a_process_that_exits_are_not_attempted() {
    let exits = Fake { exits_after: Some(2), ..Fake::default() };
    let fake = exits.range(1, 3000, 0, false).with_files();
    check(
        fake,
        request(u64::MAX),
        expect!["requested 12000 moved 3072 failed not attempted 8928: Exited"],
    );
}

#[test]
fn unlisted_pages_are_not_attempted() {
    let fake = || Fake { unlisted: 40 << 10, ..Fake::default().range(1, 3000, 0, false) };
    check(
        fake(),
        request(u64::MAX),
        expect!["requested 12040 moved 12000 failed not attempted 40: Done"],
    );
    check(
        fake(),
        request(4 << 20),
        expect!["requested 4096 moved 4096 failed not attempted 0: Limit"],
    );
}

#[test]
fn the_caller_may_stop_a_migration() {
    let mut migrator = ProcessPageMigrator::new(
        Fake::default().range(1, 3000, 0, false).with_files(),
        request(u64::MAX),
        &[],
    )
    .expect("ranges");
    assert_eq!(migrator.step(), None);
    let totals = migrator.end(PageMigrationStop::Stopped);
    assert_eq!(totals.requested, 3000 * PAGE);
    assert_eq!(totals.requested, totals.moved + totals.not_attempted);
    assert!(0 < totals.moved && 0 < totals.not_attempted);
}

#[test]
fn with_injected_errors_no_byte_is_counted_twice_or_lost() {
    for seed in 0..4000u64 {
        let mut rng = Rng::new(seed);
        let mut fake = Fake::default();
        let mut at = 1;
        for _ in 0..rng.below(4) {
            let n_pages = 1 + rng.below(3000);
            fake = fake.range(at, n_pages, rng.below(4) as i32, rng.below(2) == 0);
            at += n_pages / 256 + 1 + rng.below(9);
        }
        let addresses: Vec<u64> = fake.node_of.keys().copied().collect();
        for _ in 0..rng.below(8) {
            let Some(&addr) = addresses.get(rng.below(addresses.len().max(1) as u64) as usize)
            else {
                break;
            };
            let answers = [-libc::EBUSY, -libc::EACCES, -libc::ENOMEM, -libc::EFAULT, 2, 3];
            fake.stuck.insert(addr, answers[rng.below(6) as usize]);
        }
        fake.files = rng.below(2) * (64 << 20);
        fake.available = (rng.below(2) == 0).then(|| rng.below(16 << 20));
        fake.exits_after = (rng.below(3) == 0).then(|| rng.below(9) as u32);
        fake.chance = Some((Rng::new(seed ^ 77), rng.below(300)));
        let from = [None, Some(0), Some(1), Some(3)][rng.below(4) as usize].map(NodeId);
        let limit = if rng.below(2) == 0 { u64::MAX } else { rng.below(16 << 20) };
        let before = fake.node_of.values().filter(|&&node| node == 2).count() as u64 * PAGE;
        let Ok(mut migrator) = ProcessPageMigrator::new(
            fake,
            PageMigrationRequest { from, to: NodeId(2), limit },
            &[],
        ) else {
            continue;
        };
        let stops_at = rng.below(40);
        let totals = (0..stops_at).find_map(|_| migrator.step());
        let totals = totals.unwrap_or_else(|| migrator.end(PageMigrationStop::Stopped));
        let sum = totals.moved + totals.failed.total() + totals.not_attempted;
        assert_eq!(totals.requested, sum, "seed {seed}: {totals:?}");
        assert!(totals.moved + totals.failed.total() <= limit, "seed {seed}: {totals:?}");
        let after =
            migrator.memory.node_of.values().filter(|&&node| node == 2).count() as u64 * PAGE;
        assert!(totals.moved <= after - before, "seed {seed}: {totals:?}");
    }
}

#[test]
fn wait_time_for_a_cpu_does_not_shrink_batches() {
    let n_calls = |wait: u64| {
        let fake = Fake { wait, ..Fake::default() }.range(1, 60_000, 0, false);
        let mut migrator = ProcessPageMigrator::new(fake, request(u64::MAX), &[]).expect("ranges");
        let totals = std::iter::from_fn(|| Some(migrator.step()))
            .flatten()
            .next()
            .expect("the migration ends");
        assert_eq!(totals.moved, 60_000 * PAGE);
        totals.n_calls
    };
    assert_eq!(n_calls(0), n_calls(400_000_000));
}
