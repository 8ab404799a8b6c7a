//! Completion of shell input: commands, options, types, and vertex names if they are cheap to find.

use crate::args::Cli;
use clap::{ArgAction, CommandFactory as _};
use esker::Database;
use esker_model::object::ObjectRead as _;
use esker_model::{GraphRead as _, Schema, VertexSelect, VertexTypeId};
use reedline::{Completer, Span, Suggestion};
use std::ops::ControlFlow;

/// Maximum number of vertices to read in a search for names; beyond it none are suggested.
const SCAN_MAX: usize = 5_000;
/// Maximum number of suggested names.
const NAMES_MAX: usize = 50;
/// Steps of a traversal chain.
const CALLS: [&str; 12] = [
    "v(",
    "e(",
    "va(",
    "ea(",
    "rtn()",
    "return_fp()",
    "repeat()",
    "repeat(max=",
    "as_of(",
    "versions(",
    "limit(",
    "v()",
];

/// Completes the word before the cursor.
pub(super) struct ShellCompleter {
    database: Database,
    commands: clap::Command,
}

impl ShellCompleter {
    pub(super) fn new(database: Database) -> Self {
        let mut commands = Cli::command();
        commands.build();
        Self { database, commands }
    }

    fn candidates(&self, before: &str, word: &str) -> Vec<String> {
        let words: Vec<&str> = before.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else {
            return self.command_names();
        };
        if *first == "help" {
            return self.command_names();
        }
        let Some(mut command) = self.commands.find_subcommand(first) else {
            return Vec::new();
        };
        if let Some(sub) = rest.first().and_then(|w| command.find_subcommand(w)) {
            command = sub;
        }
        if word.starts_with('-') {
            return options(command);
        }
        if let Some(values) = rest.last().and_then(|option| values_of(command, option)) {
            return values;
        }
        if rest.is_empty() && command.has_subcommands() {
            return names_of(command);
        }
        let Ok(schema) = self.database.schema() else {
            return Vec::new();
        };
        if *first == "travel" {
            return in_chain(&schema, word);
        }
        if ["find", "tag", "index", "object"].contains(first) && !word.contains(':') {
            return self.tags(word);
        }
        if let Some((type_name, key)) = word.split_once(':') {
            return match schema.vertex_type_id(type_name) {
                Ok(id) => self.vertex_names(&schema, id, type_name, key),
                Err(_) => Vec::new(),
            };
        }
        let prefixes = schema
            .vertex_types()
            .map(|(id, _)| format!("{}:", schema.prefix(id)));
        let edges = schema.edge_types().map(|(_, t)| t.name.clone());
        prefixes.chain(edges).collect()
    }

    /// Returns names of attributes and tags of objects, after an opening quote or parenthesis.
    fn tags(&self, word: &str) -> Vec<String> {
        let start = word.rfind(['"', '\'', '(']).map_or(0, |i| i + 1);
        let (head, _) = word.split_at(start);
        let tags = self.database.tags(None).unwrap_or_default();
        let names = tags.into_iter().map(|tag| format!("{head}{}", tag.name));
        names.collect()
    }

    fn command_names(&self) -> Vec<String> {
        let mut names = names_of(&self.commands);
        names.retain(|n| !super::UNAVAILABLE.contains(&n.as_str()));
        names.extend(["help".to_owned(), "exit".to_owned()]);
        names
    }

    /// Returns names of vertices of a type with the typed prefix, if the type has few enough vertices.
    fn vertex_names(
        &self,
        schema: &Schema,
        type_id: VertexTypeId,
        type_name: &str,
        key: &str,
    ) -> Vec<String> {
        let (mut names, mut seen) = (Vec::new(), 0);
        // The scan is for the type's own name: `dataobject:/x` does not name a file.
        let scanned = self
            .database
            .scan_vertices(&VertexSelect::of(type_id), &mut |vertex| {
                seen += 1;
                if vertex.type_id == type_id && vertex.key.starts_with(key) {
                    names.push(format!("{type_name}:{}", vertex.key));
                }
                if seen < SCAN_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        if scanned.is_err() || (seen >= SCAN_MAX && names.is_empty()) {
            return Vec::new();
        }
        names.sort_unstable();
        names.truncate(NAMES_MAX);
        // `schema` decides whether a name needs the spelling of its type; prefixes are all lower case.
        debug_assert!(
            schema.vertex_type(type_id).is_some(),
            "the type was just found"
        );
        names
    }
}

fn names_of(command: &clap::Command) -> Vec<String> {
    let names = command.get_subcommands().map(|c| c.get_name().to_owned());
    names.filter(|n| n != "help").collect()
}

fn options(command: &clap::Command) -> Vec<String> {
    command
        .get_arguments()
        .filter(|a| !a.is_hide_set())
        .filter_map(|a| a.get_long())
        .map(|long| format!("--{long}"))
        .collect()
}

/// Returns the values of an option, if the word before is an option that takes a value.
fn values_of(command: &clap::Command, option: &str) -> Option<Vec<String>> {
    let long = option.strip_prefix("--")?;
    let argument = command
        .get_arguments()
        .find(|a| a.get_long() == Some(long))?;
    if !matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) {
        return None;
    }
    let values = argument.get_possible_values();
    Some(values.iter().map(|v| v.get_name().to_owned()).collect())
}

/// Completes inside a chain: types in quotes, steps after a dot.
fn in_chain(schema: &Schema, word: &str) -> Vec<String> {
    let start = word.rfind(['"', '\'', '.']).map_or(0, |i| i + 1);
    let (head, _) = word.split_at(start);
    let words: Vec<String> = if head.ends_with(['"', '\'']) {
        let vertex = schema
            .vertex_types()
            .map(|(id, _)| format!("{}:", schema.prefix(id)));
        vertex
            .chain(schema.edge_types().map(|(_, t)| t.name.clone()))
            .collect()
    } else {
        CALLS.iter().map(|c| (*c).to_owned()).collect()
    };
    words.into_iter().map(|w| format!("{head}{w}")).collect()
}

impl Completer for ShellCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> Vec<Suggestion> {
        let typed = line.get(..pos).unwrap_or(line);
        let start = typed.rfind(char::is_whitespace).map_or(0, |i| i + 1);
        let (before, word) = typed.split_at(start);
        let mut found = self.candidates(before, word);
        found.retain(|c| c.starts_with(word));
        found.sort_unstable();
        found.dedup();
        found
            .into_iter()
            .map(|value| Suggestion {
                // After these characters the word continues, so no blank is added.
                append_whitespace: !value.ends_with([':', '(', ')', '.', '"'])
                    && !word.contains('('),
                span: Span::new(start, pos),
                value,
                ..Suggestion::default()
            })
            .collect()
    }
}
