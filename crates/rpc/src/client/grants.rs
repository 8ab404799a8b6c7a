//! Who may use a server's database: given, taken and listed. For whoever has role `admin` there.

use super::Broken;
use super::connect;
use crate::address::Address;
use crate::proto;
use crate::proto::access_client::AccessClient;
use crate::proto::grants_reply::Line;
use esker_access::grants::Listed;
use esker_model::{Error, Result};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

/// The rights of a server's database.
#[derive(Debug)]
pub struct Grants<'a> {
    address: &'a Address,
}

/// What a refusal means.
fn refused(address: &Address, status: &Status) -> Error {
    let at = address.authority();
    match status.code() {
        Code::Unimplemented => Error::Target(format!(
            "the server at {at} gives no rights: it is older than this command, or no Esker server"
        )),
        Code::InvalidArgument => Error::Invalid(status.message().to_owned()),
        Code::PermissionDenied | Code::Unauthenticated => {
            Error::Target(format!("{at}: {}", status.message()))
        }
        _ => Error::Unavailable(format!("{at} did not answer: {}", status.message())),
    }
}

impl<'a> Grants<'a> {
    /// Of the server at an address.
    pub fn of(address: &'a Address) -> Self {
        Self { address }
    }

    fn ask<T>(
        &self,
        call: impl AsyncFn(AccessClient<Channel>) -> std::result::Result<Response<T>, Status>,
    ) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting a client", e))?;
        runtime.block_on(async {
            let reached = connect::reach(self.address).await;
            let channel = reached.map_err(Broken::into_error)?;
            let again = match call(AccessClient::new(channel)).await {
                Ok(reply) => return Ok(reply.into_inner()),
                Err(status) if connect::asks_for_key(&status) => status,
                Err(status) => return Err(refused(self.address, &status)),
            };
            let reached = connect::reach_by_key(self.address).await;
            let channel = reached.map_err(|e| match e {
                Broken::Failed(Error::Target(why)) => {
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

    /// Gives a key rights.
    pub fn grant(&self, request: &proto::GrantRequest) -> Result<proto::GrantReply> {
        self.ask(async |mut client| client.grant(request.clone()).await)
    }

    /// Takes a key's rights, or a token's: what was revoked, in words.
    pub fn revoke(&self, key: &str) -> Result<String> {
        let request = proto::RevokeRequest { key: key.into() };
        let reply = self.ask(async |mut client| client.revoke(request.clone()).await)?;
        Ok(reply.revoked)
    }

    /// Everybody's.
    pub fn list(&self) -> Result<proto::GrantsReply> {
        self.ask(async |mut client| client.grants(proto::GrantsRequest {}).await)
    }

    /// Makes a token.
    pub fn token(&self, request: &proto::TokenRequest) -> Result<String> {
        let reply = self.ask(async |mut client| client.token(request.clone()).await)?;
        Ok(reply.token)
    }
}

impl From<Listed> for Line {
    fn from(listed: Listed) -> Self {
        Self {
            fingerprint: listed.fingerprint,
            comment: listed.comment,
            role: listed.role,
            expires: listed.expires,
            from: listed.from,
            file: listed.file,
            user: listed.user,
        }
    }
}

impl From<Line> for Listed {
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
