//! Conversions between the cluster's types and the messages of clients.

use esker_cluster::peer::{ApplyOptions, CommitPosition};
use esker_model::{Commit, Version};
use esker_rpc::convert;
use esker_rpc::proto;

/// The durability that a client accepts for its batch.
pub(crate) fn apply_options_in(request: &proto::ApplyRequest) -> ApplyOptions {
    ApplyOptions {
        retained: request.keep_until_checkpoint,
        acknowledged_at: request.acknowledged_at.map(Version),
    }
}

/// Encodes the outcome of a batch, with the commit position until which its client has to keep it.
pub(crate) fn commit_out(commit: &Commit, position: Option<CommitPosition>) -> proto::ApplyReply {
    proto::ApplyReply {
        window_position: position.map(position_out),
        ..convert::commit_out(commit)
    }
}

pub(crate) fn position_out(position: CommitPosition) -> proto::WindowPosition {
    proto::WindowPosition {
        server: position.server.0,
        incarnation: position.incarnation,
        number: position.number,
    }
}
