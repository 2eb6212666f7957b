//! Every parser of a file format, as a function of arbitrary bytes.
//!
//! Each function panics if a parser panics, if an error has more than one line or a control character, or if a value
//! differs after it is written and parsed again. The fuzz targets in `fuzz/` and the test `parsers` in `promises` call
//! the same functions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use base::{Nanos, Rng};
use files::{ForeignDir, OutputDir};
use lab::compare::{ComparePlan, Identity, RunStore, columns};
use program::{GeneratorOptions, ProgramList, Workload};
use topology::Machine;

/// A parser and valid files, relative to the root of the repository.
pub struct Parser {
    pub name: &'static str,
    pub check: fn(&[u8]),
    pub seeds: &'static [&'static str],
    /// Number of inputs in a test run.
    pub n_inputs: u64,
}

/// All parsers.
pub const PARSERS: [Parser; 13] = [
    Parser {
        name: "workload_toml",
        check: workload_toml,
        seeds: &["fuzz/seeds/workload_toml/every-key.toml", "fuzz/seeds/workload_toml/demo.toml"],
        n_inputs: 1500,
    },
    Parser {
        name: "workload_classic",
        check: workload_classic,
        seeds: &["fuzz/seeds/workload_classic/all.txt"],
        n_inputs: 1500,
    },
    Parser {
        name: "program_list",
        check: program_list,
        seeds: &["workloads/programs/built-in.toml"],
        n_inputs: 300,
    },
    Parser {
        name: "profile",
        check: profile,
        seeds: &["workloads/data/traced/tiff2bw.profile.toml"],
        n_inputs: 800,
    },
    Parser {
        name: "signature",
        check: signature,
        seeds: &["fuzz/seeds/signature/side-file", "fuzz/seeds/signature/program"],
        n_inputs: 1500,
    },
    Parser {
        name: "machine",
        check: machine,
        seeds: &["workloads/machines/hybrid-desktop.toml", "workloads/machines/xeon-2x4.toml"],
        n_inputs: 500,
    },
    Parser {
        name: "table",
        check: table,
        seeds: &["workloads/data/corun/solo.csv"],
        n_inputs: 500,
    },
    Parser {
        name: "journal",
        check: journal,
        seeds: &["fixtures/journals/two-cores.jsonl"],
        n_inputs: 200,
    },
    Parser {
        name: "stream",
        check: stream,
        seeds: &["fixtures/streams/intel-skylake-2s.stream", "fixtures/streams/amd-zen4.stream"],
        n_inputs: 300,
    },
    Parser {
        name: "undo_record",
        check: undo_record,
        seeds: &["fuzz/seeds/undo_record/lines"],
        n_inputs: 1000,
    },
    Parser {
        name: "comparison",
        check: comparison,
        seeds: &["fuzz/seeds/comparison/runs"],
        n_inputs: 500,
    },
    Parser {
        name: "event_file",
        check: event_file,
        seeds: &["crates/linux/events/intel-alder-lake.toml", "crates/linux/events/amd-zen4.toml"],
        n_inputs: 300,
    },
    Parser {
        name: "kernel_file",
        check: kernel_file,
        seeds: &["fuzz/seeds/kernel_file/all"],
        n_inputs: 1500,
    },
];

/// Checks that an error is one line without characters that control a terminal or hide text.
fn check_error(error: impl Display) {
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.chars().all(base::is_printable), "{text:?}");
}

pub fn workload_toml(bytes: &[u8]) {
    workload(bytes, Path::new("fuzz/w.toml"), |workload| {
        let text = program::to_toml(workload).expect("its paths are UTF-8");
        program::parse_toml(&text, Path::new("fuzz/w.toml")).expect("evenkeel wrote it")
    });
}

pub fn workload_classic(bytes: &[u8]) {
    workload(bytes, Path::new("fuzz/w.txt"), |workload| {
        let text = program::to_classic(workload).expect("the classic format can express it");
        program::parse_classic(&text, Path::new("fuzz/w.txt")).expect("evenkeel wrote it")
    });
}

/// Checks that a workload is equal after it is written and parsed, except for the positions in the file.
fn workload(bytes: &[u8], path: &Path, again: impl Fn(&Workload) -> Workload) {
    match program::parse_bytes(bytes, path) {
        Err(error) => check_error(error),
        // A workload of many copies is large. Its format does not differ from that of a small workload.
        Ok(workload) if 2000 < workload.jobs.len() => {}
        Ok(workload) => {
            let mut again = again(&workload);
            for (again, job) in again.jobs.iter_mut().zip(&workload.jobs) {
                again.origin = job.origin.clone();
            }
            assert_eq!(again, workload);
        }
    }
}

/// The number of bytes selects the seed and the options of the generator.
pub fn program_list(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let seed = text.len() as u64;
    match ProgramList::parse(text, Path::new("list.toml")) {
        Err(error) => check_error(error),
        Ok(list) => {
            let options = GeneratorOptions {
                n_jobs: 1 + (seed % 50) as usize,
                seed,
                span: Nanos::from_millis(seed % 60_000),
                hog_fraction: (seed % 5) as f64 / 4.0,
                suite_weights: BTreeMap::new(),
                memory: None,
            };
            let (one, other) =
                (program::generate(&list, &options), program::generate(&list, &options));
            assert_eq!(one, other, "the same seed");
        }
    }
}

pub fn profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("p.profile.toml");
    match program::profile::parse_profile(text, path) {
        Err(error) => check_error(error),
        Ok(profile) => {
            let again = program::profile::parse_profile(&profile.to_toml(), path);
            assert_eq!(again.expect("evenkeel wrote it").to_toml(), profile.to_toml());
            let mut set = host_sim::predict::ProgramSet::default();
            let _ = set.add_profile(profile, "p.profile.toml").map_err(check_error);
        }
    }
}

/// The bytes are a program, and the side file of a program.
pub fn signature(bytes: &[u8]) {
    let _ = signature::read(bytes).map_err(check_error);
    let _ = signature::read_side(bytes, b"script\n".as_slice()).map_err(check_error);
    let mut program = bytes.to_vec();
    match signature::remove(&mut program) {
        Err(error) => check_error(error),
        Ok(false) => {}
        Ok(true) => assert!(signature::remove(&mut program).is_ok_and(|is_removed| !is_removed)),
    }
    let profile = program::Profile { name: "p".to_owned(), ..Default::default() };
    let profile = program::Profile { phases: vec![Default::default()], ..profile };
    let mut program = bytes.to_vec();
    match signature::embed(&mut program, &profile) {
        Err(error) => check_error(error),
        Ok(()) => {
            assert_eq!(signature::read(&*program).expect("evenkeel wrote it"), Some(profile))
        }
    }
}

pub fn machine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match topology::file::parse_toml(text, "m.toml") {
        Err(error) => check_error(error),
        Ok(machine) => {
            let again = topology::file::parse_toml(&topology::file::to_toml(&machine), "m.toml");
            assert_eq!(again.expect("evenkeel wrote it"), machine);
        }
    }
}

pub fn table(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut set = host_sim::predict::ProgramSet::default();
    let _ = set.add_table(text, "t.csv").map_err(check_error);
}

pub fn journal(bytes: &[u8]) {
    with_file(bytes, |path| {
        let read = || journal::read(path);
        if let Err(error) = read() {
            return check_error(error);
        }
        read().expect("it was read").filter_map(Result::err).for_each(check_error);
        match report::from_journal(read().expect("it was read")) {
            Err(error) => check_error(error),
            Ok(report) => drop((report.to_text(80), report.to_html())),
        }
    });
}

pub fn stream(bytes: &[u8]) {
    with_file(bytes, |path| {
        let mut recorded = match linux::stream::read(path) {
            Err(error) => return check_error(error),
            Ok(recorded) => recorded,
        };
        loop {
            match recorded.next_turn() {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => return check_error(error),
            }
        }
    });
}

pub fn undo_record(bytes: &[u8]) {
    let mut records = linux::undo::Records::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        // An invalid line is skipped; its error is not printed.
        let _ = serde_json::from_slice::<linux::undo::UndoHeader>(line);
        if let Ok(line) = serde_json::from_slice::<linux::undo::UndoLine>(line) {
            records.apply(&line);
        }
    }
    let mut again = linux::undo::Records::default();
    records.lines().iter().for_each(|line| again.apply(line));
    assert_eq!(again.tasks().count(), records.tasks().count());
}

/// The bytes follow the first line of a comparison of two policies and two seeds.
pub fn comparison(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a directory");
    let out = OutputDir::create(dir.path(), ForeignDir::Reject).expect("a directory");
    let columns = columns(["linux,dfs"]).expect("policies");
    let plan = ComparePlan::new(columns, None, vec!["w".to_owned()], vec![1, 2]).expect("a plan");
    let machine = Machine::synthetic("cores=2").expect("a machine");
    let identity = Identity::new(&plan, &machine, &[Vec::new()], BTreeMap::new());
    let open = || RunStore::open(&out, &identity, &plan);
    drop(open().expect("a new file"));
    let path = dir.path().join(lab::compare::RUNS_FILE);
    let first = std::fs::read(&path).expect("a file");
    std::fs::write(&path, [&first[..], bytes].concat()).expect("permitted");
    let _ = open().map_err(check_error);
}

pub fn event_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = linux::pmu::Uarch::read("fuzz", text).map_err(|error| drop(error.to_string()));
}

/// Files of the kernel contain names that other processes set.
pub fn kernel_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = linux::proc_stat::parse_stat(line);
        let _ = linux::numa_maps::parse_line(line);
        let _ = linux::procfs::parse_schedstat(line);
    }
    let _ = text.lines().filter_map(linux::numa_maps::parse_head).count();
    let _ = linux::procfs::parse_children(bytes).count();
    let _ = linux::environ::variables(bytes);
    let _ = linux::procfs::parse_migrations(&text);
    let _ = linux::proc_dir::parse_status(&text);
    let _ = linux::proc_dir::parse_cgroups(&text);
    let _ = linux::proc_dir::parse_last_pid(bytes);
    let _ = linux::numa_maps::parse_smaps(bytes);
    let _ = linux::memory::parse_node_meminfo(bytes);
    let _ = linux::schedstat::parse(bytes);
    let _ = linux::pressure::parse(bytes);
    let _ = linux::resctrl::parse(bytes);
    let _ = linux::connector::parse(bytes).count();
    let _ = text.parse::<base::CpuSet>().map_err(check_error);
    let _ = program::parse_time(&text).map_err(check_error);
}

fn with_file(bytes: &[u8], check: impl FnOnce(&Path)) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("permitted");
    check(file.path());
}

/// Numbers at the limits of integer and floating-point types, and texts that are no numbers.
pub const EXTREMES: [&str; 10] = [
    "0",
    "-1",
    "4294967295",
    "18446744073709551615",
    "9223372036854775808",
    "NaN",
    "1e308",
    "1e-320",
    "inf",
    "",
];

/// Returns a file with one to four random changes.
pub fn mutated(seed_file: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seed_file.to_vec();
    for _ in 0..=rng.below(4) {
        mutate(&mut bytes, rng);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = |rng: &mut Rng, bytes: &[u8]| rng.below(bytes.len() as u64 + 1) as usize;
    let (one, other) = (at(rng, bytes), at(rng, bytes));
    let end = one.max(other).min(one.min(other) + 200);
    let range = one.min(other)..end;
    match rng.below(8) {
        0..=2 => replace_number(bytes, one, rng),
        3 => drop(bytes.splice(range, [])),
        4 => {
            let copy = bytes[range].to_vec();
            bytes.splice(one.min(bytes.len())..one.min(bytes.len()), copy);
        }
        5 => bytes.truncate(one),
        6 => {
            let tokens = [
                "\"",
                "[",
                "]",
                "{",
                "}",
                "=",
                "\n",
                "\u{0}",
                "\u{1b}[31m",
                "\u{202e}",
                "[[",
                "null",
            ];
            let token = tokens[rng.below(tokens.len() as u64) as usize];
            bytes.splice(one..one, token.bytes());
        }
        _ => {
            if let Some(byte) = bytes.get_mut(one) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
}

/// Replaces the next number after an offset by an extreme.
fn replace_number(bytes: &mut Vec<u8>, from: usize, rng: &mut Rng) {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else { return };
    let start = from + start;
    let length = bytes[start..].iter().position(|byte| !is_part(byte));
    let end = length.map_or(bytes.len(), |length| start + length);
    let extreme = EXTREMES[rng.below(EXTREMES.len() as u64) as usize];
    bytes.splice(start..end, extreme.bytes());
}
