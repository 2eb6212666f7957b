//! Workloads in TOML: every key, and every error with its position.

use expect_test::{Expect, expect};

use super::check;

fn check_workloads(expected: Expect) {
    check("lab/mix.toml", "", expected);
}

/// Each input is a job, from line 2.
fn check_jobs(expected: Expect) {
    check("lab/mix.toml", "[[job]]\n", expected);
}

/// Each input is a job without its command, from line 3.
fn check_keys(expected: Expect) {
    check("lab/mix.toml", "[[job]]\ncommand = [\"a\"]\n", expected);
}

#[test]
fn a_job_needs_nothing_but_a_command() {
    check_jobs(expect![[r#"
        > command = ["sort", "-n", "a b"]
        mix in "lab"
          sort at 0 s: sort ["-n", "a b"] line=1
    "#]]);
}

#[test]
fn every_key_is_read() {
    check_workloads(expect![[r#"
        > version = 1
        > name = "everything"
        > read_only = ["/usr/share/dict/words"]
        > [[job]]
        > name = "a"
        > command = ["/bin/a"]
        > start = "250ms"
        > class = 15
        > sensitivity = { 4 = 0.05, 9 = 0.3, remote = 1 }
        > profile = "mcf"
        > dir = "input"
        > env = { LANG = "C", EMPTY = "" }
        > input = "in"
        > output = "out"
        > threads = 4
        > stop_after = 1.5
        > cpus = "0-3,8"
        > nodes = 1
        > memory = "interleave:0-1"
        > [[job]]
        > shell = "a | b"
        > restart = "until-others-done"
        > [[job]]
        > load = "hog --for 5s"
        everything in "lab"
          read only /usr/share/dict/words
          sh at 0 s: sh "a | b" ending=RestartUntilOthersDone line=20
          hog at 0 s: load ["hog", "--for", "5s"] line=23
          a at 250.0 ms: /bin/a [] class=15 sensitivity=Sensitivity { by_class: [(Class(4), 50), (Class(9), 300)], remote: 1000 } profile=mcf dir=input env={"EMPTY": "", "LANG": "C"} input=in output=out threads=4 ending=After(Nanos(1500000000)) cpus=0-3,8 nodes=1 memory=Interleave({0-1}) line=4
    "#]]);
}

#[test]
fn copies_are_separate_jobs_with_numbers_and_spaced_starts() {
    check_jobs(expect![[r#"
        > name = "small"
        > command = ["cjpeg", "-outfile", "{copy}.jpg"]
        > output = "log.{copy}"
        > start = 1
        > copies = 3
        > every = "0.5"
        mix in "lab"
          small at 1.000 s: cjpeg ["-outfile", "1.jpg"] output=log.1 line=1
          small.2 at 1.500 s: cjpeg ["-outfile", "2.jpg"] output=log.2 line=1
          small.3 at 2.000 s: cjpeg ["-outfile", "3.jpg"] output=log.3 line=1
    "#]]);
}

#[test]
fn the_placeholder_is_kept_in_a_job_without_copies() {
    check_jobs(expect![[r#"
        > command = ["awk", "{copy}"]
        mix in "lab"
          awk at 0 s: awk ["{copy}"] line=1
    "#]]);
}

#[test]
fn jobs_are_sorted_by_start_and_then_by_position() {
    check_workloads(expect![[r#"
        > job = [
        >     { command = ["c"], start = 2 },
        >     { command = ["a"], start = 1 },
        >     { command = ["b"], start = "1000ms" },
        > ]
        mix in "lab"
          a at 1.000 s: a [] line=3
          b at 1.000 s: b [] line=4
          c at 2.000 s: c [] line=2
    "#]]);
}

#[test]
fn derived_names_skip_written_names() {
    check_workloads(expect![[r#"
        > [[job]]
        > command = ["/usr/bin/gzip"]
        > copies = 2
        > [[job]]
        > command = ["gzip"]
        > [[job]]
        > name = "gzip.2"
        > command = ["true"]
        > [[job]]
        > command = ["/opt/.hidden"]
        mix in "lab"
          gzip at 0 s: /usr/bin/gzip [] line=1
          gzip.3 at 0 s: /usr/bin/gzip [] line=1
          gzip.4 at 0 s: gzip [] line=4
          gzip.2 at 0 s: true [] line=6
          hidden at 0 s: /opt/.hidden [] line=9
    "#]]);
}

#[test]
fn defaults_apply_to_jobs_without_the_key() {
    check_workloads(expect![[r#"
        > [defaults]
        > class = 3
        > dir = "input"
        > env = { A = "1", B = "1" }
        > restart = "until-others-done"
        > [[job]]
        > command = ["a"]
        > [[job]]
        > command = ["b"]
        > class = 4
        > env = { B = "2" }
        > restart = "no"
        > [[job]]
        > command = ["c"]
        > stop_after = 1
        mix in "lab"
          a at 0 s: a [] class=3 dir=input env={"A": "1", "B": "1"} ending=RestartUntilOthersDone line=6
          b at 0 s: b [] class=4 dir=input env={"A": "1", "B": "2"} line=8
          c at 0 s: c [] class=3 dir=input env={"A": "1", "B": "1"} ending=After(Nanos(1000000000)) line=13
    "#]]);
}

#[test]
fn invalid_toml_has_a_position() {
    check_workloads(expect![[r#"
        > [[job]]
        > command = ["a"
        > start = 1
        lab/mix.toml:3:1: invalid TOML: missing comma between array elements, expected `,`
    "#]]);
}

#[test]
fn unknown_keys_are_rejected_with_the_nearest_known_one() {
    check_workloads(expect![[r#"
        > [[job]]
        > comand = ["a"]
        lab/mix.toml:2:1: unknown key "comand" in a job; did you mean "command"?
        > [default]
        > class = 1
        lab/mix.toml:1:2: unknown key "default" in the workload; did you mean "defaults"?
        > [defaults]
        > zebra = 1
        lab/mix.toml:2:1: unknown key "zebra" in the defaults; known are class, sensitivity, profile, dir, env, input, threads, stop_after, restart, cpus, nodes, memory
    "#]]);
}

#[test]
fn negative_and_too_long_times_are_rejected() {
    check_keys(expect![[r#"
        > start = -1
        lab/mix.toml:3:9: start is -1, and times cannot be negative; write 0 or more
        > start = "-250ms"
        lab/mix.toml:3:9: start is -250ms, and times cannot be negative; write 0 or more
        > start = 1_000_000_000
        lab/mix.toml:3:9: start is 1000000000, more than 366 days; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
        > start = inf
        lab/mix.toml:3:9: "inf" is not a time; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
        > stop_after = 0
        lab/mix.toml:3:14: stop_after must be longer than 0
        > copies = 1000
        > every = "1000000s"
        lab/mix.toml:1:1: every is 1000000, more than 366 days; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
    "#]]);
}

#[test]
fn a_job_has_exactly_one_command() {
    check_jobs(expect![[r#"
        > class = 1
        lab/mix.toml:1:1: the job has no command; add command = ["program", "argument"], shell or load
        > command = ["a"]
        > shell = "a"
        lab/mix.toml:3:9: command and shell in one job; keep one, or make two jobs
        > command = []
        lab/mix.toml:2:11: command is empty; write the program and its arguments
        > shell = " "
        lab/mix.toml:2:9: shell is empty; write the program and its arguments
        > command = "sort -n"
        lab/mix.toml:2:11: command must be an array such as ["sort", "-n"] (use the key shell for a line of shell), not a string
        > command = ["sleep", 5]
        lab/mix.toml:2:11: command must be an array of strings only, not an integer
        > load = "hogg --for 1s"
        lab/mix.toml:2:8: there is no built-in program "hogg"; did you mean "hog"?
        > command = ["a\u0000"]
        lab/mix.toml:2:11: command contains a NUL character, which no argument can hold; remove it
    "#]]);
}

#[test]
fn numbers_out_of_range_are_rejected() {
    check_keys(expect![[r#"
        > class = 16
        lab/mix.toml:3:9: class 16 is out of range; classes are integers from 0 to 15
        > class = "high"
        lab/mix.toml:3:9: class must be an integer from 0 to 15, not a string
        > threads = 0
        lab/mix.toml:3:11: threads is 0, which is out of range; write 1 to 65536
        > copies = 0
        lab/mix.toml:3:10: copies is 0, which is out of range; write 1 to 100000
        > copies = 100000
        > [[job]]
        > command = ["b"]
        lab/mix.toml:4:1: more than 100000 jobs in one file; lower copies or split the file
    "#]]);
    check_workloads(expect![[r#"
        > version = 2
        lab/mix.toml:1:11: version is 2; this evenkeel reads version 1
        # Another version may have other keys.
        > stages = 3
        > version = 2
        lab/mix.toml:2:11: version is 2; this evenkeel reads version 1
    "#]]);
}

#[test]
fn names_are_unique_and_valid_in_file_names() {
    check_jobs(expect![[r#"
        > name = "a"
        > command = ["x"]
        > [[job]]
        > name = "a"
        > command = ["y"]
        lab/mix.toml:5:8: the name "a" is already used in line 2; rename one
        > name = "a"
        > copies = 2
        > command = ["x"]
        > [[job]]
        > name = "a.2"
        > command = ["y"]
        lab/mix.toml:6:8: the name "a.2" is already used in line 2; rename one
        > name = "../a"
        > command = ["x"]
        lab/mix.toml:2:8: "../a" cannot be a name: use 1 to 100 bytes without a slash, a control character or a leading dot
    "#]]);
}

#[test]
fn sets_and_memory_policies_are_checked() {
    check_keys(expect![[r#"
        > cpus = "3-1"
        lab/mix.toml:3:8: cpus: the range "3-1" ends before it starts
        > cpus = ""
        lab/mix.toml:3:8: cpus is empty; write a list such as 0-3,8, or remove the key
        > memory = "strict:0"
        lab/mix.toml:3:10: "strict:0" is not a memory policy; write bind:NODES, preferred:NODES, interleave:NODES or weighted-interleave:NODES
        > memory = "bind:x"
        lab/mix.toml:3:10: memory: "x" is not a number or a range; write a list such as 0-3,8
    "#]]);
}

#[test]
fn a_job_has_at_most_one_ending_and_one_job_ends() {
    check_keys(expect![[r#"
        > restart = true
        lab/mix.toml:3:11: restart is true; write "until-others-done" or "no"
        > stop_after = 1
        > restart = "until-others-done"
        lab/mix.toml:4:11: stop_after and restart in one job; keep one
        > restart = "until-others-done"
        lab/mix.toml:1:1: every job is restarted until the others are done, so the run never ends; let one job end
    "#]]);
}

#[test]
fn copies_do_not_overwrite_each_other() {
    check_keys(expect![[r#"
        > copies = 2
        > output = "out"
        lab/mix.toml:4:10: output is the same file for every copy; put {copy} into its name
        > copies = 2
        > output = "/dev/null"
        mix in "lab"
          a at 0 s: a [] output=/dev/null line=1
          a.2 at 0 s: a [] output=/dev/null line=1
        > every = 1
        lab/mix.toml:3:9: every needs copies of 2 or more: it is the time between their starts
    "#]]);
}

#[test]
fn an_environment_is_a_table_of_strings() {
    check_keys(expect![[r#"
        > env = { N = 4 }
        lab/mix.toml:3:7: env.N must be a string in quotation marks, not an integer
        > env = { "A=B" = "c" }
        lab/mix.toml:3:7: "A=B" cannot be the name of a variable; it must not be empty or contain =
    "#]]);
}

#[test]
fn a_workload_without_jobs_is_rejected() {
    check_workloads(expect![[r#"
        >
        lab/mix.toml:1:1: there is no job; add one, such as: [[job]] command = ["sort", "words.txt"]
        > name = "empty"
        lab/mix.toml:1:1: there is no job; add one, such as: [[job]] command = ["sort", "words.txt"]
        > job = []
        lab/mix.toml:1:1: there is no job; add one, such as: [[job]] command = ["sort", "words.txt"]
        > [job]
        > command = ["a"]
        lab/mix.toml:1:1: job must be an array of tables, each with the header [[…]], not a table
    "#]]);
}

#[test]
fn no_two_jobs_write_one_file() {
    check_keys(expect![[r#"
        > output = "out"
        > [[job]]
        > command = ["b"]
        > output = "out"
        lab/mix.toml:6:10: the output out is already that of the job in line 1; name another file
        > output = "out"
        > [[job]]
        > command = ["b"]
        > output = "./out"
        lab/mix.toml:6:10: the output ./out is already that of the job in line 1; name another file
        > output = "out"
        > [[job]]
        > command = ["b"]
        > output = "lab/out"
        mix in "lab"
          a at 0 s: a [] output=out line=1
          b at 0 s: b [] output=lab/out line=4
        > output = "/dev/null"
        > [[job]]
        > command = ["b"]
        > output = "/dev/null"
        mix in "lab"
          a at 0 s: a [] output=/dev/null line=1
          b at 0 s: b [] output=/dev/null line=4
        > output = "/dev/shm/out"
        > [[job]]
        > command = ["b"]
        > output = "/dev/shm/out"
        lab/mix.toml:6:10: the output /dev/shm/out is already that of the job in line 1; name another file
        > output = "a.{copy}"
        > copies = 2
        > [[job]]
        > command = ["b"]
        > output = "a.2"
        lab/mix.toml:7:10: the output a.2 is already that of the job in line 1; name another file
    "#]]);
}

#[test]
fn a_job_does_not_truncate_its_input_or_the_workload() {
    check_keys(expect![[r#"
        > input = "x"
        > output = "./x"
        lab/mix.toml:4:10: output is also the input, and would be truncated before it is read; name another file
        > output = "mix.toml"
        lab/mix.toml:3:10: output is this workload file itself, which would be truncated; name another file
    "#]]);
}

#[test]
fn a_value_of_another_type_is_not_reported_as_out_of_range() {
    check_keys(expect![[r#"
        > class = "3"
        lab/mix.toml:3:9: class must be an integer from 0 to 15, not a string
        > class = true
        lab/mix.toml:3:9: class must be an integer from 0 to 15, not a boolean
        > cpus = 0x0
        mix in "lab"
          a at 0 s: a [] cpus=0 line=1
        > dir = ""
        lab/mix.toml:3:7: dir is empty; write a path, or remove the key
        > start = 1e30
        lab/mix.toml:3:9: start is 1e30, more than 366 days; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
    "#]]);
}

#[test]
fn a_duplicate_key_is_reported_at_its_second_definition() {
    check_keys(expect![[r#"
        > class = 1
        > class = 2
        lab/mix.toml:4:1: invalid TOML: key class is defined twice
    "#]]);
}

#[test]
fn a_key_in_the_wrong_table_is_reported() {
    check_workloads(expect![[r#"
        > [defaults]
        > start = 1
        lab/mix.toml:2:1: start is not allowed in the defaults: it belongs to a single job or program
        > [defaults]
        > command = ["a"]
        lab/mix.toml:2:1: command is not allowed in the defaults: it belongs to a single job or program
        > command = ["a"]
        lab/mix.toml:1:1: command is not allowed in the workload: it belongs to a single job or program
        > [defaults]
        > strat = 1
        lab/mix.toml:2:1: unknown key "strat" in the defaults; known are class, sensitivity, profile, dir, env, input, threads, stop_after, restart, cpus, nodes, memory
    "#]]);
}

#[test]
fn a_sensitivity_is_a_table_of_classes_and_slowdowns() {
    for lines in [
        "sensitivity = 0.5",
        "sensitivity = { 16 = 0.1 }",
        "sensitivity = { near = 0.1 }",
        "sensitivity = { 4 = -0.1 }",
        "sensitivity = { 4 = 0.0001 }",
        "sensitivity = { remote = \"much\" }",
    ] {
        let text = format!("[[job]]\ncommand = [\"a\"]\n{lines}\n");
        let message = crate::parse_toml(&text, "w.toml".as_ref()).expect_err(lines).to_string();
        assert!(message.starts_with("w.toml:3:15: "), "{message}");
        assert!(message.contains("sensitivity"), "{message}");
    }
}
