//! A set of programs by name, from program tables and profiles.

use std::sync::Arc;

use base::gb_per_s;
use program::Profile;

use super::program_table::{ProgramTableError, TableProgram, from_csv};
use super::{CacheDomain, LlcDomain, LlcDomains, PlaceableProgram};
use crate::physics::{Calibration, CpiModel, ProfileError, of_profile};

/// A set of programs from several files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSet {
    members: Vec<ProgramEntry>,
    /// CPU frequency in GHz of the measured machine, if a table determines it.
    pub ghz: Option<f64>,
    /// A sentence for each assumption.
    pub notes: Vec<String>,
}

/// A program and its file.
#[derive(Clone, Debug, PartialEq)]
struct ProgramEntry {
    name: String,
    file: String,
    source: ProgramSource,
}

/// Source of a program's values.
#[derive(Clone, Debug, PartialEq)]
enum ProgramSource {
    Table(Box<TableProgram>),
    Profile(Box<Profile>),
}

/// An error for programs that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ProgramSetError {
    #[error(transparent)]
    Known(#[from] ProgramTableError),
    #[error("program {name} is in {one} and in {other}; remove one of them")]
    Twice { name: String, one: String, other: String },
    #[error("{file}: program {name}")]
    Profile { file: String, name: String, source: ProfileError },
}

impl ProgramSet {
    /// Adds the programs of a table.
    ///
    /// # Errors
    /// Returns an error if the table is invalid, or if it contains a program that is already in the set.
    pub fn add_table(&mut self, text: &str, file: &str) -> Result<(), ProgramSetError> {
        let table = from_csv(text, file)?;
        self.ghz = self.ghz.or(table.ghz);
        self.notes.extend(table.notes);
        table.programs.into_iter().try_for_each(|known| {
            self.add(ProgramEntry {
                name: known.name.clone(),
                file: file.to_owned(),
                source: ProgramSource::Table(Box::new(known)),
            })
        })
    }

    /// Adds the program of a profile.
    ///
    /// # Errors
    /// Returns an error if the program is already in the set.
    pub fn add_profile(&mut self, profile: Profile, file: &str) -> Result<(), ProgramSetError> {
        let name = profile.name.clone();
        self.add(ProgramEntry {
            name,
            file: file.to_owned(),
            source: ProgramSource::Profile(Box::new(profile)),
        })
    }

    fn add(&mut self, member: ProgramEntry) -> Result<(), ProgramSetError> {
        match self.members.iter().find(|known| known.name == member.name) {
            None => {
                self.members.push(member);
                Ok(())
            }
            Some(known) => Err(ProgramSetError::Twice {
                name: member.name,
                one: known.file.clone(),
                other: member.file,
            }),
        }
    }

    /// Returns the names of all programs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }
}

/// LLC domains on which programs are placed.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionSetup {
    /// The domains, with the capacity that the programs have reached.
    pub llc_domains: Vec<LlcDomain>,
    /// A sentence for each assumption.
    pub notes: Vec<String>,
    fitted: Calibration,
}

/// Note for LLC domains that differ.
const DOMAINS_DIFFER: &str = "the LLC domains differ: the slowdowns of the placement are relative to a program alone on its fastest domain";
/// Factor by which a measured bandwidth must exceed the capacity to be reported.
const REPORTED_FACTOR: f64 = 1.02;

impl PredictionSetup {
    /// Uses the first `n_domains` LLC domains of a machine. A missing domain is a copy of the first, with separate
    /// memory.
    pub fn new(
        known: LlcDomains,
        n_domains: usize,
        programs: &ProgramSet,
        fitted: Calibration,
    ) -> Self {
        let LlcDomains { all: mut llc_domains, mut notes } = known;
        let n_there = llc_domains.len();
        llc_domains.truncate(n_domains);
        if let (Some(first), true) = (llc_domains.first().cloned(), n_there < n_domains) {
            notes.push(format!(
                "the machine has {n_there} of {n_domains} LLC domains: the others are assumed to equal the first, each with its own memory"
            ));
            let copy = LlcDomain { node: None, ..first };
            llc_domains.resize(n_domains, copy);
        }
        notes.extend(shared_memory_notes(&llc_domains));
        if llc_domains.iter().skip(1).any(|llc_domain| !llc_domains[0].is_equal_to(llc_domain)) {
            notes.push(DOMAINS_DIFFER.to_owned());
        }
        let mut setup = PredictionSetup { llc_domains, notes, fitted };
        setup.raise_capacity(programs);
        setup
    }

    /// Raises the capacity of the channels to the largest bandwidth that a program of the tables has reached alone,
    /// at most to the peak.
    fn raise_capacity(&mut self, programs: &ProgramSet) {
        let Some(llc_domain) = self.llc_domains.first() else { return };
        let moved = |member: &ProgramEntry| match &member.source {
            ProgramSource::Table(known) => {
                Some((known.max_bandwidth(llc_domain.core.ghz), member.name.clone()))
            }
            ProgramSource::Profile(_) => None,
        };
        let largest = programs.members.iter().filter_map(moved).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((moved, name)) = largest else { return };
        let capacities =
            self.llc_domains.iter().map(|domain| (domain.domain.channel.capacity, domain.peak));
        let slow = capacities.min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((cap, peak)) = slow.filter(|(cap, _)| cap * REPORTED_FACTOR < moved) {
            let [of_program, derived, of_peak, assumed] =
                [moved, cap, peak, moved.min(peak)].map(|per_ns| gb_per_s(per_ns * 1e9));
            self.notes.push(format!(
                "{name} alone moves {of_program} GB/s, more than the {derived} GB/s derived from a peak of {of_peak} GB/s: assumed {assumed} GB/s"
            ));
        }
        for LlcDomain { domain, peak, .. } in &mut self.llc_domains {
            domain.channel = domain.channel.with_capacity_of(moved.min(*peak));
        }
    }

    /// Returns a program with its model in each domain; `None` for an unknown program.
    ///
    /// # Errors
    /// Returns an error if the profile of the program lacks values.
    pub fn placeable(
        &self,
        programs: &ProgramSet,
        name: &str,
    ) -> Result<Option<PlaceableProgram>, ProgramSetError> {
        let Some(member) = programs.members.iter().find(|member| member.name == name) else {
            return Ok(None);
        };
        let mut models: Vec<Arc<CpiModel>> = Vec::new();
        for (idx, llc_domain) in self.llc_domains.iter().enumerate() {
            // Many domains equal a previous domain. Equal domains share one model.
            let known = (0..idx).find(|other| self.llc_domains[*other].is_equal_to(llc_domain));
            let Some(model_on) = (match known.and_then(|other| models.get(other)) {
                Some(known) => Some(Arc::clone(known)),
                None => self.model_on(member, llc_domain)?.map(Arc::new),
            }) else {
                return Ok(None);
            };
            models.push(model_on);
        }
        Ok(PlaceableProgram::new(models, &self.llc_domains))
    }

    /// Returns the model of a program in a domain. The program's cycles are valid for the cores and the memory of the
    /// first domain.
    fn model_on(
        &self,
        member: &ProgramEntry,
        llc_domain: &LlcDomain,
    ) -> Result<Option<CpiModel>, ProgramSetError> {
        let Some(first) = self.llc_domains.first() else { return Ok(None) };
        let CacheDomain { cache, channel, .. } = &first.domain;
        let parameters = self.fitted.parameters(first.core);
        let model = match &member.source {
            ProgramSource::Table(known) => {
                let curve = known.miss_curve_for(first.core.ghz, first.peak);
                CpiModel::fit(&curve, llc_domain.domain.cache, channel, parameters)
            }
            ProgramSource::Profile(profile) => {
                let model = of_profile(profile, *cache, channel, parameters);
                Some(model.map_err(|source| ProgramSetError::Profile {
                    file: member.file.clone(),
                    name: member.name.clone(),
                    source,
                })?)
            }
        };
        Ok(model.map(|model| model.on(llc_domain.core)))
    }
}

/// Returns notes for domains that share the memory of one node.
fn shared_memory_notes(llc_domains: &[LlcDomain]) -> Vec<String> {
    let mut notes = Vec::new();
    for (idx, llc_domain) in llc_domains.iter().enumerate() {
        let Some(node) = llc_domain.node else { continue };
        let same = |other: &&LlcDomain| other.node == Some(node);
        let first = llc_domains.iter().position(|other| other.node == Some(node)) == Some(idx);
        if first && 1 < llc_domains.iter().filter(same).count() {
            let ids =
                llc_domains.iter().filter(same).map(|llc_domain| llc_domain.llc.0.to_string());
            let ids = ids.collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "LLC domains {ids} share the memory of node {}: the traffic of one slows down the others",
                node.0
            ));
        }
    }
    notes
}
