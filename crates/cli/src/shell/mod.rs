//! `esker shell`: the commands without the target, typed one after another over one open database.
//!
//! On a terminal there are a prompt, completion ([`complete`]) and a history; otherwise standard input is a script. Both
//! read statements ([`statement`]): a chain may go over several lines.

mod complete;
mod prompt;
mod statement;

use crate::args::{Cli, Command, Globals, ShellArgs};
use crate::commands::{run_to_code, stdin_is_terminal};
use crate::context::Context;
use crate::exit::Outcome;
use crate::interrupt::Interrupt;
use clap::{CommandFactory as _, FromArgMatches as _};
use esker::Database;
use statement::{Statement, is_complete};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};

/// What stands in the target's place when a statement is parsed: the database is open already.
const TARGET: &str = "(the shell's database)";
/// Commands that make no sense while a database is open.
const NOT_HERE: [&str; 8] = [
    "init",
    "restore",
    "grant",
    "revoke",
    "shell",
    "site",
    "completions",
    "man",
];

pub(crate) fn run(
    args: &ShellArgs,
    context: &mut Context,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let mut session = Session {
        database,
        globals: context.globals.clone(),
        interrupt: interrupt.clone(),
        failed: false,
    };
    if stdin_is_terminal() {
        prompt::run(&mut session, &args.target.target, context)?;
        // What failed was seen when it failed.
        return Ok(Outcome::Done);
    }
    run_script(&mut session, args.stop_on_error)?;
    Ok(Outcome::partly_if(session.failed))
}

/// One open database and the options that the shell was started with.
struct Session {
    database: Database,
    globals: Globals,
    interrupt: Interrupt,
    failed: bool,
}

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Statement,
    Leave,
}

impl Session {
    /// Runs one statement. Errors are told, and remembered in `failed`.
    fn execute(&mut self, text: &str) -> Next {
        let words = match statement::parse(text) {
            Ok(Statement::Nothing) => return Next::Statement,
            Ok(Statement::Words(words)) => words,
            Err(message) => {
                self.fail(&message);
                return Next::Statement;
            }
        };
        match words.first().map(String::as_str) {
            Some("exit" | "quit") => return Next::Leave,
            Some("help" | "?") => self.help(&words[1..]),
            Some(command) if NOT_HERE.contains(&command) => {
                self.fail(&format!(
                    "`{command}` is a command of its own, not one of the shell"
                ));
            }
            _ => self.run(words),
        }
        Next::Statement
    }

    fn run(&mut self, words: Vec<String>) {
        self.interrupt.reset();
        let matches = command().try_get_matches_from(with_target(words));
        let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        let cli = match parsed {
            Ok(cli) => cli,
            Err(error) => {
                let text = without_target(&error.render().to_string());
                // A closed output is no reason to complain about not having complained.
                let _ = if error.exit_code() == 0 {
                    io::stdout().write_all(text.as_bytes())
                } else {
                    self.failed = true;
                    io::stderr().write_all(text.as_bytes())
                };
                return;
            }
        };
        let globals = self.globals_for(&cli);
        let mut context = Context::in_shell(globals, &self.interrupt, &self.database);
        if matches!(cli.command, Command::Shell(_)) {
            return;
        }
        let code = run_to_code(cli.command, &mut context, &self.interrupt);
        self.failed |= code != 0;
    }

    /// A statement's own options where it has some, else the shell's.
    fn globals_for(&self, cli: &Cli) -> Globals {
        Globals {
            timeout: cli.globals.timeout.or(self.globals.timeout),
            quiet: cli.globals.quiet || self.globals.quiet,
            color: self.globals.color,
            memory: self.globals.memory,
            durability: self.globals.durability,
            trust_new_host: self.globals.trust_new_host,
        }
    }

    fn help(&mut self, about: &[String]) {
        if about.is_empty() {
            let mut text = String::from("Commands, without `esker` and without the target:\n");
            for sub in command().get_subcommands() {
                let name = sub.get_name();
                if name != "help" && !NOT_HERE.contains(&name) {
                    let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "  {name:10} {about}");
                }
            }
            text.push_str(
                "  help       This list; `help COMMAND` for one command\n  \
                 exit       Leave (or Ctrl-D)\n\n\
                 A chain may go over several lines, and needs no quotes: travel v(\"user:1001\").e(\"run\")\n\
                 Everything behind a `#` that begins a word is a comment.\n",
            );
            let _ = io::stdout().write_all(text.as_bytes());
            return;
        }
        let mut words = about.to_vec();
        words.push("--help".to_owned());
        self.run(words);
    }

    fn fail(&mut self, message: &str) {
        self.failed = true;
        let _ = writeln!(io::stderr(), "error: {message}");
    }
}

/// The command line's definition; inside the shell it is called by no name.
fn command() -> clap::Command {
    Cli::command().no_binary_name(true)
}

/// Help and errors as they read in the shell, where the target is filled in: no `esker`, no target, neither in usage lines
/// nor in the list of arguments nor in examples.
fn without_target(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("<TARGET>") {
            // `--help` describes an argument below its name, `-h` behind it.
            if lines.next_if(|l| l.starts_with("          ")).is_some() {
                lines.next_if(|l| l.is_empty());
            }
            continue;
        }
        let line = line
            .replace(" <TARGET>", "")
            .replace(" lab.esker", "")
            .replace("esker ", "");
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Puts a target behind the command: behind both words of `import darshan` and the like.
fn with_target(mut words: Vec<String>) -> Vec<String> {
    let two = matches!(
        words.first().map(String::as_str),
        Some("import" | "export" | "placement" | "object" | "tag" | "index")
    );
    let at = if two { 2 } else { 1 };
    let wants_help = words.get(1).is_some_and(|w| w == "--help" || w == "-h");
    let is_help = matches!(
        words.first().map(String::as_str),
        Some("--help" | "-h" | "--version" | "-V")
    );
    if words.len() >= at && !is_help && !(two && wants_help) {
        words.insert(at, TARGET.to_owned());
    }
    words
}

fn run_script(session: &mut Session, stop_on_error: bool) -> anyhow::Result<()> {
    let mut text = String::new();
    for line in io::stdin().lock().lines() {
        text.push_str(&line?);
        text.push('\n');
        // Never waits for the line after a whole statement: a program at the other end may wait for the answer.
        if !is_complete(&text) {
            continue;
        }
        let next = session.execute(&std::mem::take(&mut text));
        if next == Next::Leave || (stop_on_error && session.failed) {
            return Ok(());
        }
    }
    // A statement that the script's end cut off says so itself when it is parsed.
    session.execute(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_target_is_filled_in() {
        assert_eq!(with_target(words("get file:/x"))[1], TARGET);
        assert_eq!(with_target(words("import darshan logs"))[2], TARGET);
        assert_eq!(with_target(words("object get 7"))[2], TARGET);
        assert_eq!(with_target(words("tag list"))[2], TARGET);
        assert_eq!(with_target(words("find a=1"))[1], TARGET);
        assert_eq!(with_target(words("import --help")), words("import --help"));
        assert_eq!(
            with_target(words("stats")),
            vec!["stats".to_owned(), TARGET.to_owned()]
        );
    }

    #[test]
    fn help_in_the_shell_names_no_target() {
        let long = "Usage: esker get <TARGET> <VERTEX>...\n\nArguments:\n  <TARGET>\n          The directory\n\n  <VERTEX>...\n          \
                    Vertices\n\n  esker get lab.esker file:/x\n";
        assert_eq!(
            without_target(long),
            "Usage: get <VERTEX>...\n\nArguments:\n  <VERTEX>...\n          Vertices\n\n  get file:/x\n"
        );
    }

    #[test]
    fn every_statement_parses_as_the_command_does() {
        for text in [
            "get file:/x --format json",
            "schema add-attribute Job queue:string",
            "top --limit 3",
            "object create --name a --step -1 --tag x",
            "tag add --where x=1 y z=2",
            "index add x",
            "find x=1 --count",
        ] {
            let parsed = command().try_get_matches_from(with_target(words(text)));
            assert!(parsed.is_ok(), "{text}: {parsed:?}");
        }
    }
}
