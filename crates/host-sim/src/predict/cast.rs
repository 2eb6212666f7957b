//! Who is known: programs from tables and from profiles, by name.

use std::sync::Arc;

use program::Profile;

use super::programs::{Known, KnownError, from_csv};
use super::{Domain, Guest, Site, Sites};
use crate::physics::{Behaviour, Fitted, ProfileError, of_profile};

/// All programs that files tell of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cast {
    members: Vec<Member>,
    /// Cycles in a nanosecond of the machine that they were measured on, where a table tells.
    pub ghz: Option<f64>,
    /// What was assumed, a sentence each.
    pub notes: Vec<String>,
}

/// One program.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    name: String,
    file: String,
    told: Told,
}

/// How a program is told.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Table(Box<Known>),
    Profile(Box<Profile>),
}

/// Why programs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CastError {
    /// A table is wrong.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// Two files tell of one program.
    #[error("program {name} is told by {one} and by {other}; leave one of them out")]
    Twice {
        /// Which.
        name: String,
        /// One file.
        one: String,
        /// The other.
        other: String,
    },
    /// A profile does not tell enough.
    #[error("{file}: program {name}")]
    Profile {
        /// The profile.
        file: String,
        /// Whose.
        name: String,
        /// Why.
        source: ProfileError,
    },
}

impl Cast {
    /// Adds the programs of a table.
    ///
    /// # Errors
    /// The table is wrong, or tells of a program that is known already.
    pub fn add_table(&mut self, text: &str, file: &str) -> Result<(), CastError> {
        let told = from_csv(text, file)?;
        self.ghz = self.ghz.or(told.ghz);
        self.notes.extend(told.notes);
        told.programs.into_iter().try_for_each(|known| {
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
    /// It is known already.
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

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }
}

/// Where programs are put: LLC domains with their memory, and what holds on all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The domains, as the machine tells them.
    pub sites: Vec<Site>,
    /// The same as the physics sees them.
    pub domains: Vec<Domain>,
    /// What was assumed, a sentence each.
    pub notes: Vec<String>,
    fitted: Fitted,
}

/// What a slow-down is beside, where domains differ.
const UNLIKE: &str = "the LLC domains are not alike: in the split, alone means on that of them where a program is fastest";
/// A program that moves so much more alone than the channel is said to give is worth a word.
const WORTH_A_WORD: f64 = 1.02;

impl Stage {
    /// The first so many LLC domains of a machine. Those that it does not have are taken to be like the
    /// first, each with a memory of its own.
    pub fn new(told: Sites, n_domains: usize, cast: &Cast, fitted: Fitted) -> Self {
        let Sites { all: mut sites, mut notes } = told;
        let n_there = sites.len();
        sites.truncate(n_domains);
        if let (Some(first), true) = (sites.first().cloned(), n_there < n_domains) {
            notes.push(format!(
                "the machine has {n_there} of {n_domains} LLC domains: the others are taken to be like the first, each with a memory of its own"
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

    /// Whatever a program of the tables moved alone can be moved, up to the peak that the machine file tells.
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
                "{name} alone moves {moved:.2} GB/s, more than the {cap:.2} GB/s that a peak of {peak:.2} GB/s was taken to give: now {:.2} GB/s are",
                moved.min(peak)
            ));
        }
        for (site, domain) in self.sites.iter().zip(&mut self.domains) {
            domain.channel = domain.channel.with_seen(moved.min(site.peak));
        }
    }

    /// A program on each of the domains; `None` if nobody knows it.
    ///
    /// # Errors
    /// Its profile does not tell enough.
    pub fn guest(&self, cast: &Cast, name: &str) -> Result<Option<Guest>, CastError> {
        let Some(member) = cast.members.iter().find(|member| member.name == name) else {
            return Ok(None);
        };
        let mut on: Vec<Arc<Behaviour>> = Vec::new();
        for (idx, site) in self.sites.iter().enumerate() {
            // Many domains are like one before them, and many programs are on all of them.
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

    /// How a program behaves on a domain. Its cycles are those of the first domain's cores and memory.
    fn behaviour(&self, member: &Member, at: usize) -> Result<Option<Behaviour>, CastError> {
        let both = |idx: usize| self.sites.get(idx).zip(self.domains.get(idx));
        let (Some((first, domain)), Some((site, there))) = (both(0), both(at)) else {
            return Ok(None);
        };
        let mut habits = self.fitted.habits(first.ghz);
        // Hits take as many nanoseconds after the clock is set.
        habits.hit_ns = site.hit_ns.unwrap_or(0.0) * (site.ghz / first.ghz);
        let told = match &member.told {
            Told::Table(known) => {
                let asks = known.asks(first.ghz, first.peak);
                Behaviour::of(&asks, there.cache, &domain.channel, habits)
            }
            Told::Profile(profile) => {
                let told = of_profile(profile, domain.cache, &domain.channel, habits);
                Some(told.map_err(|source| CastError::Profile {
                    file: member.file.clone(),
                    name: member.name.clone(),
                    source,
                })?)
            }
        };
        Ok(told.map(|its| its.clocked(site.ghz)))
    }
}

/// Domains behind which there is one memory.
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
                "LLC domains {ids} share the memory of node {}: traffic in one is felt in the others",
                node.0
            ));
        }
    }
    notes
}
