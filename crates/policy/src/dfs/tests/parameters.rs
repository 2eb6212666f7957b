//! What the readings imply, and that every key overrides them.

use sched::{CounterEvent, Wake};

use crate::dfs::config::Config;
use crate::dfs::{Dfs, INFO};
use crate::spec::Given;

fn config(pairs: &[(&str, &str)]) -> Config {
    let info = crate::registry().iter().find(|info| info.name == "dfs").expect("dfs is there");
    let given = Given::new(info, pairs.to_vec()).expect("known keys");
    Config::read(&given).expect("possible values")
}

#[test]
fn what_is_listed_as_default_is_the_default() {
    let listed: Vec<_> = INFO.params.iter().map(|param| (param.name, param.default)).collect();
    assert_eq!(config(&listed), config(&[]));
}

#[test]
fn what_is_listed_as_default_of_the_paper_is_what_the_paper_implies() {
    let ours = |pair: &(&'static str, &'static str)| pair.0 != "reading";
    let mut listed: Vec<_> = (INFO.params.iter())
        .map(|param| (param.name, param.default_paper.unwrap_or(param.default)))
        .filter(ours)
        .collect();
    assert_eq!(config(&listed), config(&[("reading", "paper")]));
    listed.push(("reading", "paper"));
    assert_eq!(config(&listed), config(&[("reading", "paper")]));
}

#[test]
fn a_key_set_by_hand_overrides_the_reading() {
    for param in INFO.params.iter().filter(|param| param.default_paper.is_some()) {
        let mended = config(&[("reading", "paper"), (param.name, param.default)]);
        assert_ne!(mended, config(&[("reading", "paper")]), "{}", param.name);
        let printed = config(&[(param.name, param.default_paper.expect("filtered"))]);
        assert_ne!(printed, config(&[]), "{}", param.name);
    }
}

#[test]
fn the_limit_of_the_mean_is_rational() {
    let factor = |text: &'static str, n_domains| {
        let (num, den) = Dfs::new(config(&[("factor", text)])).factor(n_domains);
        num as f64 / den as f64
    };
    assert_eq!(factor("auto", 2), 4.0 / 3.0);
    assert_eq!(factor("auto", 4), 1.6);
    assert_eq!(factor("auto", 8), 16.0 / 9.0);
    assert_eq!(factor("1.25", 8), 1.25);
    assert_eq!(factor("7/4", 8), 1.75);
}

#[test]
fn what_wakes_it_is_the_interval_or_a_counter_and_nothing_that_cannot_be_counted() {
    let wake = |text: &str| crate::build(&format!("dfs[wake={text}]"), 0).map(|dfs| dfs.wake());
    let misses = Wake::Overflow { event: CounterEvent::LlcMisses, every: 1_000_000 };
    assert_eq!(wake("overflow:llc-misses:1000000").expect("a wake"), misses);
    assert_eq!(wake("poll").expect("a wake"), Wake::Poll);
    assert_eq!(crate::build("dfs", 0).expect("a policy").wake(), Wake::Poll);
    let bad = ["overflow", "overflow:llc-misses", "overflow:misses:9", "overflow:llc-misses:0", ""];
    for text in bad.into_iter().chain(["overflow:llc-misses:-1", "overflow:cycles:1:2", "Poll"]) {
        let refused = wake(text).expect_err(text).to_string();
        assert!(refused.contains("write poll, or overflow:WHAT:COUNT"), "{refused}");
    }
}
