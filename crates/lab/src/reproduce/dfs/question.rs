//! The report's own question: how much would DFS have gained if memory moved along, if far memory were
//! farther, if controllers were pressed harder?

use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World,
};
use super::{ALL, dfs, roomy};

/// Under a reading: memory stays, or moves along. In this order.
fn columns() -> [String; 6] {
    let of = |reading, more| dfs(reading, more);
    [
        of(Reading::Paper, ""),
        of(Reading::Paper, "memory=follow"),
        of(Reading::Ours, ""),
        of(Reading::Ours, "memory=follow"),
        "linux@interleave".to_owned(),
        "linux".to_owned(),
    ]
}
const INTERLEAVED: usize = 4;
const FIRST_TOUCH: usize = 5;

/// Where a reading's columns begin.
fn at(reading: Reading) -> usize {
    if reading == Reading::Paper { 0 } else { 2 }
}

fn play(rig: &Rig<'_>, world: &World) -> Result<Played, ReproduceError> {
    let columns = columns();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    rig.play(world, &columns, &ALL)
}

pub(super) fn remote_latency(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    const RATIOS: [f64; 6] = [1.05, 1.10, 1.15, 1.5, 2.0, 3.0];
    let mut found = Found::default();
    let mut played = Vec::new();
    for ratio in RATIOS {
        played.push(play(rig, &roomy()?.remote_over_local(ratio))?);
    }
    for (base, what) in [(INTERLEAVED, "linux@interleave"), (FIRST_TOUCH, "linux, memory by node")]
    {
        let title = format!("mean gain over the ten workloads against {what}, in %");
        let heads =
            ["remote/local", "paper", "paper, memory follows", "ours", "ours, memory follows"];
        let mut table = Table::new(&title, &heads).units(&["%"]).drawn(Drawing::Lines);
        for (ratio, played) in RATIOS.iter().zip(&played) {
            let gain = |column| played.mean_gain(column, (played, base)).cell();
            table.row(std::iter::once(format!("{ratio:.2}").into()).chain((0..4).map(gain)));
        }
        found.tables.push(table);
        for reading in Reading::BOTH {
            let of = |place: usize, more: usize| {
                played[place].mean_gain(at(reading) + more, (&played[place], base))
            };
            found.claims.extend(judge(reading, what, &of));
            if base == INTERLEAVED {
                found.claims.push(accepted(reading, &played[..3], base));
            }
        }
    }
    found.why.extend(played.iter().flat_map(Played::faults));
    Ok(found)
}

/// The acceptance at 1.05 to 1.15.
fn accepted(reading: Reading, small: &[Played], base: usize) -> Claim {
    let gains: Vec<Gain> = small
        .iter()
        .flat_map(|played| (0..ALL.len()).map(move |place| (played, place)))
        .map(|(played, place)| played.gain(at(reading), place, (played, base)))
        .collect();
    let all = || gains.iter().filter(|gain| !gain.is_empty()).map(|gain| gain.mean * 100.0);
    let found = match (all().reduce(f64::min), all().reduce(f64::max)) {
        (Some(least), Some(most)) => format!("{least:+.1} to {most:+.1} %"),
        _ => "–".to_owned(),
    };
    Claim::judged(
        "at 1.05, 1.10 and 1.15 every workload's gain against linux@interleave lies between -1 and +5 %",
        reading,
        found,
        (!gains.iter().any(Gain::is_empty))
            .then(|| gains.iter().all(|gain| gain.is_within(-1.0, 5.0))),
    )
}

/// From 1.5 on: does the gain vanish, and does moving memory bring it back? `of(place, memory moves)`.
fn judge(reading: Reading, base: &str, of: &dyn Fn(usize, usize) -> Gain) -> [Claim; 2] {
    let now = of(1, 0);
    let far: Vec<(Gain, Gain)> = (3..6).map(|place| (of(place, 0), of(place, 1))).collect();
    let stays: Vec<String> = far.iter().map(|(stays, _)| stays.percent()).collect();
    let pairs: Vec<String> = far
        .iter()
        .map(|(stays, follows)| format!("{} to {}", stays.percent(), follows.percent()))
        .collect();
    // Each is judged by what the interval of the difference, seed by seed, leaves out.
    let larger = far.iter().map(|(stays, _)| stays.beside(&now).is_surely_above());
    let no_larger: Option<Vec<bool>> = larger.collect();
    let brought = far.iter().map(|(stays, follows)| {
        Some(follows.beside(stays).is_surely_above()? && 0.0 < follows.mean)
    });
    let brought: Option<Vec<bool>> = brought.collect();
    let told = |gain: &Gain| gain.figure("%");
    [
        Claim::judged(
            &format!(
                "against {base}: from 1.5 on, memory staying, the gain is not surely larger than at 1.10"
            ),
            reading,
            format!("{} at 1.10; {} at 1.5, 2 and 3", now.percent(), stays.join(", ")),
            no_larger.map(|larger| !larger.contains(&true)),
        )
        .on(std::iter::once(&now).chain(far.iter().map(|(stays, _)| stays)).filter_map(told)),
        Claim::judged(
            &format!("against {base}: from 1.5 on, moving memory brings it back"),
            reading,
            format!("{} at 1.5, 2 and 3", pairs.join(", ")),
            brought.map(|brought| !brought.contains(&false)),
        )
        .on(far.iter().flat_map(|(stays, follows)| [stays, follows]).filter_map(told)),
    ]
}

/// A cause: how far memory is, how much less bandwidth there is, whether memory moves.
const CAUSES: [(&str, Option<f64>, u64, usize); 8] = [
    ("as it was", None, 1, 0),
    ("memory moves along", None, 1, 1),
    ("remote 1.5 times as far", Some(1.5), 1, 0),
    ("remote 2 times as far", Some(2.0), 1, 0),
    ("half the bandwidth", None, 2, 0),
    ("a quarter of it", None, 4, 0),
    ("remote 2 times, a quarter", Some(2.0), 4, 0),
    ("all three", Some(2.0), 4, 1),
];

pub(super) fn causes(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let heads =
        ["cause", "paper: interleaved", "ours: interleaved", "paper: by node", "ours: by node"];
    let mut table = Table::new("mean gain over the ten workloads, in %", &heads)
        .units(&["%"])
        .drawn(Drawing::Intervals);
    let mut first: Option<Vec<Gain>> = None;
    for (cause, ratio, times, moves) in CAUSES {
        let mut world = roomy()?;
        world = if let Some(ratio) = ratio { world.remote_over_local(ratio) } else { world };
        world = if times != 1 { world.pressed(times) } else { world };
        let played = play(rig, &world)?;
        let gain = |reading, base| played.mean_gain(at(reading) + moves, (&played, base));
        let gains: Vec<Gain> = [INTERLEAVED, FIRST_TOUCH]
            .into_iter()
            .flat_map(|base| Reading::BOTH.map(|reading| gain(reading, base)))
            .collect();
        table.row(std::iter::once(cause.into()).chain(gains.iter().map(Gain::cell)));
        if let Some(before) = &first {
            for (place, reading) in Reading::BOTH.into_iter().enumerate() {
                found.claims.push(matters(cause, reading, &before[place], &gains[place]));
            }
        }
        first.get_or_insert(gains);
        found.why.extend(played.faults());
    }
    found.tables.push(table);
    Ok(found)
}

/// Whether a cause makes the gain against interleaved memory larger, seed by seed.
fn matters(cause: &str, reading: Reading, before: &Gain, with: &Gain) -> Claim {
    let more = with.beside(before);
    let claim = format!("{cause}: the gain against interleaved memory is larger");
    Claim::judged(&claim, reading, more.found("points"), more.is_surely_above())
}
