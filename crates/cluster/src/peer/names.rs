//! Requests between servers about the namespace, and its rows in transactions.

use super::codec::{put_counter, take_counter};
use super::object_codec::{
    put_list, put_option, put_principal, take_list, take_option, take_principal,
};
use esker_engine::{DirectorySums, PlannedRow, RawEntry};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64};
use esker_model::key::Counter;
use esker_model::namespace::codec::{put_change, put_name, take_change, take_name};
use esker_model::namespace::{AppliedChange, Change, Errno, FileError, Name, SpaceBy};
use esker_model::object::Principal;
use esker_model::{Error, Version, VertexId};

/// One server's part of a namespace change that concerns several servers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamesPart {
    /// Epoch since which directories in the coordinator's memory must not have changed; only in the coordinator's own part.
    pub epoch: Option<u64>,
    /// Rows to write or to remove, and their required state before.
    pub rows: Vec<PlannedRow>,
    /// Changes of counters that come with the rows.
    pub counters: Vec<(Counter, i64)>,
    /// Whether directories are moved, removed or get other permissions; no other namespace operation may run meanwhile.
    pub structure: bool,
    /// Directories that must have no entries.
    pub empty: Vec<VertexId>,
}

/// Requests between servers about the namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesCall {
    /// Reads rows of the receiver.
    Rows {
        /// Keys of the rows.
        keys: Vec<Vec<u8>>,
    },
    /// Applies changes whose first entries are at the receiver.
    Change {
        /// Id of the call, by which one that arrives twice is done once.
        call: CallId,
        /// Principal of the call.
        principal: Option<Principal>,
        /// Changes to apply.
        changes: Vec<Change>,
        /// The client's idempotency key, if these are all of its changes; they may have been applied before.
        idempotency_key: Option<Vec<u8>>,
        /// Whether changes whose entries are on other servers are applied, too; otherwise they are left undone from
        /// the first one on.
        apply_remote: bool,
    },
    /// Reads the receiver's share of sums over directories.
    Sums {
        /// Ids of the directories.
        of: Vec<VertexId>,
    },
    /// Reads entries of a directory from a hash on, or after an entry's number if one is given.
    Page {
        /// Id of the directory.
        directory: VertexId,
        /// Start: the entry with that hash is at the receiver, if it exists.
        from: (u64, Option<u8>),
        /// Largest number of entries.
        limit: u32,
    },
    /// Reads the subdirectories of directories whose home is the receiver.
    Children {
        /// Ids of the directories.
        of: Vec<VertexId>,
    },
    /// Reads the receiver's share of sums over all files.
    Space {
        /// Grouping of the sums.
        by: SpaceBy,
    },
    /// Counts the receiver's entries of a directory with hashes from `first` to `last`.
    Count {
        /// Id of the directory.
        directory: VertexId,
        /// First hash of the range.
        first: u64,
        /// Last hash of the range.
        last: u64,
    },
    /// Exchanges flags about all servers' files: the sender's in the request, the receiver's in the response.
    ExchangeFlags(ClusterFlags),
    /// Requests a lease on a file's vertex whose home is the receiver.
    LeaseVertex {
        /// Id of the vertex.
        vertex: VertexId,
    },
    /// Reads the newest state of a file that the receiver has kept.
    Last {
        /// Id of the file.
        id: VertexId,
    },
    /// Asks how long leases last that a change of directories would break; the receiver grants none for a while.
    DirectoryLeases,
}

/// Flags about the files of all servers, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterFlags {
    /// Flags that are set on some server.
    pub known: u8,
    /// Flags that all servers have heard of.
    pub known_by_all: u8,
}

/// Id of one server's call for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallId {
    /// Incarnation of the sender: how often it had been started.
    pub incarnation: u64,
    /// Number of the call within the incarnation.
    pub number: u64,
    /// All of the sender's calls with a smaller number have ended.
    pub over: u64,
    /// Incarnation of the receiver, as far as the sender knows. A later incarnation has forgotten the calls of an earlier one.
    pub receiver_incarnation: u64,
}

/// Responses between servers about the namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesReply {
    /// Response to [`NamesCall::Rows`], in the order of the keys; to [`NamesCall::Last`], one row or none.
    Rows(Vec<Option<Vec<u8>>>),
    /// Response to [`NamesCall::Change`]: results of the first changes, and, if the next one's entry is on another
    /// server, how its directory has split.
    Changed(
        Vec<Result<AppliedChange, Refusal>>,
        Vec<(VertexId, Vec<u8>)>,
    ),
    /// Response to [`NamesCall::Change`]: nothing was done, because the receiver has been restarted since the
    /// incarnation that the sender knew.
    Restarted,
    /// Response to [`NamesCall::Sums`], in the order of the directories.
    Sums(Vec<DirectorySums>),
    /// Response to [`NamesCall::Page`].
    Page {
        /// Rows in the order of hashes.
        entries: Vec<RawEntry>,
        /// Position of the entries that follow, if there are any.
        next: Option<(u64, Option<u8>)>,
    },
    /// Response to [`NamesCall::Children`], in the order of the directories.
    Children(Vec<Vec<(VertexId, Name)>>),
    /// Response to [`NamesCall::Space`].
    Space(Vec<(Counter, i64)>),
    /// Response to [`NamesCall::Count`].
    Count(u64),
    /// Response to a request for a lease, or for the duration of leases: milliseconds; 0 for none.
    LeaseMillis(u32),
    /// Response to an exchange of flags.
    Flags(ClusterFlags),
    /// Response to any request whose rows are on other servers: how their directories have split.
    Moved(Vec<(VertexId, Vec<u8>)>),
}

/// Reason why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A file system error.
    File(FileError),
    /// The change may succeed later, or has been done.
    Unavailable(String),
    /// Another reason, as text.
    Other(String),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        match e {
            Error::File(e) => Self::File(e),
            Error::Unavailable(text) => Self::Unavailable(text),
            e => Self::Other(e.to_string()),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::File(e) => e.into(),
            Refusal::Unavailable(text) => Self::Unavailable(text),
            Refusal::Other(text) => Self::Invalid(text),
        }
    }
}

impl NamesPart {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_option(out, self.epoch.as_ref(), |out, n| put_u64(out, *n));
        put_list(out, &self.rows, |out, row| {
            put_bytes(out, &row.key);
            put_option(out, row.value.as_ref(), |out, v| put_bytes(out, v));
            put_option(out, row.read.as_ref(), |out, n| put_u64(out, *n));
        });
        put_counters(out, &self.counters);
        out.push(u8::from(self.structure));
        put_ids(out, &self.empty);
    }

    pub(super) fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: take_option(r, |r| r.u64("an epoch"))?,
            rows: take_list(r, 3, |r| {
                Ok(PlannedRow {
                    key: r.bytes("a key")?.to_vec(),
                    value: take_option(r, |r| Ok(r.bytes("a value")?.to_vec()))?,
                    read: take_option(r, |r| r.u64("what was read"))?,
                })
            })?,
            counters: take_counters(r)?,
            structure: r.u8("whether directories change")? != 0,
            empty: take_ids(r)?,
        })
    }
}

fn take_flags(r: &mut Reader<'_>) -> Result<ClusterFlags, DecodeError> {
    Ok(ClusterFlags {
        known: r.u8("what is known")?,
        known_by_all: r.u8("what all know")?,
    })
}

fn put_ids(out: &mut Vec<u8>, ids: &[VertexId]) {
    put_list(out, ids, |out, id| out.extend_from_slice(&id.0));
}

fn take_ids(r: &mut Reader<'_>) -> Result<Vec<VertexId>, DecodeError> {
    take_list(r, 16, |r| Ok(VertexId(r.array("a directory's id")?)))
}

fn put_counters(out: &mut Vec<u8>, counters: &[(Counter, i64)]) {
    put_list(out, counters, |out, (counter, n)| {
        put_counter(out, counter);
        put_u64(out, n.cast_unsigned());
    });
}

fn take_counters(r: &mut Reader<'_>) -> Result<Vec<(Counter, i64)>, DecodeError> {
    take_list(r, 9, |r| {
        Ok((take_counter(r)?, r.u64("a change")?.cast_signed()))
    })
}

fn put_splits(out: &mut Vec<u8>, splits: &[(VertexId, Vec<u8>)]) {
    put_list(out, splits, |out, (id, row)| {
        out.extend_from_slice(&id.0);
        put_bytes(out, row);
    });
}

fn take_splits(r: &mut Reader<'_>) -> Result<Vec<(VertexId, Vec<u8>)>, DecodeError> {
    take_list(r, 17, |r| {
        let id = VertexId(r.array("a directory's id")?);
        Ok((id, r.bytes("a split state")?.to_vec()))
    })
}

fn put_from(out: &mut Vec<u8>, from: (u64, Option<u8>)) {
    put_u64(out, from.0);
    put_option(out, from.1.as_ref(), |out, n| out.push(*n));
}

fn take_from(r: &mut Reader<'_>) -> Result<(u64, Option<u8>), DecodeError> {
    Ok((r.u64("a hash")?, take_option(r, |r| r.u8("a number"))?))
}

const BY: [SpaceBy; 5] = [
    SpaceBy::User,
    SpaceBy::Group,
    SpaceBy::Kind,
    SpaceBy::Ending,
    SpaceBy::Day,
];

impl NamesCall {
    /// Encodes the request as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Rows { keys } => {
                out.push(0);
                put_list(&mut out, keys, |out, key| put_bytes(out, key));
            }
            Self::Change {
                call,
                principal,
                changes,
                idempotency_key,
                apply_remote,
            } => {
                out.push(1);
                for n in [
                    call.incarnation,
                    call.number,
                    call.over,
                    call.receiver_incarnation,
                ] {
                    put_u64(&mut out, n);
                }
                put_option(&mut out, principal.as_ref(), put_principal);
                put_list(&mut out, changes, put_change);
                put_option(
                    &mut out,
                    idempotency_key.as_ref(),
                    |out, idempotency_key| put_bytes(out, idempotency_key),
                );
                out.push(u8::from(*apply_remote));
            }
            Self::Sums { of } => {
                out.push(2);
                put_ids(&mut out, of);
            }
            Self::Page {
                directory,
                from,
                limit,
            } => {
                out.push(3);
                out.extend_from_slice(&directory.0);
                put_from(&mut out, *from);
                put_u64(&mut out, u64::from(*limit));
            }
            Self::Children { of } => {
                out.push(4);
                put_ids(&mut out, of);
            }
            Self::Space { by } => {
                out.push(5);
                out.push(BY.iter().position(|b| b == by).unwrap_or(0) as u8);
            }
            Self::Count {
                directory,
                first,
                last,
            } => {
                out.push(6);
                out.extend_from_slice(&directory.0);
                put_u64(&mut out, *first);
                put_u64(&mut out, *last);
            }
            Self::ExchangeFlags(known) => {
                out.push(7);
                out.extend([known.known, known.known_by_all]);
            }
            Self::LeaseVertex { vertex } => {
                out.push(8);
                out.extend_from_slice(&vertex.0);
            }
            Self::DirectoryLeases => out.push(9),
            Self::Last { id } => {
                out.push(10);
                out.extend_from_slice(&id.0);
            }
        }
        out
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let call = match r.u8("a kind of question")? {
            0 => Self::Rows {
                keys: take_list(&mut r, 1, |r| Ok(r.bytes("a key")?.to_vec()))?,
            },
            1 => Self::Change {
                call: CallId {
                    incarnation: r.u64("an incarnation")?,
                    number: r.u64("a number")?,
                    over: r.u64("a number")?,
                    receiver_incarnation: r.u64("an incarnation")?,
                },
                principal: take_option(&mut r, take_principal)?,
                changes: take_list(&mut r, 3, take_change)?,
                idempotency_key: take_option(&mut r, |r| Ok(r.bytes("a marker")?.to_vec()))?,
                apply_remote: r.u8("whether all are to be done")? != 0,
            },
            2 => Self::Sums {
                of: take_ids(&mut r)?,
            },
            3 => Self::Page {
                directory: VertexId(r.array("a directory's id")?),
                from: take_from(&mut r)?,
                limit: u32::try_from(r.u64("a number of entries")?).unwrap_or(u32::MAX),
            },
            4 => Self::Children {
                of: take_ids(&mut r)?,
            },
            5 => {
                let by = BY.get(usize::from(r.u8("by what sums are")?)).copied();
                Self::Space {
                    by: by.ok_or_else(|| r.error("by what sums are (0 to 4)"))?,
                }
            }
            6 => Self::Count {
                directory: VertexId(r.array("a directory's id")?),
                first: r.u64("a hash")?,
                last: r.u64("a hash")?,
            },
            7 => Self::ExchangeFlags(take_flags(&mut r)?),
            8 => Self::LeaseVertex {
                vertex: VertexId(r.array("a vertex's id")?),
            },
            9 => Self::DirectoryLeases,
            10 => Self::Last {
                id: VertexId(r.array("a file's id")?),
            },
            _ => return Err(r.error("a kind of question (0 to 10)")),
        };
        r.finish()?;
        Ok(call)
    }
}

fn put_outcome(out: &mut Vec<u8>, outcome: &Result<AppliedChange, Refusal>) {
    match outcome {
        Ok(done) => {
            out.push(0);
            out.extend_from_slice(&done.id.0);
            put_u64(out, done.version.0);
        }
        Err(Refusal::File(e)) => {
            out.push(1);
            out.push(e.errno as u8);
            put_bytes(out, e.path.as_bytes());
        }
        Err(Refusal::Unavailable(text)) => {
            out.push(2);
            put_bytes(out, text.as_bytes());
        }
        Err(Refusal::Other(text)) => {
            out.push(3);
            put_bytes(out, text.as_bytes());
        }
    }
}

fn take_outcome(r: &mut Reader<'_>) -> Result<Result<AppliedChange, Refusal>, DecodeError> {
    Ok(match r.u8("what became of a change")? {
        0 => Ok(AppliedChange {
            id: VertexId(r.array("an id")?),
            version: Version(r.u64("a version")?),
        }),
        1 => {
            let errno = Errno::of_code(r.u8("a refusal")?);
            let errno = errno.ok_or_else(|| r.error("a refusal"))?;
            Err(Refusal::File(errno.at(r.str("a path")?)))
        }
        2 => Err(Refusal::Unavailable(r.str("a reason")?.to_owned())),
        3 => Err(Refusal::Other(r.str("a reason")?.to_owned())),
        _ => return Err(r.error("what became of a change (0 to 3)")),
    })
}

impl NamesReply {
    /// Encodes the response as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Rows(rows) => {
                out.push(0);
                put_list(&mut out, rows, |out, row| {
                    put_option(out, row.as_ref(), |out, row| put_bytes(out, row));
                });
            }
            Self::Changed(outcomes, splits) => {
                out.push(1);
                put_list(&mut out, outcomes, put_outcome);
                put_splits(&mut out, splits);
            }
            Self::Sums(sums) => {
                out.push(2);
                put_list(&mut out, sums, |out, sums| {
                    for n in sums.sums {
                        put_u64(out, n.cast_unsigned());
                    }
                    put_u64(out, sums.changed.cast_unsigned());
                });
            }
            Self::Page { entries, next } => {
                out.push(3);
                put_list(&mut out, entries, |out, (key, value)| {
                    put_bytes(out, key);
                    put_bytes(out, value);
                });
                put_option(&mut out, next.as_ref(), |out, from| put_from(out, *from));
            }
            Self::Children(all) => {
                out.push(4);
                put_list(&mut out, all, |out, children| {
                    put_list(out, children, |out, (id, name)| {
                        out.extend_from_slice(&id.0);
                        put_name(out, name);
                    });
                });
            }
            Self::Space(counters) => {
                out.push(5);
                put_counters(&mut out, counters);
            }
            Self::Moved(splits) => {
                out.push(6);
                put_splits(&mut out, splits);
            }
            Self::Restarted => out.push(8),
            Self::LeaseMillis(millis) => {
                out.push(10);
                put_u64(&mut out, u64::from(*millis));
            }
            Self::Flags(known) => out.extend([9, known.known, known.known_by_all]),
            Self::Count(count) => {
                out.push(7);
                put_u64(&mut out, *count);
            }
        }
        out
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let reply = match r.u8("a kind of answer")? {
            0 => Self::Rows(take_list(&mut r, 1, |r| {
                take_option(r, |r| Ok(r.bytes("a value")?.to_vec()))
            })?),
            1 => Self::Changed(take_list(&mut r, 2, take_outcome)?, take_splits(&mut r)?),
            2 => Self::Sums(take_list(&mut r, 40, |r| {
                let mut sums = DirectorySums::default();
                for n in &mut sums.sums {
                    *n = r.u64("a sum")?.cast_signed();
                }
                sums.changed = r.u64("a time")?.cast_signed();
                Ok(sums)
            })?),
            3 => Self::Page {
                entries: take_list(&mut r, 2, |r| {
                    Ok((r.bytes("a key")?.to_vec(), r.bytes("a value")?.to_vec()))
                })?,
                next: take_option(&mut r, take_from)?,
            },
            4 => Self::Children(take_list(&mut r, 1, |r| {
                take_list(r, 18, |r| {
                    let id = VertexId(r.array("a directory's id")?);
                    Ok((id, take_name(r)?))
                })
            })?),
            5 => Self::Space(take_counters(&mut r)?),
            6 => Self::Moved(take_splits(&mut r)?),
            7 => Self::Count(r.u64("a count")?),
            8 => Self::Restarted,
            9 => Self::Flags(take_flags(&mut r)?),
            10 => Self::LeaseMillis(u32::try_from(r.u64("a number of milliseconds")?).unwrap_or(0)),
            _ => return Err(r.error("a kind of answer (0 to 10)")),
        };
        r.finish()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
