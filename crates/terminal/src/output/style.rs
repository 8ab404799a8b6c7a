//! Bold, dim and coloured text for terminals, and the width of their lines.

use crate::args::Color;

/// Emphasis of text and the maximum width of a table; plain text of any width for a file or a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    colour: bool,
    width: Option<usize>,
}

/// Whether a stream gets colours: <https://no-color.org>, <https://bixense.com/clicolors>.
fn has_colour(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    // Any value of `NO_COLOR` that is not empty counts, even `0`.
    if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return false;
    }
    is_set("CLICOLOR_FORCE") || (is_terminal && variable("CLICOLOR").as_deref() != Some("0"))
}

impl Style {
    /// Creates the style for a stream that is or is not a terminal.
    pub fn new(color: Color, is_terminal: bool) -> Self {
        let colour = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => has_colour(is_terminal, |name| std::env::var(name).ok()),
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

#[cfg(test)]
mod tests {
    use super::has_colour;

    #[test]
    fn variables_choose_colours() {
        let with = |is_terminal, variable: &str, value: &str| {
            has_colour(is_terminal, |name| {
                (name == variable).then(|| value.to_owned())
            })
        };
        assert!(with(true, "", "") && !with(false, "", ""));
        assert!(!with(true, "NO_COLOR", "0") && with(true, "NO_COLOR", ""));
        assert!(
            !with(true, "CLICOLOR", "0")
                && with(true, "CLICOLOR", "1")
                && !with(false, "CLICOLOR", "1")
        );
        assert!(with(false, "CLICOLOR_FORCE", "1") && !with(false, "CLICOLOR_FORCE", "0"));
    }
}
