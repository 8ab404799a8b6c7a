//! A subtree comes in at once: it is made under a name that nobody asks for, and renamed.
//!
//! Its files go to their servers in batches, as all others do. Who dies on the way leaves the hidden directory: nothing leads to it
//! from where the subtree was to be, and `esker rm -r` removes it. Files made so have the ids of their hidden paths.

use crate::node::Node;
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    Change, Changes, Done, Errno, Item, Kind, Make, Name, NamePath, Subtree, check_made, path_in,
};
use esker_model::object::Asker;
use esker_model::{Error, Result};
use std::sync::Arc;

/// Changes that go together.
const TOGETHER: usize = 4_096;
/// What hidden names begin with.
const HIDDEN: &str = ".esker-merge-";

/// A subtree as changes of a cluster.
struct Tree {
    /// Where it is to be.
    at: NamePath,
    /// Where it is made.
    made_at: NamePath,
    top: Make,
    /// What is in it: the paths of directories come before those of what is in them.
    inside: Vec<Change>,
}

fn refused(subtree: &Subtree, why: &str) -> Error {
    Error::Invalid(format!(
        "the subtree {} {why}: nothing of it was merged",
        subtree.path()
    ))
}

/// A path below one directory as a path below another one.
fn moved(path: &NamePath, from: &NamePath, to: &NamePath) -> Result<Option<NamePath>> {
    if !path.within(from) || path == from {
        return Ok(None);
    }
    let mut names = path.names().skip(from.names().count());
    let path = names.try_fold(to.clone(), |path, name| path_in(&path, &name))?;
    Ok(Some(path))
}

impl Tree {
    /// Reads a subtree. On a cluster it is one directory with all below it.
    fn read(subtree: &Subtree, asker: Option<&Asker>, mark: u64) -> Result<Self> {
        let mut items = subtree.items();
        let mut next = || {
            let item = items.next().transpose();
            item.map_err(|e| refused(subtree, &format!("cannot be read ({e})")))
        };
        let one = || {
            refused(
                subtree,
                "is not one directory with all below it, as a cluster takes it",
            )
        };
        let (Some(Item::Existing(parent)), Some(Item::Entry(name, top, _))) = (next()?, next()?)
        else {
            return Err(one());
        };
        let is_directory = |make: &Make| Kind::of_mode(make.mode) == Some(Kind::Directory);
        if !is_directory(&top) {
            return Err(one());
        }
        let at = path_in(&parent, &name)?;
        let hidden = Name::new(format!("{HIDDEN}{mark:016x}").as_bytes())?;
        let hidden = path_in(&parent, &hidden)?;
        let mut directories = vec![hidden.clone()];
        let mut place = None;
        let mut inside = Vec::new();
        while let Some(item) = next()? {
            match item {
                Item::Existing(_) => return Err(one()),
                Item::Made(n) => {
                    let known = usize::try_from(n).ok().and_then(|n| directories.get(n));
                    place = known.cloned();
                }
                Item::Entry(name, make, _) => {
                    let directory = place.as_ref().ok_or_else(one)?;
                    let path = path_in(directory, &name)?;
                    if is_directory(&make) {
                        directories.push(path.clone());
                    }
                    check_owner(asker, &make, &path)?;
                    if let Some(kind) = Kind::of_mode(make.mode) {
                        // They are made on nobody's behalf.
                        check_made(asker, kind, &make, &|| path.to_string())?;
                    }
                    inside.push(Change::Make(path, make));
                }
                Item::Change(change) => {
                    let within = |path| moved(path, &at, &hidden)?.ok_or_else(one);
                    inside.push(match change {
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
            made_at: hidden,
            top,
            inside,
        })
    }

    /// What refuses something hidden, with the path where it was to be.
    fn shown(&self, e: Error) -> Error {
        match e {
            Error::File(e) => {
                let (hidden, at) = (self.made_at.to_string(), self.at.to_string());
                Error::File(e.errno.at(e.path.replace(&hidden, &at)))
            }
            e => e,
        }
    }
}

/// Nobody gives files away.
fn check_owner(asker: Option<&Asker>, make: &Make, path: &NamePath) -> Result<()> {
    let own = asker.is_none_or(|a| {
        let theirs = a.uid == i64::from(make.uid) && a.gids.contains(&i64::from(make.gid));
        a.uid == 0 || theirs
    });
    if own {
        return Ok(());
    }
    Err(Errno::NotPermitted.at(path).into())
}

impl Node {
    /// Makes all of a subtree, or nothing that its path leads to.
    pub(super) async fn merge_names(
        self: &Arc<Self>,
        sent: &Changes,
        subtree: &Subtree,
    ) -> Result<Done> {
        let asker = sent.asker.as_ref();
        // No other server gives the same one, nor this one again.
        let mark = self.clock.tick(self.time.now_millis());
        let tree = Tree::read(subtree, asker, mark.0)?;
        let there = self.stat_name(asker, &tree.at, false).await;
        if there.is_ok() {
            return Err(Errno::Exists.at(&tree.at).into());
        }
        let top = Change::Make(tree.made_at.clone(), tree.top.clone());
        let id = self
            .change_alone(asker, top, None)
            .await
            .map_err(|e| tree.shown(e))?
            .id;
        let mut made = 0;
        let done = match self.make_inside(&tree, &mut made).await {
            Ok(()) => {
                let rename = Change::Rename {
                    from: tree.made_at.clone(),
                    to: tree.at.clone(),
                    no_replace: true,
                };
                // This is what shows it, so this is what counts once.
                self.change_alone(asker, rename, sent.once.clone()).await
            }
            Err(e) => Err(e),
        };
        match done {
            Ok(done) => Ok(Done { id, ..done }),
            Err(e) => {
                // Whoever cannot be reached now has something left that nothing leads to.
                let _ = self.unmake(&tree, made).await;
                Err(tree.shown(e))
            }
        }
    }

    async fn change_alone(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        change: Change,
        once: Option<Vec<u8>>,
    ) -> Result<Done> {
        let changes = Changes {
            asker: asker.cloned(),
            changes: vec![change],
            once,
            again: false,
        };
        let done = self.change_names(changes).await?.pop();
        done.unwrap_or_else(|| Err(Error::Unavailable("a change was not answered".into())))
    }

    async fn make_inside(self: &Arc<Self>, tree: &Tree, made: &mut usize) -> Result<()> {
        for part in tree.inside.chunks(TOGETHER) {
            let changes = Changes {
                asker: None,
                changes: part.to_vec(),
                once: None,
                again: false,
            };
            *made += part.len();
            for done in self.change_names(changes).await? {
                done?;
            }
        }
        Ok(())
    }

    /// Removes what was made, the last one first.
    async fn unmake(self: &Arc<Self>, tree: &Tree, made: usize) -> Result<()> {
        let removal = |change: &Change| match change {
            Change::Make(path, make) if Kind::of_mode(make.mode) == Some(Kind::Directory) => {
                Some(Change::Rmdir(path.clone()))
            }
            Change::Make(path, _) | Change::Link { to: path, .. } => {
                Some(Change::Unlink(path.clone()))
            }
            _ => None,
        };
        let mut removals: Vec<Change> = tree
            .inside
            .iter()
            .take(made)
            .rev()
            .filter_map(removal)
            .collect();
        removals.push(Change::Rmdir(tree.made_at.clone()));
        for part in removals.chunks(TOGETHER) {
            let changes = Changes {
                asker: None,
                changes: part.to_vec(),
                once: None,
                again: false,
            };
            self.change_names(changes).await?;
        }
        Ok(())
    }
}
