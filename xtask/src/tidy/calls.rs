//! Every system call of the crate `linux` can be made to fail by a test.
//!
//! Tests let a share of all calls fail (`linux::fault`) and verify that nothing breaks. This covers only
//! functions that contain `fault::refuse("name")` or `fault::retry("name", …)`. A function without them
//! needs a comment with the reason:
//!
//! ```text
//!   // No fault injection: it has no way to fail.
//! ```
//!
//! The check reads lines as rustfmt formats them: a function ends with a brace below its first letter.
//! It detects calls by their usual names; a call under another name is not detected.

use super::Fault;

/// The checked crate.
const CRATE: &str = "crates/linux/src/";

/// Marks of a fault point; a function with system calls contains one. A child between fork and exec uses `check`.
const FAULT_POINTS: &[&str] =
    &["fault::refuse(", "fault::retry(", "check(\"", "// No fault injection: "];

/// Files for tests only, and files that implement the faults.
const EXEMPT: &[&str] = &["fault.rs", "isolated_test.rs", "pages/fault_tests.rs"];

/// Paths of system calls; the name and an opening bracket follow.
const PATHS: &[&str] =
    &["libc::", "fs::", "io::", "pipe::", "process::", "event::", "epoll::", "mm::"];

/// Names without a path: imported functions, and methods of `Path`.
const NAMES: &[&str] = &[
    "File::open(",
    "File::create(",
    "OpenOptions::new(",
    "getrlimit(",
    "setrlimit(",
    "getxattr(",
    "flock(",
    "openat(",
    "access(",
    "pidfd_open(",
    ".exists()",
    ".is_dir()",
    ".is_file()",
    ".metadata()",
];

/// Names after such a path that are no system call, or that cannot fail.
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

/// Calls of a file that cannot be made to fail.
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
                "{file}:{}: a call that cannot be made to fail: begin with fault::refuse, or add \
                 `// No fault injection: reason`",
                idx + call + 1
            ));
        }
        idx = after;
    }
    faults
}

/// Number of lines of the function that begins here; 1 for anything else.
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
    if code.trim_start().starts_with("use ") {
        return false;
    }
    let calls = |path: &str| {
        code.match_indices(path).any(|(at, _)| {
            let rest = &code[at + path.len()..];
            let name: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_' || c.is_ascii_digit())
                .collect();
            let begins_a_word =
                code[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
            begins_a_word
                && !name.is_empty()
                && !INFALLIBLE.contains(&&*name)
                && rest[name.len()..].starts_with('(')
        })
    };
    PATHS.iter().any(|path| calls(path)) || NAMES.iter().any(|name| contains_name(code, name))
}

/// Whether `name` is in `code`, and not as the end of a longer name.
fn contains_name(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        name.starts_with('.') || before.is_none_or(|c| !c.is_alphanumeric() && !"_.".contains(c))
    })
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
    fn a_call_without_a_fault_point_is_reported() {
        assert_eq!(n_faults("        rustix::io::write(&self.file, b\"x\")?;"), 1);
        assert_eq!(n_faults("        let done = libc::syscall(libc::SYS_x);"), 1);
        assert_eq!(n_faults("        std::fs::read(path)"), 1);
        assert_eq!(n_faults("        flock(file, how)?;"), 1);
        assert_eq!(n_faults("        path.is_dir()"), 1);
    }

    #[test]
    fn a_call_after_a_fault_point_or_with_a_reason_is_allowed() {
        let call = "        std::fs::read(path)";
        assert_eq!(n_faults(&format!("        fault::refuse(\"read\")?;\n{call}")), 0);
        assert_eq!(n_faults("        fault::retry(\"read\", || std::fs::read(path))"), 0);
        assert_eq!(n_faults(&format!("        // No fault injection: reason.\n{call}")), 0);
    }

    #[test]
    fn infallible_functions_comments_and_tests_are_exempt() {
        assert_eq!(n_faults("        let uid = rustix::process::geteuid();"), 0);
        assert_eq!(n_faults("        Err(io::Error::last_os_error())"), 0);
        assert_eq!(n_faults("        libc::WIFSIGNALED(status)"), 0);
        assert_eq!(n_faults("        f(); // std::fs::read(path)"), 0);
        let tests =
            "//! x\n#[cfg(test)]\nmod tests {\n    fn f() {\n        fs::read(path)\n    }\n}\n";
        assert!(check("crates/linux/src/x.rs", tests).is_empty());
        let elsewhere = "//! x\nfn f() {\n    fs::read(path)\n}\n";
        assert!(check("crates/app/src/x.rs", elsewhere).is_empty());
        assert_eq!(check("crates/linux/src/x.rs", elsewhere).len(), 1);
        let refused =
            "//! x\npub(super) fn f() {\n    fault::refuse(\"read\")?;\n    fs::read(path)\n}\n";
        assert!(check("crates/linux/src/x.rs", refused).is_empty());
    }
}
