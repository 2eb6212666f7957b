//! The full-screen view on a terminal of its own: `script(1)` of util-linux provides the terminal, and its input is the
//! keyboard.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use tests::dir::Dir;
use tests::process::{signal, until};
use tests::tool;

/// Escape sequence that switches to the alternate screen.
const ENTER: &str = "\x1b[?1049h";
/// Escape sequence that switches to the normal screen.
const LEAVE: &str = "\x1b[?1049l";

/// evenkeel on a terminal with 80 columns and 24 lines. The shell writes the modes of the terminal before and after. It
/// handles SIGINT and SIGQUIT, because keys send them to it too and dash would end before its commands. The shell of
/// all environments is `sh`: without SHELL, and with any value of it, `script` would take another one.
struct OnTerminal {
    script: Child,
    dir: Dir,
}

impl OnTerminal {
    fn start(dir: Dir, args: &str) -> Self {
        OnTerminal::of_program(dir, &format!("{} {args}", tool::path().display()))
    }

    fn of_program(dir: Dir, program: &str) -> Self {
        let shell = format!(
            "trap : INT QUIT; stty cols 80 rows 24; stty -a > before; sh -c 'echo $$ > pid; exec {program}'; \
             echo $? > status; stty -a > after"
        );
        let mut command = Command::new("script");
        command.args(["-qfec", &shell, "typescript"]).current_dir(dir.root());
        command
            .env(linux::undo::STATE_VARIABLE, dir.path("state"))
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh");
        let script = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        OnTerminal { script: script.expect("script(1) of util-linux"), dir }
    }

    fn screen(&self) -> String {
        let bytes = std::fs::read(self.dir.path("typescript")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn wait_for(&self, text: &str) {
        until(text, || self.screen().contains(text));
    }

    fn press(&mut self, keys: &str) {
        let stdin = self.script.stdin.as_mut().expect("a pipe");
        stdin.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    fn signal(&self, name: rustix::process::Signal) {
        let pid = self.dir.read("pid").trim().parse().expect("a PID");
        signal(pid, name);
    }

    /// Waits for the end. Returns the exit status of evenkeel.
    fn wait(&mut self) -> String {
        until("the end", || !self.dir.text("after").is_empty());
        self.script.wait().expect("it ends");
        self.dir.text("status").trim().to_owned()
    }

    /// Waits for the end, and checks that the modes are those of the start and that the last screen is the normal one.
    fn check_end(&mut self, end: &str) -> String {
        self.wait();
        assert_eq!(self.dir.read("before"), self.dir.read("after"), "{end}");
        let screen = self.screen();
        assert_eq!(screen.matches(ENTER).count(), screen.matches(LEAVE).count(), "{end}");
        let (_, after) = screen.rsplit_once(LEAVE).expect("the view was left");
        assert!(!after.contains("\x1b["), "{end}: {after:?}");
        after.to_owned()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
    }
}

const SLEEPING: &str = "[[job]]\nname = \"sleeping\"\nshell = \"sleep 600\"\n";

fn live_run() -> OnTerminal {
    let dir = Dir::new();
    dir.write("test.toml", SLEEPING);
    let run = OnTerminal::start(dir, "run test.toml --out out --grace 1s");
    run.wait_for("sleeping");
    run
}

#[test]
fn the_terminal_is_restored_and_the_report_printed_after_every_end() {
    use rustix::process::Signal;
    for keys in ["\x03", "\x1c"] {
        let mut run = live_run();
        run.press(keys);
        let after = run.check_end(&format!("{keys:?}"));
        assert!(after.contains("journal:"), "{after:?}");
    }
    for signal in [Signal::TERM, Signal::HUP] {
        let mut run = live_run();
        run.signal(signal);
        run.check_end(&format!("{signal:?}"));
    }
    let mut run = live_run();
    run.press("qq");
    run.check_end("q");
    assert_eq!(run.dir.read("status").trim(), "1");
}

#[test]
fn ctrl_z_without_a_shell_that_can_continue_evenkeel_does_not_stop_it() {
    let mut run = live_run();
    run.press("\x1a");
    until("the second screen", || run.screen().matches(ENTER).count() == 2);
    run.press("\x03");
    run.check_end("Ctrl-Z");
}

#[test]
fn a_watch_uses_the_screen_and_lines_does_not() {
    let dir = Dir::new();
    let mut watch = OnTerminal::start(dir, "watch --pid $$ --pid 1");
    watch.wait_for("evenkeel watch");
    watch.press("qq");
    watch.check_end("watch");
    let dir = Dir::new();
    dir.write("test.toml", "[[job]]\nname = \"short\"\nshell = \"sleep 1\"\n");
    let mut run = OnTerminal::start(dir, "run test.toml --out out --lines");
    run.wait();
    assert!(!run.screen().contains('\x1b'), "{:?}", run.screen());
}

/// The commands that start one program with their terminal.
const WITH_PROGRAM: [&str; 3] = ["run --", "watch --", "record --output stream --"];
/// A shell script that reads one line.
const READS_LINE: &str = "echo ready; read line; echo \"<$line>\"";

#[test]
fn a_single_command_has_the_keyboard_and_its_output_is_on_the_normal_screen() {
    for command in WITH_PROGRAM {
        let dir = Dir::with(&[("script", READS_LINE)]);
        let mut run = OnTerminal::start(dir, &format!("{command} sh script"));
        run.wait_for("ready");
        run.press("typed\n");
        assert_eq!(run.wait(), "0", "{command}: {}", run.screen());
        let screen = run.screen();
        assert!(screen.contains("<typed>") && !screen.contains(ENTER), "{command}: {screen:?}");
        assert_eq!(run.dir.read("before"), run.dir.read("after"), "{command}");
    }
}

#[test]
fn ctrl_c_reaches_a_single_command_only() {
    let script = "trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done";
    for command in ["run --", "watch --"] {
        let dir = Dir::with(&[("script", script)]);
        let mut run = OnTerminal::start(dir, &format!("{command} sh script"));
        run.wait_for("ready");
        run.press("\x03");
        assert_eq!(run.wait(), "7", "{command}: {}", run.screen());
    }
}

#[test]
fn ctrl_z_stops_a_single_command_with_evenkeel_and_fg_continues_both() {
    for command in WITH_PROGRAM {
        let dir = Dir::with(&[("script", READS_LINE)]);
        let evenkeel = format!("{} {command} sh script", tool::path().display());
        // A shell with job control. Its status is 128 and the signal if the job was stopped.
        let shell = format!("set -m; {evenkeel}; echo stopped by $(($? - 128)); fg; exit $?");
        dir.write("shell", shell);
        let mut run = OnTerminal::of_program(dir, "bash shell");
        run.wait_for("ready");
        run.press("\x1a");
        run.wait_for("stopped by 20");
        run.press("typed\n");
        assert_eq!(run.wait(), "0", "{command}: {}", run.screen());
        assert!(run.screen().contains("<typed>"), "{command}: {:?}", run.screen());
    }
}

#[test]
fn the_journal_of_a_simulated_run_does_not_depend_on_the_view() {
    let run = |lines: &str| {
        let dir = Dir::new();
        dir.write("test.toml", SIMULATED);
        let mut run = OnTerminal::start(
            dir,
            &format!("run test.toml --host sim --machine xeon-2x4 --out out {lines}"),
        );
        if lines.is_empty() {
            until("a frame", || {
                run.screen().contains("simulated") || run.dir.path("after").exists()
            });
            run.press("s\x1b[Bpp\r");
        }
        run.wait();
        let dir = run.dir.root().display().to_string();
        run.dir.read("out/journal.jsonl").replace(&dir, "DIR")
    };
    assert!(run("") == run("--lines"), "the journals differ");
}

/// A run whose simulation takes longer than the delay before the first frame.
const SIMULATED: &str = r#"
[[job]]
name = "long"
shell = "long"
profile = "429.mcf@0.02"
copies = 12
restart = "until-others-done"

[[job]]
name = "end"
shell = "end"
profile = "429.mcf"
stop_after = "1500s"
"#;
