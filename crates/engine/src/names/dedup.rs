//! Outcomes of namespace changes, stored with them in their producer's row until the producer confirms them: after a crash
//! between commit and response, a repeated `mkdir` must not be answered with `EEXIST`.
//!
//! ```text
//!  [version 8]([0][id 16] | [1][errno][path] | [2][message] | [3])*      one for each change
//! ```
//!
//! Large sets are stored without ids (3); a repetition returns the ids of what exists then.

#![deny(clippy::indexing_slicing)]

use super::batching::Outcomes;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64};
use esker_model::namespace::{AppliedChange, Change, Errno, FileError, Kind, NamePath, id_at};
use esker_model::{Error, Result, Version, VertexId};

/// Maximum number of changes whose ids are stored.
const IDS_MAX: usize = 256;

const MADE: u8 = 0;
const REFUSED: u8 = 1;
const FAILED: u8 = 2;
const MADE_SOMEWHERE: u8 = 3;

pub(super) fn encode(version: Version, outcomes: &[Result<AppliedChange>]) -> Vec<u8> {
    let ids = outcomes.len() <= IDS_MAX;
    let mut out = Vec::with_capacity(8 + outcomes.len() * if ids { 17 } else { 1 });
    put_u64(&mut out, version.0);
    for outcome in outcomes {
        match outcome {
            Ok(done) if ids => {
                out.push(MADE);
                out.extend_from_slice(&done.id.0);
            }
            Ok(_) => out.push(MADE_SOMEWHERE),
            Err(Error::File(e)) => {
                out.extend_from_slice(&[REFUSED, e.errno as u8]);
                put_bytes(&mut out, e.path.as_bytes());
            }
            Err(e) => {
                out.push(FAILED);
                put_bytes(&mut out, e.to_string().as_bytes());
            }
        }
    }
    out
}

/// The path that exists after a change, and its kind where the change determines it.
fn subject_of(change: &Change) -> (Kind, &NamePath) {
    match change {
        Change::Create(path, make) => (Kind::of_mode(make.mode).unwrap_or(Kind::File), path),
        Change::Rmdir(path) => (Kind::Directory, path),
        Change::Unlink(path)
        | Change::Rename { to: path, .. }
        | Change::Exchange { to: path, .. }
        | Change::Link { to: path, .. }
        | Change::Set { path, .. }
        | Change::Xattr { path, .. }
        | Change::Write { path, .. } => (Kind::File, path),
        Change::Merge(subtree) => (Kind::Directory, subtree.path()),
    }
}

/// Decodes outcomes of changes; if none are stored any more, all count as successful. `now` returns the present id at a
/// path.
pub(super) fn decode(
    kept: Option<&[u8]>,
    changes: &[Change],
    now: &dyn Fn(&NamePath) -> Option<VertexId>,
) -> Result<Outcomes> {
    let derived = |change: &Change, version| {
        let (kind, path) = subject_of(change);
        let id = now(path).unwrap_or_else(|| id_at(kind, path.as_bytes()));
        Ok(AppliedChange { id, version })
    };
    let Some(kept) = kept else {
        return Ok(changes.iter().map(|c| derived(c, Version::ZERO)).collect());
    };
    let read = || -> std::result::Result<Outcomes, DecodeError> {
        let mut r = Reader::new(kept);
        let version = Version(r.u64("a version")?);
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(match r.u8("an outcome")? {
                MADE => Ok(AppliedChange {
                    id: VertexId(r.array("an id")?),
                    version,
                }),
                REFUSED => {
                    let errno = Errno::of_code(r.u8("an error")?);
                    Err(Error::File(FileError {
                        errno: errno.ok_or_else(|| r.error("an error of files"))?,
                        path: r.str("a path")?.to_owned(),
                    }))
                }
                FAILED => Err(Error::Store {
                    engine: "store",
                    message: r.str("a message")?.to_owned(),
                }),
                MADE_SOMEWHERE => derived(change, version),
                _ => return Err(r.error("an outcome (0 to 3)")),
            });
        }
        r.finish()?;
        Ok(outcomes)
    };
    read().map_err(|e| Error::corrupt("outcomes of changes in the row of a producer", e))
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    reason = "a test that goes beyond the end has failed"
)]
mod tests {
    use super::*;
    use esker_model::namespace::NewFile;

    fn path(text: &str) -> NamePath {
        NamePath::parse(text.as_bytes()).unwrap()
    }

    fn changes(count: usize) -> Vec<Change> {
        (0..count)
            .map(|n| Change::Create(path(&format!("/{n}")), NewFile::new(0o10_0644, 1, 1)))
            .collect()
    }

    #[test]
    fn what_became_of_changes_comes_back() {
        let outcomes = [
            Ok(AppliedChange {
                id: VertexId([7; 16]),
                version: Version(9),
            }),
            Err(Errno::Exists.at("/1").into()),
            Err(Error::Invalid("x".into())),
        ];
        let kept = encode(Version(9), &outcomes);
        let changes = changes(3);
        let none = |_: &NamePath| None;
        let back = decode(Some(&kept), &changes, &none).unwrap();
        assert_eq!(
            encode(Version(9), &back[..2]),
            encode(Version(9), &outcomes[..2])
        );
        assert!(back[2].as_ref().is_err_and(|e| e.to_string().contains('x')));
        for end in 0..kept.len() {
            assert!(
                decode(Some(&kept[..end]), &changes, &none).is_err(),
                "cut at {end}"
            );
        }
        assert!(decode(Some(&kept), &changes[..2], &none).is_err());
    }

    #[test]
    fn ids_of_many_are_those_of_what_is_there() {
        let changes = changes(IDS_MAX + 1);
        let outcomes: Vec<_> = (0..changes.len())
            .map(|_| {
                Ok(AppliedChange {
                    id: VertexId([7; 16]),
                    version: Version(9),
                })
            })
            .collect();
        let kept = encode(Version(9), &outcomes);
        assert_eq!(kept.len(), 8 + changes.len());
        let now = |p: &NamePath| (p.as_bytes() == b"/1").then_some(VertexId([1; 16]));
        for kept in [Some(kept.as_slice()), None] {
            let back = decode(kept, &changes, &now).unwrap();
            let id = |n: usize| back[n].as_ref().unwrap().id;
            assert_eq!(id(1), VertexId([1; 16]));
            assert_eq!(id(2), id_at(Kind::File, b"/2"));
        }
    }
}
