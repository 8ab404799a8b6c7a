//! What servers ask each other about objects.

use crate::vnode::ServerId;
use esker_model::Version;
use esker_model::object::{
    Asker, Find, FindReport, Found, ObjectId, ObjectKey, TagInfo, TagReport, TagWhere,
};

/// A search under way: who coordinates it, and which of its it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FindId {
    /// The coordinator.
    pub server: ServerId,
    /// How often it had been started.
    pub incarnation: u64,
    /// Counted since then.
    pub number: u64,
}

/// What can be asked about objects.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectCall {
    /// Objects by number, or by ID attributes that hash to the answerer.
    Read {
        /// Which.
        keys: Vec<ObjectKey>,
        /// On whose behalf.
        asker: Option<Asker>,
        /// What was decided by then is done before they are read.
        at: Version,
    },
    /// A page of a search among the objects that are at home at the answerer.
    Find {
        /// Which search.
        id: FindId,
        /// What is searched for, behind which object.
        find: Find,
        /// What was decided by then is done before the search begins.
        at: Version,
    },
    /// Nobody waits for the rest of a search.
    Stop {
        /// Which.
        id: FindId,
    },
    /// Names that objects have values under.
    Tags {
        /// On whose behalf.
        asker: Option<Asker>,
        /// As in [`Self::Read`].
        at: Version,
    },
    /// Tag those that a filter holds of.
    Tag {
        /// How; with the marker of the answerer's share.
        change: TagWhere,
        /// As in [`Self::Read`].
        at: Version,
    },
    /// Whether searches may use an index.
    Index {
        /// On which name.
        name: String,
        /// Whether they may.
        on: bool,
    },
}

/// What can come back.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectReply {
    /// To [`ObjectCall::Read`], in its order.
    Objects(Vec<ObjectAt>),
    /// To [`ObjectCall::Find`].
    Found(FindPage),
    /// To [`ObjectCall::Stop`].
    Stopped,
    /// To [`ObjectCall::Tags`].
    Tags(Vec<TagInfo>),
    /// To [`ObjectCall::Tag`].
    Tagged(TagReport),
    /// To [`ObjectCall::Index`]: whether that was not so before.
    Indexed(bool),
}

/// Where an object was found.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectAt {
    /// There is none, or none that the asker may read.
    Nowhere,
    /// Here it is.
    Here(Found),
    /// One that lies elsewhere had moved to these ID attributes; whether they still name it is known there.
    Elsewhere(ObjectId),
}

/// A part of what a search finds on one server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FindPage {
    /// Objects, in the order in which the server gives them.
    pub objects: Vec<Found>,
    /// Whether there is more behind the last of them.
    pub more: bool,
    /// What the search did for this page.
    pub report: FindReport,
}
