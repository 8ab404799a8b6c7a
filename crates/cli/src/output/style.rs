//! Bold, dim and red, where the reader is a terminal.

use crate::args::Color;

/// How text is emphasised; without colour, not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// For a stream that is or is not a terminal.
    pub(crate) fn new(color: Color, is_terminal: bool) -> Self {
        let colour = match color {
            Color::Always => true,
            Color::Never => false,
            // https://no-color.org: any value that is not empty.
            Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        Self { colour }
    }

    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };

    fn with(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Headings.
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What matters less.
    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Errors.
    pub(crate) fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// Warnings.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Names of vertices.
    pub(crate) fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }
}
