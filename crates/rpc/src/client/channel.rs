//! gRPC channels for services other than the database's own.

use super::CallError;
use super::secure::{self, GrpcTransport, SecureChannel};
use crate::address::Address;
use esker_model::Result;
use tonic::transport::{Channel, Endpoint};

/// Opens an encrypted channel as the address requires: the server proves its host key or shows a certificate that the
/// address
/// trusts, and the client proves an SSH key. `endpoint` has the HTTP/2 settings. If the server accepts no key of the
/// client,
/// that is an error, except on this machine, where the server may identify the client in another way. The channel has a
/// single
/// connection and ends with it.
pub async fn channel(address: &Address, endpoint: Endpoint) -> Result<Channel> {
    proved(address, endpoint)
        .await
        .map_err(CallError::into_error)
}

async fn proved(address: &Address, endpoint: Endpoint) -> Result<Channel, CallError> {
    let SecureChannel { channel, exporter } = secure::connect(address, endpoint).await?;
    let mut server = GrpcTransport {
        address,
        channel: channel.clone(),
    };
    match secure::prove(address, exporter.as_ref(), &mut server).await {
        Err(CallError::Failed(_)) if address.is_local() => Ok(channel),
        Err(e) => Err(e),
        Ok(()) => Ok(channel),
    }
}
