//! Hot address ranges of a process, from address samples of the processor.
//!
//! ```text
//!   every N-th access of a thread ──► record with its address, in a ring buffer ──► count per 64 KiB
//!   ──► the ranges with the most samples, hottest first
//! ```
//!
//! Intel processors sample addresses with the load latency event (`mem-loads`; some processors require a group with
//! `mem-loads-aux` as leader). AMD processors sample addresses with instruction-based sampling (`ibs_op`). The events
//! are identified by their names in sysfs (Documentation/ABI/testing/sysfs-bus-event_source-devices-events,
//! perf-amd-ibs(1)). On other processors no range counts as hot.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::perf::{self, Attr, CounterTarget, Flags, RingBuffer};
use crate::pmu::{DEVICES, encode, format_of};
use crate::procfs;
use crate::source::{Source, text};

/// The sampling events of this machine, one for each core kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSampling(Vec<SamplingEvent>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct SamplingEvent {
    attr: Attr,
    /// Group leader that the event requires; `None` if the event needs no leader.
    leader: Option<Attr>,
    period: u64,
    precise: u8,
}

/// Loads per sample. A thread that executes only loads produces about 10,000 samples per second.
const LOADS_PER_SAMPLE: u64 = 50_021;
/// Operations per sample. The hardware ignores the lowest four bits.
const OPERATIONS_PER_SAMPLE: u64 = 1 << 18;
/// Data pages of the ring buffer of a thread: space for 4096 samples of 16 bytes.
const RING_PAGES: usize = 16;
/// Maximum number of sampled threads of a process. The samples of these threads represent all threads.
const THREADS_MAX: usize = 16;
/// Size of a range, as an exponent of two: 64 KiB.
const RANGE_BITS: u32 = 16;
/// Maximum number of returned ranges.
const RANGES_MAX: usize = 1024;

impl AddressSampling {
    /// Detects the sampling events of this machine, or of the tree below another root.
    pub fn find(source: &mut dyn Source) -> Self {
        let devices = source.list(DEVICES).unwrap_or_default();
        AddressSampling(devices.iter().filter_map(|device| event_of(source, device)).collect())
    }

    /// Returns whether the machine has no sampling events.
    pub fn is_unsupported(&self) -> bool {
        self.0.is_empty()
    }

    /// Samples a process for `time`. Returns the sampled address ranges, hottest first.
    ///
    /// # Errors
    /// No thread of the process can be sampled.
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
        if self.is_unsupported() {
            return Ok(Vec::new());
        }
        let (mut samplers, mut rejected) = (Vec::new(), None);
        for tid in procfs::threads("/".as_ref(), pid)?.into_iter().take(THREADS_MAX) {
            for event in &self.0 {
                match Sampler::open(event, tid) {
                    Ok(sampler) => samplers.push(sampler),
                    Err(error) => rejected = Some(error),
                }
            }
        }
        match (samplers.is_empty(), rejected) {
            (true, Some(error)) => Err(error),
            _ => Ok(samplers),
        }
    }
}

/// A sampled thread. The ring buffer is unmapped before the counter is closed.
#[derive(Debug)]
struct Sampler {
    ring: RingBuffer,
    event: OwnedFd,
    _leader: Option<OwnedFd>,
}

impl Sampler {
    fn open(event: &SamplingEvent, tid: u32) -> io::Result<Self> {
        let target = CounterTarget::Task(tid);
        let leader = event.leader.as_ref().map(|leader| perf::open(leader, target, None));
        let leader = leader.transpose()?;
        let group = leader.as_ref().map(AsFd::as_fd);
        let file = perf::open_addresses(&event.attr, target, event.period, event.precise, group)?;
        Ok(Sampler {
            ring: RingBuffer::map(file.as_fd(), RING_PAGES)?,
            event: file,
            _leader: leader,
        })
    }

    /// Stops the counter and returns its records. Intel processors write samples to a separate buffer (PEBS). If only
    /// addresses are sampled, the kernel reads this buffer when it is full, at a context switch, or when the event is
    /// disabled (arch/x86/events/intel/ds.c, `intel_pmu_pebs_disable`). The event is disabled here so that the samples
    /// of a thread without context switches are read.
    fn finish(&self) -> Vec<u8> {
        // If the counter cannot be stopped, the records so far are used.
        let _ = perf::disable(self.event.as_fd());
        self.ring.take()
    }
}

fn event_of(source: &mut dyn Source, device: &str) -> Option<SamplingEvent> {
    let dir = format!("{DEVICES}/{device}");
    let kind = text(source, &format!("{dir}/type")).ok()?.trim().parse().ok()?;
    let format = format_of(source, &dir);
    let user_mode = Flags { user_only: true, ..Flags::default() };
    if device == "ibs_op" {
        // Older processors count only cycles and do not have the term `cnt_ctl`. IBS also samples kernel mode.
        let config = encode("cnt_ctl=1", &format).unwrap_or_default();
        let attr = Attr { kind, config, flags: Flags::default() };
        return Some(SamplingEvent {
            attr,
            leader: None,
            period: OPERATIONS_PER_SAMPLE,
            precise: 0,
        });
    }
    let mut named = |name: &str| {
        let words = text(source, &format!("{dir}/events/{name}")).ok()?;
        let config = encode(words.trim(), &format).ok()?;
        Some(Attr { kind, config, flags: user_mode })
    };
    let attr = named("mem-loads")?;
    Some(SamplingEvent {
        attr,
        leader: named("mem-loads-aux"),
        period: LOADS_PER_SAMPLE,
        precise: 2,
    })
}

const SAMPLE: u32 = 9;
const HEADER_BYTES: usize = 8;

/// Returns the addresses in records (`struct perf_event_header`, then the address). Skips truncated records and records
/// of other types.
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

/// Sorts the ranges by number of samples, highest first. Address 0 means unknown; addresses in the upper half belong to
/// the kernel.
fn hottest(addresses: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for address in addresses.filter(|address| *address != 0 && address >> 63 == 0) {
        *counts.entry(address >> RANGE_BITS).or_insert(0) += 1;
    }
    let mut all: Vec<(u64, u64)> = counts.into_iter().collect();
    all.sort_by_key(|&(range, n)| (std::cmp::Reverse(n), range));
    let bounds = |(range, _)| (range << RANGE_BITS, (range + 1) << RANGE_BITS);
    all.into_iter().take(RANGES_MAX).map(bounds).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::testing::FakeSource;

    fn record(kind: u32, body: &[u64]) -> Vec<u8> {
        let size = (HEADER_BYTES + 8 * body.len()) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn find(files: &[(&str, &str)]) -> AddressSampling {
        let mut source = FakeSource::default();
        files.iter().for_each(|(path, text)| source.write(format!("{DEVICES}/{path}"), *text));
        AddressSampling::find(&mut source)
    }

    #[test]
    fn the_range_with_the_most_samples_is_the_hottest() {
        let mut records = record(SAMPLE, &[0x7_0001_2345]);
        records.extend(record(2, &[1, 2])); // Record type 2 is PERF_RECORD_LOST.
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
    fn sampling_events_are_found_by_their_names_in_sysfs() {
        let intel = find(&[
            ("cpu_core/type", "4\n"),
            ("cpu_core/format/event", "config:0-7\n"),
            ("cpu_core/format/umask", "config:8-15\n"),
            ("cpu_core/format/ldlat", "config1:0-15\n"),
            ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
            ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82\n"),
            ("cpu_atom/type", "8\n"),
            ("uncore_imc_0/type", "20\n"),
        ]);
        let user_mode = Flags { user_only: true, ..Flags::default() };
        let leader = Attr { kind: 4, config: [0x8203, 0, 0], flags: user_mode };
        let attr = Attr { kind: 4, config: [0x1cd, 3, 0], flags: user_mode };
        let event =
            SamplingEvent { attr, leader: Some(leader), period: LOADS_PER_SAMPLE, precise: 2 };
        assert_eq!(intel, AddressSampling(vec![event]));
        let amd = find(&[("ibs_op/type", "11\n"), ("ibs_op/format/cnt_ctl", "config:19\n")]);
        let attr = Attr { kind: 11, config: [1 << 19, 0, 0], flags: Flags::default() };
        let event = SamplingEvent { attr, leader: None, period: OPERATIONS_PER_SAMPLE, precise: 0 };
        assert_eq!(amd, AddressSampling(vec![event]));
        assert!(find(&[("cpu/type", "4\n")]).is_unsupported());
    }

    /// Samples the software event page-faults, which records addresses on every machine.
    #[test]
    fn page_faults_of_a_thread_are_sampled_with_their_addresses() {
        let user_mode = Flags { user_only: true, ..Flags::default() };
        let attr = crate::perf::software_event(sched::CounterEvent::PageFaults, user_mode)
            .expect("a software event");
        let event = SamplingEvent { attr, leader: None, period: 1, precise: 0 };
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
        // The counter was disabled before its ring buffer was read.
        let mut memory_after = vec![0u8; 8 << 20];
        memory_after.chunks_mut(4096).for_each(|page| page[0] = 1);
        std::hint::black_box(&memory_after);
        assert!(!sampler.ring.has_records(), "the counter still counts");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic_or_loop(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(addresses(&bytes).count() <= bytes.len() / HEADER_BYTES);
        }
    }
}
