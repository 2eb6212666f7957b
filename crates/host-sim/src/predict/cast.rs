//! Known programs by name, from tables and profiles.

use std::sync::Arc;

use program::Profile;

use super::programs::{Known, KnownError, from_csv};
use super::{Domain, Guest, Site, Sites};
use crate::physics::{Behaviour, Fitted, ProfileError, of_profile};

/// A set of programs from several files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cast {
    members: Vec<Member>,
    /// Frequency in GHz of the machine of the measurements, if a table determines it.
    pub ghz: Option<f64>,
    /// The assumptions, one sentence each.
    pub notes: Vec<String>,
}

/// A program with its file.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    name: String,
    file: String,
    told: Told,
}

/// The source of a program's values.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Table(Box<Known>),
    Profile(Box<Profile>),
}

/// The error of programs that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CastError {
    /// An error in a table.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// Two files have the same program.
    #[error("program {name} is in {one} and in {other}; remove one of them")]
    Twice {
        /// Which.
        name: String,
        /// One file.
        one: String,
        /// The other.
        other: String,
    },
    /// A profile lacks values.
    #[error("{file}: program {name}")]
    Profile {
        /// The file.
        file: String,
        /// The program.
        name: String,
        /// The error.
        source: ProfileError,
    },
}

impl Cast {
    /// Adds the programs of a table.
    ///
    /// The table is invalid, or has a program that is already in the set.
    /// The table is invalid, or has a program that is already in the set.
    pub fn add_table(&mut self, text: &str, file: &str) -> Result<(), CastError> {
        let table = from_csv(text, file)?;
        self.ghz = self.ghz.or(table.ghz);
        self.notes.extend(table.notes);
        table.programs.into_iter().try_for_each(|known| {
            self.add(Member {
                name: known.name.clone(),
                file: file.to_owned(),
                told: Told::Table(Box::new(known)),
            })
        })
    }

    /// Adds the program of a profile.
    ///
    /// # Errors
    /// The program is already in the set.
    pub fn add_profile(&mut self, profile: Profile, file: &str) -> Result<(), CastError> {
        let name = profile.name.clone();
        self.add(Member { name, file: file.to_owned(), told: Told::Profile(Box::new(profile)) })
    }

    fn add(&mut self, member: Member) -> Result<(), CastError> {
        match self.members.iter().find(|known| known.name == member.name) {
            None => {
                self.members.push(member);
                Ok(())
            }
            Some(known) => Err(CastError::Twice {
                name: member.name,
                one: known.file.clone(),
                other: member.file,
            }),
        }
    }

    /// The names of all programs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }
}

/// The LLC domains for programs with their memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The domains of the machine.
    pub sites: Vec<Site>,
    /// The same for the physics.
    pub domains: Vec<Domain>,
    /// The assumptions, one sentence each.
    pub notes: Vec<String>,
    fitted: Fitted,
}

/// Printed if domains differ.
const UNLIKE: &str = "the LLC domains differ: in the split, slowdowns are relative to a program alone on its fastest domain";
/// A measured bandwidth above the capacity by this factor is reported.
const WORTH_A_WORD: f64 = 1.02;

impl Stage {
    /// The first `n_domains` LLC domains of a machine. Missing ones are copies of the first, each with its own memory.
    pub fn new(known: Sites, n_domains: usize, cast: &Cast, fitted: Fitted) -> Self {
        let Sites { all: mut sites, mut notes } = known;
        let n_there = sites.len();
        sites.truncate(n_domains);
        if let (Some(first), true) = (sites.first().cloned(), n_there < n_domains) {
            notes.push(format!(
                "the machine has {n_there} of {n_domains} LLC domains: the others are assumed to equal the first, each with its own memory"
            ));
            let alike = Site { node: None, ..first };
            sites.resize(n_domains, alike);
        }
        notes.extend(shared(&sites));
        if sites.iter().skip(1).any(|site| !sites[0].is_like(site)) {
            notes.push(UNLIKE.to_owned());
        }
        let mut stage = Stage { sites, domains: Vec::new(), notes, fitted };
        stage.domains = stage.sites.iter().map(|site| stage.domain(site)).collect();
        stage.see(cast);
        stage
    }

    fn domain(&self, site: &Site) -> Domain {
        Domain { cache: site.cache, channel: self.fitted.channel(site.unloaded_ns, site.peak) }
    }

    /// Raises the capacity of the channels to the largest bandwidth that a program of the tables reached alone, up to the peak.
    fn see(&mut self, cast: &Cast) {
        let Some(site) = self.sites.first() else { return };
        let moved = |member: &Member| match &member.told {
            Told::Table(known) => Some((known.moved(site.ghz), member.name.clone())),
            Told::Profile(_) => None,
        };
        let most = cast.members.iter().filter_map(moved).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((moved, name)) = most else { return };
        let both = || self.sites.iter().zip(&self.domains);
        let slow = both().min_by(|a, b| a.1.channel.cap.total_cmp(&b.1.channel.cap));
        if let Some((site, domain)) = slow.filter(|(_, its)| its.channel.cap * WORTH_A_WORD < moved)
        {
            let (cap, peak) = (domain.channel.cap, site.peak);
            self.notes.push(format!(
                "{name} alone moves {moved:.2} GB/s, more than the {cap:.2} GB/s derived from a peak of {peak:.2} GB/s: assumed {:.2} GB/s",
                moved.min(peak)
            ));
        }
        for (site, domain) in self.sites.iter().zip(&mut self.domains) {
            domain.channel = domain.channel.with_seen(moved.min(site.peak));
        }
    }

    /// A program on each of the domains; `None` for an unknown program.
    ///
    /// # Errors
    /// Its profile lacks values.
    pub fn guest(&self, cast: &Cast, name: &str) -> Result<Option<Guest>, CastError> {
        let Some(member) = cast.members.iter().find(|member| member.name == name) else {
            return Ok(None);
        };
        let mut on: Vec<Arc<Behaviour>> = Vec::new();
        for (idx, site) in self.sites.iter().enumerate() {
            // Many domains equal a previous one, and the model is then shared.
            let known = (0..idx).find(|other| self.sites[*other].is_like(site));
            let Some(behaviour) = (match known.and_then(|other| on.get(other)) {
                Some(known) => Some(Arc::clone(known)),
                None => self.behaviour(member, idx)?.map(Arc::new),
            }) else {
                return Ok(None);
            };
            on.push(behaviour);
        }
        Ok(Guest::new(on, &self.domains))
    }

    /// The model of a program on a domain. Its cycles are those of the first domain's cores and memory.
    fn behaviour(&self, member: &Member, at: usize) -> Result<Option<Behaviour>, CastError> {
        let both = |idx: usize| self.sites.get(idx).zip(self.domains.get(idx));
        let (Some((first, domain)), Some((site, there))) = (both(0), both(at)) else {
            return Ok(None);
        };
        let mut habits = self.fitted.habits(first.ghz);
        // The hit latency in nanoseconds does not depend on the frequency.
        habits.hit_ns = site.hit_ns.unwrap_or(0.0) * (site.ghz / first.ghz);
        let model = match &member.told {
            Told::Table(known) => {
                let asks = known.asks(first.ghz, first.peak);
                Behaviour::of(&asks, there.cache, &domain.channel, habits)
            }
            Told::Profile(profile) => {
                let model = of_profile(profile, domain.cache, &domain.channel, habits);
                Some(model.map_err(|source| CastError::Profile {
                    file: member.file.clone(),
                    name: member.name.clone(),
                    source,
                })?)
            }
        };
        Ok(model.map(|its| its.clocked(site.ghz)))
    }
}

/// Notes on domains that share one memory.
fn shared(sites: &[Site]) -> Vec<String> {
    let mut notes = Vec::new();
    for (idx, site) in sites.iter().enumerate() {
        let Some(node) = site.node else { continue };
        let same = |other: &&Site| other.node == Some(node);
        let first = sites.iter().position(|other| other.node == Some(node)) == Some(idx);
        if first && 1 < sites.iter().filter(same).count() {
            let ids = sites.iter().filter(same).map(|site| site.llc.0.to_string());
            let ids = ids.collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "LLC domains {ids} share the memory of node {}: the traffic of one slows down the others",
                node.0
            ));
        }
    }
    notes
}
