//! Decisions of policies over whole runs: engine, run loop and policy on the test host. Without counters, loads are
//! declared.

use std::io;

use base::JobId;
use engine::{Engine, Sink, TurnRecord};
use expect_test::{Expect, expect};
use sched::{Action, JobEvent, Target};
use topology::Machine;

use crate::toy_host::{Part, Scripted, part};

/// Logs placements, notes and exits, with times in ms.
struct Log {
    names: Vec<String>,
    text: String,
}

impl Sink for Log {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let at = record.turn.at.0 / 1_000_000;
        let name = |id: JobId| &self.names[id.index()];
        let mut text = String::new();
        for event in &record.sample.jobs {
            if let JobEvent::Ended(id, _) = event {
                text += &format!("{at} {} ends\n", name(*id));
            }
        }
        for note in &record.plan.notes {
            text += &format!("{at} note {}\n", note.code.name());
        }
        for outcome in record.outcomes {
            if let (Target::Job(id), Some(Action::Place(cpus))) = (outcome.target, &outcome.action)
            {
                let request =
                    record.plan.requests.iter().find(|request| request.target == outcome.target);
                let cause = request.expect("every outcome has a request").reason.code.name();
                text += &format!("{at} {} on {cpus} because {cause}\n", name(id));
            }
        }
        assert!(record.rejected.is_empty(), "{:?}", record.rejected);
        self.text += &text;
        Ok(())
    }
}

fn run(mut host: Scripted, policy: &str) -> String {
    let jobs = host.jobs();
    let mut log =
        Log { names: jobs.iter().map(|job| job.name.clone()).collect(), text: String::new() };
    let policy = policy::build(policy, 1).expect("a policy");
    let mut engine = Engine::new(host.machine().clone(), jobs, policy);
    engine::run(&mut host, &mut engine, &mut [&mut log]).expect("the test host has no errors");
    log.text
}

fn check(host: Scripted, policy: &str, expected: Expect) {
    let text = run(host.clone(), policy);
    expected.assert_eq(&text);
    assert_eq!(text, run(host, policy), "the same run has another log");
}

fn host(machine: &str, parts: Vec<Part>) -> Scripted {
    Scripted::new(Machine::synthetic(machine).expect("a machine"), parts, 1)
}

/// With the start rule `plain`, both memory-hungry jobs start on one node.
fn two_hogs_and_two_others(machine: &str) -> Scripted {
    let job = |id, name, class| part(id, name, Some(class), 0, 1500);
    let hogs = [job(0, "hog1", 9), job(1, "hog2", 9)];
    host(machine, [hogs, [job(2, "calm1", 1), job(3, "calm2", 1)]].concat())
}

#[test]
fn two_memory_hungry_jobs_on_one_node_are_separated_at_the_first_sample_and_stay() {
    check(
        two_hogs_and_two_others("nodes=2 cores=2").with_controllers(),
        "dfs[start=plain]",
        expect![[r#"
            0 hog1 on 0 because lowest-number
            0 hog2 on 1 because lowest-number
            0 calm1 on 0 because lowest-number
            0 calm2 on 1 because lowest-number
            250 hog1 on 2 because load-uneven
            1625 hog1 ends
            1625 calm1 ends
            2000 hog2 on 2 because load-uneven
            2500 hog2 ends
            2500 calm2 ends
        "#]],
    );
}

#[test]
fn without_counters_the_declared_loads_give_the_same_move() {
    check(
        two_hogs_and_two_others("nodes=2 cores=2"),
        "dfs[start=plain]",
        expect![[r#"
            0 hog1 on 0 because lowest-number
            0 hog2 on 1 because lowest-number
            0 calm1 on 0 because lowest-number
            0 calm2 on 1 because lowest-number
            250 note loads-declared
            250 hog1 on 2 because load-uneven
            1625 hog1 ends
            1625 calm1 ends
            1750 hog2 on 2 because load-uneven
            2375 hog2 ends
            2375 calm2 ends
        "#]],
    );
}

#[test]
fn on_a_machine_with_one_node_cores_are_balanced() {
    check(
        two_hogs_and_two_others("nodes=1 cores=2"),
        "dfs[start=plain]",
        expect![[r#"
            0 note memory-gains-nothing
            0 hog1 on 0 because lowest-number
            0 hog2 on 0 because lowest-number
            0 calm1 on 0 because lowest-number
            0 calm2 on 0 because lowest-number
            250 note loads-declared
            250 hog1 on 1 because load-uneven
            1687 hog1 ends
            1750 hog2 on 1 because load-uneven
            2687 hog2 ends
            3625 calm1 ends
            3625 calm2 ends
        "#]],
    );
}

#[test]
fn jobs_that_start_on_separate_nodes_are_not_moved() {
    check(
        two_hogs_and_two_others("nodes=2 cores=2").with_controllers(),
        "dfs",
        expect![[r#"
        0 hog1 on 0 because lowest-number
        0 hog2 on 2 because fewest-jobs
        0 calm1 on 1 because lowest-number
        0 calm2 on 3 because fewest-jobs
        1500 hog1 ends
        1500 hog2 ends
        1500 calm1 ends
        1500 calm2 ends
    "#]],
    );
}

#[test]
fn a_late_job_starts_on_the_node_with_the_lowest_load() {
    let parts = vec![
        part(0, "calm", Some(1), 0, 3000),
        part(1, "hog", Some(9), 0, 1000),
        part(2, "late", Some(9), 500, 1000),
        part(3, "later", Some(1), 1500, 500),
    ];
    check(
        host("nodes=2 cores=2", parts).with_controllers(),
        "dfs",
        expect![[r#"
            0 calm on 0 because lowest-number
            0 hog on 2 because fewest-jobs
            500 late on 1 because least-load
            1000 hog ends
            1250 late on 2 because load-uneven
            1500 late ends
            1500 later on 1 because least-load
            2000 later ends
            3000 calm ends
        "#]],
    );
}

#[test]
fn jobs_of_a_node_that_goes_offline_are_placed_again() {
    let host = two_hogs_and_two_others("nodes=2 cores=2").with_controllers();
    let host = host.with_usable(500, "0-1").with_usable(1000, "0-3");
    check(
        host.clone(),
        "dfs",
        expect![[r#"
            0 hog1 on 0 because lowest-number
            0 hog2 on 2 because fewest-jobs
            0 calm1 on 1 because lowest-number
            0 calm2 on 3 because fewest-jobs
            500 note domains-changed
            500 note loads-declared
            500 hog2 on 1 because cpus-unusable
            500 calm2 on 0 because cpus-unusable
            1000 note domains-changed
            1000 hog1 on 2 because load-uneven
            1750 hog1 ends
            1750 calm2 ends
            2000 hog2 on 2 because load-uneven
            2250 hog2 ends
            2250 calm1 ends
        "#]],
    );
    check(
        host,
        "spread",
        expect![[r#"
            0 note needs-no-signal
            0 hog1 on 0 because round-robin
            0 hog2 on 2 because round-robin
            0 calm1 on 1 because round-robin
            0 calm2 on 3 because round-robin
            500 hog2 on 0 because cpus-unusable
            500 calm2 on 1 because cpus-unusable
            2500 hog1 ends
            2500 hog2 ends
            2500 calm1 ends
            2500 calm2 ends
        "#]],
    );
}

#[test]
fn an_empty_plan_changes_nothing() {
    check(
        two_hogs_and_two_others("nodes=2 cores=2").with_controllers(),
        "linux",
        expect![[r#"
            1500 hog1 ends
            1500 hog2 ends
            1500 calm1 ends
            1500 calm2 ends
        "#]],
    );
}
