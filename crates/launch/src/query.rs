//! State of one server of a cluster.

use esker::rpc::proto::ClusterReply;
use esker::rpc::{Address, Client};
use std::time::Duration;

/// Timeout of a server's answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Asks the server of `store` at the authority `place` for its state, with the options of the address `like`.
///
/// # Errors
///
/// The server does not answer within 3 s, or it refuses.
pub fn query_server(place: &str, store: u32, like: &Address) -> esker_model::Result<ClusterReply> {
    let mut address = match like.with_authority(place) {
        Some(address) => address,
        None => Address::parse(&format!("esker://{place}"))?,
    };
    address.store = Some(store);
    address.patience = like.patience.min(ANSWER_MAX);
    Client::connect(&address)?.cluster()
}
