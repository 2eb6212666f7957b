//! Every number of every file format, replaced by numbers at the limits of their types.
//!
//! Each command runs with a limit of 1 GB for its address space and of ten seconds of CPU time. A count or an index in a
//! file must therefore be checked before anything is allocated.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Rng;
use tests::dir::Dir;
use tests::parsers::EXTREMES;
use tests::tool;

/// A file format: a valid file, its name, and the commands that read it. FILE is the path of the file, DIR its
/// directory.
struct Format {
    name: &'static str,
    text: String,
    commands: &'static [&'static str],
}

const WORKLOAD: &str = r#"version = 1
name = "every number"
[[job]]
name = "a"
command = ["470.lbm", "{copy}"]
start = "250ms"
copies = 3
every = 0.5
profile = "470.lbm"
class = 3
threads = 4
stop_after = 1.5
cpus = "0-3"
nodes = "0"
memory = "interleave:0-1"
[[job]]
name = "b"
command = ["429.mcf"]
profile = "429.mcf"
restart = "until-others-done"
"#;

fn formats() -> Vec<Format> {
    let read = |path: &str| std::fs::read_to_string(tool::root().join(path)).expect(path);
    let format = |name, text, commands| Format { name, text, commands };
    vec![
        format(
            "j.jsonl",
            read("fixtures/journals/two-cores.jsonl"),
            &["report FILE --out DIR/out", "explain FILE", "replay FILE", "calibrate FILE"],
        ),
        format(
            "s.stream",
            read("fixtures/streams/intel-skylake-2s.stream"),
            &["replay FILE", "replay FILE --json"],
        ),
        format(
            "m.toml",
            read("workloads/machines/xeon-2s-snc4.toml"),
            &["machine --file FILE", "run DIR/w.toml --host sim --machine FILE --out DIR/out"],
        ),
        format(
            "corun.toml",
            read("workloads/machines/corun-pair.toml"),
            &["predict --machine FILE --programs DIR/tiff2bw.profile.toml tiff2bw tiff2bw"],
        ),
        format(
            "tiff2bw.profile.toml",
            read("workloads/data/traced/tiff2bw.profile.toml"),
            &[
                "predict --machine DIR/corun.toml --programs FILE tiff2bw tiff2bw",
                "run DIR/p.toml --host sim --machine xeon-2x4 --profiles DIR --out DIR/out",
            ],
        ),
        format(
            "solo.csv",
            read("workloads/data/corun/solo.csv"),
            &["predict --machine DIR/corun.toml --programs FILE hmmsim hmmsim"],
        ),
        format(
            "w.toml",
            WORKLOAD.to_owned(),
            &["run FILE --host sim --machine xeon-2s-snc4 --time-limit 5s --out DIR/out"],
        ),
        format(
            "w.txt",
            read("fuzz/seeds/workload_classic/all.txt"),
            &["run FILE --host sim --machine xeon-2x4 --time-limit 5s --out DIR/out"],
        ),
        format("l.toml", read("workloads/programs/built-in.toml"), &["generate --list FILE"]),
        format(
            "state/r.undo",
            read("fuzz/seeds/undo_record/lines"),
            &["restore --dry-run", "status --json"],
        ),
    ]
}

/// Returns the positions of numbers: at most two for each key and each of the first four cells of its array.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let number = |at: usize| {
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let length = text.as_bytes()[at..].iter().position(|byte| !is_part(byte));
        at..length.map_or(text.len(), |length| at + length)
    };
    let mut by_key: BTreeMap<(String, usize), Vec<std::ops::Range<usize>>> = BTreeMap::new();
    let mut at = 0;
    while let Some(next) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let range = number(at + next);
        at = range.end;
        let line = &text[text[..range.start].rfind('\n').map_or(0, |end| end + 1)..range.start];
        let end_of_key = line.rfind([':', '=']).unwrap_or(0);
        let cell = line[end_of_key..].matches(',').count();
        let key = line[..end_of_key].rsplit(['{', ',', ' ']).find(|word| !word.is_empty());
        by_key.entry((key.unwrap_or("").to_owned(), cell.min(3))).or_default().push(range);
    }
    let mut rng = Rng::new(1);
    let pick = |mut ranges: Vec<std::ops::Range<usize>>| {
        while 2 < ranges.len() {
            ranges.swap_remove(rng.below(ranges.len() as u64) as usize);
        }
        ranges
    };
    by_key.into_values().flat_map(pick).collect()
}

/// Runs a command on a changed file. Returns the problem.
fn run(format: &Format, text: &str, command: &str) -> Option<String> {
    let dir = Dir::with(&[
        (
            "w.toml",
            "[[job]]\nname = \"a\"\ncommand = [\"470.lbm\"]\nprofile = \"470.lbm\"\nstop_after = \"100ms\"\n",
        ),
        (
            "p.toml",
            "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nprofile = \"tiff2bw\"\nstop_after = \"100ms\"\n",
        ),
    ]);
    for other in
        ["workloads/machines/corun-pair.toml", "workloads/data/traced/tiff2bw.profile.toml"]
    {
        let name = if other.contains("corun") { "corun.toml" } else { "tiff2bw.profile.toml" };
        std::fs::copy(tool::root().join(other), dir.path(name)).expect("permitted");
    }
    dir.write(format.name, text);
    let command = command.replace("FILE", &dir.arg(format.name)).replace("DIR", &dir.arg(""));
    let mut limited = Command::new("prlimit");
    limited.args(["--as=1000000000", "--cpu=10", "--"]).arg(tool::path());
    limited.args(command.split_whitespace()).stdin(Stdio::null()).current_dir(dir.root());
    limited.env("XDG_DATA_HOME", "/proc/nonexistent");
    if format.name.starts_with("state/") {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(dir.path("state"), mode).expect("own directory");
    }
    limited.env(linux::undo::STATE_VARIABLE, dir.path("state"));
    let output = limited.output().expect("prlimit");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_rejected = output.status.code() == Some(2);
    let is_well = matches!(output.status.code(), Some(0..=2))
        && !error.contains("panicked")
        && (!is_rejected || error.lines().count() == 1);
    (!is_well).then(|| format!("{command}: {}: {error}", output.status))
}

#[test]
fn a_number_at_the_limit_of_its_type_costs_neither_a_panic_nor_memory_nor_time() {
    let formats = formats();
    let mut cases = Vec::new();
    for format in &formats {
        for (n, range) in numbers(&format.text).into_iter().enumerate() {
            for (m, extreme) in EXTREMES.iter().enumerate() {
                let command = format.commands[(n + m) % format.commands.len()];
                cases.push((format, range.clone(), extreme, command));
            }
        }
    }
    let (next, failed) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let work = || {
        while let Some((format, range, extreme, command)) =
            cases.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let mut text = format.text.clone();
            text.replace_range(range.clone(), extreme);
            if let Some(problem) = run(format, &text, command) {
                let problem =
                    format!("{} byte {} = {extreme:?}: {problem}", format.name, range.start);
                failed.lock().expect("no panic").push(problem);
            }
        }
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn a_hundred_thousand_copies_obey_sigterm() {
    let text =
        "[[job]]\nname = \"a\"\ncommand = [\"470.lbm\"]\nprofile = \"470.lbm\"\ncopies = 100000\n";
    let dir = Dir::with(&[("w.toml", text)]);
    let sim =
        ["run", "w.toml", "--quiet", "--host", "sim", "--machine", "xeon-2x4", "--out", "out"];
    let mut run = dir.command_with_state(&sim).spawn().expect("evenkeel starts");
    let pid = run.id();
    // The copies are being made: a process without them uses less than this memory.
    tests::process::until("the copies", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let resident = status.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        resident.is_some_and(|n_pages: u64| 20_000 < n_pages)
    });
    tests::process::signal(pid, rustix::process::Signal::TERM);
    let status = run.wait().expect("own child");
    let ended_by = std::os::unix::process::ExitStatusExt::signal(&status);
    assert!(ended_by == Some(15) || status.code() == Some(1), "{status}");
}
