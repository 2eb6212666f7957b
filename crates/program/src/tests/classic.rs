//! Workloads in the classic form.

use expect_test::{Expect, expect};

use super::check;

fn check_all(expected: Expect) {
    check("lab/mix.txt", "", expected);
}

#[test]
fn a_line_is_start_class_program_and_arguments() {
    check_all(expect![[r##"
        > # comment
        >
        > 0.25 7 /usr/bin/cjpeg -quality 90 "a b.ppm"␍
        > ␉1 - /bin/true # 5
        mix in "lab"
          cjpeg at 250.0 ms: /usr/bin/cjpeg ["-quality", "90", "a b.ppm"] class=7 line=3
          true at 1.000 s: /bin/true ["#", "5"] line=4
    "##]]);
}

#[test]
fn read_only_files_are_kept() {
    check_all(expect![[r#"
        > @ro /data/words     # this file may be copied per node
        > @ro "/a b"
        > 0 - /bin/a
        mix in "lab"
          read only /data/words
          read only /a b
          a at 0 s: /bin/a [] line=3
    "#]]);
}

#[test]
fn lines_are_sorted_stably_and_names_are_made_unique_in_start_order() {
    check_all(expect![[r#"
        > 5 1 /bin/a x
        > 0 2 /bin/b
        > 5 3 /opt/a y
        > 0 4 /bin/b.2
        > 0 5 /bin/b
        mix in "lab"
          b at 0 s: /bin/b [] class=2 line=2
          b.2 at 0 s: /bin/b.2 [] class=4 line=4
          b.3 at 0 s: /bin/b [] class=5 line=5
          a at 5.000 s: /bin/a ["x"] class=1 line=1
          a.2 at 5.000 s: /opt/a ["y"] class=3 line=3
    "#]]);
}

#[test]
fn quotation_marks_enclose_blanks_escaped_marks_and_empty_fields() {
    check_all(expect![[r#"
        > 0 - /bin/a "" "x ""y" "\"q\"" "back\\slash a\.b" c\d
        mix in "lab"
          a at 0 s: /bin/a ["", "x y", "\"q\"", "back\\slash a\\.b", "c\\d"] line=1
    "#]]);
}

#[test]
fn every_error_has_its_position() {
    check_all(expect![[r#"
        >
        > 0 -
        lab/mix.txt:2:1: a job is START CLASS PATH [ARGUMENT …], and the path is missing; write the absolute path of the program, such as /bin/true
        > 7
        lab/mix.txt:1:1: a job is START CLASS PATH [ARGUMENT …], and the class is missing; write - for no class
        > -1 3 /bin/a
        lab/mix.txt:1:1: start is -1, and times cannot be negative; write 0 or more
        > soon 3 /bin/a
        lab/mix.txt:1:1: "soon" is not a time; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
        > 1e9 3 /bin/a
        lab/mix.txt:1:1: start is 1e9, more than 366 days; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
        > 0 16 /bin/a
        lab/mix.txt:1:3: class 16 is out of range; classes are integers from 0 to 15
        > 0 x /bin/a
        lab/mix.txt:1:3: class x is out of range; classes are integers from 0 to 15
        > 0 3 a
        lab/mix.txt:1:5: "a" does not begin with /; the classic form needs absolute paths
        > 0 3 /bin/a "b c
        lab/mix.txt:1:12: the quotation mark that opens here is never closed; add " at the end
        > @rw /a
        lab/mix.txt:1:1: unknown line "@rw"; the only line with @ is @ro PATH
        > @ro a
        lab/mix.txt:1:5: "a" does not begin with /; the classic form needs absolute paths
        > @ro /a b
        lab/mix.txt:1:8: "b" follows the path; put a path with blanks into quotation marks
        > # nothing
        lab/mix.txt:1:1: there is no job; add one, such as: 0 - /usr/bin/sort /tmp/words
    "#]]);
}

#[test]
fn invalid_utf_8_is_rejected_at_its_position() {
    let error = crate::parse_bytes(b"# a\n0 - \xff", std::path::Path::new("w")).unwrap_err();
    assert_eq!(error.to_string(), "w:2:5: the file is not UTF-8 text");
}

#[test]
fn toml_without_the_suffix_is_reported() {
    check_all(expect![[r#"
        > # mine
        >
        > [[job]]
        > command = ["a"]
        lab/mix.txt:3:1: the file is TOML, but its name does not end in .toml; rename it
        > version = 1
        > [defaults]
        > class = 1
        lab/mix.txt:2:1: the file is TOML, but its name does not end in .toml; rename it
    "#]]);
}

#[test]
fn a_missing_field_is_reported_in_its_line() {
    check_all(expect![[r#"
        > @ro
        lab/mix.txt:1:1: @ro has no file; write @ro PATH
        > 0 -
        lab/mix.txt:1:1: a job is START CLASS PATH [ARGUMENT …], and the path is missing; write the absolute path of the program, such as /bin/true
        > 0
        lab/mix.txt:1:1: a job is START CLASS PATH [ARGUMENT …], and the class is missing; write - for no class
        > 0 - /bin/a␀b
        lab/mix.txt:1:5: the path contains a NUL character, which no argument can hold; remove it
        > 0 - /bin/a b␀c
        lab/mix.txt:1:12: the line contains a NUL character, which no argument can hold; remove it
    "#]]);
}
