//! The distinct masks of a record. A restore compares thousands of threads with a record of thousands of threads, but
//! a job has only a few distinct masks.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuSet, TaskId};

use super::record::{ChangedMasks, MaskOrigin, Records, classify_inherited};

/// The masks of a record, each once.
pub(super) struct MaskIndex<'a> {
    records: &'a Records,
    online: &'a CpuSet,
    by_job: BTreeMap<&'a str, Vec<ChangedMasks<'a>>>,
    /// Every mask that evenkeel set, as the kernel reports it.
    assigned: BTreeSet<CpuSet>,
}

impl<'a> MaskIndex<'a> {
    pub(super) fn new(records: &'a Records, online: &'a CpuSet) -> Self {
        let masks_of = |job| {
            let mut distinct: Vec<ChangedMasks<'_>> = Vec::new();
            for masks in records.masks_of(job) {
                distinct.retain(|known| *known != masks);
                distinct.push(masks); // The last match decides, as in the record.
            }
            distinct
        };
        let by_job = records.jobs().into_iter().map(|job| (job, masks_of(job))).collect();
        let distinct: BTreeSet<&CpuSet> = records.assigned_masks().collect();
        let reported = distinct.into_iter().flat_map(|mask| [mask.clone(), mask.and(online)]);
        MaskIndex { records, online, by_job, assigned: reported.collect() }
    }

    /// Returns the origin of the current mask of a thread of a job.
    pub(super) fn classify(&self, id: TaskId, job: &str, mask: &CpuSet) -> MaskOrigin {
        match self.records.of_task(id) {
            Some(change) => change.classify(mask, self.online),
            None => {
                let masks = self.by_job.get(job).into_iter().flatten().copied();
                classify_inherited(masks, mask, self.online)
            }
        }
    }

    /// Returns the first job for which evenkeel set this mask, and the original mask of the job.
    pub(super) fn job_with(&self, mask: &CpuSet) -> Option<(&'a str, CpuSet)> {
        self.by_job.iter().find_map(|(job, masks)| {
            match classify_inherited(masks.iter().copied(), mask, self.online) {
                MaskOrigin::Evenkeel(original) => Some((*job, original)),
                MaskOrigin::Original | MaskOrigin::OtherProgram => None,
            }
        })
    }

    /// Returns whether evenkeel may have set this mask for any task.
    pub(super) fn contains(&self, mask: &CpuSet) -> bool {
        self.assigned.contains(mask)
    }
}
