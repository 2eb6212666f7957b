//! From how many aggressors on does isolation pay?
//!
//! ```text
//!   isolation   [1 1 1 1] [2 2 2 2]         Group 1 fills one socket, Group 2 the other
//!   spreading   [1 2 1 2] [1 2 1 2]         in turn
//! ```

use host_sim::predict::side_by_side;

use super::super::{Claim, Drawing, Found, Gain, Reading, ReproduceError, Rig, Table, World};
use super::alone::{claim, draws};
use super::programs::{ELEVEN, G1, G2, Limits, Socket, socket};
use super::versions::gain;
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
    let workloads: Vec<String> = NUMBERS.map(named).collect();
    let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
    let played = rig.play(&World::shipped("xeon-2x4")?, &columns, &workloads)?;
    let heads = ["aggressors", "by hand", "policy: paper", "policy: ours"];
    let title = "what isolation gains over spreading in %: by hand (mean slow-down of one / of the other - 1), by the policy";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Lines);
    let heads = ["aggressors", "isolated", "spread", "full queues each", "the guard"];
    let mut hand = Table::new("mean slow-down by hand, and what the guard would do", &heads)
        .units(&["1", "1", "1/s", "1"]);
    let mut policy: [Vec<Gain>; 2] = Default::default();
    for n in NUMBERS {
        let (isolated, spread) =
            (by_hand(&middle, &programs(n), true), by_hand(&middle, &programs(n), false));
        let gains = [gain(&played, (0, 1), n - 1), gain(&played, (2, 3), n - 1)];
        // Summed over Group 1 when spread, for each of the two sockets (spec 5.4).
        let full: f64 =
            programs(n)[..n].iter().map(|p| middle.alone[*p].queue_full).sum::<f64>() / 2.0;
        let would = if 2.0 * (limits.th_sq as f64) < full { "isolates" } else { "spreads" };
        table.row([
            n.to_string().into(),
            format!("{:+.1}", (spread / isolated - 1.0) * 100.0).into(),
            gains[0].cell(),
            gains[1].cell(),
        ]);
        hand.row([
            n.to_string(),
            format!("{isolated:.3}"),
            format!("{spread:.3}"),
            format!("{full:.0}"),
            would.to_owned(),
        ]);
        policy.iter_mut().zip(gains).for_each(|(policy, gain)| policy.push(gain));
    }
    let asked = |socket: &Socket| pays(&better_by_hand(socket));
    let better = better_by_hand(&middle);
    let mut claims = vec![claim(&says("by hand"), asked, &middle, &draws(rig)?)];
    for (reading, gains) in Reading::BOTH.into_iter().zip(&policy) {
        let sure: Option<Vec<bool>> = gains.iter().map(Gain::is_surely_above).collect();
        claims.push(Claim::judged(
            &says("by the policy"),
            reading,
            sure.as_deref().map_or("too few pairs".to_owned(), first),
            sure.as_deref().map(pays),
        ));
    }
    let mut why = vec![
        format!("by hand, in the middle of the ranges: {}", first(&better)),
        format!("the guard is 2 x th_sq of {} a second for each socket", limits.th_sq),
    ];
    why.extend(played.faults());
    Ok(Found { tables: vec![table, hand], claims, why })
}

/// How many aggressors of eight.
const NUMBERS: std::ops::RangeInclusive<usize> = 1..=6;

/// By hand there is no chance and so no interval: better is what is so much better. Chosen here.
const BETTER: f64 = 1.005;

fn better_by_hand(socket: &Socket) -> Vec<bool> {
    let is = |n: usize| {
        let of = |is_isolated| by_hand(socket, &programs(n), is_isolated);
        of(true) * BETTER < of(false)
    };
    NUMBERS.map(is).collect()
}

/// Few aggressors: spreading; some larger number: isolation.
fn pays(better: &[bool]) -> bool {
    !better[0] && !better[1] && better.contains(&true)
}

fn says(how: &str) -> String {
    format!(
        "{how}: isolation is not better with one or two aggressors, and is with some larger number"
    )
}

fn first(better: &[bool]) -> String {
    match better.iter().position(|is| *is) {
        Some(place) => format!(
            "isolation is better from {} on, and at {} of 6 numbers",
            place + 1,
            better.iter().filter(|is| **is).count()
        ),
        None => "isolation is never better".to_owned(),
    }
}
