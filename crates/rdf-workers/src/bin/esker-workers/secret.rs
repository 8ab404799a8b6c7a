//! The file with the secret of workers and their clients.

use esker_rdf_workers::Secret;
use esker_terminal::exit::usage;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Maximum size of a secret's file, in bytes.
const SECRET_FILE_MAX: u64 = 64 << 10;

/// Reads the secret from the first line of a file.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Secret> {
    let Some(file) = file else {
        return Ok(Secret::default());
    };
    let name = file.display();
    let unread = |e| usage(format!("--secret-file: reading `{name}`: {e}"));
    let mut open = std::fs::File::open(file).map_err(unread)?;
    let mode = open.metadata().map_err(unread)?.mode();
    if mode & 0o077 != 0 {
        return Err(usage(format!(
            "--secret-file: others can read `{name}` (mode {:o}), so it is not secret: run `chmod \
             600 {name}`, and put another secret into it",
            mode & 0o7777
        )));
    }
    let mut text = String::new();
    let mut limited = std::io::Read::take(&mut open, SECRET_FILE_MAX);
    std::io::Read::read_to_string(&mut limited, &mut text).map_err(unread)?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(usage(format!(
            "--secret-file: the first line of `{name}` is empty"
        )));
    }
    Secret::new(line).map_err(|e| usage(format!("--secret-file: `{name}`: {e}")))
}
