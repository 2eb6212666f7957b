//! Import cycles between sibling modules of a crate.
//!
//! ```text
//!   src/a.rs      use crate::b::B;          a -> b
//!   src/b/c.rs    use crate::a::A;          b -> a      reported: crates/x: a -> b -> a
//! ```
//!
//! Paths are read from the source text: `crate::…` and `super::…`, in `use` items and in code. A path belongs to the
//! module that declares its item; an import of the parent (`use b::B`) is resolved. A path is an edge between the two
//! modules that are siblings below the closest common parent, so a parent and its child form no cycle. Test modules are
//! exempt.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::Regex;

use super::{Fault, rust_text};

/// A module: its path below the crate's root, empty for the root.
type Module = Vec<String>;

/// The code of each module of one crate.
type Modules = BTreeMap<Module, String>;

/// Checks every crate below `crates/`. Returns one fault per cycle.
pub fn check(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Fault>> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "rs")) {
        let name = file.to_string_lossy();
        let Some((dir, inside)) = name.split_once("/src/").filter(|_| name.starts_with("crates/"))
        else {
            continue;
        };
        let Some(module) = module_of(inside) else { continue };
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {name}"))?;
        crates.entry(dir.to_owned()).or_default().insert(module, code_of(&text));
    }
    let mut faults = Vec::new();
    for (dir, modules) in crates {
        faults.extend(cycles(&modules)?.iter().map(|cycle| format!("{dir}: {cycle}")));
    }
    Ok(faults)
}

/// Returns the module of a file: `a/mod.rs` and `a.rs` are the module `a`. Test modules are not checked.
fn module_of(file: &str) -> Option<Module> {
    let path = file.strip_suffix(".rs")?;
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    if parts.iter().any(|part| part.contains("tests")) {
        return None;
    }
    if ["mod", "lib", "main"].contains(&&**parts.last()?) {
        parts.pop();
    }
    Some(parts)
}

/// Returns the code without literals, comments and the test module at the end.
fn code_of(text: &str) -> String {
    let code = rust_text::split(text).code;
    let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    code[..end].to_owned()
}

/// Returns every cycle between siblings, one line each.
fn cycles(modules: &Modules) -> anyhow::Result<Vec<String>> {
    let mut siblings: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let paths = Paths::new(modules)?;
    for (module, code) in modules {
        for target in paths.targets(module, code) {
            let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                let graph = siblings.entry(module[..common].to_vec()).or_default();
                graph.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let mut found = Vec::new();
    for (parent, graph) in &siblings {
        let prefix: String = parent.iter().map(|part| format!("{part}::")).collect();
        found.extend(
            cycles_of(graph).iter().map(|cycle| format!("{prefix}{{{}}}", cycle.join(" -> "))),
        );
    }
    Ok(found)
}

/// Returns the shortest cycle through each module that belongs to a cycle. Cycles of the same modules are listed once.
fn cycles_of(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut reported: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for start in graph.keys() {
        if let Some(cycle) = shortest_cycle(graph, start)
            && reported.insert(cycle.iter().cloned().collect())
        {
            found.push(cycle);
        }
    }
    found
}

fn shortest_cycle(graph: &BTreeMap<String, BTreeSet<String>>, start: &str) -> Option<Vec<String>> {
    let mut paths = vec![vec![start.to_owned()]];
    let mut visited = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in graph.get(path.last()?).into_iter().flatten() {
                let extended = [&path[..], std::slice::from_ref(next)].concat();
                if next == start {
                    return Some(extended);
                }
                if visited.insert(next.clone()) {
                    longer.push(extended);
                }
            }
        }
        paths = longer;
    }
    None
}

/// Search for paths in code, with the modules that the paths name.
struct Paths<'a> {
    modules: &'a Modules,
    /// The module that declares a name which its parent imports.
    imported: BTreeMap<(Module, String), Module>,
    path: Regex,
}

impl<'a> Paths<'a> {
    fn new(modules: &'a Modules) -> anyhow::Result<Self> {
        let path = Regex::new(r"\b(crate|super)\s*::\s*")?;
        let mut paths = Self { modules, imported: BTreeMap::new(), path };
        let import = Regex::new(r"\buse (?:self::)?(\w+)::")?;
        for (module, code) in modules {
            for found in import.captures_iter(code) {
                let child = [&module[..], &[found[1].to_owned()]].concat();
                let end = found.get(0).map_or(0, |all| all.end());
                for leaf in
                    leaves(&code[end..]).into_iter().filter(|_| modules.contains_key(&child))
                {
                    let declared_in = paths.known_prefix([&child[..], &leaf[..]].concat());
                    if let Some(name) = leaf.last() {
                        paths.imported.insert((module.clone(), name.clone()), declared_in);
                    }
                }
            }
        }
        Ok(paths)
    }

    /// Returns the modules that `code` of `module` names.
    fn targets(&self, module: &Module, code: &str) -> BTreeSet<Module> {
        let mut targets = BTreeSet::new();
        let mut from = 0;
        while let Some(found) = self.path.find_at(code, from) {
            let mut base =
                if found.as_str().starts_with("crate") { Module::new() } else { parent(module) };
            let mut end = found.end();
            while let Some(rest) = code[end..].strip_prefix("super::") {
                base = parent(&base);
                end = code.len() - rest.len();
            }
            targets.extend(leaves(&code[end..]).into_iter().map(|leaf| self.resolve(&base, leaf)));
            from = end;
        }
        targets
    }

    fn resolve(&self, base: &Module, leaf: Vec<String>) -> Module {
        let module = self.known_prefix([&base[..], &leaf[..]].concat());
        let name = leaf.get(module.len().saturating_sub(base.len()));
        let declared_in = name.and_then(|name| self.imported.get(&(module.clone(), name.clone())));
        declared_in.cloned().unwrap_or(module)
    }

    fn known_prefix(&self, mut path: Module) -> Module {
        while !path.is_empty() && !self.modules.contains_key(&path) {
            path.pop();
        }
        path
    }
}

fn parent(module: &Module) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// Returns the paths at the start of `code`: `a::b` gives one path, `a::{b, c::d}` gives two paths.
fn leaves(code: &str) -> Vec<Vec<String>> {
    let mut rest = code;
    let mut path = Vec::new();
    loop {
        let name_len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if name_len == 0 {
            break;
        }
        path.push(rest[..name_len].to_owned());
        match rest[name_len..].strip_prefix("::") {
            Some(after) => rest = after,
            None => return vec![path],
        }
    }
    let Some(group) = rest.strip_prefix('{') else { return vec![path] };
    let mut found = Vec::new();
    for part in split_group(group) {
        for leaf in leaves(part.trim_start()) {
            found.push([&path[..], &leaf[..]].concat());
        }
    }
    found
}

/// Splits a group up to its closing brace at the commas of the outermost level.
fn split_group(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_u32, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[from..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let modules = files
            .iter()
            .filter_map(|(file, text)| Some((module_of(file)?, code_of(text))))
            .collect();
        assert_eq!(cycles(&modules).expect("patterns"), expected);
    }

    #[test]
    fn two_siblings_that_import_each_other_are_a_cycle() {
        let a = ("a.rs", "use crate::b::B;");
        check(&[("lib.rs", ""), a, ("b.rs", "fn f(a: crate::a::A) {}")], &["{a -> b -> a}"]);
        check(&[("lib.rs", ""), a, ("b.rs", "")], &[]);
    }

    #[test]
    fn a_path_in_a_deeper_module_counts_for_its_sibling() {
        let files = [("lib.rs", ""), ("a/mod.rs", ""), ("a/x.rs", "use crate::b::y::Y;")];
        let cycle =
            [&files[..], &[("b/mod.rs", ""), ("b/y.rs", "use super::super::a::{self, x::X};")]];
        check(&cycle.concat(), &["{a -> b -> a}"]);
    }

    #[test]
    fn siblings_in_a_directory_are_checked_too() {
        let files = [("lib.rs", ""), ("a/mod.rs", ""), ("a/x.rs", "use super::y::Y;")];
        check(&[&files[..], &[("a/y.rs", "use super::x::X;")]].concat(), &["a::{x -> y -> x}"]);
    }

    #[test]
    fn an_import_of_the_parent_is_followed() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use a::{A, Other};\npub(crate) use b::B;");
        check(&[root, ("a.rs", "use crate::B;"), ("b.rs", "use super::A;")], &["{a -> b -> a}"]);
    }

    #[test]
    fn parents_children_comments_and_tests_are_exempt() {
        let parent = ("a/mod.rs", "mod x;\nuse crate::a::x::X;");
        check(&[("lib.rs", ""), parent, ("a/x.rs", "use super::A;")], &[]);
        let tests = "// crate::a::A\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}";
        check(&[("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", tests)], &[]);
    }
}
