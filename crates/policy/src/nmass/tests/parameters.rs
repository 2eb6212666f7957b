//! What the readings imply, and that every key overrides them.

use crate::PolicyInfo;
use crate::nmass::config::Config;
use crate::nmass::{INFO, MAXIMUM_LOCAL};
use crate::spec::Given;

type Pairs<'a> = [(&'a str, &'a str)];

fn config(info: &'static PolicyInfo, pairs: &Pairs<'_>) -> Config {
    let given = Given::new(info, pairs.to_vec()).expect("known keys");
    match info.name {
        "nmass" => Config::read(&given),
        _ => Config::read_maximum_local(&given),
    }
    .expect("possible values")
}

#[test]
fn what_is_listed_as_default_is_the_default() {
    for info in [&INFO, &MAXIMUM_LOCAL] {
        let info = crate::find(info.name).expect("registered");
        let listed: Vec<_> = info.params.iter().map(|param| (param.name, param.default)).collect();
        assert_eq!(config(info, &listed), config(info, &[]), "{}", info.name);
    }
}

#[test]
fn the_paper_does_not_swap_and_a_key_overrides_it() {
    let info = crate::find("nmass").expect("registered");
    let swaps = |pairs: &Pairs<'_>| config(info, pairs).refine.expect("a third step").swap;
    assert!(swaps(&[]));
    assert!(!swaps(&[("reading", "paper")]));
    assert!(swaps(&[("reading", "paper"), ("swap", "yes")]));
    assert!(!swaps(&[("swap", "no")]));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let refused = |text: &str| crate::build(text, 1).err().expect(text).to_string();
    assert_eq!(
        refused("nmass[even=0.5]"),
        "policy nmass: even cannot be \"0.5\", write a number from 1 to 1000 such as 1.25"
    );
    assert_eq!(
        refused("nmass[window=0]"),
        "policy nmass: window cannot be \"0\", write a whole number of intervals from 1 to 1000"
    );
    assert!(refused("maximum-local[d_min=2]").contains("no parameter \"d_min\""));
}
