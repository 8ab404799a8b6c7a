//! Traversals over all servers.

use super::Node;
use crate::peer::{TravelCall, TravelReply};
use crate::vnode::ServerId;
use esker_model::traversal::{Budget, TravelResult, Traversal};
use esker_model::{Cancel, Error, Result, Version};
use std::sync::Arc;

/// The traversals that run here.
#[derive(Debug, Default)]
pub(crate) struct Travels {}

impl Node {
    /// As [`esker_model::GraphRead::travel`].
    pub async fn travel(
        self: &Arc<Self>,
        _traversal: &Traversal,
        _budget: &Budget,
        _cancel: &dyn Cancel,
        _seen: Version,
    ) -> Result<TravelResult> {
        Err(Error::Unavailable("not yet".into()))
    }

    pub(crate) async fn travel_here(
        self: &Arc<Self>,
        _from: ServerId,
        _call: TravelCall,
    ) -> Result<TravelReply> {
        Err(Error::Unavailable("not yet".into()))
    }
}
