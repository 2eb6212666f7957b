//! Fault injection: a test can make every system call of the crate `linux` fail.
//!
//! Tests let a share of all calls fail (`linux::fault`) and verify the behaviour of evenkeel. These tests reach only
//! functions that contain `fault::inject("name")` or `fault::retry("name", …)`. Every other function with a system call
//! needs a comment with the reason:
//!
//! ```text
//!   // No fault injection: it has no way to fail.
//! ```
//!
//! The check reads lines as rustfmt formats them: a function ends with a brace below its first letter.
//! The check detects calls by their usual names; a call under another name is not detected.

use std::sync::LazyLock;

use regex::Regex;

use super::Fault;

/// Path of the checked crate.
const CRATE: &str = "crates/linux/src/";

/// Marks of a fault point. Each function with system calls contains such a mark. A child between fork and exec uses
/// `check`.
const FAULT_POINTS: &[&str] =
    &["fault::inject(", "fault::retry(", "check(\"", "// No fault injection: "];

/// Files for tests only, and files that implement the faults.
const EXEMPT: &[&str] =
    &["fault.rs", "isolated_test.rs", "pages/fault_tests.rs", "test_support.rs"];

/// Usual names of system calls: below a module, imported, or methods of `Path`.
static CALL: LazyLock<Regex> = LazyLock::new(|| {
    let below = r"\b(?:libc|fs|io|pipe|process|event|epoll|mm)::([a-z_0-9]+)\(";
    let imported = "(?:^|[^\\w.])(?:File::open|File::create|OpenOptions::new|getrlimit|setrlimit|\
                    getxattr|flock|openat|access|pidfd_open)\\(";
    let methods = r"\.(?:exists|is_dir|is_file|metadata)\(\)";
    Regex::new(&format!("{below}|{imported}|{methods}")).expect("a pattern")
});

/// Names below such a module that are not system calls, or that cannot fail.
const INFALLIBLE: &[&str] = &[
    "getpid",
    "geteuid",
    "getuid",
    "_exit",
    "sigemptyset",
    "id",
    "__errno_location",
    "create_locked",
];

/// Returns the calls of a file that cannot be made to fail.
pub fn check(file: &str, text: &str) -> Vec<Fault> {
    let Some(inside) = file.strip_prefix(CRATE) else { return Vec::new() };
    let is_for_tests = inside.ends_with("tests.rs") || inside.contains("tests/");
    if is_for_tests || EXEMPT.contains(&inside) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.windows(2).position(|pair| {
        pair[0].starts_with("#[cfg(") && pair[0].contains("test") && pair[1].ends_with('{')
    });
    let lines = &lines[..end.unwrap_or(lines.len())];
    let mut faults = Vec::new();
    let mut idx = 0;
    while idx < lines.len() {
        let after = idx + function_len(&lines[idx..]);
        let body = &lines[idx..after];
        let call = body.iter().position(|line| is_call(line));
        if let Some(call) = call.filter(|_| !has_fault_point(body)) {
            faults.push(format!(
                "{file}:{}: a call that cannot be made to fail: begin with fault::inject, or add \
                 `// No fault injection: reason`",
                idx + call + 1
            ));
        }
        idx = after;
    }
    faults
}

/// Returns the number of lines of the function that begins here; 1 if no function begins here.
fn function_len(lines: &[&str]) -> usize {
    let first = lines[0];
    let indent = &first[..first.len() - first.trim_start().len()];
    let bare = first.trim_start().replace("pub(super) ", "").replace("pub(crate) ", "");
    let is_function =
        bare.split('(').next().is_some_and(|head| format!(" {head}").contains(" fn "));
    if !is_function || first.ends_with('}') || first.ends_with(';') {
        return 1;
    }
    let end = format!("{indent}}}");
    lines.iter().position(|line| *line == end).map_or(1, |at| at + 1)
}

fn has_fault_point(body: &[&str]) -> bool {
    body.iter().any(|line| FAULT_POINTS.iter().any(|point| line.contains(point)))
}

fn is_call(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_fallible = |call: regex::Captures<'_>| {
        call.get(1).is_none_or(|name| !INFALLIBLE.contains(&name.as_str()))
    };
    !code.trim_start().starts_with("use ") && CALL.captures_iter(code).any(is_fallible)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_faults(body: &str) -> usize {
        let text = format!(
            "//! x\nimpl X {{\n    pub fn f(&self) -> io::Result<()> {{\n{body}\n    }}\n}}\n"
        );
        check("crates/linux/src/x.rs", &text).len()
    }

    #[test]
    fn a_call_needs_a_fault_point_or_a_reason() {
        for (n, body) in [
            (1, "rustix::io::write(&self.file, b\"x\")?;"),
            (1, "let done = libc::syscall(libc::SYS_x);"),
            (1, "std::fs::read(path)"),
            (1, "flock(file, how)?;"),
            (1, "path.is_dir()"),
            (0, "fault::inject(\"read\")?;\n        std::fs::read(path)"),
            (0, "fault::retry(\"read\", || std::fs::read(path))"),
            (0, "// No fault injection: reason.\n        std::fs::read(path)"),
            (0, "let uid = rustix::process::geteuid();"),
            (0, "Err(io::Error::last_os_error())"),
            (0, "libc::WIFSIGNALED(status)"),
            (0, "f(); // std::fs::read(path)"),
        ] {
            assert_eq!(n_faults(&format!("        {body}")), n, "{body}");
        }
    }

    #[test]
    fn only_functions_of_the_crate_linux_are_checked_without_its_tests() {
        let of = |file: &str, text: &str| check(file, &format!("//! x\n{text}")).len();
        let call = "fn f() {\n    fs::read(path)\n}\n";
        let tests = "#[cfg(test)]\nmod tests {\n    fn f() {\n        fs::read(path)\n    }\n}\n";
        let injected =
            "pub(super) fn f() {\n    fault::inject(\"read\")?;\n    fs::read(path)\n}\n";
        assert_eq!(of("crates/linux/src/x.rs", call), 1);
        assert_eq!(of("crates/app/src/x.rs", call), 0);
        assert_eq!(of("crates/linux/src/x.rs", tests), 0);
        assert_eq!(of("crates/linux/src/x.rs", injected), 0);
    }
}
