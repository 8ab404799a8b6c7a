//! The text of a cluster's file with other servers than it names, for callers that learn the servers' addresses only at the start, as in
//! a batch job.

use esker_config::Source;
use esker_model::{Error, Result};
use std::fmt::Write as _;
use std::path::Path;

/// Keys that the caller sets and the file does not.
const DECIDED: [&str; 4] = ["servers", "listen", "storage", "name"];

/// Returns the text of a file for a cluster of that name and storage, with servers at these addresses (`HOST:PORT`); all other keys are
/// taken from `file` or have their defaults.
pub fn derived_config(
    file: Option<&Path>,
    name: &str,
    storage: &Path,
    servers: &[String],
) -> Result<String> {
    let rest = match file {
        None => String::new(),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
            Source { file, text: &text }.without(&DECIDED)?
        }
    };
    let list: Vec<String> = servers.iter().map(|s| quoted(s)).collect();
    Ok(format!(
        "name = {}\nstorage = {}\nservers = [{}]\n{rest}",
        quoted(name),
        quoted(&storage.to_string_lossy()),
        list.join(", ")
    ))
}

/// Formats a TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::config::ClusterConfig;

    #[test]
    fn what_is_decided_replaces_what_the_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lab.toml");
        let text = "servers = [\n  'a:1', # one\n  'b:2',\n]\nvnodes = 64\n[limits]\nwaiting = 5\n";
        std::fs::write(&file, text).unwrap();
        let storage = dir.path().join("a \"b\"\\c");
        let servers = ["n1:7400".to_owned(), "n2:7400".to_owned()];
        let text = derived_config(Some(&file), "job", &storage, &servers).unwrap();
        let config = ClusterConfig::from_toml(&dir.path().join("x.toml"), &text).unwrap();
        assert_eq!(config.servers, servers);
        assert_eq!(config.storage, storage);
        assert_eq!((config.name.as_str(), config.vnodes), ("job", 64));
        let text = derived_config(None, "job", &storage, &servers).unwrap();
        assert!(ClusterConfig::from_toml(&file, &text).is_ok());
    }
}
