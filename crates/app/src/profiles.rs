//! Profile files: where they lie, and which one is a program's.
//!
//! ```text
//!   --profiles DIR (each)  ─►  beside the program  ─►  $XDG_DATA_HOME/evenkeel/profiles
//!   a job that names its profile: the same, and last the shipped profiles of that name
//! ```
//!
//! The first place that has a fitting file wins; in one place a file of the very build wins over one that
//! only has the name, and names in order decide the rest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use object::Object;
use program::profile::{self, Fit, ProfileFile, SUFFIX};
use program::{Command, Job, Profile, Workload};

use crate::input;

/// The build id of an ELF file, in hexadecimal; `None` for anything else.
pub fn build_id(path: &Path) -> Option<String> {
    let data = object::ReadCache::new(fs::File::open(path).ok()?);
    let file = object::File::parse(&data).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The user's own folder of profiles; `None` without a home.
pub fn own_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
    Some(data?.join("evenkeel/profiles"))
}

/// Reads a profile.
pub fn read(path: &Path) -> anyhow::Result<Profile> {
    let text = input::text("profile", path)?;
    Ok(profile::parse_profile(&text, path)?)
}

/// Gives every job the profile that it names or that its program has, and the class of it where the job
/// says none. Returns what is worth saying.
///
/// # Errors
/// A profile that a job names is nowhere, or a file that would be used makes no sense.
pub fn attach(workload: &mut Workload, folders: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    for folder in folders {
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    }
    let mut shelf = Shelf { folders: folders.to_vec(), known: BTreeMap::new(), said: Vec::new() };
    let folder = workload.folder.clone();
    for job in &mut workload.jobs {
        let found = shelf.find(job, &folder)?;
        if let Some(found) = found {
            job.class = job.class.or(found.class.map(|(class, _)| class));
            job.found = Some(found);
        }
    }
    shelf.said.sort();
    shelf.said.dedup();
    Ok(shelf.said)
}

/// What a job's profile is looked up by: jobs alike share the answer.
type Key = (Option<String>, PathBuf, String);

struct Shelf {
    folders: Vec<PathBuf>,
    known: BTreeMap<Key, Option<Arc<Profile>>>,
    said: Vec<String>,
}

impl Shelf {
    fn find(&mut self, job: &Job, folder: &Path) -> anyhow::Result<Option<Arc<Profile>>> {
        let (path, name) = program_of(job, folder);
        let key = (job.profile.clone(), path.clone(), name.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        // A shipped profile is another program of that name for all that is known, so it must be named.
        let profile = match &job.profile {
            Some(wanted) => Some(self.named(job, wanted, folder, &path)?),
            None if name.is_empty() => None,
            None => self.of_program(&name, &path)?.map(|file| file.profile),
        };
        let found = profile.map(Arc::new);
        self.known.insert(key, found.clone());
        Ok(found)
    }

    /// The profile that a job names: a file of that name, in a profile folder or beside the workload, else
    /// the shipped one.
    fn named(
        &mut self,
        job: &Job,
        wanted: &str,
        folder: &Path,
        program: &Path,
    ) -> anyhow::Result<Profile> {
        let beside = [folder.to_owned(), folder.join("profiles")];
        let places = self.folders.iter().cloned().chain(beside).chain(own_folder());
        let file = format!("{wanted}{SUFFIX}");
        let places: Vec<PathBuf> = places.map(|place| place.join(&file)).collect();
        let Some(path) = places.iter().find(|path| path.is_file()) else {
            let not_shipped = match lab::shipped::profile(wanted) {
                Ok(profile) => return Ok(profile),
                Err(not_shipped) => not_shipped,
            };
            let Job { origin, name, .. } = job;
            let tried: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "{origin}: job {name:?}: there is no profile {wanted:?}; make it with evenkeel profile --output {file} -- PROGRAM …, or leave the key out (looked for {}; {not_shipped})",
                tried.join(", ")
            );
        };
        let profile = read(path).with_context(|| format!("{}: job {:?}", job.origin, job.name))?;
        let id = build_id(program);
        if profile.build_id.is_some() && id.is_some() && profile.build_id != id {
            let (path, program) = (path.display(), program.display());
            self.said.push(format!("{path} was measured on another build of {program}"));
        }
        Ok(profile)
    }

    /// The profile of a program, by its name and build id.
    fn of_program(&mut self, name: &str, path: &Path) -> anyhow::Result<Option<ProfileFile>> {
        let id = build_id(path);
        let listed = |place: PathBuf| candidates(&place, name);
        // A program's folder may hold thousands of others: the two names are tried instead.
        let beside = path.parent().map(|place| exact(place, name, id.as_deref()));
        let places = self.folders.iter().cloned().map(listed).chain(beside);
        for paths in places.chain(own_folder().map(listed)) {
            let mut others = Vec::new();
            if let Some(file) = best(paths, name, id.as_deref(), &mut others)? {
                if profile::fit(&file.profile, name, id.as_deref()) == Fit::Name {
                    let why = if id.is_some() { "the profile" } else { "the program" };
                    let path = file.path.display();
                    self.said
                        .push(format!("{path} is matched by name only: {why} has no build id"));
                }
                return Ok(Some(file));
            }
            for other in others {
                let other = other.display();
                self.said.push(format!("{other} is not used: it is of another build of {name}"));
            }
        }
        Ok(None)
    }
}

/// The best-fitting of some profiles; those of other builds are told.
fn best(
    paths: Vec<PathBuf>,
    name: &str,
    id: Option<&str>,
    others: &mut Vec<PathBuf>,
) -> anyhow::Result<Option<ProfileFile>> {
    let mut best: Option<(Fit, ProfileFile)> = None;
    for path in paths {
        let profile = read(&path)?;
        match profile::fit(&profile, name, id) {
            Fit::Not if profile.name == name => others.push(path),
            Fit::Not => {}
            fit if best.as_ref().is_none_or(|(other, _)| *other < fit) => {
                best = Some((fit, ProfileFile { path, profile }));
            }
            _ => {}
        }
    }
    Ok(best.map(|(_, file)| file))
}

/// The files of a folder that may hold a program's profile, in order.
fn candidates(place: &Path, name: &str) -> Vec<PathBuf> {
    let is_one = |file: &OsStr| {
        let stem = file.to_str().and_then(|file| file.strip_suffix(SUFFIX));
        let rest = stem.and_then(|stem| stem.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The files of a folder with the names that a program's profile is written under.
fn exact(place: &Path, name: &str, id: Option<&str>) -> Vec<PathBuf> {
    let names =
        [id.map(|id| profile::file_name(name, Some(id))), Some(profile::file_name(name, None))];
    let paths = names.into_iter().flatten().map(|name| place.join(name));
    paths.filter(|path| path.is_file()).collect()
}

/// The file that a job runs and the name of its profile; no name for a line that a shell reads.
fn program_of(job: &Job, folder: &Path) -> (PathBuf, String) {
    match &job.command {
        Command::Program { program, .. } => {
            let search = job.env.get("PATH").map(std::ffi::OsString::from);
            let search = search.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
            let found = host_live::find_program(program, folder, &search);
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (found.unwrap_or_else(|_| program.clone()), name)
        }
        Command::Shell(_) => (PathBuf::from("/bin/sh"), String::new()),
        Command::Load(args) => {
            let kind = args.first().map_or("", String::as_str);
            // Beside evenkeel itself no profile is looked for: those folders are shared by all users.
            (PathBuf::new(), profile::load_name(kind))
        }
    }
}

/// Where a program's profile is written when nobody says where.
pub fn default_file(name: &str, build_id: Option<&str>) -> anyhow::Result<PathBuf> {
    let folder =
        own_folder().ok_or_else(|| anyhow!("there is no home folder; say --output FILE"))?;
    Ok(folder.join(profile::file_name(name, build_id)))
}

#[cfg(test)]
mod tests {
    use program::Class;

    use super::*;

    fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            fs::write(folder.path().join(file), text).expect("written");
        }
        folder
    }

    fn workload(folder: &Path, text: &str) -> Workload {
        program::parse_toml(text, &folder.join("w.toml")).expect("it is sound")
    }

    const ANY: &str = "name = \"prog\"\nclass = 5\n[[phase]]\n";

    #[test]
    fn our_own_program_has_a_build_id_or_none_and_a_script_has_none() {
        let folder = folder_with(&[("script", "#!/bin/sh\n"), ("half", "\u{7f}ELF")]);
        assert_eq!(build_id(&folder.path().join("script")), None);
        assert_eq!(build_id(&folder.path().join("half")), None);
        assert_eq!(build_id(Path::new("/nonexistent")), None);
    }

    #[test]
    fn a_job_without_a_class_gets_that_of_its_programs_profile() {
        let folder = folder_with(&[("prog", "#!/bin/sh\n"), ("prog.profile.toml", ANY)]);
        let path = folder.path().join("prog");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("ours");
        let text = "[[job]]\ncommand = ['./prog']\n[[job]]\ncommand = ['./prog']\nclass = 2\nname = 'own'\n";
        let mut jobs = workload(folder.path(), text);
        let said = attach(&mut jobs, &[]).expect("it is found");
        let classes: Vec<_> = jobs.jobs.iter().map(|job| job.class.unwrap().number()).collect();
        assert_eq!(classes, [5, 2]);
        assert!(jobs.jobs.iter().all(|job| job.found.as_ref().unwrap().name == "prog"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].ends_with("matched by name only: the program has no build id"), "{said:?}");
    }

    #[test]
    fn a_profile_that_is_named_must_be_there_and_sound() {
        let folder = folder_with(&[("bad.profile.toml", "name = 1\n[[phase]]\n")]);
        for (name, word) in
            [("none", "w.toml:1: job \"x\": there is no profile"), ("bad", "bad.profile.toml:1:8")]
        {
            let text = format!("[[job]]\nname = 'x'\ncommand = ['true']\nprofile = '{name}'\n");
            let mut jobs = workload(folder.path(), &text);
            let error = format!("{:#}", attach(&mut jobs, &[]).expect_err("it is wrong"));
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_shipped_profile_is_found_by_the_key_alone_and_after_all_files() {
        let folder = folder_with(&[]);
        let text = "[[job]]\nname = 'x'\ncommand = ['470.lbm']\nprofile = '470.lbm'\n[[job]]\nname = 'y'\ncommand = ['ferret']\n";
        let mut jobs = workload(folder.path(), text);
        attach(&mut jobs, &[]).expect("one ships");
        let names: Vec<_> =
            jobs.jobs.iter().map(|job| job.found.as_ref().map(|found| &*found.name)).collect();
        assert_eq!(names, [Some("470.lbm"), None]);
        assert_eq!(jobs.jobs[0].class, Class::new(15));
        fs::write(folder.path().join("470.lbm.profile.toml"), ANY).expect("written");
        let mut jobs = workload(folder.path(), text);
        attach(&mut jobs, &[]).expect("a file lies beside the workload");
        assert_eq!(jobs.jobs[0].class, Class::new(5));
        let mut wrong = workload(folder.path(), &text.replace("470.lbm'", "470.lmb'"));
        let error = format!("{:#}", attach(&mut wrong, &[]).expect_err("there is none"));
        assert!(
            error.contains("no shipped profile \"470.lmb\"; did you mean \"470.lbm\"?"),
            "{error}"
        );
    }

    #[test]
    fn the_very_build_wins_over_the_name_and_another_build_is_none() {
        let of = |id: &str| format!("name = \"p\"\nbuild_id = \"{id}\"\n[[phase]]\n");
        let folder = folder_with(&[
            ("p.profile.toml", "name = \"p\"\n[[phase]]\n"),
            ("p-aa.profile.toml", &of("aa")),
            ("p-bb.profile.toml", &of("bb")),
            ("pp.profile.toml", "name = \"pp\"\n[[phase]]\n"),
        ]);
        let found = |id| {
            let mut others = Vec::new();
            let file =
                best(candidates(folder.path(), "p"), "p", id, &mut others).expect("they are sound");
            (file.map(|file| file.profile.build_id), others.len())
        };
        assert_eq!(found(Some("bb")), (Some(Some("bb".to_owned())), 1));
        assert_eq!(found(Some("cc")), (Some(None), 2));
        // Without a build id of its own any name fits; the first file is taken.
        assert_eq!(found(None), (Some(Some("aa".to_owned())), 0));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_if_it_was_asked_for() {
        let mut none = Workload::default();
        assert!(attach(&mut none, &[PathBuf::from("/nonexistent")]).is_err());
    }
}
