//! The book in `docs/`: every page is in SUMMARY.md, links between documents resolve, and test filters match.
//!
//! The check covers Markdown links to files and headings in all tracked Markdown files, the files that pages include
//! (`{{#include path}}`), and paths in code spans of the pages on the source code. External links are not checked. A
//! filter of `cargo test` must be part of the path of a function. Otherwise cargo runs no test and succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use regex::Regex;

use super::Fault;

/// The directory of the book.
const BOOK: &str = "docs";

/// Pages in which a code span with a path below one of these directories must name an existing file.
const SOURCE_PAGES: &[&str] = &["docs/ARCHITECTURE.md", "docs/extending.md", "CONTRIBUTING.md"];
const SOURCE_DIRS: &str = "crates|tests|xtask|docs|scripts|fixtures|workloads";

/// Returns the faults of all Markdown files in `files`.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "md")) {
        let text = fs::read_to_string(root.join(file));
        pages
            .insert(file.clone(), text.with_context(|| format!("cannot read {}", file.display()))?);
    }
    let mut faults = check_pages(&pages, |path| root.join(path).exists())?;
    let rust = files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "rs"));
    let mut functions = Vec::new();
    for file in rust {
        let text = fs::read_to_string(root.join(file))?;
        functions.extend(function_paths(file, &text));
    }
    faults.extend(check_filters(&pages, &functions)?);
    Ok(faults)
}

/// Returns the file and path of each function: the directories, the file and the name, as cargo prints them, but
/// without modules inside the file.
fn function_paths(file: &Path, text: &str) -> Vec<(PathBuf, String)> {
    let names = text.split("fn ").skip(1).filter_map(|rest| Some(rest.split_once('(')?.0));
    let dirs = file.with_extension("").to_string_lossy().replace('/', "::");
    let path = |name: &str| (file.to_owned(), format!("{dirs}::{name}"));
    names.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_')).map(path).collect()
}

/// Returns the filters of `cargo test` in documents that match no function.
fn check_filters(
    pages: &BTreeMap<PathBuf, String>,
    functions: &[(PathBuf, String)],
) -> anyhow::Result<Vec<Fault>> {
    let command = Regex::new(r"cargo test([^`\n]*(?:\n[^`\n]*)?)`")?;
    let mut faults = Vec::new();
    for (page, text) in pages {
        for found in command.captures_iter(text) {
            let mut words = found[1].split_whitespace();
            let (mut package, mut filter) = (None, None);
            while let Some(word) = words.next().filter(|word| *word != "--") {
                match word {
                    "-p" | "--package" => package = words.next(),
                    "--test" | "--features" | "--bin" => _ = words.next(),
                    _ if !word.starts_with('-') => filter = filter.or(Some(word)),
                    _ => {}
                }
            }
            let is_in_package = |file: &Path| {
                package.is_none_or(|name| {
                    file.starts_with(name) || file.starts_with(Path::new("crates").join(name))
                })
            };
            if let Some(filter) = filter
                && !functions
                    .iter()
                    .any(|(file, path)| is_in_package(file) && path.contains(filter))
            {
                let line =
                    text[..found.get(0).map_or(0, |all| all.start())].matches('\n').count() + 1;
                faults.push(format!("{}:{line}: no test has {filter} in its name", page.display()));
            }
        }
    }
    Ok(faults)
}

fn check_pages(
    pages: &BTreeMap<PathBuf, String>,
    exists: impl Fn(&Path) -> bool,
) -> anyhow::Result<Vec<Fault>> {
    let link = Regex::new(r"\]\(([^)\s]*)\)|\{\{#include ([^}\s]+)\}\}")?;
    let span = Regex::new(&format!("`((?:{SOURCE_DIRS})/[^`*{{}}<>… ]+)`"))?;
    let summary = Path::new(BOOK).join("SUMMARY.md");
    let mut listed = BTreeSet::from([summary.clone()]);
    let mut faults = Vec::new();
    for (page, text) in pages {
        for (idx, line) in text.lines().enumerate() {
            let names_source = SOURCE_PAGES.iter().any(|source| page == Path::new(source));
            for found in span.captures_iter(line).filter(|_| names_source) {
                if !found[1].contains("NAME") && !exists(Path::new(&found[1])) {
                    faults.push(format!(
                        "{}:{}: {} does not exist",
                        page.display(),
                        idx + 1,
                        &found[1]
                    ));
                }
            }
            for found in link.captures_iter(line) {
                let target = found.get(1).or(found.get(2)).map_or("", |target| target.as_str());
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let path = if path.is_empty() { page.clone() } else { resolve(page, path) };
                let at = format!("{}:{}", page.display(), idx + 1);
                if !exists(&path) {
                    faults.push(format!("{at}: {} does not exist", path.display()));
                } else if !heading.is_empty() && !has_heading(pages.get(&path), heading) {
                    faults.push(format!("{at}: {} has no heading #{heading}", path.display()));
                }
                if *page == summary {
                    listed.insert(path);
                }
            }
        }
    }
    for page in pages.keys().filter(|page| page.starts_with(BOOK) && !listed.contains(*page)) {
        faults.push(format!("{}: not in {}", page.display(), summary.display()));
    }
    Ok(faults)
}

/// Returns the path of a link, relative to the root of the repository.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// Returns whether a page has a heading with this anchor: lower case, punctuation removed, spaces as hyphens.
fn has_heading(page: Option<&String>, anchor: &str) -> bool {
    let Some(text) = page else { return true }; // The link points into a source file.
    let mut in_code = false;
    text.lines().any(|line| {
        in_code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        let is_heading = !in_code && title.len() < line.len() && title.starts_with(' ');
        let slug = title.trim().to_lowercase();
        let slug = slug.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        is_heading && slug.collect::<String>().replace(' ', "-") == anchor
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pages: &[(&str, &str)], expected: &[&str]) {
        let pages = pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned()));
        let pages: BTreeMap<PathBuf, String> = pages.collect();
        let faults = check_pages(&pages, |path| pages.contains_key(path)).expect("patterns");
        assert_eq!(faults, expected);
    }

    #[test]
    fn a_page_that_summary_lists_and_a_link_to_its_heading_are_valid() {
        let summary = ("docs/SUMMARY.md", "- [A](a.md)\n- [B](b/c.md)");
        check(
            &[
                summary,
                ("docs/a.md", "[x](b/c.md#one--two)"),
                ("docs/b/c.md", "# One & two\n[u](../a.md)"),
            ],
            &[],
        );
    }

    #[test]
    fn a_missing_page_file_or_heading_is_a_fault() {
        check(
            &[
                ("docs/SUMMARY.md", "- [A](a.md)"),
                ("docs/a.md", "[x](no.md) [y](#no)"),
                ("docs/b.md", ""),
            ],
            &[
                "docs/a.md:1: docs/no.md does not exist",
                "docs/a.md:1: docs/a.md has no heading #no",
                "docs/b.md: not in docs/SUMMARY.md",
            ],
        );
    }

    #[test]
    fn a_path_in_a_page_on_the_source_code_must_exist() {
        let page =
            ("CONTRIBUTING.md", "`crates/x.rs` `crates/NAME/*` `crates/NAME.txt` `crates/a b`");
        check(&[page], &["CONTRIBUTING.md:1: crates/x.rs does not exist"]);
        check(&[("README.md", page.1)], &[]);
    }

    #[test]
    fn a_filter_of_cargo_test_that_matches_no_function_is_a_fault() {
        let functions =
            function_paths(Path::new("crates/a/src/b/tests.rs"), "#[test]\nfn moves_pages() {}");
        let page = |text: &str| BTreeMap::from([(PathBuf::from("x.md"), text.to_owned())]);
        let check = |text| check_filters(&page(text), &functions).expect("patterns");
        assert_eq!(
            check("`cargo test -p a --test c\npages` `A=1 cargo test` `cargo test b::tests::`"),
            [""; 0]
        );
        assert_eq!(check("a\n`cargo test -p b pages`"), ["x.md:2: no test has pages in its name"]);
        assert_eq!(check("`cargo test page_moves -- --ignored`").len(), 1);
    }

    #[test]
    fn an_included_file_must_exist() {
        check(
            &[("README.md", "{{#include crates/x.txt}}")],
            &["README.md:1: crates/x.txt does not exist"],
        );
    }
}
