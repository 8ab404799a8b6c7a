//! The list of commands in `esker --help`, in groups with a heading each, and suggestions for words of other tools.

use super::Cli;
use clap::builder::styling::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, FromArgMatches as _};
use esker_terminal::help::with_exit_codes;
use std::ffi::OsString;
use std::fmt::Write as _;

/// Headings with the commands below them, in the order of the help. Each visible command is in exactly one group.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Record and import",
        &["run", "log", "spool", "import", "harvest", "export"],
    ),
    (
        "Ask",
        &[
            "lineage", "impact", "get", "edges", "history", "travel", "find", "diff", "changes",
            "top", "sparql",
        ],
    ),
    (
        "Change",
        &[
            "put", "link", "set", "delete", "object", "tag", "rdf", "schema", "index",
        ],
    ),
    (
        "Files",
        &[
            "ls",
            "stat",
            "mkdir",
            "touch",
            "mv",
            "rm",
            "ln",
            "chmod",
            "chown",
            "df",
            "du",
            "namespace",
            "mount",
            "umount",
        ],
    ),
    (
        "Databases",
        &[
            "init", "stats", "check", "compact", "backup", "restore", "upgrade", "doctor",
        ],
    ),
    (
        "Servers",
        &[
            "serve",
            "console",
            "mcp",
            "grant",
            "revoke",
            "audit",
            "share",
            "quota",
            "login",
            "logout",
            "cluster",
            "placement",
            "site",
        ],
    ),
    (
        "Tools",
        &["demo", "shell", "bench", "completions", "man", "help"],
    ),
];

/// Words that users of other tools type, with the commands that do it here.
const SYNONYMS: [(&str, &[&str]); 21] = [
    ("add", &["put", "link"]),
    ("cat", &["get"]),
    ("create", &["init", "put", "object create"]),
    ("describe", &["get", "schema"]),
    ("insert", &["put", "link"]),
    ("list", &["find", "ls"]),
    ("load", &["import", "rdf load"]),
    ("neighbors", &["edges"]),
    ("neighbours", &["edges"]),
    ("new", &["init"]),
    ("open", &["shell", "console"]),
    ("origin", &["lineage"]),
    ("provenance", &["lineage"]),
    ("query", &["find", "travel", "sparql"]),
    ("record", &["run"]),
    ("remove", &["delete", "rm"]),
    ("search", &["find"]),
    ("server", &["serve"]),
    ("show", &["get"]),
    ("status", &["stats", "doctor"]),
    ("where", &["find", "lineage"]),
];

/// Sentence of the command `help`, which clap adds.
const HELP: &str = "Print the help of a command";

/// The definition of the command line, with its commands in groups and the exit codes below the help of each.
pub(crate) fn command() -> Command {
    let groups = list(&Cli::command());
    // `run` ends with the exit code of the program, and the help of `esker` itself has the exit codes already.
    let definition = Cli::command().mut_subcommands(|command| match command.get_name() {
        "run" => command,
        _ => with_exit_codes(command),
    });
    definition.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{}\n{{options}}{{after-help}}",
        heading("Options")
    ))
}

/// Reads a command line.
///
/// # Errors
///
/// As clap reports them; `--help` and `--version` are errors with exit code 0.
pub(crate) fn parse(
    definition: Command,
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Cli, clap::Error> {
    let mut definition = definition;
    let matches = definition
        .try_get_matches_from_mut(args)
        .map_err(with_synonyms)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

fn heading(text: &str) -> String {
    let style = Styles::styled();
    let header = style.get_header();
    format!("{header}{text}:{header:#}")
}

/// Returns the sentence of one command.
fn sentence(definition: &Command, name: &str) -> String {
    if name == "help" {
        return HELP.to_owned();
    }
    let command = definition.find_subcommand(name);
    let about = command.and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

/// Names and sentences of all commands, below their headings.
fn list(command: &Command) -> String {
    let styles = Styles::styled();
    let literal = styles.get_literal();
    let width = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = width.map(|name| name.len()).max().unwrap_or_default();
    let mut out = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(out, "{}", heading(title));
        for name in names {
            let about = sentence(command, name);
            // The template's braces are tags.
            let about = about.replace(['{', '}'], "");
            let _ = writeln!(out, "  {literal}{name:width$}{literal:#}  {about}");
        }
        out.push('\n');
    }
    out
}

/// An unknown command that is a word of another tool suggests the commands that do it.
fn with_synonyms(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let found = SYNONYMS.iter().find(|(other, _)| other == word);
    if let Some((_, commands)) = found {
        let commands = commands.iter().map(|&name| name.to_owned()).collect();
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(commands),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, SYNONYMS, command, parse, sentence};
    use esker_terminal::help::EXIT_CODES;
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    #[test]
    fn each_visible_command_is_in_one_group() {
        let mut all = command();
        all.build();
        let visible: BTreeSet<&str> = all
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        assert_eq!(grouped.len(), visible.len(), "a command is in two groups");
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), visible);
    }

    #[test]
    fn the_book_lists_the_commands() {
        let mut all = command();
        all.build();
        let mut table = String::from("\n");
        for (title, names) in GROUPS {
            let _ = write!(table, "## {title}\n\n| command | |\n|---|---|\n");
            for name in names {
                let about = sentence(&all, name);
                let _ = writeln!(table, "| `{name}` | {about} |");
            }
            table.push('\n');
        }
        let page = std::path::absolute("../../docs/book/commands.md").unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once("<!-- commands: begin -->\n").unwrap();
        let (shown, after) = rest.split_once("<!-- commands: end -->").unwrap();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let new =
                format!("{before}<!-- commands: begin -->\n{table}<!-- commands: end -->{after}");
            std::fs::write(&page, new).unwrap();
        } else {
            assert_eq!(
                shown, table,
                "UPDATE_EXPECT=1 rewrites docs/book/commands.md"
            );
        }
    }

    #[test]
    fn sentences_of_commands_fit_a_terminal() {
        let mut all = command();
        all.build();
        for command in all.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = command.get_name();
            let about = sentence(&all, name);
            assert!(!about.is_empty(), "`{name}` says nothing");
            assert!(
                about.len() <= 65,
                "`{name}`: {} characters: {about}",
                about.len()
            );
        }
    }

    /// All commands below one, groups included, with their full names.
    fn commands_below<'c>(
        command: &'c clap::Command,
        name: &str,
        found: &mut Vec<(String, &'c clap::Command)>,
    ) {
        for each in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = format!("{name} {}", each.get_name());
            commands_below(each, &name, found);
            found.push((name, each));
        }
    }

    #[test]
    fn each_command_has_two_examples_and_its_exit_codes() {
        let all = command();
        let mut found = Vec::new();
        commands_below(&all, "esker", &mut found);
        let groups = found.iter().filter(|(_, c)| c.has_subcommands()).count();
        assert!(
            found.len() > 110 && groups >= 12,
            "{} with {groups}",
            found.len()
        );
        let help = all.get_after_help().map(ToString::to_string);
        assert!(help.unwrap_or_default().ends_with(EXIT_CODES));
        for (name, command) in found {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let examples = help
                .lines()
                .filter(|l| l.starts_with("  ") && l.contains("esker"));
            assert!(examples.count() >= 2, "`{name}`: {help}");
            if name == "esker run" {
                assert!(help.contains("exit code"), "{help}");
            } else {
                assert!(help.ends_with(EXIT_CODES), "`{name}`: {help}");
            }
        }
    }

    #[test]
    fn words_of_other_tools_lead_to_commands() {
        let all = command();
        for (word, commands) in SYNONYMS {
            assert!(all.find_subcommand(word).is_none(), "{word} is a command");
            for name in commands {
                let mut at = &all;
                for part in name.split(' ') {
                    at = at.find_subcommand(part).unwrap();
                }
            }
            let error = parse(command(), ["esker", word]).unwrap_err();
            let error = error.to_string();
            for name in commands {
                assert!(error.contains(name), "{word}: {error}");
            }
        }
    }
}
