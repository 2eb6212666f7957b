//! Which events stand for which counter_event on which processor: the files in `events/`.
//!
//! A file names the processors that it is for (vendor, family and models as CPUID tells them, or
//! implementer and part as MIDR does), its PMUs (hybrid processors have one for each kind of core),
//! and of each counter_event either an event with its source or the reason why there is none. The first
//! file that fits holds; the last, `generic`, fits every processor.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use sched::{CounterEvent, EventKind};
use serde::Deserialize;

/// What identifies a kind of processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuIdentity {
    /// As CPUID tells it: `GenuineIntel`.
    pub vendor: Option<String>,
    /// The family of that vendor.
    pub family: Option<u32>,
    /// The model of that family.
    pub model: Option<u32>,
    /// Of an Arm processor: who designed it, and which part it is.
    pub arm: Option<(u32, u32)>,
}

/// A family of processors and what is counted how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uarch {
    /// The name of its file.
    pub file: String,
    /// What people call it.
    pub name: String,
    /// Where its events were taken from.
    pub source: String,
    /// Its PMUs.
    pub pmus: Vec<Pmu>,
    /// Why a counter_event is not counted there.
    pub absent: BTreeMap<CounterEvent, String>,
    fits: Fits,
}

/// The counters of one kind of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// Its name in `/sys/bus/event_source/devices`; a `*` at the end stands for anything.
    pub name: String,
    /// How many counters take any event.
    pub n_counters: u32,
    /// What has a counter of its own beside those.
    pub fixed: Vec<CounterEvent>,
    /// What is counted how.
    pub events: BTreeMap<CounterEvent, UarchEvent>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UarchEvent {
    /// In the words of the PMU's `format` folder.
    pub terms: String,
    /// The vendor's name.
    pub name: String,
    /// Where it was taken from.
    pub source: String,
}

/// What is wrong with an event file.
#[derive(Debug, thiserror::Error)]
pub enum UarchError {
    /// No TOML, or not what an event file holds.
    #[error("events/{file}.toml: {what}")]
    Parse {
        /// Which file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A name that is no counter_event of a processor.
    #[error(
        "events/{file}.toml: {name:?} is no counter_event that a processor counts: see `evenkeel machine`"
    )]
    CounterEvent {
        /// Which file.
        file: String,
        /// What stands there.
        name: String,
    },
    /// Something that must be said is not.
    #[error("events/{file}.toml: {name} has neither an event nor a reason why there is none")]
    Silent {
        /// Which file.
        file: String,
        /// Which counter_event.
        name: &'static str,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    family: String,
    name: String,
    source: String,
    #[serde(default)]
    #[allow(dead_code, reason = "for those who read the file")]
    note: String,
    r#match: Fits,
    pmu: Vec<PmuTable>,
    #[serde(default)]
    absent: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fits {
    vendor: Option<String>,
    family: Option<u32>,
    #[serde(default)]
    models: Vec<u32>,
    implementer: Option<u32>,
    part: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PmuTable {
    name: String,
    counters: u32,
    fixed: Vec<String>,
    fixed_source: String,
    events: BTreeMap<String, EventTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventTable {
    event: String,
    name: String,
    source: String,
}

macro_rules! files {
    ($($name:literal)*) => {
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../events/", $name, ".toml"))),)*];
    };
}

files! {
    "intel-nehalem" "intel-westmere" "intel-sandy-bridge-server" "intel-ivy-bridge-client"
    "intel-haswell-server" "intel-broadwell-server" "intel-skylake-server" "intel-skylake-client"
    "intel-ice-lake-server" "intel-ice-lake-client" "intel-tiger-lake" "intel-sapphire-rapids"
    "intel-alder-lake" "amd-zen1" "amd-zen2" "amd-zen3" "amd-zen4" "amd-zen5"
    "arm-neoverse-n1" "arm-neoverse-v1" "arm-neoverse-n2" "arm-neoverse-v2" "generic"
}

/// All families, in the order in which they are tried.
pub fn uarchs() -> &'static [Uarch] {
    static FAMILIES: LazyLock<Vec<Uarch>> = LazyLock::new(|| {
        let read = |(file, text): &(&str, &str)| {
            Uarch::read(file, text).expect("a test reads every file that is built in")
        };
        FILES.iter().map(read).collect()
    });
    &FAMILIES
}

/// The family of a processor; the last one where none fits.
pub fn uarch_of(identity: &CpuIdentity) -> &'static Uarch {
    let families = uarchs();
    let generic = families.last().expect("there are families");
    families.iter().find(|family| family.fits.fit(identity)).unwrap_or(generic)
}

impl Uarch {
    /// Reads an event file.
    ///
    /// # Errors
    /// It is none, or it is silent about a counter_event.
    pub fn read(file: &str, text: &str) -> Result<Uarch, UarchError> {
        let wrong = |what: String| UarchError::Parse { file: file.to_owned(), what };
        let read: File = toml::from_str(text)
            .map_err(|error| wrong(error.to_string().trim().replace('\n', " ")))?;
        if read.family != file {
            return Err(wrong(format!("it calls itself {:?}", read.family)));
        }
        let pmus =
            read.pmu.into_iter().map(|table| table.pmu(file)).collect::<Result<Vec<_>, _>>()?;
        let absent =
            read.absent.into_iter().map(|(name, why)| Ok((counter_event(file, &name)?, why)));
        let absent = absent.collect::<Result<BTreeMap<_, _>, UarchError>>()?;
        let family = Uarch {
            file: file.to_owned(),
            name: read.name,
            source: read.source,
            pmus,
            absent,
            fits: read.r#match,
        };
        match of_processor().find(|counter_event| !family.speaks_of(*counter_event)) {
            None => Ok(family),
            Some(silent) => Err(UarchError::Silent { file: file.to_owned(), name: silent.name() }),
        }
    }

    fn speaks_of(&self, counter_event: CounterEvent) -> bool {
        self.absent.contains_key(&counter_event)
            || self.pmus.iter().any(|pmu| pmu.events.contains_key(&counter_event))
    }

    /// Why a counter_event is not counted on this family, where that is so. What only one kind of core
    /// counts is not counted: the rest of a task's time would be missing.
    pub fn why_absent(&self, counter_event: CounterEvent) -> Option<String> {
        if counter_event.source() == EventKind::Software {
            return None;
        }
        if let Some(why) = self.absent.get(&counter_event) {
            return Some(why.clone());
        }
        let lacking = self.pmus.iter().find(|pmu| !pmu.events.contains_key(&counter_event))?;
        Some(format!("the cores of {} have no such event", lacking.name))
    }

    /// Whether this is what stands in for families that are not known.
    pub fn is_generic(&self) -> bool {
        self.fits == Fits::default()
    }
}

/// What a processor can count.
fn of_processor() -> impl Iterator<Item = CounterEvent> {
    let by_processor = |counter_event: &CounterEvent| counter_event.source() == EventKind::Hardware;
    CounterEvent::ALL.iter().copied().filter(by_processor)
}

fn counter_event(file: &str, name: &str) -> Result<CounterEvent, UarchError> {
    let found = of_processor().find(|counter_event| counter_event.name() == name);
    found.ok_or_else(|| UarchError::CounterEvent { file: file.to_owned(), name: name.to_owned() })
}

impl PmuTable {
    fn pmu(self, file: &str) -> Result<Pmu, UarchError> {
        let event = |(name, table): (String, EventTable)| {
            let EventTable { event, name: vendors, source } = table;
            Ok((counter_event(file, &name)?, UarchEvent { terms: event, name: vendors, source }))
        };
        let events = self.events.into_iter().map(event).collect::<Result<_, UarchError>>()?;
        let fixed = self.fixed.iter().map(|name| counter_event(file, name));
        let fixed = fixed.collect::<Result<_, UarchError>>()?;
        if self.fixed_source.trim().is_empty() {
            let (file, what) =
                (file.to_owned(), "fixed_source is empty: say where fixed was taken from");
            return Err(UarchError::Parse { file, what: what.to_owned() });
        }
        Ok(Pmu { name: self.name, n_counters: self.counters, fixed, events })
    }
}

impl Pmu {
    /// Whether a device of this name is this PMU.
    pub fn is_named(&self, device: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => device.starts_with(start),
            None => self.name == device,
        }
    }
}

impl Fits {
    fn fit(&self, identity: &CpuIdentity) -> bool {
        if let Some(implementer) = self.implementer {
            return identity.arm == Some((implementer, self.part.unwrap_or(u32::MAX)));
        }
        self.vendor.is_some()
            && self.vendor == identity.vendor
            && self.family == identity.family
            && identity.model.is_some_and(|model| self.models.contains(&model))
    }
}

/// Who the processor is, from `/proc/cpuinfo` and, of an Arm processor, from its register MIDR
/// (`regs/identification/midr_el1` of its CPU in sysfs).
pub fn identity(cpuinfo: &str, midr: Option<&str>) -> CpuIdentity {
    let mut identity = CpuIdentity::default();
    let (mut implementer, mut part) = (None, None);
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "vendor_id" => identity.vendor = identity.vendor.or(Some(value.to_owned())),
            "cpu family" => identity.family = identity.family.or(value.parse().ok()),
            "model" => identity.model = identity.model.or(value.parse().ok()),
            "CPU implementer" => implementer = implementer.or(hex(value)),
            "CPU part" => part = part.or(hex(value)),
            _ => {}
        }
    }
    let from_midr = midr.and_then(|text| hex(text.trim()).or(hex64(text.trim())));
    let told = from_midr.map(|midr| (midr >> 24 & 0xff, midr >> 4 & 0xfff));
    identity.arm = told.or(implementer.zip(part));
    identity
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The register has 64 bits, of which the upper half is not used.
fn hex64(text: &str) -> Option<u32> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(|midr| midr as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::perf::{Format, encode};

    fn format_of(pmu: &str) -> Format {
        let mut format = Format::default();
        let terms: &[(&str, &str)] = match pmu {
            // As the kernel's drivers for these PMUs show them.
            "armv8_*" => &[("event", "config:0-15")],
            "*" => &[("generic", "config:0-7")],
            _ => &[
                ("event", "config:0-7,32-35"),
                ("umask", "config:8-15"),
                ("cmask", "config:24-31"),
            ],
        };
        terms.iter().for_each(|(term, text)| format.add(term, text).expect("a format"));
        format
    }

    #[test]
    fn every_file_is_read_names_its_sources_and_fits_the_format_of_its_pmu() {
        for (file, text) in FILES {
            let family = Uarch::read(file, text).expect("an event file");
            assert!(10 < family.source.len(), "{file} names its source");
            for pmu in &family.pmus {
                for (counter_event, event) in &pmu.events {
                    assert!(
                        !event.source.is_empty() && !event.name.is_empty(),
                        "{file} {counter_event:?}"
                    );
                    let config = encode(&event.terms, &format_of(&pmu.name)).expect(file);
                    assert!(config != [0; 3] || family.is_generic(), "{file} {counter_event:?}");
                }
                let named = pmu.events.values().map(|event| &event.terms);
                let all: std::collections::BTreeSet<_> = named.collect();
                assert_eq!(all.len(), pmu.events.len(), "{file}: two counter_events of one event");
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/events");
        let mut there: Vec<String> = (std::fs::read_dir(folder).expect("events/"))
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let mut built_in: Vec<String> =
            FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        there.sort();
        built_in.sort();
        assert_eq!(there, built_in);
    }

    fn intel(model: u32) -> CpuIdentity {
        let cpuinfo = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
        identity(&cpuinfo, None)
    }

    #[test]
    fn a_processor_finds_its_family_and_a_strange_one_the_generic_events() {
        let file = |identity: &CpuIdentity| uarch_of(identity).file.as_str();
        assert_eq!(file(&intel(0x2c)), "intel-westmere");
        assert_eq!(file(&intel(0x6a)), "intel-ice-lake-server");
        assert_eq!(file(&intel(0xff)), "generic");
        let zen3 = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 33\n";
        assert_eq!(file(&identity(zen3, None)), "amd-zen3");
        assert_eq!(file(&identity("", Some("0x00000000413fd0c1\n"))), "arm-neoverse-n1");
        let v2 = "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
        assert_eq!(file(&identity(v2, None)), "arm-neoverse-v2");
        assert_eq!(file(&identity("", None)), "generic");
    }

    #[test]
    fn no_two_families_fit_one_processor() {
        for family in uarchs() {
            for &model in &family.fits.models {
                let identity = CpuIdentity {
                    vendor: family.fits.vendor.clone(),
                    family: family.fits.family,
                    model: Some(model),
                    arm: None,
                };
                let n_fit = uarchs().iter().filter(|other| other.fits.fit(&identity)).count();
                assert_eq!(n_fit, 1, "{} {model:#x}", family.file);
            }
        }
    }

    #[test]
    fn a_file_that_is_silent_or_wrong_is_refused_in_one_line() {
        let error = |text: &str| Uarch::read("a", text).expect_err("refused").to_string();
        let head = "family = \"a\"\nname = \"A\"\nsource = \"a manual\"\nmatch = {}\n";
        let pmu = "[[pmu]]\nname = \"cpu\"\ncounters = 4\nfixed = []\nfixed_source = \"b\"\nevents = {}\n";
        let silent = error(&format!("{head}{pmu}"));
        assert_eq!(
            silent,
            "events/a.toml: cycles has neither an event nor a reason why there is none"
        );
        let strange = error(&format!("{head}pmu = []\n[absent]\ncycels = \"no\"\n"));
        assert!(strange.contains("\"cycels\" is no counter_event"), "{strange}");
        let sourceless = error(&format!("{head}{}", pmu.replace("\"b\"", "\"\"")));
        assert!(sourceless.contains("fixed_source is empty"), "{sourceless}");
        for text in ["", "family = 3", &format!("{head}pmu = []\nwhat = 1\n")] {
            assert!(!error(text).contains('\n'), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z\\[\\]{}=\" \n0-9x.]{0,200}") {
            let _ = Uarch::read("a", &text);
            let _ = uarch_of(&identity(&text, Some(&text)));
        }
    }
}
