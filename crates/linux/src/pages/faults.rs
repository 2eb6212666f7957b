//! Refusals by a seed, on this process itself: looks and moves end with a clear word and leave nothing
//! open. What moves go through with several nodes is tried in `mover`, on a table.

use std::path::Path;

use base::{Nanos, NodeId};

use super::{MoveRequest, Mover, Process};
use crate::fault::{self, FaultPlan as Faults};
use crate::isolated_test::{n_open, run_isolated};
use crate::{memory, procfs};

/// What came of all seeds.
#[derive(Debug, Default)]
struct Came {
    n_looks: u32,
    n_moves: u32,
    n_refused: u32,
}

#[test]
fn whatever_is_refused_looks_and_moves_end_and_leave_nothing_open() {
    let test = "whatever_is_refused_looks_and_moves_end_and_leave_nothing_open";
    run_isolated(module_path!(), test, || {
        let mut came = Came::default();
        look_and_move(0, &mut came);
        let before = n_open();
        (1..2000).for_each(|seed| look_and_move(seed, &mut came));
        assert_eq!(n_open(), before, "descriptors after and before");
        if came.n_looks == 0 && came.n_moves == 0 {
            println!("not run: this kernel tells no memory by node");
            return;
        }
        assert!(0 < came.n_looks && 0 < came.n_moves && 0 < came.n_refused, "{came:?}");
    });
}

fn look_and_move(seed: u64, came: &mut Came) {
    let pid = std::process::id();
    let born_ticks = procfs::stat(Path::new("/"), pid).expect("own line").born_ticks;
    let permille = [20, 100, 300][seed as usize % 3];
    fault::with_errors(Faults { seed, permille }, || {
        let time = if seed.is_multiple_of(2) { Nanos::from_secs(1) } else { Nanos::ZERO };
        let mut pace = memory::WalkCost::default();
        match memory::sample_process(
            Path::new("/"),
            (pid, born_ticks),
            memory::SampleEffort::of(time),
            &mut pace,
        ) {
            Ok(looked) => came.n_looks += u32::from(!looked.nodes.is_empty()),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                came.n_refused += 1;
            }
        }
        let limit = if seed % 4 < 2 { 1 << 20 } else { u64::MAX };
        let wish = MoveRequest { from: Some(NodeId(1)), to: NodeId(0), limit };
        let begun =
            Process::open(pid, born_ticks, 0).and_then(|process| Mover::new(process, wish, &[]));
        let Ok(mut mover) = begun else {
            came.n_refused += 1;
            return;
        };
        let tally = (0..1000).find_map(|_| mover.step()).expect("it ends");
        let sum = tally.moved + tally.refused.total() + tally.not_attempted;
        assert_eq!(tally.requested, sum, "seed {seed}: {tally:?}");
        came.n_moves += 1;
    });
}
