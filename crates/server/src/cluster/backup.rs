//! Backups of a running cluster, as of one version, and restoring a cluster's storage from one.
//!
//! ```text
//!  /pfs/backups/monday/
//!    BACKUP          version, and settings of the storage; written last
//!    server-0/ …     databases
//! ```
//!
//! [`esker_cluster::Node::copy_all`] explains how servers agree on the version.

use super::Cluster;
use esker::Database;
use esker_cluster::node::SERVERS_MAX;
use esker_model::{Error, Result, Version};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const FILE: &str = "BACKUP";
const HEAD: &str = "esker cluster backup 1";

/// Description of a cluster's backup, from its file `BACKUP`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Version up to which the backup has all changes, and none after it.
    pub version: Version,
    /// Number of stores in the backup.
    pub stores: u32,
    /// Text of the storage's file `CLUSTER`.
    described: String,
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{what} `{}`", path.display()), e)
}

fn store_folder(folder: &Path, store: u32) -> PathBuf {
    folder.join(format!("server-{store}"))
}

/// A folder under a temporary name. It is removed unless it gets its final name.
struct PartialFolder {
    path: PathBuf,
    target: PathBuf,
    done: bool,
}

impl PartialFolder {
    fn new(target: &Path, what: &str) -> Result<Self> {
        let shown = target.display();
        match fs::read_dir(target).map(|mut d| d.next().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                return Err(Error::Target(format!(
                    "cannot {what} `{shown}`: the folder is not empty; name one that is empty or absent"
                )));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed("reading", target, e)),
        }
        let target = std::path::absolute(target).map_err(|e| failed("making", target, e))?;
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let path = target.with_file_name(name);
        esker::modes::create_private(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::Target(format!(
                "cannot {what} `{shown}`: its parent folder does not exist; make that first (mkdir -p)"
            )),
            _ => failed("making", &path, e),
        })?;
        Ok(Self {
            path,
            target,
            done: false,
        })
    }

    /// Writes the file that marks the folder as complete, and renames it.
    fn finish(mut self, file: &str, text: &str) -> Result<()> {
        let path = self.path.join(file);
        let written = File::create(&path).and_then(|mut f| {
            f.write_all(text.as_bytes())?;
            f.sync_all()
        });
        written.map_err(|e| failed("writing", &path, e))?;
        let making = |e| failed("making", &self.target, e);
        File::open(&self.path)
            .and_then(|f| f.sync_all())
            .map_err(making)?;
        fs::rename(&self.path, &self.target).map_err(making)?;
        let parent = self.target.parent().unwrap_or(Path::new("/"));
        let synced = File::open(parent).and_then(|f| f.sync_all());
        synced.map_err(making)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Backup {
    /// Reads the description of a backup; `None` if the folder is not a backup of a cluster.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("reading", &file, e)),
        };
        Self::parse(&text).map(Some).ok_or_else(|| {
            Error::Target(format!(
                "this build does not understand the contents of `{}`; was it written by a newer Esker?",
                file.display()
            ))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, described) = text.split_once("\n\n")?;
        let version = head.strip_prefix(HEAD)?.strip_prefix("\nversion ")?;
        let stores = described
            .lines()
            .find_map(|l| l.strip_prefix("servers "))?
            .parse()
            .ok()?;
        Some(Self {
            version: Version(version.parse().ok()?),
            stores,
            described: described.to_owned(),
        })
        .filter(|b| b.stores as usize <= SERVERS_MAX)
    }

    fn text(&self) -> String {
        format!("{HEAD}\nversion {}\n\n{}", self.version.0, self.described)
    }

    /// Restores the backup to a new storage. Every row is read before the storage gets its name.
    pub fn restore(&self, from: &Path, storage: &Path) -> Result<()> {
        let draft = PartialFolder::new(storage, "restore to")?;
        for store in 0..self.stores {
            Database::restore(
                &store_folder(from, store),
                &store_folder(&draft.path, store),
            )?;
        }
        draft.finish(esker::CLUSTER_FILE, &self.described)
    }
}

/// Copies all stores of the cluster to a folder that all its servers see.
pub(crate) fn back_up_all(cluster: &Cluster, target: &Path) -> Result<Reply> {
    if cluster.has_window() {
        return Err(cluster.refuse(
            "`backup`",
            "its checkpoints are copies already; with `durability = \"window\"` stop it and copy them",
        ));
    }
    let draft = PartialFolder::new(target, "back up to")?;
    let to = draft.path.to_str().ok_or_else(|| {
        Error::Invalid(format!(
            "`{}` cannot be sent to other servers: its name is not UTF-8",
            draft.path.display()
        ))
    })?;
    let (bytes, version) = cluster.wait(cluster.node.copy_all(to))?;
    let stores = cluster.config.parts() as u32;
    for store in 0..stores {
        if !store_folder(&draft.path, store).is_dir() {
            return Err(Error::Target(format!(
                "store {store} was copied to `{}` on another machine, and is not there on this one: name a folder that all servers see",
                draft.path.display()
            )));
        }
    }
    let backup = Backup {
        version,
        stores,
        described: cluster.config.storage_description(stores as usize),
    };
    draft.finish(FILE, &backup.text())?;
    tracing::info!(folder = %target.display(), bytes, %version, "backed up");
    Ok(Reply::Backup(proto::BackupReply {
        bytes,
        newest: Some(version.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_says_what_it_is() {
        let described = "esker cluster 1\nname lab\nplacement dido\nvnodes 64\nservers 6\n";
        let backup = Backup {
            version: Version(77),
            stores: 6,
            described: described.into(),
        };
        assert_eq!(Backup::parse(&backup.text()), Some(backup.clone()));
        for broken in [
            backup.text().replace("backup 1", "backup 2"),
            backup.text().replace("servers 6", "servers 600"),
            backup.text().replace("version 77", "version x"),
            String::new(),
        ] {
            assert_eq!(Backup::parse(&broken), None, "{broken}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Backup::read(dir.path()).unwrap(), None);
    }

    #[test]
    fn what_is_not_finished_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("monday");
        drop(PartialFolder::new(&target, "back up to").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        PartialFolder::new(&target, "x")
            .unwrap()
            .finish("F", "f")
            .unwrap();
        assert_eq!(fs::read_to_string(target.join("F")).unwrap(), "f");
        let refused = PartialFolder::new(&target, "back up to")
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains("is not empty"), "{refused}");
        let nowhere = PartialFolder::new(&dir.path().join("a/b"), "back up to");
        let refused = nowhere.err().unwrap().to_string();
        assert!(refused.contains("mkdir -p"), "{refused}");
    }
}
