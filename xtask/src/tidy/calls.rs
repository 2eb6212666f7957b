//! Every call of the room `linux` can be made to fail.
//!
//! Tests let a share of all calls fail (`linux::fault`), and see that nothing breaks. That holds only for
//! calls that ask first: a function that calls the system has `fault::refuse("name")` or
//! `fault::retry("name", …)` in it, or says in a comment why not:
//!
//! ```text
//!   // Not refused: it has no way to fail.
//! ```
//!
//! Read line by line, as rustfmt sets them: a function ends with a brace below its first letter. Seen are
//! calls by their usual names; whoever hides one behind another name will not be found out.

use super::Fault;

/// The room.
const ROOM: &str = "crates/linux/src/";

/// How a function asks, or says why it need not. A child between fork and exec asks through `check`.
const ASKS: &[&str] = &["fault::refuse(", "fault::retry(", "check(\"", "// Not refused: "];

/// Files of it that are for tests only, or that make calls fail themselves.
const OTHERS: &[&str] = &["fault.rs", "alone.rs", "pages/faults.rs"];

/// What a call of the system begins with; what follows is its name and an opening bracket.
const PATHS: &[&str] =
    &["libc::", "fs::", "io::", "pipe::", "process::", "event::", "epoll::", "mm::"];

/// Names without a path: what is brought in by `use`, and questions to a path.
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

/// What stands behind such a path and is no call, or one that cannot fail.
const HARMLESS: &[&str] = &[
    "getpid",
    "geteuid",
    "getuid",
    "_exit",
    "sigemptyset",
    "id",
    "__errno_location",
    "create_locked",
];

/// The calls of a file that cannot be made to fail.
pub fn check(file: &str, text: &str) -> Vec<Fault> {
    let Some(inside) = file.strip_prefix(ROOM) else { return Vec::new() };
    let is_for_tests = inside.ends_with("tests.rs") || inside.contains("tests/");
    if is_for_tests || OTHERS.contains(&inside) {
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
        if let Some(call) = call.filter(|_| !asks(body)) {
            faults.push(format!(
                "{file}:{}: a call that cannot be made to fail: begin with fault::refuse, or say \
                 `// Not refused: why`",
                idx + call + 1
            ));
        }
        idx = after;
    }
    faults
}

/// How many lines the function has that begins here; 1 for anything else.
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

fn asks(body: &[&str]) -> bool {
    body.iter().any(|line| ASKS.iter().any(|asks| line.contains(asks)))
}

fn is_call(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    if code.trim_start().starts_with("use ") {
        return false;
    }
    let behind = |path: &str| {
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
                && !HARMLESS.contains(&&*name)
                && rest[name.len()..].starts_with('(')
        })
    };
    PATHS.iter().any(|path| behind(path)) || NAMES.iter().any(|name| begins_with(code, name))
}

/// Whether a name stands in code, and not as the end of a longer one.
fn begins_with(code: &str, name: &str) -> bool {
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
    fn a_call_that_nobody_can_let_fail_is_seen() {
        assert_eq!(n_faults("        rustix::io::write(&self.file, b\"x\")?;"), 1);
        assert_eq!(n_faults("        let done = libc::syscall(libc::SYS_x);"), 1);
        assert_eq!(n_faults("        std::fs::read(path)"), 1);
        assert_eq!(n_faults("        flock(file, how)?;"), 1);
        assert_eq!(n_faults("        path.is_dir()"), 1);
    }

    #[test]
    fn whoever_asks_first_or_says_why_not_may_call() {
        let call = "        std::fs::read(path)";
        assert_eq!(n_faults(&format!("        fault::refuse(\"read\")?;\n{call}")), 0);
        assert_eq!(n_faults("        fault::retry(\"read\", || std::fs::read(path))"), 0);
        assert_eq!(n_faults(&format!("        // Not refused: why.\n{call}")), 0);
    }

    #[test]
    fn what_is_no_call_and_what_is_for_tests_is_left_alone() {
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
        let asks =
            "//! x\npub(super) fn f() {\n    fault::refuse(\"read\")?;\n    fs::read(path)\n}\n";
        assert!(check("crates/linux/src/x.rs", asks).is_empty());
    }
}
