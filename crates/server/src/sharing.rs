//! Answers to calls about shares of lineages.

use crate::call::Call;
use crate::pieces::{Stop, check_cancelled};
use crate::service::Service;
use esker_model::object::Principal;
use esker_model::sharing::{ShareCall, SharedLineage};
use esker_rpc::convert;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;

/// Shares a lineage, ends a share or lists shares, on behalf of the principal in the request.
pub(crate) fn answer(
    service: &Service,
    request: proto::ShareRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    check_cancelled(call)?;
    if let Some(cluster) = &service.cluster {
        return Err(Stop::Failed(cluster.refuse(
            "sharing a lineage",
            "give read permission on its files and objects (`esker chmod`, `esker object update`)",
        )));
    }
    let principal = convert::principal_in(request.principal);
    let asked = convert::share_call_in(request.call)?;
    let database = service.database.on_behalf_of(principal.as_ref());
    let shares = database.call_shares(&asked, &*call.state)?;
    log(principal.as_ref(), &asked, &shares);
    for share in &shares {
        service.note_version(share.made);
    }
    let shares = shares.iter().map(convert::share_out).collect();
    Ok(Reply::Share(proto::ShareReply { shares }))
}

/// Logs shares that were made or ended.
fn log(principal: Option<&Principal>, call: &ShareCall, shares: &[SharedLineage]) {
    let what = match call {
        ShareCall::Share(_) => "a lineage was shared",
        ShareCall::Revoke(_) => "a share was revoked",
        ShareCall::List => return,
    };
    let by = principal.map_or_else(|| "the owner".to_owned(), ToString::to_string);
    for SharedLineage {
        id, terms, items, ..
    } in shares
    {
        tracing::info!(
            share = %id,
            %by,
            root = %terms.root,
            users = ?terms.users,
            groups = ?terms.groups,
            until_millis = ?terms.until_millis,
            items,
            "{what}"
        );
    }
}
