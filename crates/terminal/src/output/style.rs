//! Bold, dim and coloured text for terminals, and the width of their lines.

use crate::args::Color;

/// Emphasis of text and the maximum width of a table; plain text of any width for a file or a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    colour: bool,
    width: Option<usize>,
}

impl Style {
    /// Creates the style for a stream that is or is not a terminal.
    pub fn new(color: Color, is_terminal: bool) -> Self {
        let colour = match color {
            Color::Always => true,
            Color::Never => false,
            // https://no-color.org: any value that is not empty.
            Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        Self {
            colour,
            width: None,
        }
    }

    /// Limits the lines of tables to a number of columns.
    #[must_use]
    pub fn with_width(self, width: Option<usize>) -> Self {
        Self { width, ..self }
    }

    /// Maximum width of a line of a table, in columns of the terminal.
    pub fn width(self) -> Option<usize> {
        self.width
    }

    #[cfg(test)]
    /// The style of text without emphasis.
    pub const PLAIN: Self = Self {
        colour: false,
        width: None,
    };

    fn with(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Formats text as a heading.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Formats text that matters less.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Formats text as an error.
    pub fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// Formats text as a warning.
    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Formats the name of a vertex.
    pub fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }
}
