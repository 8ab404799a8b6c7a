//! The program that shows long results on a terminal, page by page.

use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running program that pages through results.
#[derive(Debug)]
pub(crate) struct Pager(Child);

impl Pager {
    /// Starts the pager of the user, `less` by default; returns it with the stream that it shows. `None` if the user wants no pager, or if
    /// it cannot be started.
    pub(crate) fn start() -> Option<(Self, ChildStdin)> {
        let command = chosen(|name| std::env::var(name).ok())?;
        let mut shell = Command::new("sh");
        // The word after `-c` is a command line, as in git: `less -S`.
        shell.arg("-c").arg(&command).stdin(Stdio::piped());
        // Without variables of the user, `less` ends if the text fits the screen, leaves it there, and shows colours.
        if std::env::var_os("LESS").is_none() {
            shell.env("LESS", "FRX");
        }
        let mut child = shell.spawn().ok()?;
        let input = child.stdin.take()?;
        Some((Self(child), input))
    }

    /// Waits until the user leaves the pager. Its input must be closed before.
    pub(crate) fn wait(mut self) -> io::Result<()> {
        self.0.wait().map(drop)
    }
}

/// Returns the command line of the pager, from the variables of the environment.
fn chosen(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let names = ["ESKER_PAGER", "PAGER"];
    let command = names.into_iter().find_map(variable);
    let command = command.unwrap_or_else(|| "less".to_owned());
    let plain = command.trim();
    if plain.is_empty() || plain == "cat" {
        return None;
    }
    // The shell would print that there is no such program.
    let program = plain.split_whitespace().next()?;
    let is_there = |folder: std::path::PathBuf| folder.join(program).is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    (program.contains('/') || std::env::split_paths(&path).any(is_there)).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn the_environment_chooses_the_pager() {
        let with = |all: &[(&str, &str)]| {
            let all: Vec<_> = all
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect();
            chosen(move |name| all.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert_eq!(with(&[("PAGER", "sh -c x"), ("ESKER_PAGER", "")]), None);
        assert_eq!(with(&[("PAGER", "cat")]), None);
        assert_eq!(with(&[("PAGER", " sh -e ")]).as_deref(), Some("sh -e"));
        assert_eq!(with(&[("ESKER_PAGER", "no-such-pager-here")]), None);
    }
}
