//! The routes that a server's port answers, for documents and tests.

use crate::access::needs::Needs;
use crate::access::table;
use esker_access::Role;

/// One kind of request that a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// HTTP method; GET includes HEAD.
    pub method: String,
    /// Path pattern, in which `{…}` is one segment and `{*…}` the rest.
    pub path: String,
    /// Access that the request needs: `nothing` for everybody, `server` for other servers of a cluster, else a role.
    pub needs: String,
}

/// Returns all routes. A request for any other is refused after its head, before its body is read.
pub fn routes() -> Vec<Route> {
    let needs = |needs| match needs {
        Needs::Nothing => "nothing",
        Needs::Role(role) => role.name(),
        // A client that is bound to a user needs role `read`.
        Needs::WriteOrBound => Role::Write.name(),
        Needs::Server => "server",
    };
    let all = table::all().into_iter();
    all.map(|listed| Route {
        method: listed.method.to_owned(),
        path: listed.path.into_owned(),
        needs: needs(listed.needs).to_owned(),
    })
    .collect()
}
