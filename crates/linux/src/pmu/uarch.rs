//! Events of each microarchitecture, from the files in `events/`.
//!
//! An event file contains the processors to which it applies (vendor, family and models from CPUID, or implementer and
//! part from MIDR), its PMUs (a hybrid processor has one PMU for each core kind), and for each [`CounterEvent`] the
//! event of the PMU with its source, or the reason why the event is not counted. The first matching file is used. The
//! last file, `generic`, matches every processor.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use base::toml_reader::{SourceText, deserialize};
use sched::{CounterEvent, EventKind};
use serde::Deserialize;

/// Identity of a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuIdentity {
    /// Vendor from CPUID: `GenuineIntel`.
    pub vendor: Option<String>,
    /// CPU family.
    pub family: Option<u32>,
    /// Model.
    pub model: Option<u32>,
    /// Implementer and part of an Arm processor.
    pub arm: Option<(u32, u32)>,
}

/// A microarchitecture and its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uarch {
    /// Name of the event file.
    pub file: String,
    /// Common name.
    pub name: String,
    /// Source of the events.
    pub source: String,
    /// PMUs, one for each core kind.
    pub pmus: Vec<Pmu>,
    /// Events that are not counted, with the reason.
    pub absent: BTreeMap<CounterEvent, String>,
    matches: Matches,
}

/// The PMU of one core kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// Name in `/sys/bus/event_source/devices`; a `*` at the end matches any suffix.
    pub name: String,
    /// Number of general-purpose counters.
    pub n_counters: u32,
    /// Events with a fixed counter.
    pub fixed: Vec<CounterEvent>,
    /// Events of the PMU.
    pub events: BTreeMap<CounterEvent, UarchEvent>,
}

/// An event of a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UarchEvent {
    /// Terms of the PMU's `format` directory.
    pub terms: String,
    /// Name in the vendor's documentation.
    pub name: String,
    /// Source of the event.
    pub source: String,
}

/// Error in an event file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum UarchError {
    #[error("{0}")]
    Parse(String),
    #[error("events/{file}.toml: {name:?} is not a hardware event: see `evenkeel machine`")]
    UnknownEvent { file: String, name: String },
    #[error("events/{file}.toml: {name} has neither an event nor a reason in [absent]")]
    Missing { file: String, name: &'static str },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UarchFile {
    uarch: String,
    name: String,
    source: String,
    #[serde(default)]
    #[allow(dead_code, reason = "documentation in the file")]
    note: String,
    r#match: Matches,
    pmu: Vec<PmuTable>,
    #[serde(default)]
    absent: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Matches {
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

/// Returns all microarchitectures, in the order in which they are matched.
pub fn uarchs() -> &'static [Uarch] {
    static UARCHS: OnceLock<Vec<Uarch>> = OnceLock::new();
    // A test reads every file that is built in.
    let read = |(file, text): &(&str, &str)| {
        Uarch::read(file, text).unwrap_or_else(|error| panic!("{error}"))
    };
    UARCHS.get_or_init(|| FILES.iter().map(read).collect())
}

/// Returns the microarchitecture of a processor; `generic` if no other matches.
pub fn uarch_of(identity: &CpuIdentity) -> &'static Uarch {
    let generic = uarchs().last().expect("there are files");
    uarchs().iter().find(|uarch| uarch.matches.includes(identity)).unwrap_or(generic)
}

impl Uarch {
    /// Parses an event file.
    ///
    /// # Errors
    /// The file is malformed, or an event has no entry.
    pub fn read(file: &str, text: &str) -> Result<Uarch, UarchError> {
        let path = format!("events/{file}.toml");
        let text = SourceText::new(text, Path::new(&path));
        let read: UarchFile =
            deserialize(&text).map_err(|error| UarchError::Parse(error.to_string()))?;
        if read.uarch != file {
            let message = format!("{path}: the value of uarch is {:?}, not {file:?}", read.uarch);
            return Err(UarchError::Parse(message));
        }
        let pmus = read.pmu.into_iter().map(|table| table.pmu(file)).collect::<Result<_, _>>()?;
        let absent =
            read.absent.into_iter().map(|(name, reason)| Ok((event(file, &name)?, reason)));
        let uarch = Uarch {
            file: file.to_owned(),
            name: read.name,
            source: read.source,
            pmus,
            absent: absent.collect::<Result<_, UarchError>>()?,
            matches: read.r#match,
        };
        match hardware_events().find(|event| !uarch.has_entry(*event)) {
            None => Ok(uarch),
            Some(event) => Err(UarchError::Missing { file: file.to_owned(), name: event.name() }),
        }
    }

    fn has_entry(&self, event: CounterEvent) -> bool {
        self.absent.contains_key(&event)
            || self.pmus.iter().any(|pmu| pmu.events.contains_key(&event))
    }

    /// Returns the reason why an event is not counted on this microarchitecture. An event that only one core kind has
    /// is not counted, because the events of a task on the other core kind would be missing.
    pub fn absence_reason(&self, event: CounterEvent) -> Option<String> {
        if event.source() == EventKind::Software {
            return None;
        }
        if let Some(reason) = self.absent.get(&event) {
            return Some(reason.clone());
        }
        let pmu = self.pmus.iter().find(|pmu| !pmu.events.contains_key(&event))?;
        Some(format!("the cores of {} have no such event", pmu.name))
    }

    /// Returns whether the microarchitecture is the fallback for unknown processors.
    pub fn is_generic(&self) -> bool {
        self.matches == Matches::default()
    }
}

fn hardware_events() -> impl Iterator<Item = CounterEvent> {
    CounterEvent::ALL.iter().copied().filter(|event| event.source() == EventKind::Hardware)
}

fn event(file: &str, name: &str) -> Result<CounterEvent, UarchError> {
    let found = hardware_events().find(|event| event.name() == name);
    found.ok_or_else(|| UarchError::UnknownEvent { file: file.to_owned(), name: name.to_owned() })
}

impl PmuTable {
    fn pmu(self, file: &str) -> Result<Pmu, UarchError> {
        let entry = |(name, table): (String, EventTable)| {
            let EventTable { event: terms, name: vendor_name, source } = table;
            Ok((event(file, &name)?, UarchEvent { terms, name: vendor_name, source }))
        };
        let events = self.events.into_iter().map(entry).collect::<Result<_, UarchError>>()?;
        let fixed = self.fixed.iter().map(|name| event(file, name));
        let fixed = fixed.collect::<Result<_, UarchError>>()?;
        if self.fixed_source.trim().is_empty() {
            let message = format!("events/{file}.toml: fixed_source is empty: cite a source");
            return Err(UarchError::Parse(message));
        }
        Ok(Pmu { name: self.name, n_counters: self.counters, fixed, events })
    }
}

impl Pmu {
    /// Returns whether a device of this name belongs to the PMU.
    pub fn is_named(&self, device: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => device.starts_with(start),
            None => self.name == device,
        }
    }
}

impl Matches {
    fn includes(&self, identity: &CpuIdentity) -> bool {
        if let Some(implementer) = self.implementer {
            return identity.arm == Some((implementer, self.part.unwrap_or(u32::MAX)));
        }
        self.vendor.is_some()
            && self.vendor == identity.vendor
            && self.family == identity.family
            && identity.model.is_some_and(|model| self.models.contains(&model))
    }
}

/// Reads the identity of the processor from `/proc/cpuinfo` and, on Arm, from the register MIDR
/// (`regs/identification/midr_el1` of a CPU in sysfs).
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
    let from_midr = from_midr.map(|midr| (midr >> 24 & 0xff, midr >> 4 & 0xfff));
    identity.arm = from_midr.or(implementer.zip(part));
    identity
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Parses a 64-bit register; the upper 32 bits are reserved.
fn hex64(text: &str) -> Option<u32> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(|midr| midr as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::pmu::{Format, encode};

    fn format_of(pmu: &str) -> Format {
        let mut format = Format::default();
        let terms: &[(&str, &str)] = match pmu {
            // The formats are the same as in the kernel drivers of these PMUs.
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
    fn every_file_names_its_sources_and_fits_the_format_of_its_pmu() {
        for (file, text) in FILES {
            let uarch = Uarch::read(file, text).expect("an event file");
            assert!(10 < uarch.source.len(), "{file} has a source");
            for pmu in &uarch.pmus {
                for (counted, event) in &pmu.events {
                    let is_named = !event.source.is_empty() && !event.name.is_empty();
                    assert!(is_named, "{file} {counted:?}");
                    let config = encode(&event.terms, &format_of(&pmu.name)).expect(file);
                    assert!(config != [0; 3] || uarch.is_generic(), "{file} {counted:?}");
                }
                let terms = pmu.events.values().map(|event| &event.terms);
                let all: std::collections::BTreeSet<_> = terms.collect();
                assert_eq!(all.len(), pmu.events.len(), "{file}: two events with the same terms");
            }
        }
    }

    #[test]
    fn every_file_is_valid_and_has_an_entry_for_each_event() {
        let error = |(file, text): &(&str, &str)| Uarch::read(file, text).err();
        let errors: Vec<String> =
            FILES.iter().filter_map(error).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }

    #[test]
    fn every_file_of_the_directory_is_built_in() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/events");
        let mut file_names: Vec<String> = (std::fs::read_dir(dir).expect("events/"))
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let mut built_in: Vec<String> =
            FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        file_names.sort();
        built_in.sort();
        assert_eq!(file_names, built_in);
    }

    fn intel(model: u32) -> CpuIdentity {
        let cpuinfo = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
        identity(&cpuinfo, None)
    }

    #[test]
    fn a_known_processor_has_its_file_and_an_unknown_one_the_generic_file() {
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
    fn no_processor_matches_two_files() {
        for uarch in uarchs() {
            for &model in &uarch.matches.models {
                let identity = CpuIdentity {
                    vendor: uarch.matches.vendor.clone(),
                    family: uarch.matches.family,
                    model: Some(model),
                    arm: None,
                };
                let n = uarchs().iter().filter(|other| other.matches.includes(&identity)).count();
                assert_eq!(n, 1, "{} {model:#x}", uarch.file);
            }
        }
    }

    #[test]
    fn an_incomplete_or_malformed_file_is_rejected_in_one_line() {
        let error = |text: &str| Uarch::read("a", text).expect_err("rejected").to_string();
        let head = "uarch = \"a\"\nname = \"A\"\nsource = \"a manual\"\nmatch = {}\n";
        let pmu = "[[pmu]]\nname = \"cpu\"\ncounters = 4\nfixed = []\nfixed_source = \"b\"\nevents = {}\n";
        assert_eq!(
            error(&format!("{head}{pmu}")),
            "events/a.toml: cycles has neither an event nor a reason in [absent]"
        );
        let unknown = error(&format!("{head}pmu = []\n[absent]\ncycels = \"no\"\n"));
        assert!(unknown.contains("\"cycels\" is not a hardware event"), "{unknown}");
        let sourceless = error(&format!("{head}{}", pmu.replace("\"b\"", "\"\"")));
        assert!(sourceless.contains("fixed_source is empty"), "{sourceless}");
        let misspelled = error(&format!("{head}pmus = []\n"));
        assert!(misspelled.starts_with("events/a.toml:5:1: unknown key \"pmus\""), "{misspelled}");
        for text in ["", "uarch = 3", &format!("{head}pmu = []\nwhat = 1\n")] {
            assert!(!error(text).contains('\n'), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z\\[\\]{}=\" \n0-9x.]{0,200}") {
            let _ = Uarch::read("a", &text);
            let _ = identity(&text, Some(&text));
        }
    }
}
