//! Moves of memory that never was: a process as a table, and a kernel that refuses by a seed.

use std::collections::BTreeMap;

use base::Rng;
use expect_test::{Expect, expect};

use super::*;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

/// A process and the nodes around it.
#[derive(Default)]
struct Fake {
    /// Each page and the node that it lies on.
    lies: BTreeMap<u64, i32>,
    /// First addresses of huge pages.
    huge: Vec<u64>,
    ranges: Vec<Range>,
    /// What a page answers instead of moving.
    stuck: BTreeMap<u64, i32>,
    room: Option<u64>,
    unseen: u64,
    /// Resident pages of files, in bytes.
    files: u64,
    /// Asks after which it is gone.
    lives: Option<u32>,
    n_asks: u32,
    n_whole: u32,
    asked: Vec<u64>,
    /// Of a thousand calls so many fail as a whole.
    chance: Option<(Rng, u64)>,
    at: u64,
    /// What each asking waits for a CPU.
    waits: u64,
}

impl Fake {
    fn range(mut self, start_mib: u64, n_pages: u64, node: i32, is_huge: bool) -> Self {
        let start = start_mib << 20;
        let end = start + n_pages * PAGE;
        self.lies.extend((start..end).step_by(PAGE as usize).map(|addr| (addr, node)));
        if is_huge {
            let first = start.next_multiple_of(HUGE);
            let heads = (first..).step_by(HUGE as usize).take_while(|head| head + HUGE <= end);
            self.huge.extend(heads);
        }
        let may_be_huge = is_huge;
        self.ranges.push(Range { start, end, page_size: PAGE, may_be_huge, to_move: end - start });
        self
    }

    /// Too much is resident for it to go in one call.
    fn with_files(self) -> Self {
        Fake { files: 64 << 20, ..self }
    }

    fn refused(&mut self) -> io::Result<()> {
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
        match self.lies.get(&addr) {
            None => return -libc::ENOENT,
            Some(&node) if node == to.0 as i32 => return node,
            Some(_) => {}
        }
        if let Some(&answer) = self.stuck.get(&addr) {
            return answer;
        }
        let bytes = pages.len() as u64 * PAGE;
        if let Some(room) = &mut self.room {
            if *room < bytes {
                return -libc::ENOMEM;
            }
            *room -= bytes;
        }
        pages.into_iter().for_each(|page| _ = self.lies.insert(page, to.0 as i32));
        to.0 as i32
    }
}

impl Memory for Fake {
    fn ranges(&mut self, _wish: &MoveRequest) -> io::Result<Vec<Range>> {
        self.refused()?;
        Ok(self.ranges.clone())
    }

    fn unseen(&self) -> u64 {
        self.unseen
    }

    fn is_there(&mut self) -> io::Result<bool> {
        self.refused()?;
        Ok(self.lives.is_none_or(|lives| self.n_asks < lives))
    }

    fn query(&mut self, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
        self.refused()?;
        let lies = |page| self.lies.get(page).copied().unwrap_or(-libc::ENOENT);
        *status = pages.iter().map(lies).collect();
        Ok(())
    }

    /// As the kernel does it: one page that does not move, and the statuses stay unwritten.
    fn ask(&mut self, pages: &[u64], to: NodeId, status: &mut Vec<i32>) -> io::Result<()> {
        self.n_asks += 1;
        self.at += pages.len() as u64 * 1000;
        self.refused()?;
        self.asked.extend(pages);
        let answers: Vec<i32> = pages.iter().map(|&page| self.move_one(page, to)).collect();
        let gives_up = answers.contains(&-libc::EBUSY);
        *status = match gives_up {
            true => vec![UNWRITTEN; pages.len()],
            false => answers,
        };
        Ok(())
    }

    fn whole(&mut self, from: NodeId, to: NodeId) -> io::Result<()> {
        self.n_asks += 1;
        self.n_whole += 1;
        self.refused()?;
        let lies: Vec<u64> =
            self.lies.iter().filter(|(_, n)| **n == from.0 as i32).map(|(a, _)| *a).collect();
        for page in lies {
            self.move_one(page, to);
        }
        Ok(())
    }

    fn resident(&mut self) -> Option<u64> {
        Some(self.lies.len() as u64 * PAGE + self.files)
    }

    fn room(&mut self, _node: NodeId) -> Option<u64> {
        self.room
    }

    fn page_sizes(&self) -> (u64, u64) {
        (PAGE, HUGE)
    }

    fn now(&mut self) -> Nanos {
        Nanos(self.at + u64::from(self.n_asks) * self.waits)
    }

    fn worked(&mut self) -> Nanos {
        Nanos(self.at)
    }
}

fn wish(limit: u64) -> MoveRequest {
    MoveRequest { from: Some(NodeId(0)), to: NodeId(2), limit }
}

fn run(fake: Fake, wish: MoveRequest) -> (MoveTotals, Fake) {
    let mut mover = Mover::new(fake, wish, &[]).expect("ranges");
    let tally = (0..100_000).find_map(|_| mover.step()).expect("it ends");
    (tally, mover.memory)
}

fn check(fake: Fake, wish: MoveRequest, expected: Expect) -> Fake {
    let (tally, fake) = run(fake, wish);
    let kib = |bytes: u64| bytes / 1024;
    let refused = format!("{:?}", tally.refused);
    let refused = refused.replace("FailedPageCounts ", "");
    let parts: Vec<&str> =
        refused.split([',', '{', '}']).map(str::trim).filter(|p| !p.ends_with(": 0")).collect();
    let refused = parts.join(" ");
    expected.assert_eq(&format!(
        "requested {} moved {} refused{}left {}: {:?}",
        kib(tally.requested),
        kib(tally.moved),
        if refused.trim().is_empty() { " ".to_owned() } else { refused },
        kib(tally.not_attempted),
        tally.stop
    ));
    fake
}

#[test]
fn all_of_it_moves_and_is_found_on_the_target() {
    let fake = check(
        Fake::default().range(1, 3000, 0, false).range(100, 50, 1, false),
        wish(u64::MAX),
        expect!["requested 12000 moved 12000 refused left 0: Done"],
    );
    assert_eq!(fake.lies.values().filter(|&&node| node == 2).count(), 3000, "node 1 stays");
}

#[test]
fn a_small_process_that_moves_whole_moves_in_one_call() {
    let fake = check(
        Fake::default().range(1, 200, 0, false).range(9, 9, 1, true),
        wish(u64::MAX),
        expect!["requested 800 moved 800 refused left 0: Done"],
    );
    assert_eq!((fake.n_whole, fake.asked.len()), (1, 0));
}

#[test]
fn a_process_goes_whole_if_it_is_small_enough_whatever_nodes_it_is_on() {
    let fake = || Fake::default().range(1, 3000, 0, false).range(100, 900, 1, true);
    let expected = || expect!["requested 15600 moved 15600 refused left 0: Done"];
    let from_all = MoveRequest { from: None, ..wish(u64::MAX) };
    let whole = check(fake(), from_all, expected());
    assert_eq!((whole.n_whole, whole.asked.len()), (2, 0));
    let with_files = check(fake().with_files(), from_all, expected());
    assert_eq!(with_files.n_whole, 0, "too much is resident");
    let limited = check(fake(), MoveRequest { limit: 1 << 30, ..from_all }, expected());
    assert_eq!(limited.n_whole, 0, "a limit may not be passed");
}

#[test]
fn what_does_not_come_along_with_the_whole_process_says_why() {
    let mut fake = Fake::default().range(1, 1000, 0, false);
    fake.stuck.insert((1 << 20) + 5 * PAGE, -libc::EACCES);
    let fake = check(
        fake,
        wish(u64::MAX),
        expect!["requested 4000 moved 3996 refused not_permitted: 4096 left 0: Done"],
    );
    assert_eq!((fake.n_whole, fake.asked.len()), (1, 1));
}

#[test]
fn how_much_goes_whole_is_learned_from_process_to_process() {
    let mut slow = Batch::default();
    slow.learn(256, base::Nanos::from_millis(20));
    let fake = Fake::default().range(1, 1000, 0, false);
    let mut mover = Mover::new(fake, wish(u64::MAX), &[]).expect("ranges").with_batch(slow);
    let tally = (0..100).find_map(|_| mover.step()).expect("it ends");
    assert_eq!((tally.moved, mover.memory.n_whole), (1000 * PAGE, 0));
    assert!(1000 < mover.batch().n_whole(), "pages of this process take a microsecond");
}

#[test]
fn a_huge_page_is_asked_for_once_and_moves_whole() {
    let fake = check(
        Fake::default().range(1, 2048, 0, true),
        wish(u64::MAX),
        expect!["requested 8192 moved 8192 refused left 0: Done"],
    );
    let inside = fake.asked.iter().filter(|addr| {
        let head = **addr - **addr % HUGE;
        fake.huge.contains(&head) && **addr != head
    });
    assert_eq!(inside.count(), 0, "no part of a huge page was asked for");
}

#[test]
fn what_was_taken_for_a_huge_page_and_is_none_moves_page_by_page() {
    let mut fake = Fake::default().range(2, 1024, 0, true);
    fake.huge.clear();
    check(fake, wish(u64::MAX), expect!["requested 4096 moved 4096 refused left 0: Done"]);
}

#[test]
fn a_limit_ends_a_move_and_half_a_huge_page_does_not_go() {
    check(
        Fake::default().range(1, 3000, 0, false),
        wish(4 << 20),
        expect!["requested 4096 moved 4096 refused left 0: Limit"],
    );
    check(
        Fake::default().range(2, 2048, 0, true),
        wish(5 << 20),
        expect!["requested 4096 moved 4096 refused left 0: Limit"],
    );
}

#[test]
fn a_target_that_fills_up_ends_a_move() {
    let fake = || Fake::default().range(1, 3000, 0, false);
    check(
        Fake { room: Some(6 << 20), ..fake() },
        wish(u64::MAX),
        expect!["requested 12000 moved 3072 refused left 8928: Full"],
    );
    check(
        Fake { room: Some(0), ..fake() },
        wish(u64::MAX),
        expect!["requested 12000 moved 0 refused left 12000: Full"],
    );
}

#[test]
fn pages_that_do_not_move_are_counted_by_the_kernels_answer() {
    let mut fake = Fake::default().range(1, 1000, 0, false).with_files();
    fake.stuck.insert((1 << 20) + 5 * PAGE, -libc::EACCES);
    fake.stuck.insert((1 << 20) + 300 * PAGE, -libc::EBUSY);
    fake.stuck.insert((1 << 20) + 301 * PAGE, -libc::EIO);
    fake.stuck.insert((1 << 20) + 302 * PAGE, 2);
    check(
        fake,
        wish(u64::MAX),
        expect!["requested 4000 moved 3984 refused busy: 12288 not_permitted: 4096 left 0: Done"],
    );
}

#[test]
fn a_process_that_ends_midway_leaves_the_rest() {
    let fake = Fake { lives: Some(2), ..Fake::default().range(1, 3000, 0, false).with_files() };
    check(fake, wish(u64::MAX), expect!["requested 12000 moved 3072 refused left 8928: Ended"]);
}

#[test]
fn what_was_never_looked_at_is_left_though_the_rest_is_done() {
    let fake = || Fake { unseen: 40 << 10, ..Fake::default().range(1, 3000, 0, false) };
    check(fake(), wish(u64::MAX), expect!["requested 12040 moved 12000 refused left 40: Done"]);
    check(fake(), wish(4 << 20), expect!["requested 4096 moved 4096 refused left 0: Limit"]);
}

#[test]
fn somebody_else_may_end_it() {
    let mut mover =
        Mover::new(Fake::default().range(1, 3000, 0, false).with_files(), wish(u64::MAX), &[])
            .expect("ranges");
    assert_eq!(mover.step(), None);
    let tally = mover.end(MoveStop::Stopped);
    assert_eq!(tally.requested, 3000 * PAGE);
    assert_eq!(tally.requested, tally.moved + tally.not_attempted);
    assert!(0 < tally.moved && 0 < tally.not_attempted);
}

#[test]
fn whatever_the_kernel_refuses_nothing_is_counted_twice_or_lost() {
    for seed in 0..4000u64 {
        let mut rng = Rng::new(seed);
        let mut fake = Fake::default();
        let mut at = 1;
        for _ in 0..rng.below(4) {
            let n_pages = 1 + rng.below(3000);
            fake = fake.range(at, n_pages, rng.below(4) as i32, rng.below(2) == 0);
            at += n_pages / 256 + 1 + rng.below(9);
        }
        let addresses: Vec<u64> = fake.lies.keys().copied().collect();
        for _ in 0..rng.below(8) {
            let Some(&addr) = addresses.get(rng.below(addresses.len().max(1) as u64) as usize)
            else {
                break;
            };
            let answers = [-libc::EBUSY, -libc::EACCES, -libc::ENOMEM, -libc::EFAULT, 2, 3];
            fake.stuck.insert(addr, answers[rng.below(6) as usize]);
        }
        fake.files = rng.below(2) * (64 << 20);
        fake.room = (rng.below(2) == 0).then(|| rng.below(16 << 20));
        fake.lives = (rng.below(3) == 0).then(|| rng.below(9) as u32);
        fake.chance = Some((Rng::new(seed ^ 77), rng.below(300)));
        let from = [None, Some(0), Some(1), Some(3)][rng.below(4) as usize].map(NodeId);
        let limit = if rng.below(2) == 0 { u64::MAX } else { rng.below(16 << 20) };
        let before = fake.lies.values().filter(|&&node| node == 2).count() as u64 * PAGE;
        let Ok(mut mover) = Mover::new(fake, MoveRequest { from, to: NodeId(2), limit }, &[])
        else {
            continue;
        };
        let stops_at = rng.below(40);
        let tally = (0..stops_at).find_map(|_| mover.step());
        let tally = tally.unwrap_or_else(|| mover.end(MoveStop::Stopped));
        let sum = tally.moved + tally.refused.total() + tally.not_attempted;
        assert_eq!(tally.requested, sum, "seed {seed}: {tally:?}");
        assert!(tally.moved + tally.refused.total() <= limit, "seed {seed}: {tally:?}");
        let after = mover.memory.lies.values().filter(|&&node| node == 2).count() as u64 * PAGE;
        assert!(tally.moved <= after - before, "seed {seed}: {tally:?}");
    }
}

#[test]
fn waiting_for_a_cpu_makes_no_call_smaller() {
    let n_calls = |waits: u64| {
        let fake = Fake { waits, ..Fake::default() }.range(1, 60_000, 0, false);
        let mut mover = Mover::new(fake, wish(u64::MAX), &[]).expect("ranges");
        let tally = std::iter::from_fn(|| Some(mover.step())).flatten().next().expect("it ends");
        assert_eq!(tally.moved, 60_000 * PAGE);
        tally.n_calls
    };
    assert_eq!(n_calls(0), n_calls(400_000_000));
}
