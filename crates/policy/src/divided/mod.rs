//! Divided scheduling: programs that hurt others are collected on some sockets, those that are hurt go to
//! the others.
//!
//! ```text
//!              hurts others   is hurt       told by
//!   Group 1    strongly       strongly      a full queue of requests to the outside
//!   Group 2    little         strongly      many references to the last-level cache
//!   Group 3    little         hardly        neither
//!
//!   socket 0           socket 1
//!   [1][1][1][ ]       [2][2][3][3]         Group 3 does no harm and protects Group 2
//! ```
//!
//! Not spread but collected: Group 2 is done early, and Group 1 then spreads over the cores that are free.
//! References tell of Group 2, not misses: when programs contend everybody misses, while what a program
//! asks for stays its own. Queues come first, since Group 1 has many references too.
//!
//! Every period each thread is given a group ([`classes`]), each job that of most of its threads, and the
//! jobs a socket ([`place`]). Between two periods only who starts, or lost its CPUs, is placed. Where full
//! queues are not counted, bandwidth and misses stand for them: an approximate grouping, which is said.
//!
//! A socket is a domain (a node, or what `domains` says), and what is placed are jobs, whose placement
//! holds for all that they start later; one of n threads takes n places ([`crate::places`]). Jobs that are
//! not ours to place, or too wide for one socket, take up room where they are, and are of no group. Memory
//! is never moved, and whether the kernel does is left as it is.
//!
//! Units: events in a second of CPU time.

mod calibrate;
mod classes;
mod config;
mod params;
mod place;
mod tell;

use base::Nanos;
use sched::{Action, Cause, Plan, Policy, Snapshot};
use topology::{DomainChoice, Level};

use crate::PolicyError;
use crate::common;
use crate::ground::Ground;
use crate::places::{Company, seat};
use crate::spec::Given;
pub use calibrate::{NoThreshold, Threshold, calibrate};
use classes::Classes;
use config::Config;
pub(crate) use params::INFO;
use place::{Board, Member, Roles};
use tell::Tell;

/// The policy and what it remembers.
#[derive(Debug)]
struct Divided {
    config: Config,
    classes: Classes,
    /// Which sockets were for whom at the last period.
    roles: Option<Roles>,
    /// The sockets that those are roles of.
    sockets: Vec<(Level, u32)>,
    ground: Ground,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let config = Config::read(given)?;
    let (classes, ground) = (Classes::new(&config), Ground::default());
    Ok(Box::new(Divided { config, classes, roles: None, sockets: Vec::new(), ground }))
}

impl Policy for Divided {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.ground.say_places(seen, plan);
        let level = seen.domains.level();
        let sockets = seen.domains.iter().map(|(_, domain)| (level, domain.number)).collect();
        if self.sockets != sockets {
            (self.sockets, self.roles) = (sockets, None);
        }
        let is_period = seen.turn.causes.contains(&Cause::Interval);
        self.classes.forget(seen);
        if is_period {
            self.classes.learn(seen, plan);
        }
        if common::can_place(seen) {
            self.place(seen, is_period, plan);
        }
        plan.quiescent = is_period && seen.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

impl Divided {
    fn place(&mut self, seen: &Snapshot<'_>, is_period: bool, plan: &mut Plan) {
        let company = Company::of(seen);
        let members: Vec<Member<'_>> =
            company.guests.iter().map(|guest| self.classes.member(guest)).collect();
        let mut board = Board::new(&self.config, seen, &company, &members);
        if is_period {
            self.roles = Some(board.divide());
        } else {
            board.let_in(self.roles.as_ref());
        }
        let tell = Tell::new(seen, self.roles.as_ref());
        let spots = board.spots();
        let rooms: Vec<usize> = spots.iter().map(|spot| spot.to).collect();
        let cpus = seat(seen, &company, &rooms);
        for ((member, spot), cpus) in members.iter().zip(&spots).zip(cpus) {
            let guest = &member.guest;
            if guest.keeps(&cpus) || !is_period && guest.is_bound {
                continue;
            }
            let reason = tell.reason(member, spot, &cpus);
            plan.request(guest.job.job.id, Action::Place(cpus), reason);
        }
    }
}

#[cfg(test)]
mod tests;
