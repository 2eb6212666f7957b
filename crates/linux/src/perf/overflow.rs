//! Counters that signal an overflow after a number of events.
//!
//! ```text
//!   armed ──► N events ──► overflow: one record in the ring buffer, and the counter stops
//!     ▲                         │ readable: the epoll set wakes its poller
//!     └── rearm: ring emptied ──┘
//! ```
//!
//! The counter stops at the first overflow (`PERF_EVENT_IOC_REFRESH` with 1). This bounds the cost: at most one
//! interrupt per counter between two calls of [`OverflowCounters::rearm`].
//!
//! A counter without a ring buffer never becomes readable, so each counter has the smallest ring buffer: a control page
//! and a data page. The records are not read. All counters are in one epoll set, which can be polled as one descriptor.
//! The epoll set reports a readable counter only once (edge-triggered). [`OverflowCounters::any_overflowed`] inspects
//! the ring buffers without a system call.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use super::attr::{self, Attr, CounterTarget};
use super::ring::RingBuffer;
use crate::fault;

/// Counters of CPUs or tasks, and one descriptor to poll them.
#[derive(Debug)]
pub struct OverflowCounters {
    period: u64,
    set: OwnedFd,
    counters: BTreeMap<CounterTarget, Vec<Counter>>,
}

/// A counter and its ring buffer. The ring buffer is dropped first.
#[derive(Debug)]
struct Counter {
    ring: RingBuffer,
    file: OwnedFd,
}

impl OverflowCounters {
    /// Creates an empty set. Each counter overflows after `period` events.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn new(period: u64) -> io::Result<Self> {
        fault::inject("epoll_create1")?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(OverflowCounters { period, set, counters: BTreeMap::new() })
    }

    /// Adds a target and counts its events. A target that is counted already is not changed. `attrs` has one attribute
    /// per core kind: a task is counted with all attributes, a CPU with the attribute of its core kind.
    ///
    /// # Errors
    /// The kernel rejects a counter. The target is not added.
    pub fn add(&mut self, attrs: &[Attr], target: CounterTarget) -> io::Result<()> {
        if self.counters.contains_key(&target) {
            return Ok(());
        }
        let open = |attr: &Attr| self.open(attr, target);
        let counters = match target {
            CounterTarget::Task(_) => attrs.iter().map(open).collect::<io::Result<Vec<_>>>()?,
            CounterTarget::Cpu(_) => {
                let mut rejected = io::ErrorKind::NotFound.into();
                let opened = attrs.iter().find_map(|attr| match open(attr) {
                    Ok(counter) => Some(counter),
                    Err(error) => {
                        rejected = error;
                        None
                    }
                });
                vec![opened.ok_or(rejected)?]
            }
        };
        self.counters.insert(target, counters);
        Ok(())
    }

    fn open(&self, attr: &Attr, target: CounterTarget) -> io::Result<Counter> {
        let file = attr::open_sampling(attr, target, self.period)?;
        let counter = Counter { ring: RingBuffer::map(file.as_fd(), 1)?, file };
        fault::inject("epoll_ctl")?;
        // The event is edge-triggered, because the counter of an exited task reports EPOLLHUP permanently.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.set, &counter.file, epoll::EventData::new_u64(0), flags)?;
        counter.arm()?;
        Ok(counter)
    }

    /// Removes the targets for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(CounterTarget) -> bool) {
        self.counters.retain(|target, _| keep(*target));
    }

    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Returns whether the set has no targets.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Returns whether any counter has overflowed. Makes no system call.
    pub fn any_overflowed(&self) -> bool {
        self.counters.values().flatten().any(|counter| counter.ring.has_records())
    }

    /// Arms the counters that have overflowed.
    ///
    /// # Errors
    /// The first error. The other counters are armed.
    pub fn rearm(&mut self) -> io::Result<()> {
        self.drain_events();
        let mut result = Ok(());
        let all = self.counters.values().flatten();
        for counter in all.filter(|counter| counter.ring.has_records()) {
            counter.ring.mark_read();
            result = result.and(counter.arm());
        }
        result
    }

    /// Consumes the pending events of the epoll set, because the event of an exited task would stay pending.
    fn drain_events(&self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            let waited = fault::inject("epoll_wait")
                .and_then(|()| Ok(epoll::wait(&self.set, spare, Some(&no_wait))?));
            match waited {
                Ok(_) if events.len() == events.capacity() => {}
                _ => return,
            }
        }
    }
}

impl AsFd for OverflowCounters {
    /// Returns the epoll set, which is readable after an overflow.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl Counter {
    /// Enables the counter until the next overflow.
    fn arm(&self) -> io::Result<()> {
        fault::inject("ioctl")?;
        /// `_IO('$', 2)`: the argument is the number of overflows until the counter stops.
        const PERF_EVENT_IOC_REFRESH: u64 = 0x2402;
        let once: libc::c_ulong = 1;
        // SAFETY: the argument is a number, not a pointer; the descriptor is open.
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
    use crate::perf::{Flags, software_event};
    use crate::test_support::{n_open, run_isolated};

    fn page_faults() -> Attr {
        let user_mode = Flags { user_only: true, ..Flags::default() };
        software_event(CounterEvent::PageFaults, user_mode).expect("a software event")
    }

    /// Returns counters of this thread; `None` without permission.
    fn of_this_thread(period: u64) -> Option<OverflowCounters> {
        let mut overflows = OverflowCounters::new(period).expect("a set");
        match overflows.add(&[page_faults()], CounterTarget::Task(0)) {
            Ok(()) => Some(overflows),
            Err(error) => {
                println!("not run: {error}");
                None
            }
        }
    }

    /// Accesses pages for the first time.
    fn touch(n_pages: usize) {
        let bytes = n_pages * rustix::param::page_size();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the mapping is new, and it is used and unmapped only here.
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
            // Without transparent huge pages each page causes one fault.
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
        let spare = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&outer, spare, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("waited");
        !events.is_empty()
    }

    #[test]
    fn a_counter_overflows_once_and_continues_after_rearming() {
        let Some(mut overflows) = of_this_thread(1000) else { return };
        assert!(!overflows.any_overflowed(), "no overflow yet");
        touch(5000);
        assert!(overflows.any_overflowed());
        let head = |overflows: &OverflowCounters| {
            let counter = overflows.counters.values().flatten().next().expect("one counter");
            counter.ring.written()
        };
        let one_record = head(&overflows);
        touch(5000);
        assert_eq!(head(&overflows), one_record, "the counter stopped at the first overflow");
        overflows.rearm().expect("armed");
        assert!(!overflows.any_overflowed(), "emptied");
        touch(5000);
        assert!(
            overflows.any_overflowed() && head(&overflows) == 2 * one_record,
            "the counter continues"
        );
    }

    #[test]
    fn an_overflow_wakes_the_poller_and_an_exited_thread_does_not() {
        let mut overflows = OverflowCounters::new(1000).expect("a set");
        let (sender, receiver) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid()).expect("the receiver exists");
            may_go.recv().expect("the sender exists");
            touch(5000);
        });
        let tid = receiver.recv().expect("the thread runs").as_raw_nonzero().get().unsigned_abs();
        if let Err(error) = overflows.add(&[page_faults()], CounterTarget::Task(tid)) {
            println!("not run: {error}");
            go.send(()).expect("the thread waits");
            other.join().expect("the thread ends");
            return;
        }
        assert!(!is_readable(&overflows));
        go.send(()).expect("the thread waits");
        other.join().expect("the thread ends");
        assert!(is_readable(&overflows) && overflows.any_overflowed());
        // The counter may report EPOLLHUP with a delay after the thread was joined.
        let quiet = (0..1000).any(|_| {
            overflows.rearm().expect("armed, or exited");
            std::thread::sleep(std::time::Duration::from_millis(1));
            !is_readable(&overflows)
        });
        assert!(quiet && !overflows.any_overflowed());
        overflows.retain(|_| false);
        assert!(overflows.is_empty());
    }

    #[test]
    fn injected_errors_leave_no_descriptor_open() {
        run_isolated(module_path!(), "injected_errors_leave_no_descriptor_open", || {
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
