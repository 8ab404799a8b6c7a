//! Conversion of calls about shares of lineages.

use super::{Decoded, Malformed};
use crate::proto;
use crate::proto::share_request::Call;
use esker_model::sharing::{ShareCall, ShareId, ShareRequest, SharedLineage, SharingTerms};
use esker_model::{Version, VertexId};

fn terms_out(terms: &SharingTerms) -> proto::SharingTerms {
    proto::SharingTerms {
        root: terms.root.0.to_vec(),
        impact: terms.impact,
        users: terms.users.clone(),
        groups: terms.groups.clone(),
        until_millis: terms.until_millis,
    }
}

fn terms_in(terms: proto::SharingTerms) -> Decoded<SharingTerms> {
    let root = terms.root.as_slice().try_into().map_err(|_| {
        Malformed::new(
            "terms.root",
            format!("the 16 bytes of a vertex id; got {}", terms.root.len()),
        )
    })?;
    Ok(SharingTerms {
        root: VertexId(root),
        impact: terms.impact,
        users: terms.users,
        groups: terms.groups,
        until_millis: terms.until_millis,
    })
}

/// Encodes a call about shares.
pub fn share_call_out(call: &ShareCall) -> Call {
    match call {
        ShareCall::Share(request) => Call::Share(proto::LineageToShare {
            terms: Some(terms_out(&request.terms)),
            depth: request.depth,
            made_by: request.made_by.clone(),
            used: request.used.clone(),
        }),
        ShareCall::Revoke(id) => Call::Revoke(id.0),
        ShareCall::List => Call::List(proto::ListShares {}),
    }
}

/// Decodes a call about shares.
pub fn share_call_in(call: Option<Call>) -> Decoded<ShareCall> {
    Ok(match call {
        Some(Call::Share(request)) => ShareCall::Share(ShareRequest {
            terms: terms_in(request.terms.unwrap_or_default())?,
            depth: request.depth,
            made_by: request.made_by,
            used: request.used,
        }),
        Some(Call::Revoke(id)) => ShareCall::Revoke(ShareId(id)),
        Some(Call::List(_)) => ShareCall::List,
        None => {
            return Err(Malformed::new(
                "call",
                "one of `share`, `revoke` and `list`; got none",
            ));
        }
    })
}

/// Encodes a share for a message.
pub fn share_out(share: &SharedLineage) -> proto::SharedLineage {
    proto::SharedLineage {
        id: share.id.0,
        terms: Some(terms_out(&share.terms)),
        by: share.by,
        made: share.made.0,
        items: share.items,
    }
}

/// Decodes a share from a message.
pub fn share_in(share: proto::SharedLineage) -> Decoded<SharedLineage> {
    Ok(SharedLineage {
        id: ShareId(share.id),
        terms: terms_in(share.terms.unwrap_or_default())?,
        by: share.by,
        made: Version(share.made),
        items: share.items,
    })
}
