//! Tests of the configuration, and the text of the shipped file `packaging/watch.toml`.

use super::*;

/// Checks the options that result from a text, or the error.
fn check(text: &str, expected: &str) {
    let options = match parse(text, Path::new("watch.toml")) {
        Ok(keys) => {
            let all = keys.iter().flat_map(|key| &key.values);
            all.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(options, expected, "{text}");
}

#[test]
fn each_key_is_the_option_of_the_same_name() {
    check("all = true\nact = false\nidle_after = \"2min\"", "--all --idle-after=2min");
    check("seed = 0x10\nexclude_user = [\"0\", 7]", "--seed=16 --exclude-user=0 --exclude-user=7");
    check("version = 1\nclass = ['sort*=7']", "--class=sort*=7");
}

#[test]
fn errors_have_the_position_of_the_value() {
    check(
        "all = true\nexlude = ['a']",
        "watch.toml:2:1: unknown key \"exlude\" in the configuration; did you mean \"exclude\"?",
    );
    check("\nidle_after = '0'", "watch.toml:2:14: idle_after: it must be longer than 0");
    check("act = 'yes'", "watch.toml:1:7: \"act\" must be true or false, not a string");
    check(
        "journal = 5",
        "watch.toml:1:11: \"journal\" must be a path in quotation marks, not an integer",
    );
    check("cgroup = '/x'", "watch.toml:1:10: \"cgroup\" must be an array, not a string");
    check(
        "user = ['0', 'evk-no-such-user']",
        "watch.toml:1:14: user: there is no user \"evk-no-such-user\"",
    );
    check(
        "class = [\n  'a=1',\n  'a=16']",
        "watch.toml:3:3: class: \"16\" is not a class from 0 to 15",
    );
    let error = parse("config = 'x'", Path::new("w")).map(|_| ()).expect_err("not a key");
    assert!(error.to_string().starts_with("w:1:1: unknown key \"config\""), "{error}");
}

#[test]
fn an_option_of_the_command_line_replaces_the_key_and_conflicting_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("watch.toml");
    let text = "act = true\nidle_after = '2min'\nexclude = ['a']\nseed = 5";
    std::fs::write(&file, text).expect("own directory");
    let load = |line: &str| {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        WatchConfig::combine(&file, &line).expect("valid")
    };
    let all = load("evenkeel watch --config f --dry-run --idle-after 1min --exclude b");
    let args = &all.args;
    assert_eq!((args.act, args.idle_after.0, args.seed), (false, 60_000_000_000, 5));
    assert_eq!(args.selection.exclude, ["b"]);
    let of_file = load("evenkeel watch --config f");
    assert!(of_file.args.act && of_file.needs_restart(&all));
    std::fs::write(&file, text.replace("'a'", "'c'")).expect("own directory");
    assert!(!load("evenkeel watch --config f").needs_restart(&of_file));
}

#[test]
fn an_error_of_core_kinds_has_the_position_of_the_value_or_the_name_of_the_option() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("watch.toml");
    std::fs::write(&file, "all = true\ncore_kinds = 'p=9:1024'\n").expect("own directory");
    let error = |line: &str| {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let config = WatchConfig::combine(&file, &line).expect("valid");
        let machine = topology::Machine::synthetic("cores=2").expect("a machine");
        config.args.core_kinds.apply(machine).expect_err("no such CPU").to_string()
    };
    let place = format!("{}:2:14: core_kinds", file.display());
    assert_eq!(error("evenkeel watch --config f"), place);
    assert_eq!(error("evenkeel watch --config f --core-kinds p=9:1024"), "--core-kinds");
}

#[test]
fn every_option_of_the_command_line_is_a_key() {
    let keys = known_keys(&watch_command());
    for key in ["act", "policy", "idle_after", "memory_by_node", "signal", "exclude_cgroup"] {
        assert!(keys.iter().any(|known| known == key), "{key} of {keys:?}");
    }
}

/// Keys of the shipped configuration that are not commented out.
const ACTIVE: [(&str, &str); 3] = [("all_users", "true"), ("all", "true"), ("act", "false")];
/// Examples for keys without a default.
const EXAMPLES: [(&str, &str); 15] = [
    ("pid", "[4711]"),
    ("user", "[\"postgres\"]"),
    ("command", "[\"*/java *server.jar*\"]"),
    ("comm", "[\"sort*\"]"),
    ("cgroup", "[\"/user.slice\"]"),
    ("unit", "[\"cron.service\"]"),
    ("exclude", "[\"ssh*\"]"),
    ("exclude_command", "[\"*--no-placement*\"]"),
    ("exclude_user", "[\"root\"]"),
    ("exclude_cgroup", "[\"/system.slice\"]"),
    ("class", "[\"sort*=7\", \"*=3\"]"),
    ("signal", "[\"loads=declared\"]"),
    ("core_kinds", "\"performance=0-7:1024,efficiency=8-15:600\""),
    ("for", "\"8h\""),
    ("journal", "\"/var/lib/evenkeel/watch.jsonl\""),
];
const INTRODUCTION: &str = "\
# Configuration of evenkeel watch. The unit evenkeel-watch.service reads this file.
#
#   evenkeel watch --check-config       check this file
#   systemctl start evenkeel-watch      start; systemctl enable starts it at each boot
#   systemctl reload evenkeel-watch     apply a change of this file
#
# Each key is an option of evenkeel watch with _ in place of -; evenkeel-watch(1) describes them. With these values
# the watch reports its actions in the journal of systemd (journalctl -u evenkeel-watch) and changes nothing. With
# act = true it performs them. The default policy, auto, requests no action if the machine has one domain only or counts
# no instructions and cache misses, and keeps an action only after it measured a gain.

# Version of the keys in this file; 1 is the only version
#version = 1
";

fn template() -> String {
    let command = watch_command();
    let key_text = |arg: &Arg| {
        let key = arg.get_long().unwrap_or_default().replace('-', "_");
        let of = |list: &[(&str, &str)]| {
            list.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
        };
        let default = arg.get_default_values().first().map(|value| value.to_string_lossy());
        let default = default.map(|text| match text.parse::<u64>() {
            Err(_) if text != "false" => format!("{text:?}"),
            _ => text.into_owned(),
        });
        let example = of(&EXAMPLES).or(default).unwrap_or_else(|| "false".to_owned());
        let line = match of(&ACTIVE) {
            Some(value) => format!("{key} = {value}"),
            None => format!("#{key} = {example}"),
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let values = arg.get_possible_values();
        let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        let values = match values[..] {
            [] | ["true", "false"] => String::new(),
            _ => format!(" ({})", values.join(", ")),
        };
        format!("\n{}{line}\n", comment(&(help + &values)))
    };
    let has_key = |arg: &&Arg| {
        arg.get_long().is_some_and(|option| !NOT_KEYS.contains(&option)) && !arg.is_hide_set()
    };
    let keys: String = command.get_arguments().filter(has_key).map(key_text).collect();
    format!("{INTRODUCTION}{keys}")
}

/// Returns a text as comment lines of at most 100 columns.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        if 100 < lines.last().map_or(0, String::len) + 1 + word.len() {
            lines.push(String::from("#"));
        }
        lines.iter_mut().last().into_iter().for_each(|line| *line += &format!(" {word}"));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_shipped_configuration_describes_every_key_and_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/watch.toml");
    let template = template();
    expect_test::expect_file![path].assert_eq(&template);
    check(&template, "--all-users --all");
    let lines = template.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        _ => line,
    });
    let is_portable =
        |line: &&str| !["pid", "user", "unit", "cgroup"].iter().any(|key| line.contains(key));
    let all: Vec<&str> = lines.filter(is_portable).collect();
    parse(&all.join("\n"), Path::new("watch.toml")).expect("every example is valid");
}
