//! Calls about shares of lineages.

use super::Client;
use super::graph::{LONG, expected};
use crate::convert;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::Result;
use esker_model::object::Principal;
use esker_model::sharing::{ShareCall, SharedLineage};

impl Client {
    /// Makes a call about shares, for a principal.
    pub fn call_shares(
        &self,
        principal: Option<&Principal>,
        call: &ShareCall,
    ) -> Result<Vec<SharedLineage>> {
        let call = Call::Share(proto::ShareRequest {
            principal: convert::principal_out(principal),
            call: Some(convert::share_call_out(call)),
        });
        self.value(call, LONG, |reply| {
            let shares = expected!(reply, Share, reply => reply.shares);
            let shares = shares.into_iter().map(convert::share_in);
            Ok(Some(shares.collect::<convert::Decoded<_>>()?))
        })
    }
}
