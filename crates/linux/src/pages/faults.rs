//! Refusals by a seed, on this process itself: looks and moves end with a clear word and leave nothing
//! open. What moves go through with several nodes is tried in `mover`, on a table.

use std::path::Path;

use base::{Nanos, NodeId};

use super::{Mover, Process, Wish};
use crate::fault::{self, Wish as Faults};
use crate::{memory, procfs};

fn n_open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("own descriptors").count()
}

#[test]
fn whatever_is_refused_looks_and_moves_end_and_leave_nothing_open() {
    let pid = std::process::id();
    let born_ticks = procfs::stat(Path::new("/"), pid).expect("own line").born_ticks;
    let (mut n_looks, mut n_moves, mut n_refused) = (0u32, 0u32, 0u32);
    // Other tests of this process open files meanwhile: what leaks grows with every seed.
    let before = n_open();
    for seed in 0..2000u64 {
        let permille = [20, 100, 300][seed as usize % 3];
        fault::with_errors(Faults { seed, permille }, || {
            let time = if seed % 2 == 0 { Nanos::from_secs(1) } else { Nanos::ZERO };
            let mut pace = memory::Pace::default();
            match memory::look(Path::new("/"), (pid, born_ticks), time, &mut pace) {
                Ok(looked) => n_looks += u32::from(!looked.nodes.is_empty()),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    n_refused += 1;
                }
            }
            let wish = Wish { from: Some(NodeId(1)), to: NodeId(0), limit: 1 << 20 };
            let begun = Process::open(pid, born_ticks, 0)
                .and_then(|process| Mover::new(process, wish, &[]));
            let Ok(mut mover) = begun else {
                n_refused += 1;
                return;
            };
            let tally = (0..1000).find_map(|_| mover.step()).expect("it ends");
            let sum = tally.moved + tally.refused.total() + tally.left;
            assert_eq!(tally.requested, sum, "seed {seed}: {tally:?}");
            n_moves += 1;
        });
    }
    if n_looks == 0 && n_moves == 0 {
        println!("not run: this kernel tells no memory by node");
        return;
    }
    assert!(0 < n_moves && 0 < n_refused, "{n_looks} looks, {n_moves} moves");
    let after = n_open();
    assert!(after < before + 100, "{before} descriptors before, {after} after");
}
