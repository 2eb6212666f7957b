//! The report: JSON and schema, text, HTML page.

use base::Nanos;
use engine::Sink;
use expect_test::expect_file;
use journal::{Header, RunEnd, RunStatus};
use report::{JobStateName, Report, ReportBuilder};
use sched::ExitStatus;

use crate::journals::play;
use crate::toy_host::{Part, part};
use tests::tool;

fn fixture() -> String {
    tool::root().join("fixtures/journals/two-cores.jsonl").display().to_string()
}

fn from_fixture() -> Report {
    let recording = journal::read(fixture().as_ref()).expect("a journal");
    report::from_journal(recording).expect("a whole journal")
}

/// Returns the report of a scripted run.
fn report_of(parts: Vec<Part>, spec: &str) -> Report {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let writer = |header: &Header| -> Vec<Box<dyn Sink>> {
        let limits = journal::JournalLimits::default();
        let file = files::NewFile::create(&path).expect("created");
        vec![Box::new(journal::JournalWriter::create(file, header, limits).expect("created"))]
    };
    play(parts, spec, writer);
    report::from_journal(journal::read(&path).expect("a journal")).expect("a whole journal")
}

fn schema_errors(json: &str) -> Vec<String> {
    tool::schema_errors("report.schema.json", &serde_json::from_str(json).expect("JSON"))
}

#[test]
fn the_json_of_a_real_run_is_valid_under_the_schema() {
    let output = tool::run(&["report", &fixture(), "--json"]);
    assert_eq!(schema_errors(&tool::text(&output.stdout)), [""; 0]);
}

#[test]
fn the_schema_rejects_missing_fields_wrong_types_and_unknown_words() {
    let good = from_fixture().to_json().expect("JSON");
    assert_eq!(schema_errors(&good), [""; 0]);
    for (old, new) in [
        ("\"n_turns\":", "\"n_turnz\":"),
        ("\"seed\": 0", "\"seed\": \"0\""),
        ("\"state\": \"failed\"", "\"state\": \"sad\""),
    ] {
        assert!(good.contains(old), "{old}");
        assert!(!schema_errors(&good.replacen(old, new, 1)).is_empty(), "{new}");
    }
}

#[test]
fn the_report_of_a_journal_equals_the_report_of_the_run() {
    let parts = || vec![part(0, "a", Some(9), 0, 2000), part(1, "b", None, 300, 900)];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let live = std::rc::Rc::new(std::cell::RefCell::new(None));
    struct Shared(std::rc::Rc<std::cell::RefCell<Option<ReportBuilder>>>);
    impl Sink for Shared {
        fn record(&mut self, record: &engine::TurnRecord<'_>) -> std::io::Result<()> {
            self.0.borrow_mut().as_mut().expect("made before the run").record(record)
        }
    }
    let sinks = |header: &Header| -> Vec<Box<dyn Sink>> {
        *live.borrow_mut() = Some(ReportBuilder::new(header));
        let limits = journal::JournalLimits::default();
        let file = files::NewFile::create(&path).expect("created");
        let writer = journal::JournalWriter::create(file, header, limits).expect("created");
        vec![Box::new(writer), Box::new(Shared(live.clone()))]
    };
    play(parts(), "dfs", sinks);
    let live = live.borrow().as_ref().expect("made before the run").finish(None);
    let later = report::from_journal(journal::read(&path).expect("a journal")).expect("whole");
    assert_eq!(live, later);
}

#[test]
fn the_table_of_a_real_run_fits_eighty_columns_and_reads_without_colour() {
    let text = tool::text(&tool::run(&["report", &fixture()]).stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "80 columns");
    assert!(!text.contains('\u{1b}'));
    expect_file!["expected/report.txt"].assert_eq(&text);
}

#[test]
fn the_files_are_written_to_the_requested_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("new/directory");
    let output = tool::run(&["report", &fixture(), "--out", out.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(0));
    let json = std::fs::read_to_string(out.join("report.json")).expect("written");
    assert_eq!(schema_errors(&json), [""; 0]);
    assert!(
        std::fs::read_to_string(out.join("report.html")).expect("written").ends_with("</html>\n")
    );
    tool::rejection(&mut tool::command(&["report", &fixture(), "--out", "/proc/nowhere"]));
}

#[test]
fn the_page_is_self_contained() {
    let html = from_fixture().to_html();
    for outside in ["http://", "https://", "<link", "src=", "@import", "url(", "@font-face"] {
        let found: Vec<_> = html.match_indices(outside).map(|(at, _)| &html[at..at + 40]).collect();
        let harmless = |text: &&str| {
            text.starts_with("http://www.w3.org/2000/svg") || text.starts_with("url(#plot)")
        };
        assert!(found.iter().all(harmless), "{found:?}");
    }
    assert!(html.contains("default-src 'none'"));
}

/// Without loads the page has no element that the script of the loads needs.
#[test]
fn a_run_that_ended_before_the_first_sample_has_a_page_without_the_script_of_the_loads() {
    let report = Report { loads: Vec::new(), ..from_fixture() };
    let script = "place.addEventListener";
    assert!(from_fixture().to_html().contains(script));
    let html = report.to_html();
    assert!(!html.contains(script) && html.contains("No load was recorded"));
}

#[test]
fn the_page_begins_with_the_result_and_marks_each_job_that_failed_or_timed_out() {
    let mut report = from_fixture();
    let states = [JobStateName::OomKilled, JobStateName::TimedOut, JobStateName::Done];
    for (job, state) in report.jobs.iter_mut().zip(states) {
        job.state = state;
    }
    report.totals.n_oom_killed = 1;
    let html = report.to_html();
    let (_, result) = html.split_once("<p class=\"answer bad\">").expect("a result");
    let (first, rest) = result.split_once("</p>").expect("one paragraph");
    assert!(first.contains("1 of 6 jobs failed") && rest.contains("class=\"tiles\""), "{first}");
    assert!(html.contains("1 failed (1 OOM-killed)"), "the tile of the jobs");
    for job in [
        "\"state\":\"oom-killed\",\"mark\":\"failed\"",
        "\"state\":\"timed-out\",\"mark\":\"timed out\"",
        "\"state\":\"done\",\"mark\":null",
    ] {
        assert!(html.contains(job), "{job}");
    }
}

#[test]
fn a_job_with_a_hostile_name_stays_text_everywhere() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{1b}[31m";
    let mut parts = vec![part(0, evil, Some(3), 0, 800), part(1, "b", None, 0, 800)];
    parts[0].status = ExitStatus::Signaled(11);
    parts[1].broken = Some(evil.to_owned());
    let report = report_of(parts, "dfs");
    let html = report.to_html();
    // The only scripts of the page are the data and the program of the page.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    assert!(!html.contains("<img") && !html.contains('\u{1b}'));
    assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    let text = report.to_text(80);
    assert!(!text.contains('\u{1b}'), "no name controls the terminal");
}

#[test]
fn a_thousand_jobs_make_a_page_of_bounded_size() {
    let parts = |n: u32| {
        (0..n).map(|id| part(id, &format!("job.{id}"), Some(5), 10 * u64::from(id), 40)).collect()
    };
    let report = report_of(parts(1000), "linux");
    assert_eq!(report.totals.n_done, 1000);
    assert_eq!(report.jobs.len(), 1000);
    assert!(report.to_html().len() < 3 << 20, "{}", report.to_html().len());
    let text = report.to_text(80);
    assert!(text.lines().count() < 70, "a terminal shows a few rows of a thousand");
    assert!(text.contains("… and 960 more"));
}

#[test]
fn totals_add_up_and_values_that_were_not_measured_are_absent() {
    let mut parts = vec![
        part(0, "well", Some(3), 0, 700),
        part(1, "fails", None, 0, 500),
        part(2, "broken", None, 100, 500),
    ];
    parts[1].status = ExitStatus::Exited(7);
    parts[2].broken = Some("no such file".to_owned());
    let report = report_of(parts, "spread");
    let totals = &report.totals;
    assert_eq!((totals.n_jobs, totals.n_done, totals.n_failed, totals.n_starts), (3, 1, 2, 2));
    assert_eq!(totals.user_ns + totals.system_ns, Nanos::from_millis(1200).0);
    let broken = &report.jobs[2];
    assert_eq!((broken.wall_ns, broken.user_ns, broken.max_resident_bytes), (None, None, None));
    assert_eq!(broken.error.as_deref(), Some("no such file"));
    assert_eq!(report.jobs[0].slowdown, None, "not measured alone");
    assert_eq!(report.run.own_cpu_ns, None, "this record has no end");
    let end = RunEnd {
        status: RunStatus::Finished,
        stopped_by: None,
        error: None,
        wall: Nanos::from_secs(10),
        own_cpu: Some(Nanos::from_millis(5)),
        own_max_resident: None,
    };
    let header = Header {
        jobs: Vec::new(),
        ..journal::read(fixture().as_ref()).expect("one").header().clone()
    };
    let share = ReportBuilder::new(&header).finish(Some(&end)).run.own_cpu_share;
    assert_eq!(share, Some(0.0005));
}

/// Returns the report of a simulated run whose policy binds the jobs with one thread as a whole, and the others thread
/// by thread.
fn with_threads(dir: &tests::dir::Dir, options: &[&str]) -> serde_json::Value {
    let policy = "ib[tlp=yes,lrt=yes,cosched=yes]";
    let run = ["run", "parallel", "--host", "sim", "--machine", "cix-p1", "--policy", policy];
    dir.success(&[&run[..], &["--quiet", "--out", "a"], options].concat());
    serde_json::from_str(&dir.text("a/report.json")).expect("JSON")
}

fn cpu_set(list: &serde_json::Value) -> base::CpuSet {
    list.as_str().expect("a list").parse().expect("a list")
}

#[test]
fn moves_of_threads_are_listed_and_count_for_their_jobs() {
    let report = with_threads(&tests::dir::Dir::new(), &[]);
    assert_eq!(schema_errors(&report.to_string()), [""; 0]);
    let moves: Vec<_> = report["moves"].as_array().expect("a list").iter().collect();
    assert_eq!(report["totals"]["n_moves_omitted"], 0);
    assert_eq!(report["totals"]["n_moves"], moves.len());
    for job in report["jobs"].as_array().expect("a list") {
        let own: Vec<_> = moves.iter().filter(|moved| moved["job"] == job["id"]).collect();
        assert_eq!(job["n_moves"], own.len(), "{}", job["name"]);
        assert!(own.iter().all(|moved| moved["tid"].is_null() == (job["threads"] == 1)));
        let used = cpu_set(&job["cpus_used"]);
        assert!(own.iter().all(|moved| cpu_set(&moved["to_cpus"]).is_subset(&used)));
    }
}

#[test]
fn the_timeline_has_the_sampled_cpus_of_a_job_and_the_set_that_it_is_bound_to() {
    let dir = tests::dir::Dir::new();
    let report = with_threads(&dir, &[]);
    let html = dir.text("a/report.html");
    for text in [
        "bound to exactly the drawn CPUs",
        "bound to a set of CPUs that contains the drawn ones",
        "not bound by evenkeel",
    ] {
        assert!(html.contains(&format!("</i>{text}</li>")), "{text}");
    }
    for job in report["jobs"].as_array().expect("a list") {
        let segments: Vec<_> = job["timeline"].as_array().expect("a list").iter().collect();
        let bound = segments.iter().filter(|segment| segment["bound_cpus"].is_string());
        // The threads of a job that is bound thread by thread are bound in its first interval.
        assert!(segments.len() <= bound.clone().count() + 1, "{}", job["name"]);
        for segment in bound {
            let (cpus, bound) = (cpu_set(&segment["cpus"]), cpu_set(&segment["bound_cpus"]));
            assert!(cpus.is_subset(&bound), "{segment}");
            assert_eq!(segment["bound"], cpus == bound, "{segment}");
            assert!(segment["from_ns"].as_u64() < segment["to_ns"].as_u64(), "{segment}");
        }
        if job["threads"] == 1 {
            assert!(segments.iter().all(|segment| cpu_set(&segment["cpus"]).len() == 1));
        }
    }
}

#[test]
fn the_core_kinds_of_a_machine_and_of_the_cpus_of_each_bound_job_are_named() {
    let dir = tests::dir::Dir::new();
    let report = with_threads(&dir, &[]);
    let kinds = report["machine"]["core_kinds"].as_array().expect("a list");
    let names: Vec<_> = kinds.iter().map(|kind| kind["name"].as_str().expect("text")).collect();
    assert_eq!(names, ["big", "medium", "little"]);
    let jobs = report["jobs"].as_array().expect("a list");
    let one_thread = jobs.iter().find(|job| job["threads"] == 1).expect("it is in the workload");
    let bound = one_thread["core_kinds"].as_array().expect("a list");
    assert!(bound.iter().all(|row| names.contains(&row["kind"].as_str().unwrap_or_default())));
    let shares: f64 = bound.iter().map(|row| row["share"].as_f64().expect("a number")).sum();
    assert!((shares - 1.0).abs() < 1e-9, "it was bound from its start to its end: {shares}");
    let text = dir.success(&["report", "a"]);
    assert!(text.contains("12 cores (4 big, 4 medium, 4 little)"), "{text}");
    assert!(
        text.contains(&format!("\n- one-thread: {} ", bound[0]["kind"].as_str().expect("text")))
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "80 columns");
    let html = dir.text("a/report.html");
    assert!(html.contains("4 big: cpus 0-1,10-11; 4 medium: cpus 6-9; 4 little: cpus 2-5"));
    assert_eq!(from_fixture().machine.core_kinds, [], "all its cores are of one kind");
}

#[test]
fn the_bindings_of_threads_are_known_in_a_journal_without_its_first_part() {
    let dir = tests::dir::Dir::new();
    let whole = with_threads(&dir, &["--journal-part", "64K"]);
    let text = dir.success(&["report", "a", "--json"]);
    let rest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(rest["run"]["n_journal_parts_missing"] != 0);
    for key in ["n_moves", "n_migrations"] {
        assert_eq!(rest["totals"][key], whole["totals"][key]);
    }
    let n_moves = |report: &serde_json::Value| -> Vec<serde_json::Value> {
        let jobs = report["jobs"].as_array().expect("a list").iter();
        jobs.map(|job| job["n_moves"].clone()).collect()
    };
    assert_eq!(n_moves(&rest), n_moves(&whole));
    // A job that ended in the missing parts has no timeline.
    let jobs = rest["jobs"].as_array().expect("a list").iter();
    let jobs: Vec<_> = jobs.filter(|job| job["timeline"] != serde_json::json!([])).collect();
    assert!(jobs.iter().all(|job| job["timeline"][0]["bound_cpus"].is_string()));
    let n_parallel = jobs.iter().filter(|job| job["threads"] != 1).count();
    assert!(2 <= n_parallel, "{n_parallel} of the jobs with several threads have a timeline");
}

#[test]
fn concurrent_runs_each_get_their_own_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let workload = dir.path().join("w.toml");
    std::fs::write(&workload, "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n")
        .expect("written");
    let start = |_| {
        let mut command = tool::command(&["run", "w.toml", "--quiet", "--policy=linux"]);
        command.current_dir(dir.path()).spawn().expect("it starts")
    };
    let runs: Vec<_> = (0..12).map(start).collect();
    for mut run in runs {
        assert!(run.wait().expect("it ends").success());
    }
    let journals = (1..=12).map(|n| dir.path().join(format!("evenkeel-runs/w-{n}/journal.jsonl")));
    let ids = journals.map(|path| journal::read(&path).expect("a journal").header().run_id.clone());
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 12);
}

#[test]
fn a_run_shorter_than_an_interval_has_the_expected_source_of_its_loads() {
    let short = || vec![part(0, "short", Some(3), 0, 100)];
    let run = report_of(short(), "dfs").run;
    assert_eq!(
        (run.domain_level.as_deref(), run.signal_tier.as_deref()),
        (Some("core"), Some("declared"))
    );
    assert!(run.signal_tier_text.is_some_and(|text| text.contains("declared class")));
    let run = report_of(short(), "linux").run;
    assert_eq!(run.signal_tier.as_deref(), Some("declared"), "CPU time was attributed to domains");
}

/// Returns the fields of a list of the report in `report.schema.json`: `jobs` or `moves`.
fn fields_of_list(list: &str) -> Vec<String> {
    let schema = std::fs::read_to_string(tool::root().join("docs/report.schema.json"));
    let schema: serde_json::Value =
        serde_json::from_str(&schema.expect("it is shipped")).expect("JSON");
    let row = match list {
        "jobs" => "JobRow",
        "moves" => "MoveRow",
        other => panic!("add the row type of {other}"),
    };
    let fields = schema["$defs"][row]["properties"].as_object().expect(row);
    fields.keys().cloned().collect()
}

#[test]
fn the_jq_examples_of_the_page_of_reports_use_fields_that_exist() {
    let page = std::fs::read_to_string(tool::root().join("docs/reports.md")).expect("a page");
    let mut n_examples = 0;
    let filters = page.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("jq ").or_else(|| Some(line.split_once("| jq ")?.1))
    });
    for filter in filters {
        let (list, rest) = filter.split_once("[] | ").expect("a list of the report");
        let list = list.rsplit('.').next().expect("a name");
        let fields = fields_of_list(list);
        // The query uses `.name` of a list of values, and the plain names of `{at: .at_ns, name, from}`.
        let values = rest.split('.').skip(1);
        let bare = rest.trim_start_matches('{').split([',', '}']).map(str::trim);
        let bare =
            bare.filter(|_| rest.starts_with('{')).filter(|name| !name.contains([':', '\'']));
        for text in values.chain(bare) {
            let end =
                text.find(|c: char| !c.is_ascii_lowercase() && c != '_' && !c.is_ascii_digit());
            let name = &text[..end.unwrap_or(text.len())];
            // The expression `if . then . / 1e9` refers to the value itself.
            assert!(
                name.is_empty() || fields.iter().any(|field| field == name),
                "{name}: {filter}"
            );
        }
        n_examples += 1;
    }
    assert!(1 < n_examples, "the page has no example");
}

/// A command line can contain any character. `cat` of a result must not pass escape sequences to the terminal.
#[test]
fn no_file_of_a_run_or_a_comparison_contains_an_unprintable_character() {
    let dir = tests::dir::Dir::new();
    dir.write(
        "w.toml",
        r#"
        [[job]]
        command = ["true", "\u007F\u009B31m\u2066"]
        profile = "mcf"
        "#,
    );
    dir.success(&["run", "w.toml", "--out", "run", "-q"]);
    let compare =
        "compare w.toml -p linux,random --host sim --machine tilepro64 --seeds 2 --out compare -q";
    dir.success(&compare.split(' ').collect::<Vec<_>>());
    let mut dirs = vec![dir.path("run"), dir.path("compare")];
    let mut n_files = 0;
    while let Some(found) = dirs.pop() {
        for file in std::fs::read_dir(found).expect("results") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let is_plain = |c: char| c == '\n' || c == '\t' || base::is_printable(c);
            assert_eq!(text.chars().find(|&c| !is_plain(c)), None, "{}", path.display());
            n_files += 1;
        }
    }
    assert!(4 < n_files, "{n_files} files");
}
