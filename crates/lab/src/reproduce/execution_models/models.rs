//! The machines, policies and programs of the experiments.

use program::{Job, Section, Sections, WorkPart};

use crate::reproduce::ib::Platform;
use crate::reproduce::testbed::ProgramPart;
use crate::reproduce::{ReproduceError, Testbed};

/// Column headings and parameters of `ib`: alone, with each rule, with all.
pub(super) const RULES: [(&str, &str); 5] = [
    ("ib", ""),
    ("tlp", ",tlp=yes"),
    ("lrt", ",lrt=yes"),
    ("cosched", ",cosched=yes"),
    ("all", ",tlp=yes,lrt=yes,cosched=yes"),
];

/// A compute-bound and a memory-bound program of the set HD1.
const PROGRAMS: [&str; 2] = ["416.gamess", "429.mcf"];

/// Repetitions of a fork, so that each serial part of 5 % of 60 s takes longer than an interval. Chosen.
const ROUNDS: u32 = 10;
/// Items that pass a pipeline, and capacity of its queues. Chosen: an item takes less time than an interval.
const ITEMS: u32 = 500;
const QUEUE: u32 = 8;

/// How a program divides its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    OneThread,
    /// A serial share in percent, then threads with equal works.
    ForkJoin {
        n_threads: u32,
        serial: u32,
    },
    /// A serial share of 10 %, then threads, the last with three times the work of the others.
    UnlikeFork {
        n_threads: u32,
    },
    /// Stages, the last with three times the work of the others if `has_long`.
    Pipeline {
        n_stages: u32,
        has_long: bool,
    },
}

impl Model {
    pub fn name(self) -> String {
        match self {
            Model::OneThread => "one thread".to_owned(),
            Model::ForkJoin { n_threads, serial } => {
                format!("fork-join {n_threads}, serial {serial} %")
            }
            Model::UnlikeFork { n_threads } => format!("fork-join {n_threads}, one 3 x"),
            Model::Pipeline { n_stages, has_long: false } => format!("pipeline {n_stages}, equal"),
            Model::Pipeline { n_stages, .. } => format!("pipeline {n_stages}, one 3 x"),
        }
    }

    fn n_threads(self) -> u32 {
        match self {
            Model::OneThread => 1,
            Model::ForkJoin { n_threads, .. } | Model::UnlikeFork { n_threads } => n_threads,
            Model::Pipeline { n_stages, .. } => n_stages,
        }
    }

    fn sections(self) -> Option<Sections> {
        let part = |work| WorkPart { work, phase: None };
        let team = |threads, work| Section::Team { threads, part: part(work) };
        let unlike = |n: u32, unit: u32| -> Vec<WorkPart> {
            (1..=n).map(|idx| part(if idx == n { 3 * unit } else { unit })).collect()
        };
        let (rounds, sections) = match self {
            Model::OneThread => return None,
            Model::ForkJoin { serial, .. } => {
                (ROUNDS, vec![team(Some(1), serial), team(None, 100 - serial)])
            }
            Model::UnlikeFork { n_threads } => {
                // Nine parallel units for each serial unit, divided among n + 2 shares.
                let parts = unlike(n_threads, 9);
                (ROUNDS, vec![team(Some(1), n_threads + 2), Section::UnlikeTeam { parts }])
            }
            Model::Pipeline { n_stages, has_long } => {
                let stages =
                    if has_long { unlike(n_stages, 1) } else { vec![part(1); n_stages as usize] };
                (1, vec![Section::Pipeline { stages, items: ITEMS, queue: QUEUE }])
            }
        };
        Some(Sections { rounds, sections })
    }
}

/// Returns `ib` with the published parameters of a platform and each of [`RULES`].
pub(super) fn policies(platform: &Platform) -> Vec<String> {
    RULES.iter().map(|(_, rule)| format!("ib[{}{rule}]", platform.params())).collect()
}

/// Returns the machine of a platform with a workload for each model: both programs at once, each 60 s alone as one thread.
pub(super) fn testbed(platform: &Platform, models: &[Model]) -> Result<Testbed, ReproduceError> {
    let mut testbed = Testbed::parse(&format!("{} length=60", platform.machine))?;
    for model in models {
        testbed.add(&model.name(), &PROGRAMS.map(ProgramPart::new))?;
    }
    for model in models {
        let jobs = testbed.workloads.get_mut(&model.name());
        for job in jobs.into_iter().flatten() {
            let of_model =
                Job { threads: model.n_threads(), sections: model.sections(), ..job.clone() };
            *job = of_model;
        }
    }
    Ok(testbed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::ib::PLATFORMS;

    #[test]
    fn a_serial_share_is_a_share_of_the_whole_work() {
        for n_threads in [2, 4, 8] {
            let sections = Model::UnlikeFork { n_threads }.sections().expect("sections");
            let works =
                |section: &Section| section.parts().iter().map(|part| part.work).sum::<u32>();
            let [serial, team] = &sections.sections[..] else { panic!("two sections") };
            assert_eq!(works(serial) * 9, works(team));
            assert_eq!(team.n_threads(n_threads), n_threads);
        }
    }

    #[test]
    fn every_model_can_be_simulated_with_every_policy() {
        let models = [
            Model::OneThread,
            Model::ForkJoin { n_threads: 2, serial: 5 },
            Model::UnlikeFork { n_threads: 4 },
            Model::Pipeline { n_stages: 8, has_long: true },
        ];
        for platform in &PLATFORMS {
            let testbed = testbed(platform, &models).expect("a testbed");
            assert_eq!(testbed.workloads.len(), models.len());
            for policy in policies(platform) {
                policy::build(&policy, 0).expect("a policy");
            }
        }
    }
}
