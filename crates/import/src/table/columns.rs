//! Interpretation of a table's heading.

use super::{ReadOptions, RecordError, Rows, file_error};
use esker_model::ValueKind;

/// Meaning of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// A vertex's `type:key`, or its key.
    Id,
    /// Source vertex of an edge.
    Source,
    /// Destination vertex of an edge.
    Destination,
    /// Type of the vertex, or of the edge.
    Type,
    /// Version of the row's content.
    Version,
    /// Whether the vertex is deleted.
    Deleted,
    /// All predefined attributes, as a JSON object.
    Attributes,
    /// All user-defined attributes, as a JSON object with their versions.
    User,
    /// All properties of an edge, as a JSON object.
    Properties,
    /// A column that duplicates others and is skipped.
    Passed,
    /// One attribute or property, of a kind if the heading names one.
    Named(String, Option<ValueKind>),
}

impl Column {
    pub(super) fn of(heading: &str, rows: Rows) -> Self {
        let plain = heading.trim();
        match (plain.to_ascii_lowercase().as_str(), rows) {
            ("id", Rows::Vertices) => Self::Id,
            ("source" | "src" | "from", Rows::Edges) => Self::Source,
            ("destination" | "dst" | "to" | "target", Rows::Edges) => Self::Destination,
            ("type", Rows::Vertices | Rows::Edges) | ("label", Rows::Edges) => Self::Type,
            ("version", Rows::Vertices | Rows::Edges) => Self::Version,
            ("deleted", Rows::Vertices) => Self::Deleted,
            ("attributes", Rows::Vertices) => Self::Attributes,
            ("user", Rows::Vertices) => Self::User,
            ("properties", Rows::Edges) => Self::Properties,
            _ => {
                let typed = plain
                    .rsplit_once(':')
                    .and_then(|(name, kind)| Some((name, ValueKind::from_name(kind)?)));
                match typed {
                    Some((name, kind)) if !name.is_empty() => {
                        Self::Named(name.to_owned(), Some(kind))
                    }
                    _ => Self::Named(plain.to_owned(), None),
                }
            }
        }
    }

    /// Returns the name, if the column is an attribute or property.
    pub(super) fn named(&self) -> Option<&str> {
        match self {
            Self::Named(name, _) => Some(name),
            _ => None,
        }
    }

    /// Returns the columns of a heading.
    ///
    /// # Errors
    /// Fails if a required column is missing, or two columns are equal.
    pub(super) fn of_heading<'a>(
        headings: impl Iterator<Item = &'a str>,
        options: &ReadOptions,
    ) -> Result<Vec<Self>, RecordError> {
        let headings: Vec<&str> = headings.collect();
        let column = |heading: &&str| match Self::of(heading, options.rows) {
            Self::Named(..) if options.whole_only => Self::Passed,
            column => column,
        };
        let columns: Vec<Self> = headings.iter().map(column).collect();
        let needed: &[(Self, &str)] = match options.rows {
            Rows::Vertices => &[(Self::Id, "id")],
            Rows::Edges => &[(Self::Source, "source"), (Self::Destination, "destination")],
            Rows::Objects => &[],
        };
        let found = headings
            .iter()
            .map(|h| h.trim())
            .take(12)
            .collect::<Vec<_>>()
            .join(", ");
        if let Some((_, name)) = needed.iter().find(|(c, _)| !columns.contains(c)) {
            let hint = match options.rows {
                Rows::Vertices | Rows::Objects => "",
                Rows::Edges => "; a list of edges without a heading is read with --format edges",
            };
            return Err(file_error(
                options,
                &format!("there is no column `{name}`; the first line has: {found}{hint}"),
            ));
        }
        let has = |name: &str| {
            let mut named = columns.iter();
            named.any(|c| matches!(c, Self::Named(n, _) if n == name))
        };
        if let Some(name) = options.needed.iter().find(|n| !has(n)) {
            return Err(file_error(
                options,
                &format!("there is no column `{name}`; the first line has: {found}"),
            ));
        }
        let twice = columns.iter().enumerate().find_map(|(i, c)| {
            let same = |other: &Self| match (c, other) {
                (Self::Passed, _) => false,
                (Self::Named(a, _), Self::Named(b, _)) => a == b,
                (a, b) => a == b,
            };
            columns.iter().take(i).any(same).then_some(i)
        });
        match twice.and_then(|i| headings.get(i)) {
            Some(name) => Err(file_error(
                options,
                &format!("two columns mean `{}`", name.trim()),
            )),
            None => Ok(columns),
        }
    }
}
