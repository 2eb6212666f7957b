//! Profile files: search path, and selection of the profile of a program.
//!
//! ```text
//!   --profiles DIR (each)  ─►  signature of the program  ─►  next to the program  ─►  $XDG_DATA_HOME/evenkeel/profiles
//!   a job with the key profile = "NAME": --profiles DIR  ─►  next to the workload, and its directory profiles
//!      ─►  $XDG_DATA_HOME/evenkeel/profiles  ─►  shipped profiles of that name
//! ```
//!
//! The first directory with a matching file is used. Within a directory, a file with a matching build id has priority
//! over a file with a matching name only. Among equal matches the order of file names decides.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use base::shell;
use object::Object;
use program::profile::{self, Fit, ProfileFile, SUFFIX};
use program::{Command, Job, Profile, Workload};

use crate::input;

/// Reads the build id of an ELF file, in hexadecimal. Returns `None` for other files.
pub fn build_id(path: &Path) -> Option<String> {
    let program = files::open_regular(path).ok()?;
    let data = signature::ProgramFile::new(&program);
    let file = object::File::parse(&data).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the profile directory of the user; `None` without a home directory.
pub fn own_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
    Some(data?.join("evenkeel/profiles"))
}

pub fn read(path: &Path) -> anyhow::Result<Profile> {
    let text = input::text("profile", path)?;
    Ok(profile::parse_profile(&text, path)?)
}

/// Assigns each job the profile that the job names, or the profile that matches the program of the job. A job without a
/// class gets the class of the profile. Returns notes.
///
/// # Errors
/// A named profile does not exist, or a profile file is invalid.
pub fn attach(workload: &mut Workload, dirs: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    for dir in dirs {
        fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    }
    let mut search = ProfileSearch {
        dirs: dirs.to_vec(),
        known: BTreeMap::new(),
        programs: BTreeMap::new(),
        notes: Vec::new(),
    };
    let dir = workload.dir.clone();
    for job in &mut workload.jobs {
        let found = search.find(job, &dir)?;
        if let Some((found, file)) = found {
            job.class = job.class.or(found.class.map(|(class, _)| class));
            job.found = Some(found);
            job.found_in = file;
        }
    }
    search.notes.sort();
    search.notes.dedup();
    Ok(search.notes)
}

/// Search key of a job's profile: profile key, program and name. Jobs with the same key share the result.
type SearchKey = (Option<String>, PathBuf, String);

/// A profile with its file; a shipped profile has none.
type FoundProfile = (Arc<Profile>, Option<PathBuf>);

struct ProfileSearch {
    dirs: Vec<PathBuf>,
    known: BTreeMap<SearchKey, Option<FoundProfile>>,
    /// Paths of programs that were searched in `PATH`, by command and `PATH` of the job.
    programs: BTreeMap<(PathBuf, Option<String>), PathBuf>,
    notes: Vec<String>,
}

impl ProfileSearch {
    fn find(&mut self, job: &Job, dir: &Path) -> anyhow::Result<Option<FoundProfile>> {
        let (path, name) = self.program_of(job, dir);
        let key = (job.profile.clone(), path.clone(), name.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        // A shipped profile of the same name may describe another program, so shipped profiles must be named by the
        // job.
        let profile = match &job.profile {
            Some(requested) => Some(self.named(job, requested, dir, &path)?),
            None if name.is_empty() => None,
            None => self.of_program(&name, &path)?.map(|file| (file.profile, Some(file.path))),
        };
        let found = profile.map(|(profile, file)| (Arc::new(profile), file));
        self.known.insert(key, found.clone());
        Ok(found)
    }

    /// Returns the executable of a job and the name of its profile. The name is empty for a shell command.
    fn program_of(&mut self, job: &Job, dir: &Path) -> (PathBuf, String) {
        match &job.command {
            Command::Program { program, .. } => {
                let own = job.env.get("PATH");
                let find = || {
                    let search = own.map(std::ffi::OsString::from);
                    let search = search.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
                    host_live::find_program(program, dir, &search)
                        .unwrap_or_else(|_| program.clone())
                };
                let key = (program.clone(), own.cloned());
                let found = self.programs.entry(key).or_insert_with(find).clone();
                let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (found, name)
            }
            Command::Shell(_) => (PathBuf::from("/bin/sh"), String::new()),
            Command::Load(args) => {
                let kind = args.first().map_or("", String::as_str);
                // The directory of the evenkeel executable is not searched, because all users share this directory.
                (PathBuf::new(), profile::load_name(kind))
            }
        }
    }

    /// Finds the profile that a job names: a file in a profile directory or next to the workload, or else the shipped
    /// profile.
    fn named(
        &mut self,
        job: &Job,
        requested: &str,
        dir: &Path,
        program: &Path,
    ) -> anyhow::Result<(Profile, Option<PathBuf>)> {
        let near_workload = [dir.to_owned(), dir.join("profiles")];
        let dirs = self.dirs.iter().cloned().chain(near_workload).chain(own_dir());
        let dirs: Vec<PathBuf> = dirs.collect();
        let id = build_id(program);
        let file = format!("{requested}{SUFFIX}");
        let in_dir = |dir: &PathBuf| named_in(dir, requested, id.as_deref()).transpose();
        let Some(path) = dirs.iter().find_map(in_dir).transpose()? else {
            let not_shipped = match lab::shipped::profile(requested) {
                Ok(profile) => return Ok((profile, None)),
                Err(not_shipped) => not_shipped,
            };
            let Job { origin, name, .. } = job;
            let tried = dirs.iter().map(|dir| dir.join(&file).display().to_string());
            let tried: Vec<String> = tried.collect();
            bail!(
                "{origin}: job {name:?}: there is no profile {requested:?}; create it with evenkeel profile --name {} -- PROGRAM …, or remove the key (searched {}; {not_shipped})",
                shell::quote(requested),
                tried.join(", ")
            );
        };
        let profile = read(&path).with_context(|| format!("{}: job {:?}", job.origin, job.name))?;
        if profile.build_id.is_some() && id.is_some() && profile.build_id != id {
            let (path, program) = (path.display(), program.display());
            self.notes.push(format!("{path} was measured with another build of {program}"));
        }
        Ok((profile, Some(path)))
    }

    /// Finds the profile of a program: a file that matches by name and build id, or the signature.
    fn of_program(&mut self, name: &str, path: &Path) -> anyhow::Result<Option<ProfileFile>> {
        let id = build_id(path);
        let listed = |dir: PathBuf| candidates_in(&dir, name);
        let given: Vec<_> = self.dirs.iter().cloned().map(listed).collect();
        if let Some(file) = self.first_match(given, name, id.as_deref())? {
            return Ok(Some(file));
        }
        let signature = crate::signatures::of_program(path);
        self.notes.extend(signature.note);
        if signature.profile.is_some() {
            return Ok(signature.profile);
        }
        // The directory of a program may have thousands of files, so the search tests only the two default names.
        let near_program = path.parent().map(|dir| exact(dir, name, id.as_deref()));
        self.first_match(near_program.into_iter().chain(own_dir().map(listed)), name, id.as_deref())
    }

    /// Finds the first list of files with a profile that matches a program by name and build id.
    fn first_match(
        &mut self,
        candidates: impl IntoIterator<Item = Vec<PathBuf>>,
        name: &str,
        id: Option<&str>,
    ) -> anyhow::Result<Option<ProfileFile>> {
        for paths in candidates {
            let mut other_builds = Vec::new();
            if let Some(file) = best(paths, name, id, &mut other_builds)? {
                if profile::fit(&file.profile, name, id) == Fit::Name {
                    let subject = if id.is_some() { "the profile" } else { "the program" };
                    let path = file.path.display();
                    self.notes
                        .push(format!("{path} is matched by name only: {subject} has no build id"));
                }
                return Ok(Some(file));
            }
            for other in other_builds {
                let other = other.display();
                self.notes
                    .push(format!("{other} is not used: it belongs to another build of {name}"));
            }
        }
        Ok(None)
    }
}

/// Returns the file of a named profile in a directory: `NAME.profile.toml`, or the file that `evenkeel profile` writes,
/// whose name also contains the build id. Of several builds the program's own build has priority.
fn named_in(dir: &Path, name: &str, id: Option<&str>) -> anyhow::Result<Option<PathBuf>> {
    let exact = dir.join(format!("{name}{SUFFIX}"));
    if exact.is_file() {
        return Ok(Some(exact));
    }
    let mut other_builds = Vec::new();
    let found = best(candidates_in(dir, name), name, id, &mut other_builds)?;
    Ok(found.map(|file| file.path).or(other_builds.into_iter().next()))
}

/// Returns the line of a workload that names a profile file, and where the search finds the file; `None` if no workload
/// can name the file.
pub fn workload_line(file: &Path, name: &str) -> Option<(String, Option<PathBuf>)> {
    let dir = file.parent().unwrap_or(Path::new("")).to_owned();
    if own_dir().is_some_and(|own| own == dir) {
        return Some((format!("profile = {name:?}"), None));
    }
    let stem = file.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    Some((format!("profile = {stem:?}"), Some(dir)))
}

/// Returns the best match. Adds profiles of other builds to `other_builds`.
fn best(
    paths: Vec<PathBuf>,
    name: &str,
    id: Option<&str>,
    other_builds: &mut Vec<PathBuf>,
) -> anyhow::Result<Option<ProfileFile>> {
    let mut best: Option<(Fit, ProfileFile)> = None;
    for path in paths {
        let profile = read(&path)?;
        match profile::fit(&profile, name, id) {
            Fit::Mismatch if profile.name == name => other_builds.push(path),
            Fit::Mismatch => {}
            fit if best.as_ref().is_none_or(|(other, _)| *other < fit) => {
                best = Some((fit, ProfileFile { path, profile }));
            }
            _ => {}
        }
    }
    Ok(best.map(|(_, file)| file))
}

/// Lists the files in a directory that may be a profile of the program, sorted by name.
fn candidates_in(dir: &Path, name: &str) -> Vec<PathBuf> {
    let is_candidate = |file: &OsStr| {
        let stem = file.to_str().and_then(|file| file.strip_suffix(SUFFIX));
        let suffix = stem.and_then(|stem| stem.strip_prefix(name));
        suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'))
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| is_candidate(&entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// Lists the files in a directory with the default names of the program's profile.
fn exact(dir: &Path, name: &str, id: Option<&str>) -> Vec<PathBuf> {
    let names =
        [id.map(|id| profile::file_name(name, Some(id))), Some(profile::file_name(name, None))];
    let paths = names.into_iter().flatten().map(|name| dir.join(name));
    paths.filter(|path| path.is_file()).collect()
}

/// Returns the default path of a new profile.
pub fn default_file(name: &str, build_id: Option<&str>) -> anyhow::Result<PathBuf> {
    let dir = own_dir().ok_or_else(|| anyhow!("there is no home directory; set --output FILE"))?;
    Ok(dir.join(profile::file_name(name, build_id)))
}

#[cfg(test)]
mod tests {
    use program::Class;

    use super::*;

    fn dir_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (file, text) in files {
            fs::write(dir.path().join(file), text).expect("written");
        }
        dir
    }

    fn workload(dir: &Path, text: &str) -> Workload {
        program::parse_toml(text, &dir.join("w.toml")).expect("it is valid")
    }

    const ANY: &str = "name = \"prog\"\nclass = 5\n[[phase]]\n";

    #[test]
    fn scripts_and_truncated_files_have_no_build_id() {
        let dir = dir_with(&[("script", "#!/bin/sh\n"), ("half", "\u{7f}ELF")]);
        assert_eq!(build_id(&dir.path().join("script")), None);
        assert_eq!(build_id(&dir.path().join("half")), None);
        assert_eq!(build_id(Path::new("/nonexistent")), None);
    }

    #[test]
    fn a_job_without_a_class_gets_the_class_of_its_profile() {
        let dir = dir_with(&[("prog", "#!/bin/sh\n"), ("prog.profile.toml", ANY)]);
        let path = dir.path().join("prog");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("permissions are set");
        let text = "[[job]]\ncommand = ['./prog']\n[[job]]\ncommand = ['./prog']\nclass = 2\nname = 'own'\n";
        let mut jobs = workload(dir.path(), text);
        let notes = attach(&mut jobs, &[]).expect("it exists");
        let classes: Vec<_> = jobs.jobs.iter().map(|job| job.class.unwrap().number()).collect();
        assert_eq!(classes, [5, 2]);
        assert!(jobs.jobs.iter().all(|job| job.found.as_ref().unwrap().name == "prog"));
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].ends_with("matched by name only: the program has no build id"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_named_profile_must_exist_and_be_valid() {
        let dir = dir_with(&[("bad.profile.toml", "name = 1\n[[phase]]\n")]);
        for (name, word) in
            [("none", "w.toml:1: job \"x\": there is no profile"), ("bad", "bad.profile.toml:1:8")]
        {
            let text = format!("[[job]]\nname = 'x'\ncommand = ['true']\nprofile = '{name}'\n");
            let mut jobs = workload(dir.path(), &text);
            let error = format!("{:#}", attach(&mut jobs, &[]).expect_err("it is invalid"));
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_shipped_profile_needs_the_key_and_comes_after_all_files() {
        let dir = dir_with(&[]);
        let text = "[[job]]\nname = 'x'\ncommand = ['470.lbm']\nprofile = '470.lbm'\n[[job]]\nname = 'y'\ncommand = ['ferret']\n";
        let mut jobs = workload(dir.path(), text);
        attach(&mut jobs, &[]).expect("a shipped profile exists");
        let names: Vec<_> =
            jobs.jobs.iter().map(|job| job.found.as_ref().map(|found| &*found.name)).collect();
        assert_eq!(names, [Some("470.lbm"), None]);
        assert_eq!(jobs.jobs[0].class, Class::new(15));
        fs::write(dir.path().join("470.lbm.profile.toml"), ANY).expect("written");
        let mut jobs = workload(dir.path(), text);
        attach(&mut jobs, &[]).expect("a file is next to the workload");
        assert_eq!(jobs.jobs[0].class, Class::new(5));
        let mut wrong = workload(dir.path(), &text.replace("470.lbm'", "470.lmb'"));
        let error = format!("{:#}", attach(&mut wrong, &[]).expect_err("there is no such profile"));
        assert!(
            error.contains("no shipped profile \"470.lmb\"; did you mean \"470.lbm\"?"),
            "{error}"
        );
    }

    #[test]
    fn a_matching_build_id_has_priority_over_the_name_and_other_builds_do_not_match() {
        let profile = |id: &str| format!("name = \"p\"\nbuild_id = \"{id}\"\n[[phase]]\n");
        let dir = dir_with(&[
            ("p.profile.toml", "name = \"p\"\n[[phase]]\n"),
            ("p-aa.profile.toml", &profile("aa")),
            ("p-bb.profile.toml", &profile("bb")),
            ("pp.profile.toml", "name = \"pp\"\n[[phase]]\n"),
        ]);
        let found = |id| {
            let mut other_builds = Vec::new();
            let file = best(candidates_in(dir.path(), "p"), "p", id, &mut other_builds)
                .expect("they are valid");
            (file.map(|file| file.profile.build_id), other_builds.len())
        };
        assert_eq!(found(Some("bb")), (Some(Some("bb".to_owned())), 1));
        assert_eq!(found(Some("cc")), (Some(None), 2));
        // Without a build id every file of that name matches, and the first file is used.
        assert_eq!(found(None), (Some(Some("aa".to_owned())), 0));
    }

    #[test]
    fn a_named_profile_is_found_in_the_file_that_profile_writes() {
        let profile = |id: &str, class: u8| {
            format!("name = \"p\"\nbuild_id = \"{id}\"\nclass = {class}\n[[phase]]\n")
        };
        let dir = dir_with(&[
            ("p-bb.profile.toml", &profile("bb", 4)),
            ("p-fast.profile.toml", "name = \"p-fast\"\nclass = 9\n[[phase]]\n"),
        ]);
        let text = "[[job]]\nname = 'x'\ncommand = ['true']\nprofile = 'p'\n";
        let mut jobs = workload(dir.path(), text);
        attach(&mut jobs, &[]).expect("it is found");
        assert_eq!(jobs.jobs[0].class, Class::new(4), "also for another build of the program");
        fs::write(dir.path().join("p.profile.toml"), ANY).expect("written");
        let mut jobs = workload(dir.path(), text);
        attach(&mut jobs, &[]).expect("it is found");
        assert_eq!(jobs.jobs[0].class, Class::new(5), "the exact name has priority");
    }

    #[test]
    fn the_line_of_a_workload_names_the_file_with_its_directory() {
        let line = |file: &str| workload_line(Path::new(file), "sort");
        let in_dir = Some(("profile = \"mine\"".to_owned(), Some(PathBuf::from("d"))));
        assert_eq!(line("d/mine.profile.toml"), in_dir);
        assert_eq!(line("mine.toml"), None);
        if let Some(own) = own_dir() {
            let file = own.join("sort-0123.profile.toml");
            assert_eq!(
                line(&file.display().to_string()),
                Some(("profile = \"sort\"".to_owned(), None))
            );
        }
    }

    #[test]
    fn a_missing_profile_directory_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(attach(&mut Workload::default(), &[dir.path().join("none")]).is_err());
    }
}
