//! What servers ask each other about the namespace, and its rows in transactions.

use super::codec::{put_counter, take_counter};
use super::object_codec::{put_asker, put_list, put_option, take_asker, take_list, take_option};
use esker_engine::{DirectorySums, PlannedRow, RawEntry};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64};
use esker_model::key::Counter;
use esker_model::namespace::codec::{put_change, put_name, take_change, take_name};
use esker_model::namespace::{Change, Done, Errno, FileError, Name, SpaceBy};
use esker_model::object::Asker;
use esker_model::{Error, Version, VertexId};

/// What one server does of a change of the namespace that concerns several.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamesPart {
    /// Directories in the coordinator's memory must not have changed since that epoch; only in its own part.
    pub epoch: Option<u64>,
    /// Rows to write or to remove, and what they must be like before.
    pub rows: Vec<PlannedRow>,
    /// What changes of counters.
    pub counters: Vec<(Counter, i64)>,
    /// Whether directories are moved, removed or get other permissions: nobody changes or reads anything meanwhile.
    pub structure: bool,
    /// Directories that must have no entries.
    pub empty: Vec<VertexId>,
}

/// What can be asked about the namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesCall {
    /// Rows that lie at the answerer.
    Rows {
        /// Their keys.
        keys: Vec<Vec<u8>>,
    },
    /// Changes, whose first entries lie at the answerer.
    Change {
        /// Which call it is: it may arrive twice, and is done once.
        call: CallId,
        /// On whose behalf.
        asker: Option<Asker>,
        /// Which.
        changes: Vec<Change>,
        /// Their client's marker, if these are all of its changes: they may have been made before.
        once: Option<Vec<u8>>,
        /// Whether those whose entries lie elsewhere are to be done, too; else they are left undone, from the first one on.
        insist: bool,
    },
    /// The answerer's share of what directories hold.
    Sums {
        /// Which.
        of: Vec<VertexId>,
    },
    /// Entries of a directory from a hash on, behind an entry's number if it has one.
    Page {
        /// Which directory.
        directory: VertexId,
        /// From where on: the entry with that hash lies at the answerer, if there is one.
        from: (u64, Option<u8>),
        /// So many at most.
        limit: u32,
    },
    /// Directories in directories that are at home at the answerer.
    Children {
        /// In which.
        of: Vec<VertexId>,
    },
    /// The answerer's share of sums over all files.
    Space {
        /// By what.
        by: SpaceBy,
    },
    /// How many entries of a directory the answerer has, with hashes from `first` to `last`.
    Count {
        /// Which directory.
        directory: VertexId,
        /// The first hash.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// What the asker knows of all servers' files; answered with what the answerer knows.
    Know(KnownOfFiles),
    /// To promise that a file's vertex, at home at the answerer, stays as it is.
    Promise {
        /// Whose.
        vertex: VertexId,
    },
    /// The newest state of a file that the answerer has kept.
    Last {
        /// Which file.
        id: VertexId,
    },
    /// For how long something is promised that a change of directories would change; nothing more is promised for a while.
    Promised,
}

/// What a server knows of all servers' files, in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownOfFiles {
    /// What is so somewhere.
    pub heard: u8,
    /// What all servers have heard.
    pub told: u8,
}

/// One of a server's calls for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallId {
    /// How often the asker had been started.
    pub incarnation: u64,
    /// Counted since then.
    pub number: u64,
    /// All of the asker's calls with a smaller number are over.
    pub over: u64,
    /// How often the answerer had been started, as far as the asker knows: a later one has forgotten what an earlier one did.
    pub to: u64,
}

/// What can come back.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesReply {
    /// To [`NamesCall::Rows`], in their order; to [`NamesCall::Last`], one or none.
    Rows(Vec<Option<Vec<u8>>>),
    /// To [`NamesCall::Change`]: what became of the first ones, and how the directory has split that the next one's entry is in, if it lies
    /// elsewhere.
    Changed(Vec<Result<Done, Refusal>>, Vec<(VertexId, Vec<u8>)>),
    /// To [`NamesCall::Change`]: nothing was done, for the answerer was started more often than the asker knew.
    Anew,
    /// To [`NamesCall::Sums`], in their order.
    Sums(Vec<DirectorySums>),
    /// To [`NamesCall::Page`].
    Page {
        /// Rows by hash.
        entries: Vec<RawEntry>,
        /// Where the entries lie that come behind these, if any do.
        next: Option<(u64, Option<u8>)>,
    },
    /// To [`NamesCall::Children`], in their order.
    Children(Vec<Vec<(VertexId, Name)>>),
    /// To [`NamesCall::Space`].
    Space(Vec<(Counter, i64)>),
    /// To [`NamesCall::Count`].
    Count(u64),
    /// To [`NamesCall::Promise`] and [`NamesCall::Promised`]: for how many milliseconds, if at all.
    Promised(u32),
    /// To [`NamesCall::Know`].
    Known(KnownOfFiles),
    /// To any: rows lie elsewhere; this is how their directories have split.
    Moved(Vec<(VertexId, Vec<u8>)>),
}

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// As a file system does.
    File(FileError),
    /// It may succeed later, or has been done.
    Unavailable(String),
    /// For another reason.
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

fn take_known(r: &mut Reader<'_>) -> Result<KnownOfFiles, DecodeError> {
    Ok(KnownOfFiles {
        heard: r.u8("what is known")?,
        told: r.u8("what all know")?,
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
    /// All of it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Rows { keys } => {
                out.push(0);
                put_list(&mut out, keys, |out, key| put_bytes(out, key));
            }
            Self::Change {
                call,
                asker,
                changes,
                once,
                insist,
            } => {
                out.push(1);
                for n in [call.incarnation, call.number, call.over, call.to] {
                    put_u64(&mut out, n);
                }
                put_option(&mut out, asker.as_ref(), put_asker);
                put_list(&mut out, changes, put_change);
                put_option(&mut out, once.as_ref(), |out, once| put_bytes(out, once));
                out.push(u8::from(*insist));
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
            Self::Know(known) => {
                out.push(7);
                out.extend([known.heard, known.told]);
            }
            Self::Promise { vertex } => {
                out.push(8);
                out.extend_from_slice(&vertex.0);
            }
            Self::Promised => out.push(9),
            Self::Last { id } => {
                out.push(10);
                out.extend_from_slice(&id.0);
            }
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
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
                    to: r.u64("an incarnation")?,
                },
                asker: take_option(&mut r, take_asker)?,
                changes: take_list(&mut r, 3, take_change)?,
                once: take_option(&mut r, |r| Ok(r.bytes("a marker")?.to_vec()))?,
                insist: r.u8("whether all are to be done")? != 0,
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
            7 => Self::Know(take_known(&mut r)?),
            8 => Self::Promise {
                vertex: VertexId(r.array("a vertex's id")?),
            },
            9 => Self::Promised,
            10 => Self::Last {
                id: VertexId(r.array("a file's id")?),
            },
            _ => return Err(r.error("a kind of question (0 to 10)")),
        };
        r.finish()?;
        Ok(call)
    }
}

fn put_outcome(out: &mut Vec<u8>, outcome: &Result<Done, Refusal>) {
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

fn take_outcome(r: &mut Reader<'_>) -> Result<Result<Done, Refusal>, DecodeError> {
    Ok(match r.u8("what became of a change")? {
        0 => Ok(Done {
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
    /// All of it.
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
            Self::Anew => out.push(8),
            Self::Promised(millis) => {
                out.push(10);
                put_u64(&mut out, u64::from(*millis));
            }
            Self::Known(known) => out.extend([9, known.heard, known.told]),
            Self::Count(count) => {
                out.push(7);
                put_u64(&mut out, *count);
            }
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
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
            8 => Self::Anew,
            9 => Self::Known(take_known(&mut r)?),
            10 => Self::Promised(u32::try_from(r.u64("a number of milliseconds")?).unwrap_or(0)),
            _ => return Err(r.error("a kind of answer (0 to 10)")),
        };
        r.finish()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
