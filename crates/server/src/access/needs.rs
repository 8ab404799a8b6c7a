//! Access that requests need.

use esker_access::Role;
use std::borrow::Cow;

/// Access that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: the answer reveals nothing of the data.
    Nothing,
    /// A client with at least that role.
    Role(Role),
    /// A client with role `write`, or one with role `read` that is bound to a user.
    WriteOrBound,
    /// Another server of the cluster.
    Server,
}

pub(crate) const INGEST: Needs = Needs::Role(Role::Ingest);
pub(crate) const READ: Needs = Needs::Role(Role::Read);
pub(crate) const WRITE: Needs = Needs::Role(Role::Write);
pub(crate) const ADMIN: Needs = Needs::Role(Role::Admin);
pub(crate) const SERVER: Needs = Needs::Server;
pub(crate) const SHARE: Needs = Needs::WriteOrBound;

/// One kind of request that is answered.
#[derive(Debug, Clone)]
pub(crate) struct ListedRoute {
    /// HTTP method; GET includes HEAD.
    pub(crate) method: &'static str,
    /// Path pattern, in which `{…}` is one segment and `{*…}` the rest.
    pub(crate) path: Cow<'static, str>,
    pub(crate) needs: Needs,
    /// Whether a bound client may make the request: the answer is limited to its user, or reveals nothing of the data.
    pub(crate) per_user: bool,
}
