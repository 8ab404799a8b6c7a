//! Requests between servers about objects.

use crate::vnode::ServerId;
use esker_model::object::{
    Find, FindReport, Found, ObjectId, ObjectKey, Principal, TagInfo, TagReport, TagWhere,
};
use esker_model::{Version, wire_enum, wire_struct};

/// Id of a running search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FindId {
    /// Server that coordinates the search.
    pub server: ServerId,
    /// Incarnation of the coordinator: how often it had been started.
    pub incarnation: u64,
    /// Number of the search within the incarnation.
    pub number: u64,
}

/// Requests between servers about objects.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectCall {
    /// Reads objects by number, or by ID attributes that hash to the receiver.
    Read {
        /// Numbers or ID attributes.
        keys: Vec<ObjectKey>,
        /// Principal of the call.
        principal: Option<Principal>,
        /// Version up to which pending transactions are awaited before the read.
        at: Version,
    },
    /// Reads a page of a search among the objects whose home is the receiver.
    Find {
        /// Id of the search.
        id: FindId,
        /// Conditions, and the object after which the page begins.
        find: Find,
        /// Version up to which pending transactions are awaited before the search.
        at: Version,
    },
    /// Cancels a search whose results are no longer needed.
    Stop {
        /// Id of the search.
        id: FindId,
    },
    /// Lists the names of attributes and tags that objects have.
    Tags {
        /// Principal of the call.
        principal: Option<Principal>,
        /// As in [`Self::Read`].
        at: Version,
    },
    /// Tags the objects that match a filter.
    Tag {
        /// Filter and tags, with the idempotency key of the receiver's share.
        change: TagWhere,
        /// As in [`Self::Read`].
        at: Version,
    },
    /// Enables or disables an index for searches.
    Index {
        /// Name of the attribute or tag.
        name: String,
        /// Whether searches may use the index.
        on: bool,
    },
}

/// Responses between servers about objects.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectReply {
    /// Response to [`ObjectCall::Read`], in the order of the keys.
    Objects(Vec<ObjectAt>),
    /// Response to [`ObjectCall::Find`].
    Found(FindPage),
    /// Response to [`ObjectCall::Stop`].
    Stopped,
    /// Response to [`ObjectCall::Tags`].
    Tags(Vec<TagInfo>),
    /// Response to [`ObjectCall::Tag`].
    Tagged(TagReport),
    /// Response to [`ObjectCall::Index`]: whether that changed anything.
    Indexed(bool),
}

/// Location of an object that was looked up.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectAt {
    /// There is no such object, or the principal may not read it.
    Nowhere,
    /// The object is here.
    Here(Found),
    /// An object of another server had moved to these ID attributes; only that server knows whether they still name it.
    Elsewhere(ObjectId),
}

/// A page of one server's search results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FindPage {
    /// Objects in the server's order.
    pub objects: Vec<Found>,
    /// Whether more objects follow the last one.
    pub more: bool,
    /// Report of the search for this page.
    pub report: FindReport,
}

wire_struct!(FindId {
    server,
    incarnation,
    number
});
wire_enum!(ObjectCall {
    0 Read { keys, principal, at },
    1 Find { id, find, at },
    2 Stop { id },
    3 Tags { principal, at },
    4 Tag { change, at },
    5 Index { name, on },
});
wire_enum!(ObjectReply {
    0 Objects(objects),
    1 Found(page),
    2 Stopped,
    3 Tags(tags),
    4 Tagged(report),
    5 Indexed(changed),
});
wire_enum!(ObjectAt {
    0 Nowhere,
    1 Here(object),
    2 Elsewhere(id),
});
wire_struct!(FindPage {
    objects,
    more,
    report
});
