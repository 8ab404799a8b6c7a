//! Merging of subtrees: a subtree is made under a hidden name and then renamed.
//!
//! Its files go to their servers in batches, as all others do. A server that fails during the merge leaves the hidden
//! directory, which is not reachable from the subtree's final path and can be removed with `esker rm -r`. The files
//! have the ids of their hidden paths.

use crate::node::Node;
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    AppliedChange, Change, Changes, Errno, Item, Kind, Name, NamePath, NewFile, Subtree,
    check_new_file, path_in,
};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use std::sync::Arc;

/// Number of changes in one batch.
const CHANGE_BATCH: usize = 4_096;
/// Prefix of hidden names.
const HIDDEN: &str = ".esker-merge-";

/// A subtree as a list of changes.
struct SubtreeChanges {
    /// Final path of the subtree.
    at: NamePath,
    /// Hidden path where it is made.
    hidden_path: NamePath,
    top: NewFile,
    /// Changes within the subtree; the paths of directories come before their contents.
    contents: Vec<Change>,
}

fn refused(subtree: &Subtree, why: &str) -> Error {
    Error::Invalid(format!(
        "the subtree {} {why}: nothing of it was merged",
        subtree.path()
    ))
}

/// Moves a path from below one directory to below another one.
fn rebase(path: &NamePath, from: &NamePath, to: &NamePath) -> Result<Option<NamePath>> {
    if !path.within(from) || path == from {
        return Ok(None);
    }
    let mut names = path.names().skip(from.names().count());
    let path = names.try_fold(to.clone(), |path, name| path_in(&path, &name))?;
    Ok(Some(path))
}

impl SubtreeChanges {
    /// Reads a subtree. A cluster accepts one directory with everything below it.
    fn read(subtree: &Subtree, principal: Option<&Principal>, mark: u64) -> Result<Self> {
        let mut items = subtree.items();
        let mut next = || {
            let item = items.next().transpose();
            item.map_err(|e| refused(subtree, &format!("cannot be read ({e})")))
        };
        let one = || {
            refused(
                subtree,
                "is not a single directory tree, as a cluster requires",
            )
        };
        let (Some(Item::ExistingDirectory(parent)), Some(Item::Entry(name, top, _))) =
            (next()?, next()?)
        else {
            return Err(one());
        };
        let is_directory = |make: &NewFile| Kind::of_mode(make.mode) == Some(Kind::Directory);
        if !is_directory(&top) {
            return Err(one());
        }
        let at = path_in(&parent, &name)?;
        let hidden = Name::new(format!("{HIDDEN}{mark:016x}").as_bytes())?;
        let hidden = path_in(&parent, &hidden)?;
        let mut directories = vec![hidden.clone()];
        let mut parent_path = None;
        let mut contents = Vec::new();
        while let Some(item) = next()? {
            match item {
                Item::ExistingDirectory(_) => return Err(one()),
                Item::NewDirectory(n) => {
                    let known = usize::try_from(n).ok().and_then(|n| directories.get(n));
                    parent_path = known.cloned();
                }
                Item::Entry(name, make, _) => {
                    let directory = parent_path.as_ref().ok_or_else(one)?;
                    let path = path_in(directory, &name)?;
                    if is_directory(&make) {
                        directories.push(path.clone());
                    }
                    check_owner(principal, &make, &path)?;
                    if let Some(kind) = Kind::of_mode(make.mode) {
                        // They are made without a principal, so permissions are checked here.
                        check_new_file(principal, kind, &make, &|| path.to_string())?;
                    }
                    contents.push(Change::Create(path, make));
                }
                Item::Change(change) => {
                    let within = |path| rebase(path, &at, &hidden)?.ok_or_else(one);
                    contents.push(match change {
                        Change::Link { from, to } => Change::Link {
                            from: within(&from)?,
                            to: within(&to)?,
                        },
                        Change::Xattr {
                            path,
                            name,
                            value,
                            mode,
                        } if name.starts_with(TAG_PREFIX) => {
                            let path = if path == at {
                                hidden.clone()
                            } else {
                                within(&path)?
                            };
                            Change::Xattr {
                                path,
                                name,
                                value,
                                mode,
                            }
                        }
                        _ => return Err(one()),
                    });
                }
            }
        }
        Ok(Self {
            at,
            hidden_path: hidden,
            top,
            contents,
        })
    }

    /// Replaces the hidden path in an error by the final one.
    fn with_final_path(&self, e: Error) -> Error {
        match e {
            Error::File(e) => {
                let (hidden, at) = (self.hidden_path.to_string(), self.at.to_string());
                Error::File(e.errno.at(e.path.replace(&hidden, &at)))
            }
            e => e,
        }
    }
}

/// Refuses files of other owners: only the superuser creates files for another user or group.
fn check_owner(principal: Option<&Principal>, make: &NewFile, path: &NamePath) -> Result<()> {
    let own = principal.is_none_or(|a| {
        let theirs = a.uid == i64::from(make.uid) && a.gids.contains(&i64::from(make.gid));
        a.uid == 0 || theirs
    });
    if own {
        return Ok(());
    }
    Err(Errno::NotPermitted.at(path).into())
}

impl Node {
    /// Makes the complete subtree, or nothing that its path leads to.
    pub(super) async fn merge_names(
        self: &Arc<Self>,
        sent: &Changes,
        subtree: &Subtree,
    ) -> Result<AppliedChange> {
        let principal = sent.principal.as_ref();
        // Unique: neither another server nor this one uses the same mark again.
        let mark = self.clock.tick(self.time.now_millis());
        let tree = SubtreeChanges::read(subtree, principal, mark.0)?;
        let there = self
            .read_names(principal, |names| names.stat(&tree.at, false))
            .await;
        if there.is_ok() {
            return Err(Errno::Exists.at(&tree.at).into());
        }
        let top = Change::Create(tree.hidden_path.clone(), tree.top.clone());
        let id = self
            .change_one(principal, top, None)
            .await
            .map_err(|e| tree.with_final_path(e))?
            .id;
        let mut made = 0;
        let done = match self.make_contents(&tree, &mut made).await {
            Ok(()) => {
                let rename = Change::Rename {
                    from: tree.hidden_path.clone(),
                    to: tree.at.clone(),
                    no_replace: true,
                };
                // The rename makes the subtree visible, so it has the idempotency key.
                self.change_one(principal, rename, sent.idempotency_key.clone())
                    .await
            }
            Err(e) => Err(e),
        };
        match done {
            Ok(done) => Ok(AppliedChange { id, ..done }),
            Err(e) => {
                // Unreachable servers keep files that no path leads to.
                let _ = self.remove_made(&tree, made).await;
                Err(tree.with_final_path(e))
            }
        }
    }

    async fn change_one(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        change: Change,
        idempotency_key: Option<Vec<u8>>,
    ) -> Result<AppliedChange> {
        let changes = Changes {
            principal: principal.cloned(),
            changes: vec![change],
            idempotency_key,
            is_retry: false,
        };
        let done = self.change_names(changes).await?.pop();
        done.unwrap_or_else(|| Err(Error::Undecided("a change got no answer".into())))
    }

    async fn make_contents(
        self: &Arc<Self>,
        tree: &SubtreeChanges,
        made: &mut usize,
    ) -> Result<()> {
        for part in tree.contents.chunks(CHANGE_BATCH) {
            let changes = Changes {
                principal: None,
                changes: part.to_vec(),
                idempotency_key: None,
                is_retry: false,
            };
            *made += part.len();
            for done in self.change_names(changes).await? {
                done?;
            }
        }
        Ok(())
    }

    /// Removes what was made, in reverse order.
    async fn remove_made(self: &Arc<Self>, tree: &SubtreeChanges, made: usize) -> Result<()> {
        let removal = |change: &Change| match change {
            Change::Create(path, make) if Kind::of_mode(make.mode) == Some(Kind::Directory) => {
                Some(Change::Rmdir(path.clone()))
            }
            Change::Create(path, _) | Change::Link { to: path, .. } => {
                Some(Change::Unlink(path.clone()))
            }
            _ => None,
        };
        let mut removals: Vec<Change> = tree
            .contents
            .iter()
            .take(made)
            .rev()
            .filter_map(removal)
            .collect();
        removals.push(Change::Rmdir(tree.hidden_path.clone()));
        for part in removals.chunks(CHANGE_BATCH) {
            let changes = Changes {
                principal: None,
                changes: part.to_vec(),
                idempotency_key: None,
                is_retry: false,
            };
            self.change_names(changes).await?;
        }
        Ok(())
    }
}
