//! Words that have a plain or standard replacement (`xtask/tidy-words.toml`).
//!
//! The check covers whole documents, help texts, reports and scripts, and the prose of Rust sources
//! (`rust_text`): comments, string literals and identifiers. Recorded data is exempt.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::toml_reader::{self, SourceText};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use toml::Spanned;

use super::{Fault, rust_text};

/// Path of the data file, relative to the root.
const LIST: &str = "xtask/tidy-words.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Paths that contain data: recorded files, files generated from recordings, and files of other projects.
    exempt: Vec<Spanned<ExceptionEntry>>,
    /// Legitimate uses of every listed word.
    #[serde(default)]
    except: Vec<Spanned<ExceptionEntry>>,
    word: Vec<Word>,
}

/// An entry of the list: a regular expression and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    pattern: String,
    replace: String,
    #[serde(default)]
    except: Vec<Spanned<ExceptionEntry>>,
}

/// A legitimate use: in files below `path`, inside the phrase `phrase`, or both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionEntry {
    path: Option<String>,
    phrase: Option<String>,
    reason: String,
}

/// A compiled list.
struct WordRules {
    exempt: Vec<Exception>,
    except: Vec<Exception>,
    words: Vec<WordRule>,
}

/// A compiled entry.
struct WordRule {
    pattern: Regex,
    replace: String,
    except: Vec<Exception>,
}

/// A compiled exception.
struct Exception {
    /// Line in the data file.
    line: usize,
    path: Option<String>,
    phrase: Option<Regex>,
    /// Whether the exception allowed a hit. An exception without a hit is a violation.
    has_hit: Cell<bool>,
}

/// One hit of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    line: usize,
    text: String,
    replace: String,
}

/// Checks all files. Returns hits per file, in the order of the files, then exceptions without a hit.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let text =
        fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let rules = WordRules::parse(&text)?;
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| has_prose(file)) {
        let name = file.to_string_lossy().into_owned();
        if name == LIST {
            continue;
        }
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {name}"))?;
        let prose = if name.ends_with(".rs") { rust_text::split(&text).prose } else { text };
        faults.extend(rules.find(&name, &prose).into_iter().map(|hit| {
            format!("{name}:{}: \"{}\" -> {} ({LIST})", hit.line, hit.text, hit.replace)
        }));
    }
    faults.extend(
        rules
            .without_hit()
            .map(|line| format!("{LIST}:{line}: this exception allows no hit -> delete it")),
    );
    Ok(faults)
}

impl WordRules {
    fn parse(text: &str) -> anyhow::Result<WordRules> {
        let text = SourceText::new(text, Path::new(LIST));
        let list: List = toml_reader::deserialize(&text)?;
        let exceptions = |entries: Vec<Spanned<ExceptionEntry>>| {
            entries.into_iter().map(|entry| exception(&text, entry)).collect::<Result<_, _>>()
        };
        let word = |word: Word| {
            let pattern = phrase_regex(&format!(r"(?-u:\b)(?:{})(?-u:\b)", word.pattern))?;
            let except = exceptions(word.except)?;
            anyhow::Ok(WordRule { pattern, replace: word.replace, except })
        };
        Ok(WordRules {
            exempt: exceptions(list.exempt)?,
            except: exceptions(list.except)?,
            words: list.word.into_iter().map(word).collect::<Result<_, _>>()?,
        })
    }

    fn find(&self, file: &str, prose: &str) -> Vec<Hit> {
        let mut hits = Vec::new();
        for rule in &self.words {
            for found in rule.pattern.find_iter(prose) {
                let mut is_allowed = false;
                // All exceptions are tested, because each exception needs a hit.
                for exception in self.exempt.iter().chain(&self.except).chain(&rule.except) {
                    is_allowed |= exception.allows(file, prose, &found);
                }
                if !is_allowed {
                    let line = prose[..found.start()].matches('\n').count() + 1;
                    let text = found.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
                    hits.push(Hit { line, text, replace: rule.replace.clone() });
                }
            }
        }
        hits.sort_by_key(|hit| hit.line);
        hits
    }

    /// Returns the lines of the exceptions that were not used.
    fn without_hit(&self) -> impl Iterator<Item = usize> {
        let of_words = self.words.iter().flat_map(|word| &word.except);
        let all = self.exempt.iter().chain(&self.except).chain(of_words);
        all.filter(|exception| !exception.has_hit.get()).map(|exception| exception.line)
    }
}

fn exception(text: &SourceText<'_>, entry: Spanned<ExceptionEntry>) -> anyhow::Result<Exception> {
    let line = text.line(entry.span().start);
    let ExceptionEntry { path, phrase, reason } = entry.into_inner();
    anyhow::ensure!(!reason.is_empty(), "{LIST}:{line}: the exception has no reason");
    anyhow::ensure!(
        path.is_some() || phrase.is_some(),
        "{LIST}:{line}: the exception has neither a path nor a phrase"
    );
    let phrase = phrase.as_deref().map(phrase_regex).transpose()?;
    Ok(Exception { line, path, phrase, has_hit: Cell::new(false) })
}

impl Exception {
    fn allows(&self, file: &str, prose: &str, hit: &regex::Match<'_>) -> bool {
        let is_allowed = self.path.as_ref().is_none_or(|path| is_below(file, path))
            && self.phrase.as_ref().is_none_or(|phrase| is_inside(phrase, prose, hit));
        if is_allowed {
            self.has_hit.set(true);
        }
        is_allowed
    }
}

/// Compiles a pattern. A space in the pattern also matches a line break.
fn phrase_regex(pattern: &str) -> anyhow::Result<Regex> {
    RegexBuilder::new(&pattern.replace(' ', r"\s+"))
        .case_insensitive(true)
        .build()
        .with_context(|| format!("{LIST}: bad pattern `{pattern}`"))
}

/// Returns whether the hit is part of a match of `phrase`.
fn is_inside(phrase: &Regex, prose: &str, hit: &regex::Match<'_>) -> bool {
    let is_boundary = |idx: &usize| prose.is_char_boundary(*idx);
    let near = (0..hit.start().saturating_sub(80)).rev().find(is_boundary).unwrap_or(0);
    // The search begins at the start of a line, so that the first quotation mark is an opening mark.
    let near = prose[..near].rfind('\n').map_or(0, |newline| newline + 1);
    let until = (hit.end() + 80..prose.len()).find(is_boundary).unwrap_or(prose.len());
    phrase
        .find_iter(&prose[near..until])
        .any(|around| near + around.start() <= hit.start() && hit.end() <= near + around.end())
}

fn is_below(file: &str, path: &str) -> bool {
    file.strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || path.ends_with('/'))
}

fn has_prose(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    let is_script =
        extension.is_empty() && (file.starts_with("scripts") || file.starts_with("workloads"));
    let is_text =
        ["rs", "md", "toml", "txt", "json", "html", "css", "js", "c", "cpp", "sh", "py", "sql"]
            .contains(&&*extension);
    is_script || is_text || file.starts_with(".ci") || file == Path::new("Makefile")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "
        exempt = []
        [[word]]
        pattern = 'told|tells?'
        replace = 'report'
        [[word]]
        pattern = 'put back'
        replace = 'restored'
        [[word]]
        pattern = 'figures?'
        replace = 'value'
        except = [
          { phrase = 'figure \\d+', reason = 'a figure of a paper' },
          { path = 'crates/report/', phrase = '<figure>', reason = 'HTML' },
        ]
    ";

    fn hits(file: &str, prose: &str) -> Vec<(usize, String)> {
        let rules = WordRules::parse(WORDS).expect("a list");
        rules.find(file, prose).into_iter().map(|hit| (hit.line, hit.text)).collect()
    }

    #[test]
    fn a_word_is_found_with_its_line_and_only_as_a_whole_word() {
        assert_eq!(hits("a.md", "x\nIt Told us; untold.\n"), [(2, "Told".to_owned())]);
    }

    #[test]
    fn a_phrase_is_found_across_a_line_break() {
        assert_eq!(hits("a.md", "is put\n   back"), [(1, "put back".to_owned())]);
    }

    #[test]
    fn an_exception_holds_for_its_phrase_and_its_path_only() {
        assert_eq!(hits("a.md", "see figure 8"), []);
        assert_eq!(hits("a.md", "a figure").len(), 1);
        assert_eq!(hits("crates/report/a.rs", "<figure>"), []);
        assert_eq!(hits("crates/app/a.rs", "<figure>").len(), 1);
    }

    #[test]
    fn an_exception_without_a_hit_is_reported_with_its_line() {
        let rules = WordRules::parse(WORDS).expect("a list");
        assert_eq!(rules.without_hit().collect::<Vec<_>>(), [13, 14]);
        rules.find("a.md", "see figure 8");
        assert_eq!(rules.without_hit().collect::<Vec<_>>(), [14]);
        rules.find("crates/report/a.rs", "<figure>");
        assert_eq!(rules.without_hit().count(), 0);
    }

    #[test]
    fn an_error_of_the_list_has_its_position() {
        let error =
            WordRules::parse("exempt = []\n[[word]]\npatern = 'x'\n").err().expect("a typo");
        let position =
            "xtask/tidy-words.toml:3:1: unknown key \"patern\"; did you mean \"pattern\"?";
        assert_eq!(error.to_string(), position);
    }

    #[test]
    fn the_list_in_the_repository_compiles() {
        WordRules::parse(include_str!("../../tidy-words.toml")).expect("a list");
    }
}
