//! The first and the last line of a journal. The jobs of the first line have no environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use program::{Class, Command, Ending, FilePosition, Job, Profile, Sensitivity};
use sched::ReasonCode;
use serde::{Deserialize, Serialize};
use topology::Machine;
use topology::file::MachineFile;

use super::fields::{Encoded, MemoryPolicyField, Name, is_default, line_enums, line_types};
use crate::{FORMAT, Header, LineError, PolicyUsed, RunEnd};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeaderLine {
    /// Version of the format, which the reader checks first.
    pub journal: u32,
    pub tool: String,
    pub run: String,
    pub started_unix_s: u64,
    pub host: String,
    pub policy: PolicyField,
    pub seed: u64,
    pub workload: String,
    #[serde(skip_serializing_if = "is_default", default)]
    pub dir: String,
    #[serde(skip_serializing_if = "is_default", default)]
    pub options: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub replay_of: Option<String>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub command: Option<String>,
    /// Number of this part of the journal, from 1.
    #[serde(skip_serializing_if = "is_default", default)]
    pub part: u32,
    /// Number of earlier parts that have been removed.
    #[serde(skip_serializing_if = "is_default", default)]
    pub n_parts_removed: u32,
    pub machine: MachineFile,
    pub jobs: Vec<JobField>,
}

line_types! {
    /// The reasons are sentence templates by reason code.
    PolicyField for PolicyUsed {
        name: String = name,
        spec: String = spec,
        reasons?: BTreeMap<String, String> = reasons,
    }

    EndLine for RunEnd {
        end: Name = status,
        stopped_by?: Option<Name> = stopped_by,
        error?: Option<String> = error,
        wall_ns: u64 = wall,
        own_cpu_ns?: Option<u64> = own_cpu,
        own_max_resident_bytes?: Option<u64> = own_max_resident,
    }

    /// A job. `profile_text` is the text of its profile, and `profile_file` the file from which it was read.
    JobField for Job {
        id: u32 = id,
        name: String = name,
        flatten command: CommandField = command,
        start_ns: u64 = start,
        class?: Option<u8> = class,
        sensitivity?: Option<SensitivityField> = sensitivity,
        profile?: Option<String> = profile,
        profile_text?: Option<String> = found,
        profile_file?: Option<String> = found_in,
        dir?: Option<String> = dir,
        input?: Option<String> = input,
        output?: Option<String> = output,
        threads: u32 = threads,
        ending?: EndingField = ending,
        cpus?: Option<String> = cpus,
        nodes?: Option<String> = nodes,
        memory_policy?: Option<MemoryPolicyField> = memory,
        flatten origin: OriginField = origin,
        absent env,
        absent sections,
    }

    OriginField for FilePosition {
        file?: String = file,
        line?: usize = line,
    }
}

/// Slowdowns in permille by class: `{"4":50,"9":300,"remote":200}`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SensitivityField {
    #[serde(skip_serializing_if = "is_default", default)]
    pub remote: u32,
    #[serde(flatten)]
    pub by_class: BTreeMap<String, u32>,
}

/// `"argv": ["program", "argument"]`, `"shell": "line"` or `"load": ["hog"]`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CommandField {
    Argv(Vec<String>),
    Shell(String),
    Load(Vec<String>),
}

line_enums! {
    #[derive(Default)]
    EndingField for Ending {
        AfterNs(u64) = After,
        |
        #[default]
        Exit = Exit,
        RestartUntilOthersDone = RestartUntilOthersDone,
        RestartUntilAllDone = RestartUntilAllDone,
    }
}

/// Position of a part in its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartNumber {
    /// Number of the part, from 1.
    pub part: u32,
    /// Number of earlier parts that have been removed.
    pub n_removed: u32,
}

impl HeaderLine {
    pub(crate) fn new(header: &Header, part: PartNumber) -> Self {
        HeaderLine {
            journal: FORMAT,
            tool: header.tool.clone(),
            run: header.run_id.clone(),
            started_unix_s: header.started_unix_s,
            host: header.host.name().to_owned(),
            policy: header.policy.encode(),
            seed: header.seed,
            workload: header.workload.clone(),
            dir: header.dir.encode(),
            options: header.options.clone(),
            replay_of: header.replay_of.clone(),
            command: header.command.clone(),
            part: part.part,
            n_parts_removed: part.n_removed,
            machine: MachineFile::from(&header.machine),
            jobs: header.jobs.encode(),
        }
    }

    pub(crate) fn part_number(&self) -> PartNumber {
        PartNumber { part: self.part.max(1), n_removed: self.n_parts_removed }
    }

    pub(crate) fn header(self) -> Result<Header, LineError> {
        let machine = Machine::try_from(self.machine).map_err(LineError::Machine)?;
        let jobs: Vec<Job> = Encoded::decode(self.jobs, &[])?;
        if let Some((idx, job)) = jobs.iter().enumerate().find(|(idx, job)| job.id.index() != *idx)
        {
            let found = format!("{} at index {idx}", job.id);
            return Err(LineError::value("jobs", found, "the jobs in the order of their numbers"));
        }
        Ok(Header {
            tool: self.tool,
            run_id: self.run,
            started_unix_s: self.started_unix_s,
            host: Encoded::decode(self.host.into(), &[])?,
            policy: Encoded::decode(self.policy, &[])?,
            seed: self.seed,
            machine,
            workload: self.workload,
            dir: self.dir.into(),
            jobs,
            options: self.options,
            replay_of: self.replay_of,
            command: self.command,
        })
    }
}

impl Encoded<SensitivityField> for Sensitivity {
    fn encode(&self) -> SensitivityField {
        let by_class =
            self.by_class().iter().map(|(class, permille)| (class.number().to_string(), *permille));
        SensitivityField { remote: self.remote(), by_class: by_class.collect() }
    }

    fn decode(field: SensitivityField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let class_and_permille = |(name, permille): (String, u32)| match name.parse::<u8>() {
            Ok(number) => Ok((Class::decode(number, codes)?, permille)),
            Err(_) => Err(LineError::value("", name, "a class from 0 to 15")),
        };
        let by_class = field.by_class.into_iter().map(class_and_permille);
        Ok(Sensitivity::new(by_class.collect::<Result<Vec<_>, _>>()?, field.remote))
    }
}

impl Encoded<u8> for Class {
    fn encode(&self) -> u8 {
        self.number()
    }

    fn decode(number: u8, _: &[ReasonCode]) -> Result<Self, LineError> {
        Class::new(number).ok_or_else(|| LineError::value("", number, "a class from 0 to 15"))
    }
}

impl Encoded<String> for Profile {
    fn encode(&self) -> String {
        self.to_toml()
    }

    fn decode(text: String, _: &[ReasonCode]) -> Result<Self, LineError> {
        program::profile::parse_profile(&text, Path::new("profile_text")).map_err(|error| {
            LineError::value("", format_args!("not a profile ({error})"), "the text of a profile")
        })
    }
}

impl Encoded<CommandField> for Command {
    fn encode(&self) -> CommandField {
        match self {
            Command::Program { program, args } => {
                CommandField::Argv([vec![program.encode()], args.clone()].concat())
            }
            Command::Shell(line) => CommandField::Shell(line.clone()),
            Command::Load(args) => CommandField::Load(args.clone()),
        }
    }

    fn decode(field: CommandField, _: &[ReasonCode]) -> Result<Self, LineError> {
        Ok(match field {
            CommandField::Argv(argv) => match argv.split_first() {
                Some((program, args)) => {
                    Command::Program { program: PathBuf::from(program), args: args.to_vec() }
                }
                None => return Err(LineError::value("argv", "empty", "a command")),
            },
            CommandField::Shell(line) => Command::Shell(line),
            CommandField::Load(args) => Command::Load(args),
        })
    }
}
