//! From how many aggressors on does isolation pay?
//!
//! ```text
//!   isolation   [1 1 1 1] [2 2 2 2]         Group 1 fills one socket, Group 2 the other
//!   spreading   [1 2 1 2] [1 2 1 2]         in turn
//! ```

use host_sim::predict::side_by_side;

use super::super::{Claim, Found, Reading, ReproduceError, Rig, Table, World};
use super::mixes::gain;
use super::programs::{ELEVEN, G1, G2, Limits, Socket, socket};
use crate::shipped::Draw;
use crate::stats::mean;

/// Programs, and CPUs of a socket.
const N: usize = 8;
const SOCKET: usize = 4;

/// The eight programs with so many aggressors, aggressors first.
fn programs(aggressors: usize) -> Vec<usize> {
    let of = |group: [usize; 3], n: usize| (0..n).map(move |idx| group[idx % group.len()]);
    of(G1, aggressors).chain(of(G2, N - aggressors)).collect()
}

/// Mean slow-down with the first four on one socket, or every other one.
fn by_hand(socket: &Socket, programs: &[usize], is_isolated: bool) -> f64 {
    let on = |which: usize| -> Vec<usize> {
        let place = |idx: usize| if is_isolated { idx / SOCKET } else { idx % 2 };
        (0..N).filter(|idx| place(*idx) == which).map(|idx| programs[idx]).collect()
    };
    let slowdowns = [0, 1].map(|which| {
        let there: Vec<_> = on(which).iter().map(|place| &socket.behaviours[*place]).collect();
        side_by_side(&there, &socket.domain)
            .into_iter()
            .map(|seen| seen.slowdown)
            .collect::<Vec<f64>>()
    });
    mean(&slowdowns.concat())
}

pub(super) fn sweep(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let middle = socket("xeon-2x4", Draw::Middle)?;
    let limits = Limits::of(&middle);
    let columns = [Reading::Paper, Reading::Ours].map(|reading| {
        let reading = if reading == Reading::Paper { "reading=paper," } else { "" };
        ["off", "1000"].map(|guard| {
            format!("divided[{reading}version=threshold,guard={guard},{}]", limits.params())
        })
    });
    let columns: Vec<&str> = columns.iter().flatten().map(String::as_str).collect();
    let named = |n: usize| {
        let names: Vec<&str> = programs(n).into_iter().map(|place| ELEVEN[place]).collect();
        format!("programs:{}", names.join("+"))
    };
    let workloads: Vec<String> = (1..=6).map(named).collect();
    let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
    let played = rig.play(&World::shipped("xeon-2x4")?, &columns, &workloads)?;
    let heads = [
        "aggressors",
        "isolated",
        "spread",
        "by hand: better",
        "policy, paper",
        "policy, ours",
        "guard",
    ];
    let mut table =
        Table::new("mean slow-down by hand, and what isolation gains over spreading in %", &heads);
    let (mut by_hand_better, mut policy_better) = (Vec::new(), [Vec::new(), Vec::new()]);
    for n in 1..=6usize {
        let (isolated, spread) =
            (by_hand(&middle, &programs(n), true), by_hand(&middle, &programs(n), false));
        let gains = [gain(&played, 0, 1, n - 1), gain(&played, 2, 3, n - 1)];
        // Summed over Group 1 when spread, for each of the two sockets (spec 5.4).
        let full: f64 =
            programs(n)[..n].iter().map(|p| middle.alone[*p].queue_full).sum::<f64>() / 2.0;
        let would = if 2.0 * (limits.th_sq as f64) < full { "isolate" } else { "spread" };
        table.row([
            n.to_string(),
            format!("{isolated:.3}"),
            format!("{spread:.3}"),
            if isolated < spread { "isolation" } else { "spreading" }.to_owned(),
            gains[0].shown(),
            gains[1].shown(),
            would.to_owned(),
        ]);
        by_hand_better.push(isolated < spread);
        (0..2).for_each(|which| policy_better[which].push(0.0 < gains[which].mean));
    }
    let claims = vec![
        pays("by hand", Reading::Either, &by_hand_better),
        pays("by the policy", Reading::Paper, &policy_better[0]),
        pays("by the policy", Reading::Ours, &policy_better[1]),
    ];
    let mut why =
        vec![format!("the guard is 2 x th_sq of {} a second for each socket", limits.th_sq)];
    why.extend(played.faults());
    Ok(Found { tables: vec![table], claims, why })
}

/// Few aggressors: spreading; some larger number: isolation.
fn pays(how: &str, reading: Reading, better: &[bool]) -> Claim {
    let first = better.iter().position(|is| *is).map(|place| place + 1);
    let found = match first {
        Some(n) => format!(
            "isolation is better from {n} on, and at {} of 6 numbers",
            better.iter().filter(|is| **is).count()
        ),
        None => "isolation is never better".to_owned(),
    };
    let claim = format!(
        "{how}: spreading is no worse with one or two aggressors, isolation with some larger number"
    );
    Claim::new(&claim, reading, found, !better[0] && !better[1] && better.contains(&true))
}
