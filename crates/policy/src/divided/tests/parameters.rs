//! What the readings imply, and that every key overrides them.

use crate::divided::INFO;
use crate::divided::config::{Config, Version};
use crate::spec::Given;

type Pairs<'a> = [(&'a str, &'a str)];

fn config(pairs: &Pairs<'_>) -> Config {
    let info = crate::find("divided").expect("registered");
    Config::read(&Given::new(info, pairs.to_vec()).expect("known keys")).expect("possible values")
}

#[test]
fn what_is_listed_as_default_is_the_default() {
    let listed: Vec<_> = INFO.params.iter().map(|param| (param.name, param.default)).collect();
    assert_eq!(config(&listed), config(&[]));
    let paper = INFO.params.iter().filter(|param| param.name != "reading");
    let paper: Vec<_> = paper.map(|p| (p.name, p.default_paper.unwrap_or(p.default))).collect();
    assert_eq!(config(&paper), config(&[("reading", "paper")]));
}

#[test]
fn a_key_set_by_hand_overrides_the_reading() {
    for param in INFO.params.iter().filter(|param| param.default_paper.is_some()) {
        let mended = config(&[("reading", "paper"), (param.name, param.default)]);
        assert_ne!(mended, config(&[("reading", "paper")]), "{}", param.name);
    }
}

#[test]
fn ranks_tell_groups_until_both_limits_are_given() {
    let version = |pairs: &Pairs<'_>| config(pairs).version;
    assert_eq!(version(&[]), Version::Rank);
    assert_eq!(version(&[("th_sq", "9")]), Version::Rank);
    let both = [("th_sq", "9"), ("th_ref", "7")];
    assert_eq!(version(&both), Version::Threshold { th_sq: 9, th_ref: 7 });
    assert_eq!(version(&[("th_sq", "9"), ("version", "rank")]), Version::Rank);
}

#[test]
fn limits_that_are_missing_or_have_no_effect_are_refused() {
    let refused = |text: &str| crate::build(text, 1).err().expect(text).to_string();
    assert_eq!(
        refused("divided[version=threshold]"),
        "policy divided: version=threshold needs th_sq and th_ref too"
    );
    assert_eq!(
        refused("divided[version=threshold,th_sq=5]"),
        "policy divided: version=threshold needs th_sq and th_ref too"
    );
    assert_eq!(refused("divided[th_ref=5]"), "policy divided: th_ref needs th_sq too");
    assert_eq!(
        refused("divided[version=rank,th_sq=5,th_ref=5]"),
        "policy divided: th_ref has no effect with version=rank, leave one of them out"
    );
    assert!(refused("divided[floor=5]").contains("write a share such as 5%"));
}
