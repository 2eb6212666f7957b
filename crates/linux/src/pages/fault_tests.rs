//! Fault injection on this process: samples and migrations end without a panic and close their descriptors.
//! Migrations between several nodes are tested in `page_migrator` with a simulated process.

use std::path::Path;

use base::{Nanos, NodeId};

use super::{LiveProcessMemory, PageMigrationRequest, ProcessPageMigrator};
use crate::fault::{self, FaultPlan};
use crate::test_support::{n_open, run_isolated};
use crate::{memory, procfs};

/// Sums over all seeds.
#[derive(Debug, Default)]
struct Counts {
    n_samples: u32,
    n_migrations: u32,
    n_errors: u32,
}

#[test]
fn samples_and_migrations_with_injected_errors_end_and_leave_no_descriptor_open() {
    let test = "samples_and_migrations_with_injected_errors_end_and_leave_no_descriptor_open";
    run_isolated(module_path!(), test, || {
        let mut counts = Counts::default();
        sample_and_migrate(0, &mut counts);
        let before = n_open();
        (1..2000).for_each(|seed| sample_and_migrate(seed, &mut counts));
        assert_eq!(n_open(), before, "descriptors after and before");
        if counts.n_samples == 0 && counts.n_migrations == 0 {
            println!("not run: this kernel reports no memory by node");
            return;
        }
        let has_all = 0 < counts.n_samples && 0 < counts.n_migrations && 0 < counts.n_errors;
        assert!(has_all, "{counts:?}");
    });
}

fn sample_and_migrate(seed: u64, counts: &mut Counts) {
    let pid = std::process::id();
    let start = procfs::stat(Path::new("/"), pid).expect("own line").start_time_ticks;
    let permille = [20, 100, 300][seed as usize % 3];
    fault::with_errors(FaultPlan { seed, permille }, || {
        let time = if seed.is_multiple_of(2) { Nanos::from_secs(1) } else { Nanos::ZERO };
        let mut cost = memory::WalkCost::default();
        let effort = memory::SampleEffort::within(time);
        match memory::sample_process(Path::new("/"), (pid, start), effort, &mut cost) {
            Ok(sample) => counts.n_samples += u32::from(!sample.nodes.is_empty()),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                counts.n_errors += 1;
            }
        }
        let limit = if seed % 4 < 2 { 1 << 20 } else { u64::MAX };
        let request = PageMigrationRequest { from: Some(NodeId(1)), to: NodeId(0), limit };
        let memory = LiveProcessMemory::open(pid, start, 0);
        let Ok(mut migrator) =
            memory.and_then(|memory| ProcessPageMigrator::new(memory, request, &[]))
        else {
            counts.n_errors += 1;
            return;
        };
        let totals = (0..1000).find_map(|_| migrator.step()).expect("the migration ends");
        let sum = totals.moved + totals.failed.total() + totals.not_attempted;
        assert_eq!(totals.requested, sum, "seed {seed}: {totals:?}");
        counts.n_migrations += 1;
    });
}
