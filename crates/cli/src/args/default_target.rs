//! The default target: `$ESKER_TARGET`, else the database `.esker` in the current folder or in the nearest folder above it.
//!
//! A command line without a target gets the default one where its target belongs, before it is parsed.

use clap::Command;
use esker::is_database;
use esker_mount::mount_point;
use esker_origin::OriginUrl;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Name of the database that commands find from folders below it.
const FOLDER: &str = ".esker";
/// Variable that names the default target.
const VARIABLE: &str = "ESKER_TARGET";

/// The default target, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefaultTarget {
    /// A folder or an address.
    pub(crate) target: String,
    /// Sentence for errors: the target, and what named it.
    pub(crate) origin: String,
}

impl DefaultTarget {
    /// Finds the default target of this process; `None` if the variable is not set and no folder has a `.esker`.
    pub(crate) fn find() -> Option<Self> {
        Self::from_variable().or_else(Self::from_folders)
    }

    fn from_variable() -> Option<Self> {
        let target = std::env::var(VARIABLE).ok().filter(|t| !t.is_empty())?;
        let origin = format!("the target is `{target}`, from ${VARIABLE}");
        Some(Self { target, origin })
    }

    fn from_folders() -> Option<Self> {
        let here = std::env::current_dir().ok()?;
        let mut candidates = here.ancestors().map(|folder| folder.join(FOLDER));
        let path = candidates.find(|path| is_database(path))?;
        let target = path.to_str()?.to_owned();
        let origin = format!("the target is `{target}`, found from the current folder");
        Some(Self { target, origin })
    }

    /// Target of a new database: the variable's, else `.esker` in the current folder.
    fn of_new() -> Self {
        Self::from_variable().unwrap_or_else(|| Self {
            target: FOLDER.to_owned(),
            origin: format!("the target is `{FOLDER}` in the current folder"),
        })
    }
}

/// Adds the default target to a command line (with the program's name) that has none. Returns the target if one was added.
pub(crate) fn add_default(
    definition: &Command,
    words: &mut Vec<OsString>,
) -> Option<DefaultTarget> {
    let position = TargetPosition::find(definition, words.get(1..)?)?;
    if position.is_given() {
        return None;
    }
    let default = if position.command.get_name() == "init" {
        DefaultTarget::of_new()
    } else {
        DefaultTarget::find()?
    };
    words.insert(position.index + 1, OsString::from(&default.target));
    Some(default)
}

/// Position of the target in a command line, and the arguments that are there.
pub(crate) struct TargetPosition<'a> {
    /// The command, without commands of its own.
    command: &'a Command,
    /// Index of the target, behind the words of the command.
    pub(crate) index: usize,
    /// Arguments of the command that are no options.
    arguments: Vec<&'a OsStr>,
}

impl<'a> TargetPosition<'a> {
    /// Finds the position in a command line without the program's name; `None` if the command takes no target first.
    pub(crate) fn find(definition: &'a Command, words: &'a [impl AsRef<OsStr>]) -> Option<Self> {
        let mut command = definition;
        let mut index = 0;
        let mut arguments = Vec::new();
        let mut words = words.iter().map(AsRef::as_ref).enumerate();
        while let Some((at, word)) = words.next() {
            let text = word.to_str().unwrap_or_default();
            if text == "--" {
                arguments.extend(words.by_ref().map(|(_, word)| word));
            } else if text.len() > 1 && text.starts_with('-') {
                if matches!(text, "--help" | "-h" | "--version" | "-V") {
                    return None;
                }
                if takes_next_word(&[command, definition], text) {
                    words.next();
                }
            } else if let Some(next) = command
                .find_subcommand(word)
                .filter(|_| arguments.is_empty() && !takes_target(command))
            {
                (command, index) = (next, at + 1);
            } else {
                arguments.push(word);
            }
        }
        takes_target(command).then_some(Self {
            command,
            index,
            arguments,
        })
    }

    /// Whether the command line has a target: all arguments of the command are there, or the first one looks like a target.
    fn is_given(&self) -> bool {
        let all: Vec<_> = self.command.get_positionals().collect();
        let is_open = self.command.has_subcommands() || all.iter().any(|one| is_repeated(one));
        let is_full = !is_open && self.arguments.len() >= all.len();
        // The only argument of `mount --origin` is a directory.
        let is_mount = self.command.get_name() == "mount";
        is_full || is_mount || self.arguments.first().is_some_and(|word| is_target(word))
    }
}

/// Whether the first argument of a command is a target.
fn takes_target(command: &Command) -> bool {
    let first = command.get_positionals().next();
    first.is_some_and(|a| a.get_value_names().is_some_and(|names| names == ["TARGET"]))
}

/// Whether an argument takes any number of words.
fn is_repeated(argument: &clap::Arg) -> bool {
    matches!(argument.get_action(), clap::ArgAction::Append)
}

/// Whether an option has its value in the next word.
fn takes_next_word(commands: &[&Command], option: &str) -> bool {
    let mut all = commands.iter().flat_map(|command| command.get_arguments());
    let found = match option.strip_prefix("--") {
        Some(long) => all.find(|a| {
            a.get_long() == Some(long) || a.get_all_aliases().is_some_and(|x| x.contains(&long))
        }),
        // Another letter behind the first is another option or its value.
        None if option.chars().count() > 2 => None,
        None => all.find(|a| a.get_short() == option.chars().nth(1)),
    };
    found.is_some_and(|a| {
        let at_least = a.get_num_args().map_or(1, |range| range.min_values());
        a.get_action().takes_values() && at_least > 0 && !a.is_require_equals_set()
    })
}

/// Whether a word names a target: an address, a name ending in `.esker`, the folder of a database, or a path below a mount.
fn is_target(word: &OsStr) -> bool {
    let path = Path::new(word);
    let text = word.to_str().unwrap_or_default();
    text.starts_with("esker://")
        || OriginUrl::looks_like_url(text)
        || path.file_name() == Some(OsStr::new(FOLDER))
        || path.extension() == Some(OsStr::new("esker"))
        || is_database(path)
        || (path.exists() && matches!(mount_point::mount_of(path), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use super::TargetPosition;
    use crate::args::command;

    /// Index of the target of a command line without the program's name, and whether it has one.
    fn position(text: &str) -> Option<(usize, bool)> {
        let definition = command();
        let words: Vec<&str> = text.split(' ').collect();
        TargetPosition::find(&definition, &words).map(|p| (p.index, p.is_given()))
    }

    #[test]
    fn targets_follow_the_words_of_the_command() {
        for (text, expected) in [
            ("stats", Some((1, false))),
            ("stats lab", Some((1, true))),
            ("--memory 1GiB -q get file:/a", Some((3 + 1, false))),
            ("get --format json file:/a", Some((1, false))),
            ("get --format json x.esker file:/a", Some((1, true))),
            ("import darshan logs", Some((2, false))),
            ("import darshan esker://h:1 logs", Some((2, true))),
            ("find size>1", Some((1, false))),
            ("find lab.esker size>1", Some((1, true))),
            ("schema add-vertex-type Lab", Some((1, false))),
            ("schema lab.esker add-vertex-type Lab", Some((1, true))),
            ("ls sftp://h/x", Some((1, true))),
            ("ls -- /x", Some((1, false))),
            ("rdf load a.nt", Some((2, false))),
            ("link job:1 write file:/a", Some((1, false))),
            ("link lab.esker job:1 write file:/a", Some((1, true))),
            ("mount --origin sftp://h/x /mnt", Some((1, true))),
            ("import", None),
            ("get --help", None),
            ("restore backup lab.esker", None),
            ("run -- true", None),
            ("bench ingest", None),
            ("nothing", None),
        ] {
            assert_eq!(position(text), expected, "{text}");
        }
    }
}
