//! Property tests: any text gives a workload or an error, and a workload that is written and read is unchanged.

use std::path::{Path, PathBuf};

use base::{CpuId, CpuSet, JobId, Nanos, NodeId, NodeSet};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use crate::{
    Class, Command, Ending, FilePosition, Job, MemoryPolicy, SLOWDOWN_MAX_PERMILLE, Section,
    Sections, Sensitivity, TIME_MAX, WorkPart, Workload, WriteError, parse_bytes, parse_classic,
    parse_toml, to_classic, to_toml,
};

/// Returns any argument of a program: text without NUL.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "[^\\x00]{0,8}", "[ \"\\\\\t\n\r#{}@-]{0,4}"]
}

fn path() -> impl Strategy<Value = PathBuf> {
    (any::<bool>(), "[^\\x00]{1,8}")
        .prop_map(|(root, rest)| PathBuf::from(if root { format!("/{rest}") } else { rest }))
}

fn time() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(0), 0..10_000_000_000u64, 0..=TIME_MAX.0].prop_map(Nanos)
}

fn nodes() -> impl Strategy<Value = NodeSet> {
    btree_set(0u32..8, 1..4).prop_map(|ids| ids.into_iter().map(NodeId).collect())
}

fn cpus() -> impl Strategy<Value = CpuSet> {
    btree_set(0u32..512, 1..6).prop_map(|ids| ids.into_iter().map(CpuId).collect())
}

fn program() -> impl Strategy<Value = Command> {
    let words = ("[^\\x00\\pZ\\pC][^\\x00]{0,6}", vec(text(), 0..4));
    words.prop_map(|(program, args)| Command::Program { program: program.into(), args })
}

fn command() -> impl Strategy<Value = Command> {
    let kind = proptest::sample::select(crate::LOADS);
    let load = (kind, vec(text(), 0..3)).prop_map(|(kind, args)| {
        Command::Load(std::iter::once((*kind).to_owned()).chain(args).collect())
    });
    prop_oneof![program(), "[^\\x00]{0,6}x".prop_map(Command::Shell), load]
}

fn memory() -> impl Strategy<Value = MemoryPolicy> {
    (nodes(), 0..4).prop_map(|(nodes, kind)| match kind {
        0 => MemoryPolicy::Bind(nodes),
        1 => MemoryPolicy::Preferred(nodes),
        2 => MemoryPolicy::Interleave(nodes),
        _ => MemoryPolicy::WeightedInterleave(nodes),
    })
}

fn sensitivity() -> impl Strategy<Value = Sensitivity> {
    let of_class = (0u8..=15, 0..=SLOWDOWN_MAX_PERMILLE);
    (vec(of_class, 0..4), 0..=SLOWDOWN_MAX_PERMILLE).prop_map(|(by_class, remote)| {
        let by_class = by_class.into_iter().filter_map(|(class, s)| Some((Class::new(class)?, s)));
        Sensitivity::new(by_class, remote)
    })
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        3 => Just(Ending::Exit),
        1 => (1..=TIME_MAX.0).prop_map(|after| Ending::After(Nanos(after))),
        1 => Just(Ending::RestartUntilOthersDone),
        1 => Just(Ending::RestartUntilAllDone),
    ]
}

fn part() -> impl Strategy<Value = WorkPart> {
    (1u32..100).prop_map(|work| WorkPart { work, phase: None })
}

fn sections() -> impl Strategy<Value = Sections> {
    let team =
        (option::of(1u32..3), part()).prop_map(|(threads, part)| Section::Team { threads, part });
    let pipeline = (part(), part(), 1u32..1000, 1u32..1000)
        .prop_map(|(a, b, items, queue)| Section::Pipeline { stages: vec![a, b], items, queue });
    let unlike = vec(part(), 1..3).prop_map(|parts| Section::UnlikeTeam { parts });
    (1u32..9, vec(prop_oneof![team, unlike, pipeline], 1..4), option::of(1u32..4)).prop_map(
        |(rounds, mut sections, phase)| {
            for section in &mut sections {
                match section {
                    Section::Team { part, .. } => part.phase = phase,
                    Section::UnlikeTeam { parts: stages } | Section::Pipeline { stages, .. } => {
                        stages.iter_mut().for_each(|stage| stage.phase = phase);
                    }
                }
            }
            // All threads of the job are used.
            let all = WorkPart { work: 1, phase };
            sections.push(Section::Team { threads: None, part: all });
            Sections { rounds, sections }
        },
    )
}

fn job() -> impl Strategy<Value = Job> {
    let what = (command(), time(), option::of(0u8..=15), option::of("[a-z]{1,8}"));
    let files = (option::of(path()), option::of(path()), option::of(path()));
    let env = btree_map("[^\\x00=]{1,6}", text(), 0..3);
    let restrictions =
        (option::of(cpus()), option::of(nodes()), option::of(memory()), option::of(sensitivity()));
    (what, files, env, (1u32..300, option::of(sections())), ending(), restrictions).prop_map(
        |(
            (command, start, class, profile),
            (dir, input, output),
            env,
            (threads, sections),
            ending,
            restrictions,
        )| {
            let (cpus, nodes, memory, sensitivity) = restrictions;
            let class = class.and_then(Class::new);
            Job {
                id: JobId(0),
                name: String::new(),
                command,
                found: None,
                found_in: None,
                origin: FilePosition::default(),
                start,
                class,
                sensitivity,
                profile,
                dir,
                env,
                input,
                output,
                sections: sections.filter(|_| 2 <= threads),
                threads,
                ending,
                cpus,
                nodes,
                memory,
            }
        },
    )
}

/// Returns a workload as the parser returns it: sorted, numbered, with unique names.
fn workload() -> impl Strategy<Value = Workload> {
    let name =
        "[^/.][^/]{0,6}".prop_map(|name: String| name.replace(|c| !base::is_printable(c), "x"));
    let names = btree_set(name, 8);
    (names, vec(job(), 1..8), vec(path(), 0..3)).prop_map(|(names, mut jobs, read_only)| {
        jobs.sort_by_key(|job| job.start);
        for ((job, name), number) in jobs.iter_mut().zip(names).zip(0..) {
            job.id = JobId(number);
            job.name = name;
        }
        // No two jobs write to one file, and no job writes to its input.
        let mut taken = std::collections::BTreeSet::new();
        for job in &mut jobs {
            let input = job.input.clone();
            job.output.take_if(|path| input.as_ref() == Some(path) || !taken.insert(path.clone()));
        }
        if jobs.iter().all(|job| !job.ending.is_awaited()) {
            jobs[0].ending = Ending::Exit;
        }
        Workload { name: "w".into(), dir: "lab".into(), jobs, read_only }
    })
}

/// Removes the positions in the file, so that workloads can be compared.
fn without_positions(mut workload: Workload) -> Workload {
    workload.jobs.iter_mut().for_each(|job| job.origin = FilePosition::default());
    workload
}

proptest! {
    #[test]
    fn a_workload_written_as_toml_is_read_back_equal(made in workload()) {
        let text = to_toml(&made).expect("its paths are text");
        let read = parse_toml(&text, Path::new("lab/x.toml"));
        let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(without_positions(read), made);
    }

    #[test]
    fn a_workload_in_the_classic_format_is_written_and_read_back_equal(
        lines in vec((time(), option::of(0u8..=15), "/[^\\x00\n]{0,8}", vec(text(), 0..4)), 1..8)
    ) {
        let jobs = lines.into_iter().map(|(start, class, program, args)| {
            plain(start, class.and_then(Class::new), Command::Program { program: program.into(), args })
        });
        let made = Workload { jobs: jobs.collect(), ..Workload::default() };
        match to_classic(&made) {
            Ok(text) => {
                let path = Path::new("lab/x.txt");
                let read = parse_classic(&text, path);
                let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
                prop_assert_eq!(read.jobs.len(), made.jobs.len());
                let again = to_classic(&read).expect("it was written before");
                let again = parse_classic(&again, path).expect("it was read before");
                prop_assert_eq!(without_positions(read), without_positions(again));
            }
            Err(WriteError::Unsupported { feature, .. }) => prop_assert!(feature.contains("line break")),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn any_bytes_are_a_workload_or_an_error_of_one_line(bytes in vec(any::<u8>(), 0..200)) {
        for path in ["w.toml", "w.txt"] {
            if let Err(error) = parse_bytes(&bytes, Path::new(path)) {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }

    #[test]
    fn any_text_of_valid_tokens_is_a_workload_or_an_error_of_one_line(
        words in vec(proptest::sample::select(WORDS.split('|').collect::<Vec<_>>()), 0..40)
    ) {
        let text = words.concat();
        for path in ["w.toml", "w.txt"] {
            if let Err(error) = parse_bytes(text.as_bytes(), Path::new(path)) {
                let message = error.to_string();
                prop_assert_eq!(message.lines().count(), 1);
                prop_assert!(1 <= error.line && error.line <= text.split('\n').count(), "{}", message);
            }
        }
    }
}

/// Tokens of valid and invalid workloads.
const WORDS: &str = "\
    [[job]]\n|[defaults]\n|[job]\n|command = |[\"a\"]|shell = |load = |\"hog\"|start = |\
    copies = |every = |class = |env = |{ A = \"b\" }|cpus = |nodes = |memory = |\"bind:0\"|\
    stop_after = |restart = |\"until-others-done\"|name = |output = |threads = |section = |[{ work = 1 }]|stages = |rounds = |\n| |\t|\
    \r\n|0|1|15|-1|1e999|inf|0x10|99999999999999999999|\"250ms\"|\"\"|\"\\u0000\"|#|=|[|]|\
    \"|-|/bin/a|@ro |@x|é|\\|true|1979-05-27|{copy}|\"0-3,8\"|100000";

fn plain(start: Nanos, class: Option<Class>, command: Command) -> Job {
    Job { start, class, ..Job::new(JobId(0), "", command) }
}
