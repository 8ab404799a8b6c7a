//! `esker shell`: the commands without the target, run one after another on one open database.
//!
//! On a terminal there are a prompt, completion ([`complete`]) and a history; otherwise standard input is a script. Both read statements
//! ([`statement`]): a chain may span several lines.

mod complete;
mod prompt;
mod statement;

use crate::args::{self, Cli, Command, Globals, ShellArgs, TargetPosition};
use crate::commands::{run_to_code, stdin_is_terminal};
use esker::Database;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::interrupt::Interrupt;
use statement::{Statement, is_complete};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};

/// Placeholder for the target when a statement is parsed: the database is already open.
const TARGET: &str = "(the shell's database)";
/// Commands that make no sense while a database is open.
const UNAVAILABLE: [&str; 11] = [
    "demo",
    "init",
    "restore",
    "grant",
    "revoke",
    "login",
    "logout",
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
        // Each failure was reported when it happened.
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

/// Whether the shell reads another statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Statement,
    Leave,
}

impl Session {
    /// Runs one statement. Errors are printed, and recorded in `failed`.
    fn execute(&mut self, text: &str) -> Flow {
        let words = match statement::parse(text) {
            Ok(Statement::Nothing) => return Flow::Statement,
            Ok(Statement::Words(words)) => words,
            Err(message) => {
                self.fail(&message);
                return Flow::Statement;
            }
        };
        match words.first().map(String::as_str) {
            Some("exit" | "quit") => return Flow::Leave,
            Some("help" | "?") => self.help(&words[1..]),
            Some(command) if UNAVAILABLE.contains(&command) => {
                self.fail(&format!(
                    "`{command}` is a command of its own, not one of the shell"
                ));
            }
            _ => self.run(words),
        }
        Flow::Statement
    }

    fn run(&mut self, words: Vec<String>) {
        self.interrupt.reset();
        let cli = match args::parse(command(), with_target(words)) {
            Ok(cli) => cli,
            Err(error) => {
                let text = without_target(&error.render().to_string());
                // If the output is closed, the error cannot be printed.
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

    /// Returns the options of a statement, and the shell's for those that it does not set.
    fn globals_for(&self, cli: &Cli) -> Globals {
        Globals {
            timeout: cli.globals.timeout.or(self.globals.timeout),
            quiet: cli.globals.quiet || self.globals.quiet,
            wide: cli.globals.wide || self.globals.wide,
            no_pager: true,
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
                if name != "help" && !UNAVAILABLE.contains(&name) {
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

/// Returns the definition of the command line without a program name.
fn command() -> clap::Command {
    args::command().no_binary_name(true)
}

/// Rewrites help and errors for the shell, which fills in the target: `esker` and the target are removed from usage lines, the list of
/// arguments and examples.
fn without_target(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("<TARGET>") {
            // `--help` describes an argument below its name, `-h` on the same line.
            let mut is_below = false;
            while lines.next_if(|l| l.starts_with("          ")).is_some() {
                is_below = true;
            }
            if is_below {
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

/// Inserts a target after the words of the command, if the command takes one.
fn with_target(mut words: Vec<String>) -> Vec<String> {
    let position = TargetPosition::find(&command(), &words).map(|position| position.index);
    if let Some(index) = position {
        words.insert(index, TARGET.to_owned());
    }
    words
}

fn run_script(session: &mut Session, stop_on_error: bool) -> anyhow::Result<()> {
    let mut text = String::new();
    for line in io::stdin().lock().lines() {
        text.push_str(&line?);
        text.push('\n');
        // A complete statement is run at once: a program at the other end may wait for its answer before it sends another line.
        if !is_complete(&text) {
            continue;
        }
        let next = session.execute(&std::mem::take(&mut text));
        if next == Flow::Leave || (stop_on_error && session.failed) {
            return Ok(());
        }
    }
    // A statement that the end of the script cuts off is an error of its parser.
    session.execute(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_target_is_filled_in() {
        assert_eq!(with_target(split("get file:/x"))[1], TARGET);
        assert_eq!(with_target(split("import darshan logs"))[2], TARGET);
        assert_eq!(with_target(split("object get 7"))[2], TARGET);
        assert_eq!(with_target(split("tag list"))[2], TARGET);
        assert_eq!(with_target(split("find a=1"))[1], TARGET);
        assert_eq!(with_target(split("import --help")), split("import --help"));
        assert_eq!(
            with_target(split("stats")),
            vec!["stats".to_owned(), TARGET.to_owned()]
        );
    }

    #[test]
    fn help_in_the_shell_names_no_target() {
        let long = "Usage: esker get <TARGET> <VERTEX>...\n\nArguments:\n  <TARGET>\n          The directory\n          or server\n\n  <VERTEX>...\n          \
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
            let parsed = command().try_get_matches_from(with_target(split(text)));
            assert!(parsed.is_ok(), "{text}: {parsed:?}");
        }
    }
}
