//! A connection of gRPC to a server that asks for a key, for services beside the database's own.

use super::Broken;
use super::secure::{self, ByCall, Reached};
use crate::address::Address;
use esker_model::Result;
use tonic::transport::{Channel, Endpoint};

/// Connects in the way that the address says, encrypted: the server proves its host key, or shows a certificate that the
/// address trusts, and the client proves a key of SSH. `endpoint` has the settings of HTTP/2. A server on this machine may
/// know its client in another way; one elsewhere that accepts no key of the client's is an error. The channel has this one
/// connection, and ends with it.
pub async fn channel(address: &Address, endpoint: Endpoint) -> Result<Channel> {
    proved(address, endpoint).await.map_err(Broken::into_error)
}

async fn proved(address: &Address, endpoint: Endpoint) -> Result<Channel, Broken> {
    let Reached { channel, exporter } = secure::connect(address, endpoint).await?;
    let mut server = ByCall {
        address,
        channel: channel.clone(),
    };
    match secure::prove(address, exporter.as_ref(), &mut server).await {
        Err(Broken::Failed(_)) if address.is_here() => Ok(channel),
        Err(e) => Err(e),
        Ok(()) => Ok(channel),
    }
}
