//! Checks that the etcd and the storage belong to the same cluster.
//!
//! Both have the same id, a random number that the first process of the cluster writes to the storage and then to etcd. This detects two
//! clusters on one folder, one name for two folders, and a folder that is not the one that the other servers use, as opposed to a
//! restarted cluster.

use super::etcd::Etcd;
use crate::cluster::config::{ClusterConfig, ID_FILE};
use esker_model::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

/// Creates the storage or checks it, and compares its id with that in etcd.
pub(super) async fn check(config: &ClusterConfig, etcd: &Etcd) -> Result<()> {
    let known = etcd.view().await?.id;
    let storage = &config.storage;
    let new = !storage.join(esker::CLUSTER_FILE).is_file();
    if new && known.is_some() {
        return Err(Error::Target(format!(
            "etcd knows cluster `{}`, and `{}` holds none: the storage must be the folder that all servers see; is it \
             mounted here? (A new cluster needs another `name`.)",
            config.name,
            storage.display()
        )));
    }
    // A storage made without etcd is taken over unchanged, once no process has it open.
    config.claim_storage()?;
    let used = has_stores(storage)?;
    let mine = id_of(storage)?;
    match known {
        Some(known) if known == mine => Ok(()),
        Some(_) => Err(Error::Target(format!(
            "`{}` belongs to another cluster than the one that etcd knows as `{}`: give this one another `name`, or the \
             storage that belongs to it",
            storage.display(),
            config.name
        ))),
        None if used => Err(Error::Target(format!(
            "`{}` holds the stores of a cluster that this etcd does not know: name the etcd that it was made with. If what that \
             one held is lost, and no server of the cluster runs anywhere, say so: etcdctl put {}id {mine}",
            storage.display(),
            esker_cluster::member::view::prefix(&config.name),
        ))),
        None => {
            let there = etcd.put_if_absent("id", &mine).await?;
            if there == mine {
                return Ok(());
            }
            Err(Error::Target(format!(
                "another cluster called `{}` was started at the same time, on another storage than `{}`: give one of them another \
                 `name`, or both the same storage",
                config.name,
                storage.display()
            )))
        }
    }
}

fn has_stores(storage: &Path) -> Result<bool> {
    let failed = |e| Error::io(format!("reading `{}`", storage.display()), e);
    for entry in std::fs::read_dir(storage).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        if name
            .strip_prefix("server-")
            .is_some_and(|rest| rest.contains(".e"))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the id of the storage; creates a missing one. If several processes create it at once, one of them wins.
fn id_of(storage: &Path) -> Result<String> {
    let file = storage.join(ID_FILE);
    let failed = |what: &str, e| Error::io(format!("{what} `{}`", file.display()), e);
    match std::fs::read_to_string(&file) {
        Ok(id) => return Ok(id.trim().to_owned()),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed("reading", e)),
    }
    let id = random().map_err(|e| failed("making", e))?;
    let draft = storage.join(format!("{ID_FILE}.{id}.new"));
    let linked = File::create_new(&draft).and_then(|mut new| {
        writeln!(new, "{id}")?;
        new.sync_all()?;
        std::fs::hard_link(&draft, &file)
    });
    let _ = std::fs::remove_file(&draft);
    match linked {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(failed("making", e)),
        _ => std::fs::read_to_string(&file)
            .map(|id| id.trim().to_owned())
            .map_err(|e| failed("reading", e)),
    }
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_has_one_id_if_several_create_it() {
        let dir = tempfile::tempdir().unwrap();
        let ids: Vec<String> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| id_of(dir.path()).unwrap()))
                .collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(
            ids.iter().all(|id| *id == ids[0] && id.len() == 32),
            "{ids:?}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(!has_stores(dir.path()).unwrap());
        std::fs::create_dir(dir.path().join("server-3.e1")).unwrap();
        assert!(has_stores(dir.path()).unwrap());
    }
}
