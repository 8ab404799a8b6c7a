//! Simulations of files in a cluster: one client gets the same answers as from one engine ([`single_client`]);
//! several clients under faults get only correct answers ([`concurrent_clients`]). Afterwards all rows of all servers
//! are combined in one engine, which checks them ([`combined_check`]). [`graph`] reads files as vertices, by their
//! paths and as a principal sees them.

pub mod combined_check;
pub mod concurrent_clients;
pub mod graph;
mod open_files;
pub mod single_client;

use esker_model::namespace::{
    Answer, Content, Cookie, Entry, Errno, Inode, Kind, OpenLookup, Partition, Space, Usage,
};
use esker_model::{Error, ErrorKind, Version, VertexId};

/// Result of a change, without its version and id.
pub type Outcome = Result<(), ChangeError>;

/// Reason why a change failed, without the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// A file system error.
    File(Errno),
    /// The change may have been done.
    Unavailable(String),
    /// Another reason, as text.
    Other(String),
}

impl From<Error> for ChangeError {
    fn from(e: Error) -> Self {
        match e {
            Error::File(e) => Self::File(e.errno),
            e if e.kind() == ErrorKind::Unavailable => Self::Unavailable(e.to_string()),
            e => Self::Other(e.to_string()),
        }
    }
}

/// Newest version that changes took, which the client has seen, and the id that the last one changed. Responses that
/// differ only in these are equal.
#[derive(Debug, Clone, Copy)]
pub struct Newest(pub Version, pub Option<VertexId>);

impl PartialEq for Newest {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A server's response about files.
#[derive(Debug, Clone, PartialEq)]
pub enum NamespaceResponse {
    /// Response to `Stat`.
    Inode(Box<Inode>),
    /// Response to `List`.
    Page(Vec<(Cookie, Entry)>, bool),
    /// Response to `Change`.
    Changed(Vec<Outcome>, Newest),
    /// Response to `Usage`.
    Usage(Usage),
    /// Response to `Space`.
    Space(Vec<Space>),
    /// Response to `Partitions`.
    Partitions(Vec<Partition>),
    /// Response to `Ids`.
    Ids(Vec<Option<(VertexId, Kind)>>),
    /// Response to `Look`.
    OpenLookup(OpenLookup),
}

impl From<Answer> for NamespaceResponse {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Inode(inode) => Self::Inode(Box::new(inode)),
            Answer::Page { entries, more } => Self::Page(entries, more),
            Answer::Changed(done) => {
                let newest = done.iter().flatten().map(|d| d.version).max();
                let last = done.iter().flatten().map(|d| d.id).next_back();
                let outcomes = done.into_iter();
                let outcomes = outcomes.map(|d| d.map(|_| ()).map_err(ChangeError::from));
                let newest = Newest(newest.unwrap_or(Version::ZERO), last);
                Self::Changed(outcomes.collect(), newest)
            }
            Answer::Usage(usage) => Self::Usage(usage),
            Answer::Space(space) => Self::Space(space),
            Answer::Partitions(all) => Self::Partitions(all),
            Answer::Ids(ids) => Self::Ids(ids),
            Answer::OpenLookup(looked) => Self::OpenLookup(looked),
        }
    }
}

/// Attributes of a file that a client sees, without its times and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleInode {
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    size: u64,
    content: Content,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl From<&Inode> for VisibleInode {
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
