//! What a server's port answers, for documents and tests.

use crate::access::table::{self, Needs};

/// One kind of request that a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The method; GET is HEAD as well.
    pub method: String,
    /// The path, in which `{…}` is one part and `{*…}` all that is left.
    pub path: String,
    /// Who may: `nothing` for everybody, `server` for other servers of a cluster, else a role.
    pub needs: String,
}

/// All of them. What is not among them is refused before anything is read of it but its head.
pub fn routes() -> Vec<Route> {
    let needs = |needs| match needs {
        Needs::Nothing => "nothing",
        Needs::Role(role) => role.name(),
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
