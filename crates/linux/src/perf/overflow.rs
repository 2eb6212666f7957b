//! Counters that wake whoever waits: each tells when it has counted so many events, once, and then
//! rests until it is told to go on.
//!
//! ```text
//!   armed ──► so many events ──► overflow: one record in its ring, and it stops by itself
//!     ▲                              │ readable: the set wakes its poller
//!     └── rearm: the ring is emptied ┘
//! ```
//!
//! That a counter stops by itself (`PERF_EVENT_IOC_REFRESH` with 1) bounds what overflows cost: one
//! interrupt for each counter between two calls of [`Overflows::rearm`], however many events there are.
//!
//! A counter without a ring never gets readable, so each has the smallest: a page that tells how far
//! the kernel has written, and one for records. Records are not read: that there is one says it all.
//! All counters stand in one epoll set, which can be waited for as one descriptor. What is readable
//! there is known only once to the kernel: whoever wants to be sure looks at the rings
//! ([`Overflows::any`]), which costs no call.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use super::attr::{self, Attr, CounterTarget};
use super::ring::Ring;
use crate::fault;

/// Counters of CPUs or tasks, each with its ring, and one descriptor to wait for all.
#[derive(Debug)]
pub struct OverflowCounters {
    every: u64,
    set: OwnedFd,
    counters: BTreeMap<CounterTarget, Vec<Counter>>,
}

/// A counter and its ring. The ring goes first when both are dropped.
#[derive(Debug)]
struct Counter {
    ring: Ring,
    file: OwnedFd,
}

impl OverflowCounters {
    /// A set without counters; each that is added wakes after so many events.
    ///
    /// # Errors
    /// What the kernel said: no descriptor is left, mostly.
    pub fn new(every: u64) -> io::Result<Self> {
        fault::refuse("epoll_create1")?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(OverflowCounters { every, set, counters: BTreeMap::new() })
    }

    /// Counts an event of somebody from now on; who is counted already stays so. The event has an
    /// attribute for each kind of core: of a task all are needed, of a CPU the one that it knows.
    ///
    /// # Errors
    /// What the kernel said; then nobody is added.
    pub fn add(&mut self, attrs: &[Attr], whom: CounterTarget) -> io::Result<()> {
        if self.counters.contains_key(&whom) {
            return Ok(());
        }
        let open = |attr: &Attr| self.open(attr, whom);
        let counters = match whom {
            CounterTarget::Task(_) => attrs.iter().map(open).collect::<io::Result<Vec<_>>>()?,
            CounterTarget::Cpu(_) => {
                let mut refused = io::ErrorKind::NotFound.into();
                let opened = attrs.iter().find_map(|attr| match open(attr) {
                    Ok(counter) => Some(counter),
                    Err(error) => {
                        refused = error;
                        None
                    }
                });
                vec![opened.ok_or(refused)?]
            }
        };
        self.counters.insert(whom, counters);
        Ok(())
    }

    fn open(&self, attr: &Attr, whom: CounterTarget) -> io::Result<Counter> {
        let file = attr::open_sampling(attr, whom, self.every)?;
        let counter = Counter { ring: Ring::map(file.as_fd(), 1)?, file };
        fault::refuse("epoll_ctl")?;
        // Edge-triggered: of a task that has ended its counter stays "hung up" for good.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.set, &counter.file, epoll::EventData::new_u64(0), flags)?;
        counter.go_on()?;
        Ok(counter)
    }

    /// Counts those no longer that are not wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(CounterTarget) -> bool) {
        self.counters.retain(|whom, _| is_wanted(*whom));
    }

    /// How many are counted.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Whether nobody is counted.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Whether any overflowed since it was armed. No call.
    pub fn any(&self) -> bool {
        self.counters.values().flatten().any(|counter| counter.ring.has_records())
    }

    /// Lets those that overflowed count on.
    ///
    /// # Errors
    /// What the kernel said to the first that it refused; the others go on.
    pub fn rearm(&mut self) -> io::Result<()> {
        self.forget_readable();
        let mut result = Ok(());
        let all = self.counters.values().flatten();
        for counter in all.filter(|counter| counter.ring.has_records()) {
            counter.ring.empty();
            result = result.and(counter.go_on());
        }
        result
    }

    /// What the set still calls readable is known by now: an ended task would be called so for ever.
    fn forget_readable(&self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            let waited = fault::refuse("epoll_wait")
                .and_then(|()| Ok(epoll::wait(&self.set, room, Some(&at_once))?));
            match waited {
                Ok(_) if events.len() == events.capacity() => {}
                _ => return,
            }
        }
    }
}

impl AsFd for OverflowCounters {
    /// Readable when a counter overflowed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl Counter {
    /// Counts until the next overflow.
    fn go_on(&self) -> io::Result<()> {
        fault::refuse("ioctl")?;
        /// `_IO('$', 2)`: so many overflows more, then it stops.
        const PERF_EVENT_IOC_REFRESH: u64 = 0x2402;
        let once: libc::c_ulong = 1;
        // SAFETY: the argument is a number and no address, the descriptor is ours and open.
        let done = unsafe {
            libc::ioctl(self.file.as_raw_fd(), PERF_EVENT_IOC_REFRESH as libc::Ioctl, once)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use sched::CounterEvent;

    use super::*;
    use crate::isolated_test::{n_open, run_isolated};
    use crate::perf::{Flags, software_event};

    fn page_faults() -> Attr {
        let own_code = Flags { user_only: true, ..Flags::default() };
        software_event(CounterEvent::PageFaults, own_code).expect("the kernel's own")
    }

    /// Counters of this thread; `None` where that is refused.
    fn of_this_thread(every: u64) -> Option<OverflowCounters> {
        let mut overflows = OverflowCounters::new(every).expect("a set");
        match overflows.add(&[page_faults()], CounterTarget::Task(0)) {
            Ok(()) => Some(overflows),
            Err(error) => {
                println!("not run: {error}");
                None
            }
        }
    }

    /// Touches so many pages for the first time.
    fn touch(n_pages: usize) {
        let bytes = n_pages * rustix::param::page_size();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, used and unmapped only here.
        unsafe {
            let pages = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            assert_ne!(pages, libc::MAP_FAILED);
            // One fault a page, also where whole huge pages would be given.
            libc::madvise(pages, bytes, libc::MADV_NOHUGEPAGE);
            for idx in 0..n_pages {
                pages.cast::<u8>().add(idx * rustix::param::page_size()).write_volatile(1);
            }
            libc::munmap(pages, bytes);
        }
    }

    fn is_readable(overflows: &OverflowCounters) -> bool {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
        let outer = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let none = epoll::EventData::new_u64(0);
        epoll::add(&outer, overflows, none, epoll::EventFlags::IN).expect("added");
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&outer, room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("waited");
        !events.is_empty()
    }

    #[test]
    fn a_counter_overflows_once_and_counts_on_when_it_is_told_to() {
        let Some(mut overflows) = of_this_thread(1000) else { return };
        assert!(!overflows.any(), "nothing yet");
        touch(5000);
        assert!(overflows.any());
        let head = |overflows: &OverflowCounters| {
            let counter = overflows.counters.values().flatten().next().expect("the one");
            counter.ring.written()
        };
        let one_record = head(&overflows);
        touch(5000);
        assert_eq!(head(&overflows), one_record, "it rests after the first overflow");
        overflows.rearm().expect("armed");
        assert!(!overflows.any(), "emptied");
        touch(5000);
        assert!(overflows.any() && head(&overflows) == 2 * one_record, "and counts on");
    }

    #[test]
    fn who_waits_for_the_set_is_woken_and_a_thread_that_ended_wakes_nobody_for_ever() {
        let mut overflows = OverflowCounters::new(1000).expect("a set");
        let (tell, told) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("somebody listens");
            may_go.recv().expect("told to go on");
            touch(5000);
        });
        let tid = told.recv().expect("it runs").as_raw_nonzero().get().unsigned_abs();
        if let Err(error) = overflows.add(&[page_faults()], CounterTarget::Task(tid)) {
            println!("not run: {error}");
            go.send(()).expect("it waits");
            other.join().expect("it ends");
            return;
        }
        assert!(!is_readable(&overflows));
        go.send(()).expect("it waits");
        other.join().expect("it ends");
        assert!(is_readable(&overflows) && overflows.any());
        // Its counter may hang up only a moment after the thread was joined.
        let quiet = (0..1000).any(|_| {
            overflows.rearm().expect("armed, or gone");
            std::thread::sleep(std::time::Duration::from_millis(1));
            !is_readable(&overflows)
        });
        assert!(quiet && !overflows.any());
        overflows.retain(|_| false);
        assert!(overflows.is_empty());
    }

    #[test]
    fn refused_calls_are_errors_and_leave_nothing_open() {
        run_isolated(module_path!(), "refused_calls_are_errors_and_leave_nothing_open", || {
            add_and_rearm(0);
            let before = n_open();
            (1..200).for_each(add_and_rearm);
            assert_eq!(n_open(), before, "descriptors after and before");
        });
    }

    fn add_and_rearm(seed: u64) {
        fault::with_errors(fault::FaultPlan { seed, permille: 200 }, || {
            let Ok(mut overflows) = OverflowCounters::new(1000) else { return };
            match overflows.add(&[page_faults()], CounterTarget::Task(0)) {
                Ok(()) => assert_eq!(overflows.len(), 1),
                Err(_) => assert!(overflows.is_empty()),
            }
            let _ = overflows.rearm();
        });
    }
}
