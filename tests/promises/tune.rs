//! `evenkeel tune` finds better settings, confirms them on held-out runs or keeps the defaults, and prints the same
//! bytes with any number of threads.

use serde_json::Value;
use tests::dir::Dir;
use tests::{tool, transcript};

/// A small machine, and programs that contend for memory: two of the four are memory-hungry.
fn prepare(dir: &Dir) {
    let phase = |instructions: &str, apki: &str, misses: &str| {
        format!(
            "[[phase]]\ninstructions = {instructions}\ncycles_per_instruction = 1.4\ncore_cycles_per_instruction = 0.6\noverlap = 3.0\nfootprint_bytes = 268435456\nllc_accesses_per_1000 = {apki}\n[phase.curve]\ncache_bytes = [1048576, 8388608, 33554432]\nmisses_per_1000 = {misses}\n"
        )
    };
    for (name, text) in [
        ("hungry", phase("6e8", "40.0", "[30.0, 22.0, 12.0]")),
        ("calm", phase("6e8", "2.0", "[1.0, 0.3, 0.1]")),
    ] {
        let head = format!("version = 2\nname = \"{name}\"\n");
        dir.write(&format!("profiles/{name}.profile.toml"), head + &text);
    }
    for (name, n) in [("one", 2), ("two", 3), ("three", 4)] {
        let job = |program: &str| {
            format!(
                "[[job]]\nname = \"{program}\"\ncommand = [\"/bin/true\"]\nprofile = \"{program}\"\ncopies = {n}\nevery = 0.05\n"
            )
        };
        let text = format!("name = \"{name}\"\n{}{}", job("hungry"), job("calm"));
        dir.write(&format!("{name}.toml"), text);
    }
    let machine = "nodes=2 llcs=1 cores=2 llc=16M mem=8G";
    dir.write("m.toml", tool::success(&["machine", "--synthetic", machine, "--toml"]));
}

fn prepared() -> Dir {
    let dir = Dir::new();
    prepare(&dir);
    dir
}

fn tune(dir: &Dir, args: &str) -> String {
    let args = format!("tune {args} --machine m.toml --profiles profiles --quiet");
    dir.success(&args.split_whitespace().collect::<Vec<_>>())
}

fn json(dir: &Dir, args: &str) -> Value {
    let result = serde_json::from_str(&tune(dir, &format!("{args} --json"))).expect("JSON");
    assert_eq!(tool::schema_errors("tune.schema.json", &result), [""; 0]);
    result
}

#[test]
fn a_policy_that_has_nothing_to_decide_on_the_machine_has_a_note() {
    let note = |policy: &str| {
        let search = format!("one.toml --policy {policy} --trials 2 --seeds 1 --held-out-seeds 6");
        let result = json(&prepared(), &search);
        let mut notes = result["notes"].as_array().expect("a list").iter();
        notes
            .find(|note| note.to_string().contains("makes no request on this machine"))
            .map(Value::to_string)
    };
    let reason = "all usable cores are uniform cores, so the policy places no job: it selects between core kinds";
    let expected = format!("\"ib makes no request on this machine: {reason}.\"");
    assert_eq!(note("ib"), Some(expected));
    assert_eq!(note("dfs"), None);
}

#[test]
fn invalid_searches_are_rejected_before_any_run() {
    transcript::check("tunings", prepare, |_, step| match step.split_once(' ') {
        Some(("tune", args)) => {
            format!("evenkeel tune {args} --machine m.toml --profiles profiles")
        }
        _ => panic!("unknown step: {step}"),
    });
}

/// The default interval of `divided`, 10 s, is longer than the jobs: with a shorter one the policy places them.
#[test]
fn a_better_interval_is_found_and_confirmed_on_held_out_seeds() {
    let dir = prepared();
    let search = "two.toml --policy divided --param interval=50ms..20s --trials 16 --seeds 4";
    let result = json(&dir, search);
    assert_eq!(result["outcome"], "confirmed");
    assert_eq!(result["settings"], result["found"]);
    let deciding = &result["gains"][0];
    assert_eq!(
        (&deciding["runs"], &deciding["baseline"]),
        (&"held-out-seeds".into(), &"divided".into())
    );
    assert!(0.0 < deciding["gain_ci95"][0].as_f64().expect("an interval"), "{deciding}");
    assert_eq!(result["held_out_seeds"].as_array().map(Vec::len), Some(20));
    assert_eq!(result["held_out_seeds"][0], 5, "after the last training seed");

    let page = dir.path("tune.html");
    let html = format!("{search} --html {}", page.display());
    let text = tune(&dir, &html);
    let settings = result["settings"].as_str().expect("text");
    assert!(text.starts_with(&format!("Use {settings}: it saves +")), "{text}");
    let wide: Vec<&str> = text.lines().filter(|line| 80 < line.chars().count()).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    assert!(dir.read("tune.html").contains(settings));

    // The settings are an argument of --policy.
    let spec = format!("--policies={settings},linux");
    let compared =
        ["compare", "one.toml", "--seeds", "1", "--machine", "m.toml", "--profiles", "profiles"];
    dir.success(&[&compared[..], &[&spec, "--timelines", "none", "--quiet"]].concat());
}

/// `ratio` and `bandwidth` classify threads whose queue-full cycles are not counted; here both change no run.
#[test]
fn a_parameter_without_effect_keeps_its_default() {
    let dir = prepared();
    let search = "two.toml --policy divided --param interval=50ms..20s --param ratio --param bandwidth --trials 16 --seeds 4";
    let result = json(&dir, search);
    let found = result["found"].as_str().expect("text");
    assert!(found.starts_with("divided[interval=") && !found.contains(','), "{found}");
    for parameter in result["parameters"].as_array().expect("a list").iter().skip(1) {
        assert_eq!(parameter["found"], parameter["default"], "{parameter}");
    }
    let notes = result["notes"].to_string();
    assert!(
        notes.contains("The defaults of ratio, bandwidth are kept: without their values"),
        "{notes}"
    );
}

/// With three training seeds the best of 24 intervals is a lucky one.
#[test]
fn a_gain_that_the_held_out_runs_do_not_confirm_keeps_the_defaults() {
    let dir = prepared();
    let search =
        "two.toml three.toml --policy dio --param interval=10ms..100s --trials 24 --seeds 3";
    let result = json(&dir, search);
    let gain = |runs: &str| {
        let mut gains = result["gains"].as_array().expect("a list").iter();
        gains.find(|gain| gain["runs"] == runs && gain["baseline"] == "dio").expect(runs)
    };
    let (training, held_out) = (gain("training"), gain("held-out-workloads"));
    assert!(0.05 < training["gain"].as_f64().expect("it finished"), "{training}");
    assert_eq!((&training["gain_ci95"], &training["verdict"]), (&Value::Null, &Value::Null));
    let [low, high] = [0, 1].map(|end| held_out["gain_ci95"][end].as_f64().expect("an interval"));
    assert!(low < 0.0 && 0.0 < high, "{held_out}");
    assert_eq!((&result["outcome"], &result["settings"]), (&"not-confirmed".into(), &"dio".into()));
    assert_ne!(result["found"], "dio");
    assert_eq!(result["held_out_workloads"], serde_json::json!(["three"]));
    let text = tune(&dir, search);
    assert!(
        text.starts_with("Keep dio, the defaults: ") && text.contains("contains zero"),
        "{text}"
    );
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let dir = prepared();
    let with_jobs = |jobs: &str| {
        let page = format!("page-{jobs}.html");
        let args =
            format!("one.toml -p dfs --trials 20 --seeds 2 --held-out-seeds 6 --jobs {jobs}");
        let text = tune(&dir, &format!("{args} --json --html {page}"));
        (text, dir.read(&page))
    };
    let sequential = with_jobs("1");
    assert_eq!(sequential, with_jobs("2"));
    let trials = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["trials"].clone();
    let args = "one.toml -p dfs --trials 20 --seeds 2 --held-out-seeds 6 --seed 2 --json";
    assert_ne!(trials(&sequential.0), trials(&tune(&dir, args)), "another seed draws others");
}

#[test]
fn parameters_without_effect_are_skipped_and_no_rejected_combination_runs() {
    let dir = prepared();
    let search = "one.toml -p dfs --param gain --param slope --param refill --trials 16 --seeds 1 --held-out-seeds 2";
    let result = json(&dir, search);
    let trials = result["trials"].as_array().expect("a list");
    assert_eq!(trials.len(), 16);
    for trial in trials {
        let settings = trial["settings"].as_str().expect("text");
        assert!(settings.contains("gain=") || settings == "dfs", "{settings}");
    }
    let [gain, slope] = [0, 1].map(|idx| &result["parameters"][idx]);
    assert_eq!((&gain["n_trials"], &gain["n_skipped"]), (&16.into(), &0.into()));
    assert_eq!((&slope["n_trials"], &slope["n_skipped"]), (&15.into(), &1.into()));
    assert!(
        result["notes"][0].as_str().expect("a note").contains("2 held-out seeds cannot confirm")
    );
    let maps = result["pairs"].as_array().expect("a list");
    assert_eq!(maps.len(), 3, "three pairs of three parameters");
}

#[test]
fn the_examples_of_the_page_are_the_current_output() {
    let page = std::fs::read_to_string(tool::root().join("docs/tune.md")).expect("the page");
    let mut n_checked = 0;
    for block in page.split("```sh\nevenkeel tune ").skip(1) {
        let (command, rest) = block.split_once("\n```\n").expect("the end of the command");
        let Some(printed) = rest.strip_prefix("\n```text\n") else { continue };
        let printed = printed.split("```").next().expect("the end of the output");
        let args: Vec<&str> = command.split_whitespace().filter(|word| *word != "\\").collect();
        let output = tool::success(&[&["tune"], &args[..]].concat());
        assert_eq!(output, printed, "{command}");
        n_checked += 1;
    }
    assert!(1 <= n_checked, "{n_checked}");
}
