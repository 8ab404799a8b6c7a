//! Files in a cluster: one client at a time is answered as by one engine ([`alone`]); several, with the cluster's troubles, are
//! told nothing that is not so ([`together`]). Then all rows of all servers are put into one engine, which checks them
//! ([`whole`]). [`graph`] asks the graph about files, by their paths and as somebody sees it.

pub mod alone;
pub mod graph;
mod opened;
pub mod together;
pub mod whole;

use esker_model::namespace::{
    Answer, Content, Cookie, Entry, Errno, Inode, Kind, Looked, Partition, Space, Usage,
};
use esker_model::{Error, ErrorKind, Version, VertexId};

/// What came of a change: refused as a file system does, or for another reason.
pub type Outcome = Result<(), Refusal>;

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// As a file system does.
    File(Errno),
    /// Perhaps it was done.
    Unavailable(String),
    /// For another reason.
    Other(String),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        match e {
            Error::File(e) => Self::File(e.errno),
            e if e.kind() == ErrorKind::Unavailable => Self::Unavailable(e.to_string()),
            e => Self::Other(e.to_string()),
        }
    }
}

/// The newest version that changes took: what whoever made them has seen; and what the last one was done to. Answers that differ in
/// it are the same.
#[derive(Debug, Clone, Copy)]
pub struct Newest(pub Version, pub Option<VertexId>);

impl PartialEq for Newest {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a node says about files.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesTold {
    /// Of `Stat`.
    Inode(Box<Inode>),
    /// Of `List`.
    Page(Vec<(Cookie, Entry)>, bool),
    /// Of `Change`.
    Changed(Vec<Outcome>, Newest),
    /// Of `Usage`.
    Usage(Usage),
    /// Of `Space`.
    Space(Vec<Space>),
    /// Of `Partitions`.
    Partitions(Vec<Partition>),
    /// Of `Ids`.
    Ids(Vec<Option<(VertexId, Kind)>>),
    /// Of `Look`.
    Looked(Looked),
}

impl From<Answer> for NamesTold {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Inode(inode) => Self::Inode(Box::new(inode)),
            Answer::Page { entries, more } => Self::Page(entries, more),
            Answer::Changed(done) => {
                let newest = done.iter().flatten().map(|d| d.version).max();
                let last = done.iter().flatten().map(|d| d.id).next_back();
                let outcomes = done.into_iter();
                let outcomes = outcomes.map(|d| d.map(|_| ()).map_err(Refusal::from));
                let newest = Newest(newest.unwrap_or(Version::ZERO), last);
                Self::Changed(outcomes.collect(), newest)
            }
            Answer::Usage(usage) => Self::Usage(usage),
            Answer::Space(space) => Self::Space(space),
            Answer::Partitions(all) => Self::Partitions(all),
            Answer::Ids(ids) => Self::Ids(ids),
            Answer::Looked(looked) => Self::Looked(looked),
        }
    }
}

/// What somebody sees of a file, but for its times and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    size: u64,
    content: Content,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl From<&Inode> for Seen {
    fn from(inode: &Inode) -> Self {
        Self {
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            links: inode.links,
            size: inode.size,
            content: inode.content.clone(),
            xattrs: inode.xattrs.clone(),
        }
    }
}
