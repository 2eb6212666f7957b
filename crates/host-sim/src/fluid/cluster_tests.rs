//! Tests of private caches that differ between cores, and of caches that the cores of a cluster share.

use super::tests::{bind, ends, mask_of, start};
use super::*;
use crate::frame::JobStart;
use crate::physics::{Calibration, CoreSpeed, CpiModel, MissCurve, MissPoint, SharedFills};
use crate::script::{Script, ScriptPhase};
use crate::variation::Variation;

const MIB: f64 = 1048576.0;

/// Returns a machine with four cores of 1 GHz, a last-level cache of 16 MiB with a hit latency of 40 ns, and these keys
/// of the machine file.
fn with_keys(keys: &str) -> Fluid {
    let text = format!(
        "format_version = 2\nnodes = [{{ id = 0, cpus = \"0-3\", memory_bytes = 1073741824 }}]\nllcs = [{{ id = 0, cpus = \"0-3\", size_bytes = 16777216, latency = {{ ns = 40, source = \"assumed\" }} }}]\ncores = [{}]\ncpus = [{{ id = 0 }}, {{ id = 1 }}, {{ id = 2 }}, {{ id = 3 }}]\n{keys}\n",
        (0..4).map(|id| format!("{{ id = {id}, cpus = \"{id}\" }}")).collect::<Vec<_>>().join(", ")
    );
    let machine = topology::file::parse_toml(&text, "x").expect("a machine");
    let mut hardware = Hardware::new(&machine);
    hardware.cpus.iter_mut().for_each(|cpu| cpu.speed.ghz = 1.0);
    let settings = MachineSettings::default();
    Fluid::new(Arc::new(hardware), settings, Variation::OFF.streams(0))
}

/// Returns a machine with clusters of two cores and this cache in bytes.
fn with_clusters(bytes: u64) -> Fluid {
    with_unlike_clusters([bytes, bytes])
}

fn with_unlike_clusters(bytes: [u64; 2]) -> Fluid {
    let cluster = |id: usize, cpus: &str| {
        format!(
            "{{ id = {id}, cpus = \"{cpus}\", cache = {{ bytes = {}, source = \"assumed\" }} }}",
            bytes[id]
        )
    };
    with_keys(&format!("clusters = [{}, {}]", cluster(0, "0-1"), cluster(1, "2-3")))
}

fn with_private(bytes: u64) -> Fluid {
    with_keys(&format!(
        "core_kinds = [{{ private_cache = {{ bytes = {bytes}, source = \"assumed\" }} }}]"
    ))
}

/// Returns a program whose accesses to the last-level cache fall with the size of the private caches: 30 per 1000
/// instructions with 256 KiB, 12 with 2 MiB, 6 with 4 MiB.
fn work(fluid: &Fluid, weight: f64) -> Arc<Script> {
    let row = |bytes: f64, misses: f64| MissPoint::of_demand(bytes, weight * misses);
    let above = [row(MIB, 18.0), row(2.0 * MIB, 12.0), row(4.0 * MIB, 6.0), row(16.0 * MIB, 1.0)];
    let curve = MissCurve::new(above.to_vec(), row(0.0, 30.0)).expect("a curve");
    let private: Vec<MissPoint> = [row(MIB / 4.0, 30.0)].into_iter().chain(above).collect();
    let private = MissCurve::new(private, row(0.0, 60.0)).expect("a curve");
    let parameters = Calibration::default().parameters(CoreSpeed::new(1.0));
    let model = CpiModel::from_core_cycles(&curve, 1.0, 2.0, parameters);
    let model = model.with_private_curve(private);
    let phase = ScriptPhase {
        shared: None,
        fills: Arc::new(fluid.hardware().fill_tables(&model)),
        behaviour: Arc::new(model),
        instructions: 1e9,
        sleeps: None,
        footprint: 0,
        l1_misses: 60.0,
    };
    Arc::new(Script { phases: vec![phase], n_threads: 1, ..Script::default() })
}

/// Runs equal programs on these CPUs. Returns the end in milliseconds and the accesses to the last-level cache of each.
fn run(mut fluid: Fluid, cpus: &[usize]) -> Vec<(u64, f64)> {
    let one = work(&fluid, 1.0);
    cpus.iter().enumerate().for_each(|(job, &cpu)| start(&mut fluid, job, &one, Some(cpu)));
    fluid.next_event();
    fluid.check_invariants().expect("all invariants hold");
    let ended = ends(&mut fluid);
    fluid.update_all();
    let accesses = |job| fluid.tasks_of(job).map(|task| task.counts.references).sum();
    ended.into_iter().map(|(job, ms)| (ms, accesses(job))).collect()
}

#[test]
fn a_larger_private_cache_is_never_slower_and_has_fewer_accesses_beyond() {
    let mut before = (u64::MAX, f64::INFINITY);
    for kib in [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192] {
        let now = run(with_private(kib << 10), &[0])[0];
        assert!(now.0 <= before.0 && now.1 <= before.1, "{kib} KiB: {now:?} after {before:?}");
        before = now;
    }
    let [small, measured, large, none] = [
        run(with_private(64 << 10), &[0])[0],
        run(with_private(256 << 10), &[0])[0],
        run(with_private(2 << 20), &[0])[0],
        run(with_keys(""), &[0])[0],
    ];
    assert_eq!(measured, none, "the profile was measured with this cache");
    assert!(measured.0 + 100 < small.0 && large.0 + 100 < measured.0, "{small:?} {large:?}");
    let per_1000 = |accesses: f64| accesses / 1e6;
    assert!((per_1000(large.1) - 12.0).abs() < 0.3, "{large:?}");
}

#[test]
fn a_cluster_of_one_busy_core_is_a_private_cache() {
    assert_eq!(run(with_clusters(2 << 20), &[1]), run(with_private(2 << 20), &[1]));
}

#[test]
fn two_equal_tasks_of_one_cluster_share_its_cache() {
    let together = run(with_clusters(2 << 20), &[0, 1]);
    let apart = run(with_clusters(2 << 20), &[0, 2]);
    assert_eq!(together[0], together[1], "symmetry");
    assert_eq!(apart[0], apart[1], "symmetry");
    assert_eq!(together, run(with_clusters(2 << 20), &[2, 3]), "equal clusters");
    assert!(apart[0].0 + 50 < together[0].0, "{apart:?} {together:?}");
    assert!(1.2 * apart[0].1 < together[0].1, "{apart:?} {together:?}");
    // Each has half of the cache, as with private caches of half the size.
    let halves = run(with_private(1 << 20), &[0, 1]);
    assert!(together[0].0.abs_diff(halves[0].0) <= 2, "{halves:?} {together:?}");
}

#[test]
fn two_threads_with_common_data_have_one_copy_in_the_cache_of_their_cluster() {
    let accesses = |share, cpus: [usize; 2]| {
        let mut fluid = with_clusters(2 << 20);
        let mut script = (*work(&fluid, 1.0)).clone();
        script.n_threads = 2;
        script.phases[0].shared = SharedFills::new(share, &script.phases[0].fills).map(Arc::new);
        let allowed = Some(mask_of(&fluid, &cpus));
        fluid.start(JobStart { allowed, ..JobStart::new(0, Arc::new(script)) });
        fluid.advance(500_000_000);
        fluid.update_all();
        fluid.check_invariants().expect("all invariants hold");
        let counts = fluid.tasks_of(0).map(|task| task.counts);
        counts.map(|counts| counts.references / counts.instructions).sum::<f64>()
    };
    let apart = accesses(0.0, [0, 2]);
    let together = [0.0, 0.5, 1.0].map(|share| accesses(share, [0, 1]) / apart);
    assert!(1.2 < together[0] && (together[2] - 1.0).abs() < 0.01, "{together:?}");
    assert!(together.is_sorted_by(|less, more| more < less), "{together:?}");
    assert!((accesses(1.0, [0, 2]) / apart - 1.0).abs() < 0.01, "a copy in each cluster");
}

#[test]
fn a_task_has_the_cache_of_its_own_cluster() {
    let unlike = run(with_unlike_clusters([1 << 20, 4 << 20]), &[0, 2]);
    let equal = [1, 4].map(|mib| run(with_clusters(mib << 20), &[0, 2]));
    for at in [0, 1] {
        assert!((unlike[at].1 / equal[at][at].1 - 1.0).abs() < 0.01, "{unlike:?} {equal:?}");
    }
}

#[test]
fn the_shares_of_a_cluster_never_exceed_its_cache() {
    for seed in 0..40 {
        let mut rng = base::Rng::new(seed);
        let mut fluid = with_clusters(1 << (18 + rng.below(5)));
        let programs: Vec<Arc<Script>> =
            [0.01, 0.3, 1.0, 2.0].map(|weight| work(&fluid, weight)).to_vec();
        for job in 0..8 {
            let mut script = (*programs[rng.below(4) as usize]).clone();
            script.phases[0].instructions = 1e7 * (1 + rng.below(20)) as f64;
            script.n_threads = 1 + rng.below(2) as u32;
            let share = rng.below(3) as f64 / 2.0;
            script.phases[0].shared =
                SharedFills::new(share, &script.phases[0].fills).map(Arc::new);
            if rng.below(3) == 0 {
                script.phases[0].sleeps = Some((2e6, 3_000_000));
            }
            let cpus = [rng.below(4) as usize, rng.below(4) as usize];
            let allowed = Some(mask_of(&fluid, &cpus));
            fluid.start(JobStart { allowed, ..JobStart::new(job, Arc::new(script)) });
        }
        while let Some(at) = fluid.next_event() {
            fluid.advance(at);
            fluid.check_invariants().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            if rng.below(20) == 0 {
                bind(&mut fluid, rng.below(8) as usize, rng.below(4) as usize);
            }
            fluid.take_notices();
        }
    }
}

#[test]
fn the_checker_finds_shares_that_exceed_the_cache_of_a_cluster() {
    let mut fluid = with_clusters(2 << 20);
    let one = work(&fluid, 1.0);
    [0, 1].into_iter().for_each(|cpu| start(&mut fluid, cpu, &one, Some(cpu)));
    fluid.next_event();
    fluid.check_clusters().expect("both share the cache");
    fluid.tasks[0].cached.cluster_bytes = Some(2.0 * MIB);
    assert!(fluid.check_clusters().expect_err("more than the cache").contains("cluster"));
}
