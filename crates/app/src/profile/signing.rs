//! `evenkeel profile --embed`, `--show`, `--list PATH…` and `--remove`: signatures of programs.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use profiler::measure::MeasuredProgram;
use program::Profile;
use program::profile::ProfileFile;
use report::format::{or_absent, per_instruction, percent};
use report::table::Align::Left;
use report::table::ReportTable;
use serde_json::{Value, json};

use super::profile_output::{llc_miss_ratio, llc_mpki, profile_json, with_fields};
use super::{find, print, print_json, shown, text_charts};
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::profiles;
use crate::signatures::{self, SignedProgram};

/// Checks the measured program, which gets a signature.
pub(super) fn open(target: &MeasuredProgram, beside: bool) -> Result<SignedProgram, CommandError> {
    open_path(&target.path, beside).or_usage_error()
}

/// Opens a program. Prints the reason if its signature is written beside it.
fn open_path(path: &Path, beside: bool) -> anyhow::Result<SignedProgram> {
    if find::is_own(path) {
        return Err(anyhow!("{} is evenkeel, which runs many programs", path.display()));
    }
    let program = SignedProgram::open(path, beside)?;
    if let Some(reason) = program.reason_for_beside().filter(|_| !beside) {
        crate::print::note(format!(
            "the signature is written to a side file of {}: {reason}",
            path.display()
        ));
    }
    Ok(program)
}

/// Embeds the profile in a file.
pub(super) fn embed_file(program: &Path, file: &Path, beside: bool) -> CommandResult {
    let path = find::path(program).or_usage_error()?;
    let profile = profiles::read(file).or_usage_error()?;
    check_build(&profile, file, &path).or_usage_error()?;
    let program = open_path(&path, beside).or_usage_error()?;
    print(&format!("signature: {}\n", shown(&program.write(&profile)?)))
}

/// Returns the command that writes a profile as the signature of its program.
pub(super) fn command_from(args: &super::Args, profile: &Path) -> String {
    let program = args.embed.as_deref().unwrap_or(Path::new(""));
    let [program, profile] = [program, profile].map(base::shell::quote);
    let beside = if args.beside { " --beside" } else { "" };
    format!("evenkeel profile --embed {program}{beside} --from {profile}")
}

/// Checks that a profile is not of another build. Its name may differ, because a program may be renamed.
fn check_build(profile: &Profile, file: &Path, program: &Path) -> anyhow::Result<()> {
    let id = profiles::build_id(program);
    match (&profile.build_id, &id) {
        (Some(measured), Some(id)) if !measured.eq_ignore_ascii_case(id) => Err(anyhow!(
            "{} was measured with another build of {}; profile the program again",
            file.display(),
            program.display()
        )),
        _ => Ok(()),
    }
}

/// Prints the signature of a program, as text or as JSON.
pub(super) fn show(program: &Path, as_json: bool) -> CommandResult {
    let path = find::path(program).or_usage_error()?;
    let found = signatures::find(&path).or_usage_error()?;
    let ProfileFile { profile, path: file } =
        found.ok_or_else(|| no_signature(&path)).or_usage_error()?;
    if as_json {
        let place = json!({ "program": text_of(&path), "signature_file": text_of(&file) });
        return print_json(&with_fields(profile_json(&profile), place));
    }
    let class =
        profile.class.map(|(class, source)| format!("{} ({})", class.number(), source.word()));
    let command = (!profile.command.is_empty()).then(|| base::shell::join(&profile.command));
    let facts = [
        ("signature", Some(file.display().to_string())),
        ("profile", Some(profile.name.clone())),
        ("command", command),
        ("measured by", Some(profile.tool.clone()).filter(|tool| !tool.is_empty())),
        ("class", class),
        (
            "LLC misses",
            profile.class_cache.and_then(|cache| {
                let mpki = per_instruction(llc_mpki(&profile)?);
                let ratio = percent(profile.llc_miss_ratio(cache)?);
                Some(format!(
                    "{mpki} per 1000 instructions ({ratio} of the accesses), with {cache} of last-level cache"
                ))
            }),
        ),
    ];
    let facts = facts.into_iter().filter_map(|(label, value)| Some((label, value?)));
    let line = |(label, value): (&str, String)| format!("{label:<14}{}\n", base::printable(&value));
    let mut text: String = facts.map(line).collect();
    for phase in &profile.phases {
        text += &format!("\n{}", text_charts::curve(&phase.curve));
    }
    print(&(text + &text_charts::phases(&profile.phases)))
}

/// Removes the signature of a program.
pub(super) fn remove(program: &Path) -> CommandResult {
    let path = find::path(program).or_usage_error()?;
    let changed = signatures::remove(&path)?;
    if changed.is_empty() {
        let damaged = signatures::damage(&path);
        let error = damaged.map(|damage| damage.context(path.display().to_string()));
        return Err(error.unwrap_or_else(|| anyhow!("{} has no signature", path.display())))
            .or_usage_error();
    }
    print(
        &changed.iter().map(|file| format!("removed from: {}\n", shown(file))).collect::<String>(),
    )
}

fn no_signature(program: &Path) -> anyhow::Error {
    if let Some(damage) = signatures::damage(program) {
        return damage.context(program.display().to_string());
    }
    let quoted = base::shell::quote(program);
    anyhow!(
        "{} has no signature; create one with evenkeel profile --embed {quoted}",
        program.display()
    )
}

/// A listed program with its signature.
struct ListedProgram {
    path: PathBuf,
    signature: anyhow::Result<Option<ProfileFile>>,
}

/// Prints the signatures of files, and of the executable files in directories. A program in a directory is listed if it
/// has a signature.
pub(super) fn list(paths: &[PathBuf], as_json: bool) -> CommandResult {
    let listed = |path: PathBuf| ListedProgram { signature: signatures::find(&path), path };
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            let inside = programs_in(path).or_usage_error()?.into_iter().map(listed);
            all.extend(inside.filter(|program| !matches!(program.signature, Ok(None))));
        } else {
            path.metadata().with_context(|| path.display().to_string()).or_usage_error()?;
            all.push(listed(path.clone()));
        }
    }
    // A directory may contain a program that is an argument, too.
    let mut seen = BTreeSet::new();
    let mut is_new = |path: &Path| seen.insert(path.canonicalize().unwrap_or(path.to_owned()));
    all.retain(|program: &ListedProgram| is_new(&program.path));
    if !as_json && all.is_empty() {
        let dirs = paths.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
        return print(&format!("no program with a signature in {dirs}\n"));
    }
    if as_json {
        let programs: Vec<Value> = all.iter().map(ListedProgram::json).collect();
        return print_json(&json!({ "programs": programs }));
    }
    let mut table = ReportTable::new(
        ["program", "profile", "LLC misses per 1000 instructions", "signature"]
            .map(|head| (head, Left)),
    );
    all.iter().for_each(|program| table.row(program.row()));
    // The reason of an invalid signature is complete: in lines of a terminal, or in one line for other programs.
    let is_terminal = crate::print::stdout_fd().as_fd().is_terminal();
    let width = if is_terminal { text_charts::WIDTH } else { usize::MAX };
    print(&table.with_folded_column().to_text(width))
}

impl ListedProgram {
    fn profile(&self) -> Option<&ProfileFile> {
        self.signature.as_ref().ok()?.as_ref()
    }

    fn error(&self) -> Option<String> {
        self.signature.as_ref().err().map(|error| error.root_cause().to_string())
    }

    fn place(&self) -> &'static str {
        match &self.signature {
            Err(_) => "invalid",
            Ok(None) => "none",
            Ok(Some(found)) if found.path == self.path => "embedded",
            Ok(Some(_)) => "side file",
        }
    }

    fn row(&self) -> [String; 4] {
        let profile = self.profile().map(|found| &found.profile);
        let name = or_absent(profile, |profile| profile.name.clone());
        let misses = or_absent(profile.and_then(llc_mpki), per_instruction);
        let state = self.error().unwrap_or_else(|| self.place().to_owned());
        [shown(&self.path), name, misses, state]
    }

    fn json(&self) -> Value {
        let found = self.profile();
        let profile = found.map(|found| &found.profile);
        json!({
            "program": text_of(&self.path),
            "signature": self.place(),
            "signature_file": found.map(|found| text_of(&found.path)),
            "error": self.error(),
            "name": profile.map(|profile| &profile.name),
            "class": profile.and_then(|profile| Some(profile.class?.0.number())),
            "llc_mpki": profile.and_then(llc_mpki),
            "llc_miss_ratio": profile.and_then(llc_miss_ratio),
        })
    }
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}

/// Lists the executable files in a directory, sorted by name.
fn programs_in(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let is_program = |path: &PathBuf| {
        let meta = path.metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let mut programs: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_program).collect();
    programs.sort();
    Ok(programs)
}
