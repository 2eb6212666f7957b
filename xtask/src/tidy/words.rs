//! Words that have a plain or standard replacement (`xtask/tidy-words.toml`).
//!
//! The check covers whole documents, help texts, reports and scripts, and the prose of Rust sources
//! (`rust_text`): comments, string literals and identifiers. Recorded data is exempt.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{Fault, rust_text};

/// The data file, relative to the root.
const LIST: &str = "xtask/tidy-words.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Paths that are data: recorded, generated from recordings, or of other projects.
    exempt: Vec<Exemption>,
    /// Legitimate uses of every listed word.
    #[serde(default)]
    except: Vec<Exception>,
    word: Vec<Word>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exemption {
    path: String,
    reason: String,
}

/// One entry: a regular expression and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    pattern: String,
    replace: String,
    #[serde(default)]
    except: Vec<Exception>,
}

/// A legitimate use: in files below `path`, inside the phrase `phrase`, or both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    path: Option<String>,
    phrase: Option<String>,
    reason: String,
}

/// A compiled entry.
struct WordRule {
    pattern: Regex,
    replace: String,
    except: Vec<(Option<String>, Option<Regex>)>,
}

/// One hit of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    line: usize,
    text: String,
    replace: String,
}

/// Checks all files: hits per file, in the order of the files.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let text =
        fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let list: List = toml::from_str(&text).with_context(|| format!("cannot parse {LIST}"))?;
    let rules = compile(&list)?;
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| has_prose(file)) {
        let name = file.to_string_lossy().into_owned();
        if name == LIST || list.exempt.iter().any(|exempt| is_below(&name, &exempt.path)) {
            continue;
        }
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {name}"))?;
        let prose = if name.ends_with(".rs") { rust_text::split(&text).prose } else { text };
        faults.extend(find(&rules, &name, &prose).into_iter().map(|hit| {
            format!("{name}:{}: \"{}\" -> {} ({LIST})", hit.line, hit.text, hit.replace)
        }));
    }
    Ok(faults)
}

fn compile(list: &List) -> anyhow::Result<Vec<WordRule>> {
    for exempt in &list.exempt {
        anyhow::ensure!(!exempt.reason.is_empty(), "{LIST}: {} has no reason", exempt.path);
    }
    list.word.iter().map(|word| rule(word, &list.except)).collect()
}

fn rule(word: &Word, everywhere: &[Exception]) -> anyhow::Result<WordRule> {
    let mut except = Vec::new();
    for exception in everywhere.iter().chain(&word.except) {
        anyhow::ensure!(
            !exception.reason.is_empty(),
            "{LIST}: an exception of {} has no reason",
            word.pattern
        );
        let phrase = exception.phrase.as_deref().map(phrase_regex).transpose()?;
        except.push((exception.path.clone(), phrase));
    }
    let pattern = phrase_regex(&format!(r"(?-u:\b)(?:{})(?-u:\b)", word.pattern))?;
    Ok(WordRule { pattern, replace: word.replace.clone(), except })
}

/// A space in a pattern matches a line break too.
fn phrase_regex(pattern: &str) -> anyhow::Result<Regex> {
    RegexBuilder::new(&pattern.replace(' ', r"\s+"))
        .case_insensitive(true)
        .build()
        .with_context(|| format!("{LIST}: bad pattern `{pattern}`"))
}

fn find(rules: &[WordRule], file: &str, prose: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    for rule in rules {
        for found in rule.pattern.find_iter(prose) {
            let is_allowed = rule.except.iter().any(|(path, phrase)| {
                path.as_ref().is_none_or(|path| is_below(file, path))
                    && phrase.as_ref().is_none_or(|phrase| is_inside(phrase, prose, &found))
            });
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

/// Whether a match of `phrase` near the hit contains it.
fn is_inside(phrase: &Regex, prose: &str, hit: &regex::Match<'_>) -> bool {
    let is_boundary = |idx: &usize| prose.is_char_boundary(*idx);
    let near = (0..hit.start().saturating_sub(80)).rev().find(is_boundary).unwrap_or(0);
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
        let list: List = toml::from_str(WORDS).expect("a list");
        let rules = compile(&list).expect("patterns");
        find(&rules, file, prose).into_iter().map(|hit| (hit.line, hit.text)).collect()
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
    fn the_list_in_the_repository_compiles() {
        let text = include_str!("../../tidy-words.toml");
        compile(&toml::from_str(text).expect("a list")).expect("patterns");
    }
}
