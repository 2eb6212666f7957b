//! Parameters of DFS with values of their own syntax.

use sched::{CounterEvent, Wake};

use crate::Params;
use crate::dfs::declaration::Config;
use crate::dfs::{Dfs, INFO};

#[test]
fn the_factor_of_the_mean_is_a_rational_number() {
    let factor = |text: &'static str, n_domains| {
        let spec = format!("dfs[factor={text}]");
        let params = Params::parse(&INFO, &spec).expect("accepted values");
        let (num, den) = Dfs::new(Config::new(&params)).factor(n_domains);
        num as f64 / den as f64
    };
    assert_eq!(factor("auto", 2), 4.0 / 3.0);
    assert_eq!(factor("auto", 4), 1.6);
    assert_eq!(factor("auto", 8), 16.0 / 9.0);
    assert_eq!(factor("1.25", 8), 1.25);
    assert_eq!(factor("7/4", 8), 1.75);
}

#[test]
fn wake_accepts_poll_and_an_event_that_can_be_counted_with_a_count() {
    let wake = |text: &str| crate::build(&format!("dfs[wake={text}]"), 0).map(|dfs| dfs.wake());
    let misses = Wake::Overflow { event: CounterEvent::LlcMisses, every: 1_000_000 };
    assert_eq!(wake("overflow:llc-misses:1000000").expect("a wake"), misses);
    assert_eq!(wake("poll").expect("a wake"), Wake::Poll);
    assert_eq!(crate::build("dfs", 0).expect("a policy").wake(), Wake::Poll);
    let bad = ["overflow", "overflow:llc-misses", "overflow:misses:9", "overflow:llc-misses:0", ""];
    for text in bad.into_iter().chain(["overflow:llc-misses:-1", "overflow:cycles:1:2", "Poll"]) {
        let refused = wake(text).expect_err(text).to_string();
        assert!(refused.contains("write poll, or overflow:EVENT:COUNT"), "{refused}");
    }
}
