//! The first and the last line of a journal.

use std::collections::BTreeMap;

use base::{Bytes, Nanos};
use sched::ReasonCode;
use serde::{Deserialize, Serialize};
use topology::Machine;
use topology::file::MachineFile;

use super::is_default;
use super::job::JobField;
use crate::{FORMAT, Header, LineError, PolicyUsed, RunEnd, RunStatus};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HeaderLine {
    /// Version of the format. Read before all other fields.
    pub journal: u32,
    pub tool: String,
    pub run: String,
    pub started_unix_s: u64,
    pub host: String,
    pub policy: PolicyField,
    pub seed: u64,
    pub workload: String,
    #[serde(skip_serializing_if = "is_default", default)]
    pub folder: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub options: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay_of: Option<String>,
    /// Number of this part of the journal, from 1.
    #[serde(skip_serializing_if = "is_default", default)]
    pub part: u32,
    /// Number of earlier parts that have been removed.
    #[serde(skip_serializing_if = "is_default", default)]
    pub n_parts_removed: u32,
    pub machine: MachineFile,
    pub jobs: Vec<JobField>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PolicyField {
    pub name: String,
    pub spec: String,
    /// Sentence templates by reason code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub reasons: BTreeMap<String, String>,
}

/// Position of a part in its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartNumber {
    /// From 1.
    pub part: u32,
    /// Number of earlier parts that have been removed.
    pub n_removed: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndLine {
    pub end: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    pub wall_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_cpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_max_resident_bytes: Option<u64>,
}

impl HeaderLine {
    pub(crate) fn new(header: &Header, part: PartNumber) -> Self {
        HeaderLine {
            journal: FORMAT,
            tool: header.tool.clone(),
            run: header.run_id.clone(),
            started_unix_s: header.started_unix_s,
            host: header.host.clone(),
            policy: (&header.policy).into(),
            seed: header.seed,
            workload: header.workload.clone(),
            folder: header.folder.to_string_lossy().into_owned(),
            options: header.options.clone(),
            replay_of: header.replay_of.clone(),
            part: part.part,
            n_parts_removed: part.n_removed,
            machine: MachineFile::from(&header.machine),
            jobs: header.jobs.iter().map(JobField::from).collect(),
        }
    }

    pub(crate) fn part_number(&self) -> PartNumber {
        PartNumber { part: self.part.max(1), n_removed: self.n_parts_removed }
    }

    pub(crate) fn header(self) -> Result<Header, LineError> {
        let machine = Machine::try_from(self.machine).map_err(LineError::Machine)?;
        let jobs: Vec<_> =
            self.jobs.into_iter().map(JobField::job).collect::<Result<_, LineError>>()?;
        if let Some((idx, job)) = jobs.iter().enumerate().find(|(idx, job)| job.id.index() != *idx)
        {
            let found = format!("{} at index {idx}", job.id);
            return Err(LineError::value("jobs", found, "the jobs in the order of their numbers"));
        }
        Ok(Header {
            tool: self.tool,
            run_id: self.run,
            started_unix_s: self.started_unix_s,
            host: self.host,
            policy: self.policy.into(),
            seed: self.seed,
            machine,
            workload: self.workload,
            folder: self.folder.into(),
            jobs,
            options: self.options,
            replay_of: self.replay_of,
        })
    }
}

impl From<&PolicyUsed> for PolicyField {
    fn from(policy: &PolicyUsed) -> Self {
        let of = |code: &ReasonCode| (code.name().to_owned(), code.template().to_owned());
        let reasons = policy.reasons.iter().map(of).collect();
        PolicyField { name: policy.name.clone(), spec: policy.spec.clone(), reasons }
    }
}

impl From<PolicyField> for PolicyUsed {
    fn from(field: PolicyField) -> Self {
        let of = |(name, template)| ReasonCode::recorded(name, template);
        let reasons = field.reasons.into_iter().map(of).collect();
        PolicyUsed { name: field.name, spec: field.spec, reasons }
    }
}

impl From<&RunEnd> for EndLine {
    fn from(end: &RunEnd) -> Self {
        EndLine {
            end: end.status.name().to_owned(),
            error: end.error.clone(),
            wall_ns: end.wall.0,
            own_cpu_ns: end.own_cpu.map(|time| time.0),
            own_max_resident_bytes: end.own_max_resident.map(|size| size.0),
        }
    }
}

impl EndLine {
    pub(crate) fn run_end(self) -> Result<RunEnd, LineError> {
        let status = RunStatus::ALL.into_iter().find(|status| status.name() == self.end);
        Ok(RunEnd {
            status: status
                .ok_or_else(|| LineError::value("end", &self.end, "the status of a run"))?,
            error: self.error,
            wall: Nanos(self.wall_ns),
            own_cpu: self.own_cpu_ns.map(Nanos),
            own_max_resident: self.own_max_resident_bytes.map(Bytes),
        })
    }
}
