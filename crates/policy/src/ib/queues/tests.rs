//! Tests of the queues.

use base::{CpuSet, JobId};
use proptest::prelude::*;

use super::*;
use crate::Params;

fn queues(spec: &str, kinds: &[CoreKind]) -> Queues {
    let params = Params::parse(&crate::ib::INFO, spec).expect("accepted");
    Queues::new(kinds.into(), Config::new(&params), std::iter::empty())
}

/// Returns the numbers of tasks after tasks of one behaviour started one after the other.
fn started(kinds: &[CoreKind], n_tasks: u32, (memory_share, waiting): (f64, f64)) -> Vec<u64> {
    let mut queues = queues("ib", kinds);
    for job in 0..n_tasks {
        queues.reschedule(member(job, 0, (memory_share, waiting)), None);
    }
    queues.n_tasks()
}

fn member(job: u32, ib: u64, (memory_share, waiting): (f64, f64)) -> Member {
    Member {
        unit: JobId(job).into(),
        ib,
        start: ib,
        is_counted: true,
        arrived: job.into(),
        n_tasks: 1,
        possible: [0, 1].into_iter().collect(),
        restricted: Vec::new(),
        memory_share,
        waiting: (waiting * MILLION as f64) as u64,
        misses_per_ms: (waiting * 1000.0) as u64,
        remaining: None,
        is_held: false,
        is_fixed: false,
    }
}

#[test]
fn a_much_slower_kind_gets_fewer_tasks() {
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(256, "4-7", 4, 1000)];
    // Equal times: two tasks per core. Four times slower: one on each slow core, the others on the fast ones.
    assert_eq!(started(&kinds, 16, (1.0, 0.0)), [8, 8]);
    assert_eq!(started(&kinds, 16, (0.0, 0.0)), [12, 4]);
    // No core is idle, even if its kind is slower than a shared fast core.
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(113, "4-7", 4, 1000)];
    assert_eq!(started(&kinds, 8, (0.0, 0.0)), [4, 4]);
}

#[test]
fn a_migration_for_balance_gains_more_than_beta() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(758, "2-3", 2, 1000)];
    // Five and three tasks: the last migration gains 0.24 of the time of one task.
    for (spec, expected) in [("ib[beta=0.2]", [4, 4]), ("ib[beta=0.3]", [5, 3])] {
        let mut queues = queues(spec, &kinds);
        (0..5).for_each(|job| queues.insert(0, member(job, 0, (0.544, 0.0))));
        (5..8).for_each(|job| queues.insert(1, member(job, MILLION, (0.544, 0.0))));
        queues.rebalance();
        assert_eq!(queues.n_tasks(), expected, "{spec}");
    }
}

#[test]
fn a_held_job_migrates_to_idle_slower_cores_for_a_predicted_gain_only() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(128, "2-3", 2, 1000)];
    let held = |job| Member { is_held: true, ..member(job, 0, (0.0, 0.0)) };
    // A core of an eighth of the speed gains nothing beside three tasks on two cores, but beside twenty.
    for (n_fast, expected) in [(3, [3, 0]), (20, [18, 2])] {
        let mut queues = queues("ib", &kinds);
        (0..n_fast).for_each(|job| queues.insert(0, held(job)));
        queues.rebalance();
        assert_eq!(queues.n_tasks(), expected);
    }
}

#[test]
fn a_new_phase_between_two_kinds_changes_the_kind_for_a_gain_only() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(900, "2-3", 2, 1000)];
    let between = |n_fast: u32, was: usize, memory_share: f64| {
        let mut queues = queues("ib", &kinds);
        (0..n_fast).for_each(|job| queues.insert(0, member(job, 0, (0.0, 0.0))));
        (4..7).for_each(|job| queues.insert(1, member(job, MILLION, (0.0, 0.0))));
        let arrived = member(8, MILLION / 2, (memory_share, 0.0));
        queues.reschedule(arrived, Some(was)).kind
    };
    // Three beside three: the kind makes a difference of 1 % to 14 % of the time of the job.
    assert_eq!([between(3, 0, 1.0), between(3, 1, 1.0)], [0, 1]);
    assert_eq!([between(3, 0, 0.0), between(3, 1, 0.0)], [0, 0]);
    // Five beside three: the slow kind is faster by far.
    assert_eq!([between(5, 0, 0.0), between(5, 1, 0.0)], [1, 1]);
}

/// Returns queues with jobs on kinds: numbers of jobs, tasks of each, and kind.
fn with_jobs(spec: &str, kinds: &[CoreKind], jobs: &[(u32, u64, usize)]) -> Queues {
    let mut queues = queues(spec, kinds);
    let mut id = 0;
    for (n_jobs, n_tasks, kind) in jobs {
        for _ in 0..*n_jobs {
            queues.insert(*kind, Member { n_tasks: *n_tasks, ..member(id, 0, (0.0, 0.0)) });
            id += 1;
        }
    }
    queues
}

#[test]
fn a_large_job_does_not_leave_its_cores_idle_for_other_idle_cores() {
    let kinds = [CoreKind::test(1024, "0-15", 8, 1250), CoreKind::test(640, "16-23", 8, 1000)];
    for spec in ["ib", "ib[load=tasks]"] {
        // The large job is the head of the queue; the small one behind it gets the idle core.
        let mut queues = with_jobs(spec, &kinds, &[(1, 8, 0), (1, 1, 0)]);
        queues.rebalance();
        assert_eq!(queues.n_tasks(), [8, 1], "{spec}");
    }
}

#[test]
fn a_job_that_does_not_fit_keeps_no_smaller_job_from_idle_cores() {
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(512, "4-7", 4, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[(3, 1, 0), (1, 4, 1), (1, 1, 1)]);
    assert!(queues.leaves_core_idle());
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [4, 4]);
    assert!(!queues.leaves_core_idle());
}

#[test]
fn a_job_that_does_not_fit_migrates_if_more_cores_are_busy() {
    // Two fast cores with siblings are idle while two jobs of three tasks share four slow cores.
    let kinds = [CoreKind::test(1024, "0-3", 2, 1250), CoreKind::test(512, "4-7", 4, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[(2, 3, 1)]);
    assert!(queues.leaves_core_idle());
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [3, 3]);
    assert!(!queues.leaves_core_idle());
}

#[test]
fn the_pairs_of_a_job_are_those_of_its_kinds() {
    let kinds = [
        CoreKind::test(1024, "0-3", 4, 1000),
        CoreKind::test(900, "4-5", 2, 1000),
        CoreKind::test(800, "6-9", 4, 1000),
    ];
    // The second kind has too few CPUs for a job.
    let large = |job| Member {
        n_tasks: 4,
        possible: [0, 2].into_iter().collect(),
        ..member(job, 0, (0.0, 0.0))
    };
    let mut queues = with_jobs("ib", &kinds, &[]);
    let of_kinds = [0, 1].map(|job| queues.reschedule(large(job), None).kind);
    assert_eq!(of_kinds, [0, 2]);
    let mut queues = with_jobs("ib", &kinds, &[]);
    [0, 1].into_iter().for_each(|job| queues.insert(0, large(job)));
    assert!(queues.leaves_core_idle());
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [4, 0, 4]);
}

#[test]
fn jobs_with_the_same_few_cpus_do_not_share_one_beside_an_idle_one() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(512, "2-3", 2, 1000)];
    let restricted = |job| Member {
        restricted: vec![(0, "0".parse().expect("CPUs")), (1, "2".parse().expect("CPUs"))],
        ..member(job, 0, (0.0, 0.0))
    };
    let mut queues = with_jobs("ib", &kinds, &[]);
    let of_kinds = [0, 1].map(|job| queues.reschedule(restricted(job), None).kind);
    assert_eq!(of_kinds, [0, 1]);
}

#[test]
fn a_job_with_busy_cpus_keeps_no_other_job_from_an_idle_core() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(512, "2-3", 2, 1000)];
    let of_cpus = |job, fast: &str, slow: &str| Member {
        restricted: vec![(0, fast.parse().expect("CPUs")), (1, slow.parse().expect("CPUs"))],
        ..member(job, job.into(), (0.0, 0.0))
    };
    let mut queues = with_jobs("ib", &kinds, &[]);
    queues.insert(0, of_cpus(0, "0", "2"));
    queues.insert(1, of_cpus(1, "0", "2"));
    queues.insert(1, of_cpus(2, "1", "3"));
    queues.rebalance();
    assert_eq!(queues.kind_of(JobId(1).into()), Some(1), "CPU 0 is busy");
    assert_eq!(queues.kind_of(JobId(2).into()), Some(0));
    assert!(!queues.leaves_core_idle());
}

#[test]
fn an_idle_core_that_is_not_faster_gets_no_job_of_an_unshared_core() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(1024, "2-3", 2, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[(2, 1, 1)]);
    assert!(!queues.leaves_core_idle());
    assert!(queues.rebalance().is_empty());
    let mut queues = with_jobs("ib", &kinds, &[(1, 1, 1)]);
    assert_eq!(queues.reschedule(member(9, 0, (0.0, 0.0)), Some(1)).kind, 1);
    // Three tasks share two cores: one of them migrates.
    let mut queues = with_jobs("ib", &kinds, &[(3, 1, 1)]);
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [1, 2]);
}

#[test]
fn a_full_kind_does_not_keep_jobs_from_the_idle_cores_of_a_third_kind() {
    let kinds = [
        CoreKind::test(1024, "0-1", 2, 1000),
        CoreKind::test(1000, "2-3", 2, 1000),
        CoreKind::test(500, "4-5", 2, 1000),
    ];
    let of_all =
        |job| Member { possible: [0, 1, 2].into_iter().collect(), ..member(job, 0, (0.0, 0.0)) };
    // The gain between the first two kinds is too small for a migration.
    let mut up = with_jobs("ib", &kinds, &[]);
    (0..2).for_each(|job| up.insert(1, of_all(job)));
    (2..5).for_each(|job| up.insert(2, of_all(job)));
    assert!(up.leaves_core_idle());
    up.rebalance();
    assert_eq!(up.n_tasks(), [2, 2, 1]);
    assert!(!up.leaves_core_idle());
    let mut down = with_jobs("ib", &kinds, &[]);
    (0..3).for_each(|job| down.insert(0, of_all(job)));
    (3..5).for_each(|job| down.insert(1, of_all(job)));
    assert!(down.leaves_core_idle());
    down.rebalance();
    assert_eq!(down.n_tasks(), [2, 2, 1]);
    // As printed, jobs migrate between neighbouring kinds.
    let mut printed = with_jobs("ib[reading=paper]", &kinds, &[]);
    printed.insert(0, of_all(0));
    let pairs: Vec<_> = printed.member_pairs().into_iter().map(|p| (p.fast, p.slow)).collect();
    assert_eq!(pairs, [(0, 1), (1, 2)]);
}

#[test]
fn tasks_that_share_one_cpu_leave_the_other_cores_to_other_jobs() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(512, "2-3", 2, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[]);
    let on_cpu_0 = |job| Member {
        restricted: vec![(0, "0".parse().expect("CPUs"))],
        possible: [0].into_iter().collect(),
        ..member(job, 0, (0.0, 0.0))
    };
    (0..6).for_each(|job| queues.insert(0, on_cpu_0(job)));
    assert_eq!(queues.reschedule(member(6, 0, (0.0, 0.0)), None).kind, 0);
    queues.remove(JobId(6).into());
    queues.insert(1, member(6, 0, (0.0, 0.0)));
    assert!(queues.leaves_core_idle());
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [7, 0]);
}

#[test]
fn an_undone_proposal_leaves_the_queues_as_they_were() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(512, "2-3", 2, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[(2, 1, 0), (3, 1, 1)]);
    queues.insert(1, member(9, MILLION / 3, (0.1, 0.7)));
    queues.sort();
    let state = |queues: &Queues| {
        let units = [0, 1, 2, 3, 4, 9].map(|job| queues.kind_of(JobId(job).into()));
        let heads = [0, 1].map(|kind| {
            queues.highest(kind, (By::Integrated, Group::All), |_| true).map(|head| head.unit)
        });
        let slowdowns = [0, 1]
            .map(|kind| queues.loads[kind].log_slowdown(&kinds[kind], Change::None).to_bits());
        (units, heads, slowdowns, queues.n_tasks())
    };
    let before = state(&queues);
    // Both jobs change their kinds, and the balance moves others.
    let proposed = queues.propose(&[(JobId(0).into(), 1), (JobId(1).into(), 1)]);
    assert!(!proposed.balanced.is_empty());
    assert_ne!(state(&queues), before);
    queues.undo(proposed);
    assert_eq!(state(&queues), before);
}

#[test]
fn busy_siblings_count_as_slower_cpus() {
    let kinds = [CoreKind::test(1024, "0-3", 2, 1250), CoreKind::test(640, "4-7", 4, 1000)];
    assert_eq!(started(&kinds, 6, (0.0, 0.0)), [2, 4]);
    // Beside a sibling the fast CPU is as slow as the slow CPU, so that each CPU gets as many tasks.
    assert_eq!(started(&kinds, 16, (0.0, 0.0)), [8, 8]);
}

#[test]
fn tasks_that_wait_for_a_saturated_memory_share_their_cpus_instead_of_computing_tasks() {
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(1024, "4-7", 4, 1000)];
    let when_waiting = |waiting: f64| {
        let mut queues = queues("ib", &kinds);
        for job in 0..8 {
            queues.reschedule(member(job, 0, (0.0, 0.0)), None);
            queues.reschedule(member(job + 8, MILLION, (0.0, waiting)), None);
        }
        queues.n_tasks()
    };
    assert_eq!(when_waiting(0.0), [8, 8]);
    let [computing, waiting] = when_waiting(0.9)[..] else { panic!("two kinds") };
    assert!(computing < waiting, "{computing} {waiting}");
    // Equal tasks gain nothing from others that wait: each CPU gets as many.
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(758, "2-3", 2, 1000)];
    assert_eq!(started(&kinds, 8, (0.95, 0.95)), [4, 4]);
    // Tasks with many misses share their CPUs beside tasks with few, which wait as long.
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(1024, "4-7", 4, 1000)];
    let mut queues = queues("ib", &kinds);
    for job in 0..8 {
        let waiting = |job, ib| member(job, ib, (0.9, 0.9));
        queues.reschedule(Member { misses_per_ms: 10, ..waiting(job, 0) }, None);
        queues.reschedule(Member { misses_per_ms: 1000, ..waiting(job + 8, MILLION) }, None);
    }
    let [few, many] = queues.n_tasks()[..] else { panic!("two kinds") };
    assert!(few < many, "{few} {many}");
}

fn restricted_to(fast: &str, member: Member) -> Member {
    Member { restricted: vec![(0, fast.parse().expect("CPUs"))], ..member }
}

#[test]
fn jobs_that_share_a_part_of_a_kind_get_the_idle_cores_of_another() {
    // One fast core stays idle: the jobs may not use it.
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(512, "4-7", 4, 1000)];
    for spec in ["ib", "ib[load=tasks]"] {
        let mut queues = queues(spec, &kinds);
        for job in 0..10 {
            let arrived = member(job, u64::from(10 - job) * MILLION / 10, (0.0, 0.0));
            queues.reschedule(restricted_to("0-2", arrived), None);
            assert!(!queues.leaves_core_idle(), "{spec}: {:?}", queues.n_tasks());
        }
        let [fast, slow] = queues.n_tasks()[..] else { panic!("two kinds") };
        assert!(3 <= fast && 4 <= slow, "{spec}: {fast} {slow}");
    }
    // Fewer cores than CPUs.
    let kinds = [CoreKind::test(1024, "0-15", 8, 1250), CoreKind::test(700, "16-23", 8, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[]);
    (0..14).for_each(|job| queues.insert(0, restricted_to("1-15", member(job, 0, (0.0, 0.0)))));
    assert!(queues.leaves_core_idle());
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [8, 6]);
}

#[test]
fn a_job_that_may_not_use_one_cpu_is_slowed_down_by_siblings() {
    let kinds = [CoreKind::test(1024, "0-15", 8, 1250), CoreKind::test(700, "16-23", 8, 1000)];
    let n_tasks = |restricted: &dyn Fn(Member) -> Member| {
        let mut queues = queues("ib", &kinds);
        for job in 0..24 {
            queues.reschedule(restricted(member(job, 0, (0.0, 0.0))), None);
        }
        queues.n_tasks()
    };
    assert_eq!(n_tasks(&|member| restricted_to("1-15", member)), n_tasks(&|member| member));
}

#[test]
fn the_placed_thread_stays_and_another_one_gets_the_idle_core() {
    let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(900, "2-3", 2, 1000)];
    let thread =
        |job, ib, remaining| Member { remaining: Some(remaining), ..member(job, ib, (0.0, 0.0)) };
    let mut queues = queues("ib[lrt=yes]", &kinds);
    [0, 1].into_iter().for_each(|job| queues.insert(0, thread(job, MILLION / 2, 100)));
    // Of three similar threads it has the least remaining work, and would migrate first.
    queues.reschedule(thread(9, MILLION * 49 / 100, 1), None);
    assert_eq!(queues.n_tasks(), [2, 1]);
    assert_eq!(queues.kind_of(JobId(9).into()), Some(0));
}

#[test]
fn a_job_between_two_kinds_leaves_the_third_balanced() {
    let kinds = [
        CoreKind::test(1024, "0-1", 2, 1000),
        CoreKind::test(1000, "2-3", 2, 1000),
        CoreKind::test(990, "4-5", 2, 1000),
    ];
    let of_all = |job, ib| Member {
        possible: [0, 1, 2].into_iter().collect(),
        ..member(job, ib, (0.0, 0.0))
    };
    let mut queues = with_jobs("ib", &kinds, &[]);
    (0..6).for_each(|job| queues.insert(0, of_all(job, 0)));
    (6..12).for_each(|job| queues.insert(1, of_all(job, MILLION / 3)));
    (12..14).for_each(|job| queues.insert(2, of_all(job, MILLION / 2)));
    let placed = queues.reschedule(of_all(99, MILLION / 6), None);
    assert!(matches!(placed.rule, Rule::Between { fast: 0, .. }), "{placed:?}");
    assert_eq!(queues.n_tasks(), [5, 5, 5]);
}

#[test]
fn a_refused_job_stands_for_jobs_with_its_cpus_only() {
    let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(600, "4-7", 4, 1000)];
    let mut queues = with_jobs("ib", &kinds, &[]);
    // The head has a core of its own; the other two share one.
    queues.insert(0, member(0, MILLION / 2, (0.0, 0.0)));
    [1, 2]
        .into_iter()
        .for_each(|job| queues.insert(0, restricted_to("0", member(job, 0, (0.0, 0.0)))));
    queues.rebalance();
    assert_eq!(queues.n_tasks(), [2, 1]);
    assert_eq!(queues.kind_of(JobId(0).into()), Some(0));
}

#[test]
fn tasks_that_may_not_use_one_cpu_have_busy_siblings() {
    let kind = CoreKind::test(1024, "0-15", 8, 1250);
    let log_slowdown = |restricted: &dyn Fn(Member) -> Member| {
        let mut load = KindLoad::none(0);
        (0..14).for_each(|job| load.add(&kind, &restricted(member(job, 0, (0.0, 0.0)))));
        load.log_slowdown(&kind, Change::None)
    };
    let free = log_slowdown(&|member| member);
    assert!(0.0 < free);
    assert_eq!(log_slowdown(&|member| restricted_to("1-15", member)), free);
}

/// Returns how many of these tasks run at once, if each occupies a core: a maximum matching of tasks and CPUs.
fn n_running(tasks: &[CpuSet]) -> usize {
    fn assign(
        task: usize,
        tasks: &[CpuSet],
        on_cpu: &mut [Option<usize>],
        tried: &mut CpuSet,
    ) -> bool {
        tasks[task].iter().any(|cpu| {
            let may = tried.insert(cpu);
            let was = on_cpu[cpu.index()];
            let is_free = may && was.is_none_or(|other| assign(other, tasks, on_cpu, tried));
            if is_free {
                on_cpu[cpu.index()] = Some(task);
            }
            is_free
        })
    }
    let mut on_cpu = [None; 8];
    (0..tasks.len()).filter(|task| assign(*task, tasks, &mut on_cpu, &mut CpuSet::new())).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Jobs with some CPUs of each kind only, and jobs with all CPUs.
    #[test]
    fn no_tasks_share_a_core_while_one_of_them_may_use_an_idle_core_of_another_kind(
        jobs in proptest::collection::vec((0usize..2, 0u64..5, 1usize..5, 1usize..5), 1..14),
        reschedules: bool,
    ) {
        let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(600, "4-7", 4, 1000)];
        let mut queues = queues("ib", &kinds);
        // Nested and separate sets.
        let first = |kind: usize, n: usize| {
            let (from, to) = [(0, 1), (2, 4), (0, 3), (0, 4)][n - 1];
            kinds[kind].cpus.iter().take(to).skip(from).collect::<CpuSet>()
        };
        for (job, (kind, ib, n_fast, n_slow)) in jobs.iter().enumerate() {
            let restricted = [(0, *n_fast), (1, *n_slow)].into_iter().filter(|(_, n)| *n < 4);
            let restricted = restricted.map(|(kind, n)| (kind, first(kind, n))).collect();
            let arrived = Member { restricted, ..member(job as u32, ib * MILLION / 5, (0.3, 0.0)) };
            if reschedules {
                queues.reschedule(arrived, None);
            } else {
                queues.insert(*kind, arrived);
            }
        }
        let sharing_job = |queues: &Queues| {
            let on = |of: usize, but: Option<usize>, with: Option<usize>| {
                let may_use = |(job, (_, _, n_fast, n_slow)): (usize, &(usize, u64, usize, usize))| {
                    let is_on = queues.kind_of(JobId(job as u32).into()) == Some(of);
                    let cpus = first(of, if of == 0 { *n_fast } else { *n_slow });
                    (is_on && Some(job) != but || with == Some(job)).then_some(cpus)
                };
                n_running(&jobs.iter().enumerate().filter_map(may_use).collect::<Vec<_>>())
            };
            (0..jobs.len()).find(|&job| {
                let from = queues.kind_of(JobId(job as u32).into()).expect("in a queue");
                let shares = on(from, Some(job), None) == on(from, None, None);
                shares && on(1 - from, None, None) < on(1 - from, None, Some(job))
            })
        };
        let sharing = sharing_job(&queues);
        prop_assert!(sharing.is_none() || queues.leaves_core_idle(), "{:?} of {:?}: {:?}", sharing, jobs, queues.n_tasks());
        queues.rebalance();
        prop_assert_eq!(sharing_job(&queues), None, "{:?}: {:?}", jobs, queues.n_tasks());
    }
}
