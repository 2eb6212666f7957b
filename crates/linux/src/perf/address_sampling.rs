//! Which of its memory a process works on most, by address samples of the processor.
//!
//! ```text
//!   every N-th access of a thread ──► a record with its address, in a ring ──► counted by stretches
//!   of 64 KiB ──► the stretches that were met most often, the hottest first
//! ```
//!
//! Who can tell addresses: Intel's load latency event (`mem-loads`, on some processors only in a group
//! behind `mem-loads-aux`), and AMD's instruction based sampling (`ibs_op`). Both are found by the names
//! that the kernel gives them (Documentation/ABI/testing/sysfs-bus-event_source-devices-events, and
//! perf-amd-ibs(1)). Elsewhere nothing is sampled, and nothing is hot.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use super::attr::{self, Attr, CounterTarget, Flags};
use super::ring::Ring;
use super::{DEVICES, encode, format_of};
use crate::procfs;
use crate::source::{Live, Source, text};

/// How addresses can be had on this machine; an event for each kind of core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSampling(Vec<Event>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    attr: Attr,
    /// What has to lead its group.
    leader: Option<Attr>,
    every: u64,
    precise: u8,
}

/// One sample in so many loads: some ten thousand a second of a thread that does nothing else.
const LOADS: u64 = 50_021;
/// One in so many operations; the hardware leaves the lowest four bits out.
const OPERATIONS: u64 = 1 << 18;
/// Pages for records of each thread: 4096 samples of 16 bytes.
const RING_PAGES: usize = 16;
/// No more threads of a process are sampled: its first ones stand for the others.
const THREADS_MAX: usize = 16;
/// The stretches that are counted, as a power of two.
const STRETCH_BITS: u32 = 16;
/// No more of them are told.
const STRETCHES_MAX: usize = 1024;

impl AddressSampling {
    /// Finds out what this machine, or the tree under another root, can tell.
    pub fn find(root: &Path) -> Self {
        let mut source = Live::new(root);
        let devices = source.list(DEVICES).unwrap_or_default();
        AddressSampling(devices.iter().filter_map(|device| event_of(&mut source, device)).collect())
    }

    /// Whether nothing here tells addresses.
    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets a process run for so long, and tells which stretches of addresses it met, the hottest first.
    ///
    /// # Errors
    /// What the kernel said, where not one of its threads could be sampled.
    pub fn hottest_ranges(&self, pid: u32, time: Duration) -> io::Result<Vec<(u64, u64)>> {
        let samplers = self.open(pid)?;
        if samplers.is_empty() {
            return Ok(Vec::new());
        }
        std::thread::sleep(time);
        let records = samplers.iter().map(Sampler::finish);
        Ok(hottest(records.flat_map(|records| addresses(&records).collect::<Vec<_>>())))
    }

    fn open(&self, pid: u32) -> io::Result<Vec<Sampler>> {
        if self.is_unknown() {
            return Ok(Vec::new());
        }
        let (mut samplers, mut refused) = (Vec::new(), None);
        for tid in procfs::threads("/".as_ref(), pid)?.into_iter().take(THREADS_MAX) {
            for event in &self.0 {
                match Sampler::open(event, tid) {
                    Ok(sampler) => samplers.push(sampler),
                    Err(error) => refused = Some(error),
                }
            }
        }
        match (samplers.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(samplers),
        }
    }
}

/// A thread that is sampled. The ring goes first when it ends.
#[derive(Debug)]
struct Sampler {
    ring: Ring,
    event: OwnedFd,
    _leader: Option<OwnedFd>,
}

impl Sampler {
    fn open(event: &Event, tid: u32) -> io::Result<Self> {
        let whom = CounterTarget::Task(tid);
        let leader = event.leader.as_ref().map(|leader| attr::open(leader, whom, None));
        let leader = leader.transpose()?;
        let group = leader.as_ref().map(AsFd::as_fd);
        let file = attr::open_addresses(&event.attr, whom, event.every, event.precise, group)?;
        Ok(Sampler { ring: Ring::map(file.as_fd(), RING_PAGES)?, event: file, _leader: leader })
    }

    /// Stops it and takes what it noted. Intel's processors write samples into a buffer of their own, and
    /// where nothing else is asked of them than addresses the kernel fetches them only when that is
    /// full, when another task comes, or when the event stops (arch/x86/events/intel/ds.c,
    /// `intel_pmu_pebs_disable`): of a thread that runs alone they would be missing.
    fn finish(&self) -> Vec<u8> {
        // What cannot be stopped has noted what it has.
        let _ = attr::disable(self.event.as_fd());
        self.ring.take()
    }
}

fn event_of(source: &mut dyn Source, device: &str) -> Option<Event> {
    let folder = format!("{DEVICES}/{device}");
    let kind = text(source, &format!("{folder}/type")).ok()?.trim().parse().ok()?;
    let format = format_of(source, &folder);
    let own_code = Flags { user_only: true, ..Flags::default() };
    if device == "ibs_op" {
        // Older processors count cycles only, and have no such term. It samples the kernel as well.
        let config = encode("cnt_ctl=1", &format).unwrap_or_default();
        let attr = Attr { kind, config, flags: Flags::default() };
        return Some(Event { attr, leader: None, every: OPERATIONS, precise: 0 });
    }
    let mut named = |name: &str| {
        let words = text(source, &format!("{folder}/events/{name}")).ok()?;
        let config = encode(words.trim(), &format).ok()?;
        Some(Attr { kind, config, flags: own_code })
    };
    let attr = named("mem-loads")?;
    Some(Event { attr, leader: named("mem-loads-aux"), every: LOADS, precise: 2 })
}

const SAMPLE: u32 = 9;
const HEADER_BYTES: usize = 8;

/// The addresses in records (`struct perf_event_header`, then the address); other records are passed over,
/// and so is what was cut off.
fn addresses(mut records: &[u8]) -> impl Iterator<Item = u64> + '_ {
    std::iter::from_fn(move || {
        loop {
            let kind = u32::from_ne_bytes(records.get(..4)?.try_into().ok()?);
            let size = usize::from(u16::from_ne_bytes(records.get(6..8)?.try_into().ok()?));
            let record = records.get(..size.max(HEADER_BYTES))?;
            records = &records[record.len()..];
            let address = record.get(HEADER_BYTES..HEADER_BYTES + 8);
            if let (SAMPLE, Some(address)) = (kind, address) {
                return Some(u64::from_ne_bytes(address.try_into().ok()?));
            }
        }
    })
}

/// Stretches by how often they were met. An address of 0 stands for none, and the upper half is the
/// kernel's.
fn hottest(addresses: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut met: BTreeMap<u64, u64> = BTreeMap::new();
    for address in addresses.filter(|address| *address != 0 && address >> 63 == 0) {
        *met.entry(address >> STRETCH_BITS).or_insert(0) += 1;
    }
    let mut all: Vec<(u64, u64)> = met.into_iter().collect();
    all.sort_by_key(|&(stretch, n)| (std::cmp::Reverse(n), stretch));
    let bounds = |(stretch, _)| (stretch << STRETCH_BITS, (stretch + 1) << STRETCH_BITS);
    all.into_iter().take(STRETCHES_MAX).map(bounds).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, body: &[u64]) -> Vec<u8> {
        let size = (HEADER_BYTES + 8 * body.len()) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(DEVICES).join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn the_stretch_that_is_met_most_is_the_hottest() {
        let mut records = record(SAMPLE, &[0x7_0001_2345]);
        records.extend(record(2, &[1, 2])); // Something was lost.
        records.extend(record(SAMPLE, &[0x7_0001_ffff]));
        records.extend(record(SAMPLE, &[0x3_0000_0000]));
        records.extend(record(SAMPLE, &[0]));
        records.extend(record(SAMPLE, &[u64::MAX - 8]));
        records.extend(&record(SAMPLE, &[0x3_0000_0001])[..12]);
        assert_eq!(
            hottest(addresses(&records)),
            [(0x7_0001_0000, 0x7_0002_0000), (0x3_0000_0000, 0x3_0001_0000)]
        );
    }

    #[test]
    fn processors_tell_addresses_under_the_names_that_the_kernel_gives() {
        let intel = tree(&[
            ("cpu_core/type", "4\n"),
            ("cpu_core/format/event", "config:0-7\n"),
            ("cpu_core/format/umask", "config:8-15\n"),
            ("cpu_core/format/ldlat", "config1:0-15\n"),
            ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
            ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82\n"),
            ("cpu_atom/type", "8\n"),
            ("uncore_imc_0/type", "20\n"),
        ]);
        let heat = AddressSampling::find(intel.path());
        let own_code = Flags { user_only: true, ..Flags::default() };
        let leader = Attr { kind: 4, config: [0x8203, 0, 0], flags: own_code };
        let attr = Attr { kind: 4, config: [0x1cd, 3, 0], flags: own_code };
        let event = Event { attr, leader: Some(leader), every: LOADS, precise: 2 };
        assert_eq!(heat, AddressSampling(vec![event]));
        let amd = tree(&[("ibs_op/type", "11\n"), ("ibs_op/format/cnt_ctl", "config:19\n")]);
        let attr = Attr { kind: 11, config: [1 << 19, 0, 0], flags: Flags::default() };
        let event = Event { attr, leader: None, every: OPERATIONS, precise: 0 };
        assert_eq!(AddressSampling::find(amd.path()), AddressSampling(vec![event]));
        assert!(AddressSampling::find(tree(&[("cpu/type", "4\n")]).path()).is_unknown());
    }

    /// No machine of ours has such an event; the kernel's page faults tell addresses the same way.
    #[test]
    fn a_thread_of_the_kernels_tells_where_it_touched_memory() {
        let own_code = Flags { user_only: true, ..Flags::default() };
        let attr = crate::perf::software_event(sched::CounterEvent::PageFaults, own_code)
            .expect("the kernel's own");
        let event = Event { attr, leader: None, every: 1, precise: 0 };
        let sampler = match Sampler::open(&event, 0) {
            Ok(sampler) => sampler,
            Err(error) => return println!("not run: {error}"),
        };
        let mut memory = vec![0u8; 8 << 20];
        for page in memory.chunks_mut(4096) {
            page[0] = 1;
        }
        let (from, to) = (memory.as_ptr().addr() as u64, memory.as_ptr().addr() as u64 + (8 << 20));
        std::hint::black_box(&memory);
        let met = hottest(addresses(&sampler.finish()));
        let inside = met.iter().filter(|(start, end)| from < *end && *start < to).count();
        assert!(3 <= inside, "{met:x?} not in {from:x}..{to:x}");
        // It was stopped before its ring was taken, so that a processor keeps no sample back.
        let mut more = vec![0u8; 8 << 20];
        more.chunks_mut(4096).for_each(|page| page[0] = 1);
        std::hint::black_box(&more);
        assert!(!sampler.ring.has_records(), "it goes on");
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_go_on_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(addresses(&bytes).count() <= bytes.len() / HEADER_BYTES);
        }
    }
}
