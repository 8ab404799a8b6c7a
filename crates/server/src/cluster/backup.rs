//! Backups of a running cluster, as of one version; and a cluster's storage out of one.
//!
//! ```text
//!  /pfs/backups/monday/
//!    BACKUP          as of when, and what the cluster was made with; there once all else is
//!    server-0/ …     a database each
//! ```
//!
//! How servers come to agree on the version is told in [`esker_cluster::Node::copy_all`].

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

/// What a backup of a cluster says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Everything up to this version is in it, and nothing later.
    pub version: Version,
    /// How many stores it has.
    pub stores: u32,
    /// What the cluster's storage was made with, as it is written there.
    described: String,
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{what} `{}`", path.display()), e)
}

fn place(folder: &Path, store: u32) -> PathBuf {
    folder.join(format!("server-{store}"))
}

/// A folder that is being made. Removed again unless it gets its name.
struct Draft {
    path: PathBuf,
    target: PathBuf,
    done: bool,
}

impl Draft {
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
                "cannot {what} `{shown}`: the folder that it is to lie in does not exist; make that first (mkdir -p)"
            )),
            _ => failed("making", &path, e),
        })?;
        Ok(Self {
            path,
            target,
            done: false,
        })
    }

    /// Writes the file that makes it whole, and gives it its name.
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

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Backup {
    /// What lies there; `None` if it is no backup of a cluster.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("reading", &file, e)),
        };
        Self::parse(&text).map(Some).ok_or_else(|| {
            Error::Target(format!(
                "`{}` does not say what this build would understand; was it written by a newer Esker?",
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

    /// Makes a cluster's storage of it. Every row of it is read before the storage gets its name.
    pub fn restore(&self, from: &Path, storage: &Path) -> Result<()> {
        let draft = Draft::new(storage, "restore to")?;
        for store in 0..self.stores {
            Database::restore(&place(from, store), &place(&draft.path, store))?;
        }
        draft.finish(esker::CLUSTER_FILE, &self.described)
    }
}

/// Copies all stores of the cluster to a folder that all its servers see.
pub(crate) fn all(cluster: &Cluster, target: &Path) -> Result<Reply> {
    if cluster.has_window() {
        return Err(cluster.refuse(
            "`backup`",
            "its checkpoints are copies already; with `durability = \"window\"` stop it and copy them",
        ));
    }
    let draft = Draft::new(target, "back up to")?;
    let to = draft.path.to_str().ok_or_else(|| {
        Error::Invalid(format!(
            "`{}` cannot be told to other servers: its name is not UTF-8",
            draft.path.display()
        ))
    })?;
    let (bytes, version) = cluster.wait(cluster.node.copy_all(to))?;
    let stores = cluster.config.parts() as u32;
    for store in 0..stores {
        if !place(&draft.path, store).is_dir() {
            return Err(Error::Target(format!(
                "store {store} was copied to `{}` on another machine, and is not there on this one: name a folder that all servers see",
                draft.path.display()
            )));
        }
    }
    let backup = Backup {
        version,
        stores,
        described: cluster.config.described(stores as usize),
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
        drop(Draft::new(&target, "back up to").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Draft::new(&target, "x").unwrap().finish("F", "f").unwrap();
        assert_eq!(fs::read_to_string(target.join("F")).unwrap(), "f");
        let refused = Draft::new(&target, "back up to").err().unwrap().to_string();
        assert!(refused.contains("is not empty"), "{refused}");
        let nowhere = Draft::new(&dir.path().join("a/b"), "back up to");
        let refused = nowhere.err().unwrap().to_string();
        assert!(refused.contains("mkdir -p"), "{refused}");
    }
}
