//! A small lexer that separates the prose of a Rust file from its code.
//!
//! The prose and the code have the line breaks of the source, so that an offset in either text gives a line of the
//! file:
//!
//! ```text
//!   source   /// Bytes moved.     let s = "no such file";     fn of_two_tasks()
//!   prose        Bytes moved.     ··· s · ·no such file··     ·· of two tasks··
//!   code     ················     let s = "············";     fn of_two_tasks()
//! ```
//!
//! Prose is comments, string literals and identifiers (split into words; keywords are code).
//! A masked character is U+0001, which is neither a space nor part of a word. Escapes in strings and
//! comment markers become spaces, so that a phrase may continue on the next comment line.

/// Placeholder for a character that belongs to the other kind of text.
const MASK: char = '\u{1}';

/// The two views of a source file.
#[derive(Debug)]
pub struct RustText {
    /// Comments, string literals and identifiers.
    pub prose: String,
    /// The source, with literals and comments masked.
    pub code: String,
}

/// Separates a source file. Text that is not valid Rust gives an arbitrary split and no error.
pub fn split(source: &str) -> RustText {
    let mut lexer =
        Lexer { rest: source, text: RustText { prose: String::new(), code: String::new() } };
    while let Some(first) = lexer.rest.chars().next() {
        lexer.step(first);
    }
    lexer.text
}

/// Keywords that could be part of a sentence.
const KEYWORDS: &[&str] = &[
    "as", "const", "else", "enum", "fn", "for", "if", "impl", "in", "let", "match", "mod", "move",
    "mut", "pub", "ref", "return", "static", "struct", "trait", "type", "use", "where", "while",
];

struct Lexer<'a> {
    rest: &'a str,
    text: RustText,
}

impl Lexer<'_> {
    fn step(&mut self, first: char) {
        let rest = self.rest;
        if rest.starts_with("//") {
            let len = rest.find('\n').unwrap_or(rest.len());
            self.comment(len);
        } else if rest.starts_with("/*") {
            let len = rest.find("*/").map_or(rest.len(), |at| at + 2);
            self.comment(len);
        } else if let Some((open, hashes)) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let len = rest[open..].find(&close).map_or(rest.len() - open, |at| at);
            self.code(open);
            self.string(len, false);
            self.code(close.len().min(self.rest.len()));
        } else if first == '"' {
            self.code(1);
            self.string(string_len(self.rest), true);
            self.code(1.min(self.rest.len()));
        } else if let Some(len) = char_literal(rest) {
            self.code(len);
        } else if first.is_alphabetic() || first == '_' {
            self.identifier();
        } else {
            self.code(first.len_utf8());
        }
    }

    fn take(&mut self, len: usize) -> &str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn code(&mut self, len: usize) {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.text.code.push_str(taken);
        self.text.prose.extend(taken.chars().map(masked));
    }

    fn comment(&mut self, len: usize) {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.text.code.extend(taken.chars().map(masked));
        let marker = taken.find(|c: char| !"/!*".contains(c)).unwrap_or(taken.len());
        self.text.prose.extend(taken[..marker].chars().map(|_| ' '));
        self.text.prose.push_str(&taken[marker..]);
    }

    fn string(&mut self, len: usize, escapes: bool) {
        let content = self.take(len).to_owned();
        self.text.code.extend(content.chars().map(masked));
        let mut chars = content.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' if escapes => {
                    self.text.prose.push(' ');
                    let escaped = chars.next().unwrap_or(' ');
                    self.text.prose.push(if escaped == '\n' { '\n' } else { ' ' });
                }
                _ => self.text.prose.push(c),
            }
        }
    }

    /// Splits an identifier such as `of_two_tasks` or `ProcessTable` into words in `prose`; `code` keeps the
    /// identifier.
    fn identifier(&mut self) {
        let rest = self.rest;
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if KEYWORDS.contains(&&rest[..len]) {
            return self.code(len);
        }
        let name = self.take(len).to_owned();
        self.text.code.push_str(&name);
        let mut before = '_';
        for c in name.chars() {
            if c.is_uppercase() && before.is_lowercase() {
                self.text.prose.push(' ');
            }
            self.text.prose.push(if c == '_' { ' ' } else { c });
            before = c;
        }
    }
}

fn masked(c: char) -> char {
    if c == '\n' || c == ' ' { c } else { MASK }
}

/// Returns the length of the opening and the number of hashes of a raw string.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let after = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then(|| (rest.len() - after.len() + hashes + 1, hashes))
}

/// Returns the length of a string's content up to its closing quotation mark.
fn string_len(content: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in content.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    content.len()
}

/// Returns the length of a character literal; `None` for a lifetime.
fn char_literal(rest: &str) -> Option<usize> {
    let content = rest.strip_prefix('\'')?;
    let first = content.chars().next()?;
    if first == '\\' {
        let after = content[1..].chars().next()?.len_utf8() + 1;
        return content[after..].find('\'').map(|at| 1 + after + at + 1);
    }
    let close = first.len_utf8();
    content[close..].starts_with('\'').then_some(close + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, prose: &str, code: &str) {
        let text = split(source);
        let words =
            |text: &str| text.replace(MASK, " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((words(&text.prose), words(&text.code)), (prose.into(), code.into()));
        assert_eq!(text.prose.matches('\n').count(), source.matches('\n').count());
    }

    #[test]
    fn comments_are_prose_and_continue_over_lines() {
        check("/// Bytes\n/// moved.\nlet a = 1; // why", "Bytes moved. a why", "let a = 1;");
        check("/* a */ b", "a */ b", "b");
    }

    #[test]
    fn strings_are_prose_without_escapes() {
        check(r#"f("no\nfile \"x\"", b)"#, "f no file x b", r#"f(" ", b)"#);
        check("r#\"a \"b\" c\"#; d", "a \"b\" c d", "r#\" \"#; d");
        check("let a = \"one \\\n  two\";", "a one two", "let a = \" \";");
    }

    #[test]
    fn a_quotation_mark_in_a_character_literal_opens_no_string() {
        check(
            "f('\"'); g('\\''); h::<'a>(b'\\\\', \"c\")",
            "f g h a b c",
            "f('\"'); g('\\''); h::<'a>(b'\\\\', \" \")",
        );
    }

    #[test]
    fn identifiers_of_items_and_variables_are_split_into_words() {
        check("fn of_two_tasks() {}", "of two tasks", "fn of_two_tasks() {}");
        check("struct ProcessTable;", "Process Table", "struct ProcessTable;");
        check("let n_free = x;", "n free x", "let n_free = x;");
        check("|page: T| S { node }", "page T S node", "|page: T| S { node }");
    }
}
