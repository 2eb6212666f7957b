//! What names the oracle, and what does not.

use super::*;

#[test]
fn the_oracle_is_named_with_or_without_its_parameter() {
    assert_eq!(effort("oracle"), Ok(Some(Effort { n_runs: 128 })));
    assert_eq!(effort(" oracle [ runs=7 ]"), Ok(Some(Effort { n_runs: 7 })));
    assert_eq!(effort("dfs"), Ok(None));
    assert_eq!(effort("oracles"), Ok(None));
    for wrong in [
        "oracle[runs=0]",
        "oracle[runs=]",
        "oracle[steps=3]",
        "oracle[runs=1000001]",
        "oracle[",
        "oracle[runs=7",
        "oracle[[runs=7]]",
    ] {
        assert_eq!(effort(wrong), Err(OracleError::Parameter), "{wrong}");
    }
}

#[test]
fn what_is_told_of_its_parameter_is_so() {
    let [runs] = super::INFO.params else { panic!("one parameter") };
    let told = |spec: &str| super::effort(spec).unwrap().unwrap();
    assert_eq!(told("oracle"), told(&format!("oracle[{}={}]", runs.name, runs.default)));
    assert!(runs.values.words().contains(&super::N_RUNS_MAX.to_string()));
}
