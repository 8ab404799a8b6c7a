//! The exit codes below the help of each command.

use clap::{Command, Parser};

/// Exit codes of all commands, except those that end with the code of another program.
pub const EXIT_CODES: &str =
    "Exit codes: 0 done; 1 a problem was found, or the work is incomplete; 2 bad usage or input.";

/// Adds the exit codes to the help of a command and of all commands below it.
#[must_use]
pub fn with_exit_codes(command: Command) -> Command {
    let help = match command.get_after_help() {
        Some(help) => format!("{help}\n\n{EXIT_CODES}"),
        None => EXIT_CODES.to_owned(),
    };
    command.mut_subcommands(with_exit_codes).after_help(help)
}

/// Reads the command line of this process, with the exit codes below the help of each command.
///
/// # Errors
///
/// As clap reports them; `--help` and `--version` are errors with exit code 0.
pub fn parse<P: Parser>() -> Result<P, clap::Error> {
    let mut definition = with_exit_codes(P::command());
    let mut matches = definition.try_get_matches_from_mut(std::env::args_os())?;
    P::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_help_ends_with_the_exit_codes() {
        let leaf = Command::new("leaf").after_help("Examples:\n  program group leaf");
        let group = Command::new("group").subcommand(leaf);
        let mut at = &with_exit_codes(Command::new("program").subcommand(group));
        for name in ["group", "leaf"] {
            let help = at.get_after_help().map(ToString::to_string);
            assert_eq!(help.unwrap_or_default(), EXIT_CODES);
            at = at.find_subcommand(name).unwrap();
        }
        let help = at.get_after_help().map(ToString::to_string);
        let expected = format!("Examples:\n  program group leaf\n\n{EXIT_CODES}");
        assert_eq!(help.unwrap_or_default(), expected);
    }
}
