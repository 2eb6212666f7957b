//! Writes workloads. A workload that is written and read is unchanged, except for the positions in the file.

use std::collections::BTreeMap;
use std::path::Path;

use crate::sensitivity::slowdown_text;
use crate::time::seconds;
use crate::values::quoted;
use crate::{Class, Command, Ending, Job, MemoryPolicy, Sensitivity, Workload, sections};

/// An error for a workload that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum WriteError {
    #[error("job {job:?}: the path {path:?} is not UTF-8 text; rename the file")]
    NotText { job: String, path: String },
    #[error("job {job:?}: the classic format cannot contain {feature}; write TOML")]
    Unsupported { job: String, feature: &'static str },
}

/// Writes a workload as TOML, with one job per copy.
pub fn to_toml(workload: &Workload) -> Result<String, WriteError> {
    let mut text = format!("version = 1\nname = {}\n", quoted(&workload.name));
    if !workload.read_only.is_empty() {
        let paths = workload.read_only.iter().map(|path| quoted_path("read_only", path));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        text.push_str(&format!("read_only = [{}]\n", paths.join(", ")));
    }
    for job in &workload.jobs {
        text.push_str("\n[[job]]\n");
        for (key, value) in keys(job)? {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    Ok(text)
}

/// Keys of a job without sections.
const NO_SECTIONS: [(&str, Option<String>); 2] = [("rounds", None), ("section", None)];

/// Returns the keys of a job that have values other than the default.
fn keys(job: &Job) -> Result<Vec<(&'static str, String)>, WriteError> {
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_deref().map(|path| quoted_path(&job.name, path)).transpose()
    };
    let restart = match job.ending {
        Ending::RestartUntilOthersDone => Some("until-others-done"),
        Ending::RestartUntilAllDone => Some("until-all-done"),
        Ending::Exit | Ending::After(_) => None,
    };
    let after = match job.ending {
        Ending::After(time) => Some(seconds(time)),
        _ => None,
    };
    let [rounds, section] = job.sections.as_ref().map_or(NO_SECTIONS, sections::to_toml);
    let all = [
        ("name", Some(quoted(&job.name))),
        command(job).map(|(key, value)| (key, Some(value)))?,
        ("start", Some(seconds(job.start))),
        ("class", job.class.map(|class| class.number().to_string())),
        ("sensitivity", job.sensitivity.as_ref().map(sensitivity)),
        ("profile", job.profile.as_deref().map(quoted)),
        ("dir", path(&job.dir)?),
        ("env", (!job.env.is_empty()).then(|| variables(&job.env))),
        ("input", path(&job.input)?),
        ("output", path(&job.output)?),
        ("threads", (job.threads != 1).then(|| job.threads.to_string())),
        rounds,
        section,
        ("stop_after", after),
        ("restart", restart.map(quoted)),
        ("cpus", job.cpus.as_ref().map(|set| quoted(&set.to_string()))),
        ("nodes", job.nodes.as_ref().map(|set| quoted(&set.to_string()))),
        ("memory", job.memory.as_ref().map(memory)),
    ];
    Ok(all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

fn command(job: &Job) -> Result<(&'static str, String), WriteError> {
    Ok(match &job.command {
        Command::Program { program, args } => {
            let program = quoted_path(&job.name, program)?;
            let words: Vec<String> =
                std::iter::once(program).chain(args.iter().map(|arg| quoted(arg))).collect();
            ("command", format!("[{}]", words.join(", ")))
        }
        Command::Shell(line) => ("shell", quoted(line)),
        Command::Load(args) => {
            let words: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
            ("load", format!("[{}]", words.join(", ")))
        }
    })
}

fn sensitivity(sensitivity: &Sensitivity) -> String {
    let of_class = |(class, permille): &(Class, u32)| {
        format!("{} = {}", class.number(), slowdown_text(*permille))
    };
    let by_class = sensitivity.by_class().iter().map(of_class);
    let remote = format!("remote = {}", slowdown_text(sensitivity.remote()));
    format!("{{ {} }}", by_class.chain([remote]).collect::<Vec<_>>().join(", "))
}

fn memory(policy: &MemoryPolicy) -> String {
    quoted(&match policy {
        MemoryPolicy::Bind(nodes) => format!("bind:{nodes}"),
        MemoryPolicy::Preferred(nodes) => format!("preferred:{nodes}"),
        MemoryPolicy::Interleave(nodes) => format!("interleave:{nodes}"),
        MemoryPolicy::WeightedInterleave(nodes) => format!("weighted-interleave:{nodes}"),
    })
}

fn variables(env: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> =
        env.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn quoted_path(job: &str, path: &Path) -> Result<String, WriteError> {
    text_of(job, path).map(quoted)
}

fn text_of<'p>(job: &str, path: &'p Path) -> Result<&'p str, WriteError> {
    let not_text =
        || WriteError::NotText { job: job.to_owned(), path: path.to_string_lossy().into_owned() };
    path.to_str().ok_or_else(not_text)
}

/// Writes a workload in the classic format, which contains only start, class and absolute program path.
///
/// Names are not written. The reader derives names from the programs.
pub fn to_classic(workload: &Workload) -> Result<String, WriteError> {
    let mut text = String::new();
    for path in &workload.read_only {
        let unsupported =
            |feature| WriteError::Unsupported { job: "read_only".to_owned(), feature };
        let path = text_of("read_only", path)?;
        if !path.starts_with('/') {
            return Err(unsupported("a relative path"));
        }
        text.push_str(&format!("@ro {}\n", field(path).map_err(unsupported)?));
    }
    for job in &workload.jobs {
        let unsupported = |feature| WriteError::Unsupported { job: job.name.clone(), feature };
        let (program, args) = program_and_args(job).map_err(unsupported)?;
        let class = job.class.map_or("-".to_owned(), |class| class.number().to_string());
        text.push_str(&format!("{} {class}", seconds(job.start)));
        for word in std::iter::once(text_of(&job.name, program)?).chain(args.iter().map(|a| &**a)) {
            text.push(' ');
            text.push_str(&field(word).map_err(unsupported)?);
        }
        text.push('\n');
    }
    Ok(text)
}

/// Returns the program and the arguments of a job. The error describes a value that the classic format cannot contain.
fn program_and_args(job: &Job) -> Result<(&Path, &[String]), &'static str> {
    let (program, args) = match &job.command {
        Command::Program { program, args } => (program, args),
        Command::Shell(_) => return Err("a shell line"),
        Command::Load(_) => return Err("a built-in program"),
    };
    let more = [
        (!program.is_absolute(), "a relative program path"),
        (job.sensitivity.is_some(), "a sensitivity"),
        (job.profile.is_some(), "a profile"),
        (job.dir.is_some(), "a working directory"),
        (!job.env.is_empty(), "an environment"),
        (job.input.is_some(), "an input file"),
        (job.output.is_some(), "an output file"),
        (job.sections.is_some(), "sections"),
        (job.threads != 1, "threads"),
        (job.ending != Ending::Exit, "an ending"),
        (job.cpus.is_some(), "CPUs"),
        (job.nodes.is_some(), "nodes"),
        (job.memory.is_some(), "a memory policy"),
    ];
    match more.iter().find(|(is_set, _)| *is_set) {
        Some((_, feature)) => Err(feature),
        None => Ok((program, args)),
    }
}

/// Returns a field, with quotation marks if they are necessary.
fn field(text: &str) -> Result<String, &'static str> {
    if text.contains('\n') {
        return Err("a line break in an argument");
    }
    let bare = !text.is_empty() && !text.contains([' ', '\t', '"', '\r']);
    match bare {
        true => Ok(text.to_owned()),
        false => Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
    }
}
