//! What policies do unless they are told otherwise, as they say themselves.

use base::Nanos;

use super::Reading;

/// Between two decisions of a policy.
pub(super) fn interval(policy: &str) -> Nanos {
    let built = policy::build(policy, 0).expect("a policy that ships needs no parameters");
    built.interval().expect("a policy that decides periodically")
}

/// How many polls a program rests that `dfs` has moved (spec 1.6).
pub(super) fn cooldown_polls(reading: Reading) -> u64 {
    let info = policy::find("dfs").expect("it ships");
    let cooldown = info.params.iter().find(|param| param.name == "cooldown");
    let cooldown = cooldown.expect("a parameter of it");
    let text = match reading {
        Reading::Paper => cooldown.default_paper.unwrap_or(cooldown.default),
        Reading::Ours | Reading::Either => cooldown.default,
    };
    text.parse().expect("a whole number of polls")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_policies() {
        assert_eq!(interval("divided"), Nanos::from_secs(10));
        assert_eq!(interval("dfs"), Nanos::from_millis(250));
        assert_eq!([Reading::Paper, Reading::Ours].map(cooldown_polls), [0, 8]);
    }
}
