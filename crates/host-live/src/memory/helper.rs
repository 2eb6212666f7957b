//! The helper thread: batches of moves in turn, at a pace, and looks in between.
//!
//! ```text
//!   move a ─ batch ─┐ pause: bytes ÷ pace  ┌─ batch of move b ─┐ …
//!   looks           └─ look ─ pause: 99 × what it took ─ look ─┘
//! ```
//!
//! It waits for nothing but orders, and for those no longer than until its next work is due. When
//! nobody can order anything any more it ends what is under way and returns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use base::{Bytes, JobId, Nanos};
use linux::memory::{self, NumaSample, SampleEffort, WalkCost};
use linux::pages::call;
use linux::perf::AddressSampling;
use sched::{CompletedPageMove, PageMoveEnd};

use super::job_move::{JobMove, refusal};
use super::looks::Look;
use super::{Manner, News, Order, Seen, Whose};

/// The longest rest after a look. Where pages cost more than was thought, one look takes long and the
/// next are shorter for it: nobody needs to wait for what the first should not have taken.
const REST_MAX: Nanos = Nanos::from_secs(2);
/// How long one look may take: a process that is larger is sampled.
const CLOSE: SampleEffort = SampleEffort::of(Nanos::from_millis(10));
/// One that is only to see whether anything has changed: it asks for much the same pages as the one before,
/// so fewer of them tell as much. A policy of its own is asked for again when its memory would be moved.
const CHECK: SampleEffort =
    SampleEffort { time: Nanos::from_millis(1), n_samples: 512, is_check: true };

/// Tells news and wakes the loop.
pub(super) struct Teller {
    news: Sender<News>,
    wakes: Arc<OwnedFd>,
}

impl Teller {
    pub fn new(news: Sender<News>, wakes: Arc<OwnedFd>) -> Self {
        Teller { news, wakes }
    }

    fn tell(&self, news: News) {
        let is_awaited = matches!(news, News::Moved(_));
        let _ = self.news.send(news);
        if !is_awaited {
            return; // It is taken with the next turn, whatever that comes from.
        }
        // It can only fail when it has been told billions of times that nobody took notice of.
        let _ = rustix::io::write(&self.wakes, &1u64.to_ne_bytes());
    }
}

impl Drop for Teller {
    /// The loop must learn of an end, whatever it comes from.
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.wakes, &1u64.to_ne_bytes());
    }
}

/// What the helper is at.
struct Work {
    teller: Teller,
    manner: Manner,
    began: Instant,
    moves: VecDeque<JobMove>,
    looks: VecDeque<(Whose, Look)>,
    is_looking: bool,
    pace: WalkCost,
    /// Who tells what is worked on most.
    heat: AddressSampling,
    /// The next batch of a move.
    move_at: Nanos,
    /// The next look.
    look_at: Nanos,
}

/// Works until nobody can order anything any more.
pub(super) fn run(orders: &Receiver<Order>, teller: Teller, manner: Manner) {
    // The kernel's call for whole processes would use the right to move what others map too. Where it
    // cannot be given up it was not there.
    let _ = call::drop_move_all();
    let mut work = Work {
        teller,
        manner,
        began: Instant::now(),
        moves: VecDeque::new(),
        looks: VecDeque::new(),
        is_looking: false,
        pace: WalkCost::default(),
        heat: AddressSampling::find(Path::new("/")),
        move_at: Nanos::ZERO,
        look_at: Nanos::ZERO,
    };
    while let Some(order) = work.next_order(orders) {
        if let Some(order) = order {
            work.take(order);
            continue; // All orders that are there come first: one of them may stop what is next.
        }
        work.go_on();
    }
    let at = work.now();
    for mut one in std::mem::take(&mut work.moves) {
        work.teller.tell(News::Moved(one.stop(PageMoveEnd::Stopped, at)));
    }
}

impl Work {
    fn now(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// An order, or none when it is time to go on; nothing at all when there will be no more.
    fn next_order(&self, orders: &Receiver<Order>) -> Option<Option<Order>> {
        let due = [
            (!self.moves.is_empty()).then_some(self.move_at),
            self.is_looking.then_some(self.look_at),
        ];
        let Some(due) = due.into_iter().flatten().min() else {
            return orders.recv().ok().map(Some);
        };
        let wait = Duration::from(due.saturating_sub(self.now()));
        match orders.recv_timeout(wait) {
            Ok(order) => Some(Some(order)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn take(&mut self, order: Order) {
        let at = self.now();
        match order {
            Order::Move(order) => {
                self.moves.push_back(JobMove::new(order, at, self.manner));
            }
            Order::Stop(job, why) => self.stop(job, why, at),
            Order::Look(whose) => {
                self.looks = whose.into();
                self.is_looking = true;
            }
        }
    }

    fn stop(&mut self, job: JobId, why: PageMoveEnd, at: Nanos) {
        let (stopped, others) =
            std::mem::take(&mut self.moves).into_iter().partition(|one| one.order.job == job);
        let stopped: VecDeque<JobMove> = stopped;
        self.moves = others;
        for mut one in stopped {
            self.teller.tell(News::Moved(one.stop(why, at)));
        }
    }

    fn go_on(&mut self) {
        let at = self.now();
        if !self.moves.is_empty() && self.move_at <= at {
            self.one_batch(at);
        }
        if self.is_looking && self.look_at <= at {
            self.one_look();
        }
    }

    /// A batch of the move whose turn it is.
    fn one_batch(&mut self, at: Nanos) {
        let Some(mut one) = self.moves.pop_front() else { return };
        let (asked, ended) = one.step(at, &self.heat);
        let is_too_long = self.manner.options.move_time_max < at.saturating_sub(one.began());
        let after = self.now();
        let ended = match ended {
            None if is_too_long => Some(one.stop(PageMoveEnd::Budget, after)),
            Some(ended) => {
                Some(CompletedPageMove { duration: after.saturating_sub(one.began()), ..ended })
            }
            None => None,
        };
        self.move_at = at.saturating_add(pause(asked, self.manner.options.moves_per_second));
        match ended {
            None => self.moves.push_back(one),
            Some(ended) => {
                // Where its memory lies now comes before the news that it was moved.
                let job = one.order.job;
                let whose: Vec<Whose> = one.order.processes.iter().map(|&p| (job, p)).collect();
                whose.into_iter().for_each(|whose| self.look(whose, Look::Close));
                self.teller.tell(News::Moved(ended));
            }
        }
    }

    fn one_look(&mut self) {
        let before = linux::system::thread_cpu_time();
        match self.looks.pop_front() {
            Some((whose, how)) => self.look(whose, how),
            None => {
                self.is_looking = false;
                self.teller.tell(News::LookedAtAll);
            }
        }
        let took = linux::system::thread_cpu_time().saturating_sub(before);
        self.look_at =
            self.now().saturating_add(rest(took, self.manner.options.looks_cpu_permille));
    }

    fn look(&mut self, (job, process): Whose, how: Look) {
        let which = (process.tid, process.start_time_ticks);
        match memory::sample_process(Path::new("/"), which, effort(how), &mut self.pace) {
            Ok(looked) => {
                let NumaSample { nodes, permille, resident, is_sampled, has_own_policy, .. } =
                    looked;
                let seen = Seen { nodes, permille, resident, is_sampled, has_own_policy };
                self.teller.tell(News::Lies((job, process), how, seen));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => {
                let text = refusal(process, &error, "looking at its memory");
                self.teller.tell(News::Cannot(text));
            }
        }
    }
}

fn effort(how: Look) -> SampleEffort {
    match how {
        Look::Close => CLOSE,
        Look::Check => CHECK,
    }
}

/// How long so many bytes stand for at a pace.
fn pause(bytes: u64, per_second: Bytes) -> Nanos {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(per_second.0.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX).min(Nanos::from_secs(10).0))
}

/// How long to rest after work that took so long, so that it is so many thousandths of the time.
fn rest(took: Nanos, permille: u16) -> Nanos {
    let permille = u64::from(permille.clamp(1, 1000));
    Nanos(took.0.saturating_mul(1000 - permille) / permille).min(REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_what_the_bytes_stand_for_at_the_pace() {
        let mib = |n: u64| Bytes::from_mib(n);
        assert_eq!(pause(64 << 20, mib(1024)), Nanos(62_500_000));
        assert_eq!(pause(0, mib(1024)), Nanos::ZERO);
        assert_eq!(pause(u64::MAX, Bytes::ZERO), Nanos::from_secs(10));
    }

    #[test]
    fn a_check_costs_less_than_a_close_look_and_teaches_nothing() {
        let (close, check) = (effort(Look::Close), effort(Look::Check));
        assert!(check.time < close.time && check.n_samples < close.n_samples);
        assert!(check.is_check && !close.is_check);
    }

    #[test]
    fn looks_take_their_share_of_a_cpu_and_no_more() {
        assert_eq!(rest(Nanos::from_millis(1), 10), Nanos::from_millis(99));
        assert_eq!(rest(Nanos::from_millis(1), 1000), Nanos::ZERO);
        assert_eq!(rest(Nanos::from_secs(1), 10), Nanos::from_secs(2));
    }
}
