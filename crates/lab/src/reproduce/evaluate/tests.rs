//! Claims that are evaluated with simulated runs.

use std::path::Path;

use base::StopFlag;
use base::toml_reader::{SourceText, deserialize};

use super::*;

/// Returns the claims of an experiment with two programs, evaluated with one seed.
fn claims(text: &str) -> Vec<StudyClaim> {
    let text = format!(
        "name = \"a\"\ntitle = \"\"\npublished = \"\"\nlimit = \"\"\nmethod = \"\"
        [let]\non = \"xeon-2x4\"\nstatistic = \"speedup\"\nworkloads = \"programs:lbm@0.02+omnetpp@0.02\"
        [[verdicts]]\npolicy = \"spread\"\n{text}"
    );
    let source = SourceText::new(&text, Path::new("a test"));
    let file: ExperimentFile = deserialize(&source).unwrap_or_else(|error| panic!("{error}"));
    let stop = StopFlag::default();
    let pool = RunPool::new(vec![1], 1, 1, &stop, &|_, _| ());
    let evaluator = Evaluator::new(&pool, &file, None);
    let verdicts = &file.verdicts[0];
    let bindings = merged(&file.bindings, &verdicts.bindings);
    let evaluate = |evaluator: &Evaluator<'_>| {
        verdicts.claim.iter().map(|claim| evaluator.claim(claim, &bindings)).collect()
    };
    evaluator.evaluate(evaluate).expect("it runs")
}

#[test]
fn a_claim_above_the_ceiling_is_not_judged_on_this_input() {
    let claim = |least: &str| {
        format!(
            "[[verdicts.claim]]
            claim = \"it gains 90 %\"
            test = [\"90 <= gain\"]
            judged_if = [\"{least} <= most.gain\"]
            ceiling = \"the ceiling is {{most.gain}} %\"
            found = \"{{gain}} %\"
            measure = {{ most = {{ statistic = \"speedup-ceiling\" }} }}\n"
        )
    };
    let all = claims(&(claim("90") + &claim("0") + &claim("-99 <= gain or 90")));
    let [high, low, alternative] = &all[..] else { panic!("three claims") };
    assert_eq!(high.verdict, StudyVerdict::NotJudged, "{high:?}");
    assert!(high.result.starts_with("on this input: the ceiling is +"), "{high:?}");
    assert!(high.result.contains("; found ") && high.values.len() == 2, "{high:?}");
    for judged in [low, alternative] {
        assert_eq!(judged.verdict, StudyVerdict::DoesNotReproduce, "{judged:?}");
    }
}

#[test]
fn the_best_placement_is_no_slower_than_linux_and_does_not_exceed_the_ceiling() {
    let all = claims(
        "[[verdicts.claim]]
        claim = \"between\"
        test = [\"-0.001 <= best.gain\", \"best.gain <= most.gain\"]
        found = \"{best.gain} {most.gain}\"
        measure = { best = { policy = \"oracle[objective=mean-slowdown]\" }, most = { statistic = \"speedup-ceiling\" } }",
    );
    assert_eq!(all[0].verdict, StudyVerdict::Reproduces, "{all:?}");
}
