//! Administration of the grants of a server's database, for callers with role `admin`.

use super::CallError;
use super::connect::{self, Authorized};
use crate::address::Address;
use crate::proto;
use crate::proto::access_client::AccessClient;
use crate::proto::grants_reply::Line;
use esker_access::grants::RightsEntry;
use esker_model::{Error, Result};
use tonic::{Code, Response, Status};

/// Access to the grants of a server's database.
#[derive(Debug)]
pub struct Grants<'a> {
    address: &'a Address,
}

/// Error for a refused call.
fn refused(address: &Address, status: &Status) -> Error {
    let at = address.authority();
    match status.code() {
        Code::Unimplemented => Error::Target(format!(
            "the server at {at} does not manage grants: it is older than this command, or not an Esker server"
        )),
        Code::InvalidArgument => Error::Invalid(status.message().to_owned()),
        Code::PermissionDenied | Code::Unauthenticated => {
            Error::Target(format!("{at}: {}", status.message()))
        }
        _ => Error::Unavailable(format!("{at} did not answer: {}", status.message())),
    }
}

impl<'a> Grants<'a> {
    /// Access to the grants of the server at `address`.
    pub fn of(address: &'a Address) -> Self {
        Self { address }
    }

    fn call<T>(
        &self,
        call: impl AsyncFn(AccessClient<Authorized>) -> std::result::Result<Response<T>, Status>,
    ) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting a client", e))?;
        runtime.block_on(async {
            let reached = connect::reach(self.address).await;
            let channel = reached.map_err(CallError::into_error)?;
            let again = match call(AccessClient::new(channel)).await {
                Ok(reply) => return Ok(reply.into_inner()),
                Err(status) if connect::asks_for_key(&status) => status,
                Err(status) => return Err(refused(self.address, &status)),
            };
            let reached = connect::reach_by_key(self.address).await;
            let channel = reached.map_err(|e| match e {
                CallError::Failed(Error::Target(why)) => {
                    Error::Target(format!("{}. {why}", refused(self.address, &again)))
                }
                e => e.into_error(),
            })?;
            let reply = call(AccessClient::new(channel)).await;
            reply
                .map(Response::into_inner)
                .map_err(|status| refused(self.address, &status))
        })
    }

    /// Gives a role to a key.
    pub fn grant(&self, request: &proto::GrantRequest) -> Result<proto::GrantReply> {
        self.call(async |mut client| client.grant(request.clone()).await)
    }

    /// Revokes the role of a key or a token; returns a description of what was revoked.
    pub fn revoke(&self, key: &str) -> Result<String> {
        let request = proto::RevokeRequest { key: key.into() };
        let reply = self.call(async |mut client| client.revoke(request.clone()).await)?;
        Ok(reply.revoked)
    }

    /// Lists the grants of all keys and tokens.
    pub fn list(&self) -> Result<proto::GrantsReply> {
        self.call(async |mut client| client.grants(proto::GrantsRequest {}).await)
    }

    /// Creates a token with a role.
    pub fn token(&self, request: &proto::TokenRequest) -> Result<String> {
        let reply = self.call(async |mut client| client.token(request.clone()).await)?;
        Ok(reply.token)
    }
}

impl From<RightsEntry> for Line {
    fn from(entry: RightsEntry) -> Self {
        Self {
            fingerprint: entry.fingerprint,
            comment: entry.comment,
            role: entry.role,
            expires: entry.expires,
            from: entry.from,
            file: entry.file,
            user: entry.user,
        }
    }
}

impl From<Line> for RightsEntry {
    fn from(line: Line) -> Self {
        Self {
            fingerprint: line.fingerprint,
            comment: line.comment,
            role: line.role,
            expires: line.expires,
            from: line.from,
            file: line.file,
            user: line.user,
        }
    }
}
