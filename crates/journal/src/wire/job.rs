//! A job in the header, without its environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{JobId, Nanos};
use program::{Class, Command, Ending, Job, Origin, Profile, Sensitivity};
use serde::{Deserialize, Serialize};

use super::fields::{MemoryPolicyField, set};
use super::is_default;
use crate::LineError;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobField {
    pub id: u32,
    pub name: String,
    #[serde(flatten)]
    pub command: CommandField,
    pub start_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sensitivity: Option<SensitivityField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<String>,
    /// Text of the profile file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
    pub threads: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub ending: EndingField,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nodes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_policy: Option<MemoryPolicyField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub file: String,
    #[serde(skip_serializing_if = "is_default", default)]
    pub line: usize,
}

/// Slowdowns in permille by class: `{"4":50,"9":300,"remote":200}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SensitivityField {
    #[serde(skip_serializing_if = "is_default", default)]
    pub remote: u32,
    #[serde(flatten)]
    pub by_class: BTreeMap<String, u32>,
}

/// `"argv": ["program", "argument"]`, `"shell": "line"` or `"load": ["hog"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CommandField {
    Argv(Vec<String>),
    Shell(String),
    Load(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EndingField {
    #[default]
    Exit,
    AfterNs(u64),
    RestartUntilOthersDone,
}

/// A path as text. Bytes that are not UTF-8 are replaced; such paths are rare, since paths come from
/// text files.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<&Job> for JobField {
    fn from(job: &Job) -> Self {
        JobField {
            id: job.id.0,
            name: job.name.clone(),
            command: (&job.command).into(),
            start_ns: job.start.0,
            class: job.class.map(Class::number),
            sensitivity: job.sensitivity.as_ref().map(SensitivityField::from),
            profile: job.profile.clone(),
            profile_text: job.found.as_deref().map(Profile::to_toml),
            dir: job.dir.as_deref().map(text),
            input: job.input.as_deref().map(text),
            output: job.output.as_deref().map(text),
            threads: job.threads,
            ending: job.ending.into(),
            cpus: job.cpus.as_ref().map(ToString::to_string),
            nodes: job.nodes.as_ref().map(ToString::to_string),
            memory_policy: job.memory.as_ref().map(MemoryPolicyField::from),
            file: text(&job.origin.file),
            line: job.origin.line,
        }
    }
}

impl JobField {
    pub(crate) fn job(self) -> Result<Job, LineError> {
        Ok(Job {
            id: JobId(self.id),
            name: self.name,
            command: self.command.command()?,
            start: Nanos(self.start_ns),
            class: self.class.map(class).transpose()?,
            sensitivity: self.sensitivity.map(SensitivityField::sensitivity).transpose()?,
            profile: self.profile,
            found: self.profile_text.as_deref().map(profile).transpose()?,
            dir: self.dir.map(PathBuf::from),
            env: Default::default(),
            input: self.input.map(PathBuf::from),
            output: self.output.map(PathBuf::from),
            threads: self.threads,
            ending: self.ending.into(),
            cpus: self.cpus.map(|text| set("cpus", &text)).transpose()?,
            nodes: self.nodes.map(|text| set("nodes", &text)).transpose()?,
            memory: self.memory_policy.map(|field| field.policy()).transpose()?,
            origin: Origin { file: self.file.into(), line: self.line },
        })
    }
}

impl From<&Sensitivity> for SensitivityField {
    fn from(sensitivity: &Sensitivity) -> Self {
        let given = sensitivity.given().iter();
        let by_class = given.map(|(class, permille)| (class.number().to_string(), *permille));
        SensitivityField { remote: sensitivity.remote(), by_class: by_class.collect() }
    }
}

impl SensitivityField {
    fn sensitivity(self) -> Result<Sensitivity, LineError> {
        let of_class = |(name, permille): (String, u32)| match name.parse() {
            Ok(number) => Ok((class(number)?, permille)),
            Err(_) => Err(LineError::value("sensitivity", name, "a class from 0 to 15")),
        };
        let given: Vec<_> = self.by_class.into_iter().map(of_class).collect::<Result<_, _>>()?;
        Ok(Sensitivity::new(given, self.remote))
    }
}

fn class(number: u8) -> Result<Class, LineError> {
    Class::new(number).ok_or_else(|| LineError::value("class", number, "a class from 0 to 15"))
}

fn profile(text: &str) -> Result<Arc<Profile>, LineError> {
    let profile = program::profile::parse_profile(text, Path::new("profile_text"));
    profile.map(Arc::new).map_err(|error| LineError::value("profile_text", error, "a profile"))
}

impl From<&Command> for CommandField {
    fn from(command: &Command) -> Self {
        match command {
            Command::Program { program, args } => {
                let program = std::iter::once(text(program));
                CommandField::Argv(program.chain(args.iter().cloned()).collect())
            }
            Command::Shell(line) => CommandField::Shell(line.clone()),
            Command::Load(args) => CommandField::Load(args.clone()),
        }
    }
}

impl CommandField {
    fn command(self) -> Result<Command, LineError> {
        Ok(match self {
            CommandField::Argv(argv) => {
                let mut words = argv.into_iter();
                let program =
                    words.next().ok_or_else(|| LineError::value("argv", "empty", "a command"))?;
                Command::Program { program: program.into(), args: words.collect() }
            }
            CommandField::Shell(line) => Command::Shell(line),
            CommandField::Load(args) => Command::Load(args),
        })
    }
}

impl From<Ending> for EndingField {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exit => EndingField::Exit,
            Ending::After(time) => EndingField::AfterNs(time.0),
            Ending::RestartUntilOthersDone => EndingField::RestartUntilOthersDone,
        }
    }
}

impl From<EndingField> for Ending {
    fn from(field: EndingField) -> Self {
        match field {
            EndingField::Exit => Ending::Exit,
            EndingField::AfterNs(nanos) => Ending::After(Nanos(nanos)),
            EndingField::RestartUntilOthersDone => Ending::RestartUntilOthersDone,
        }
    }
}
