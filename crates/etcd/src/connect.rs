//! Connections to etcd: certificates, accounts, and the token of an account.

use crate::proto::AuthenticateRequest;
use crate::proto::auth_client::AuthClient;
use esker_config::etcd::{EtcdSecrets, EtcdTrust};
use esker_model::{Error, Result};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

/// Time limits for etcd.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Limit for opening a connection.
    pub connect: Duration,
    /// Interval of pings on a connection, and limit for their responses.
    pub keep_alive: Duration,
    /// Limit for the response to one call.
    pub answer: Duration,
}

/// The token that etcd has issued to this client's account.
#[derive(Clone, Default)]
pub(crate) struct Token(Arc<RwLock<Option<AsciiMetadataValue>>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        let token = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = token.as_ref() {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

/// A channel that sends the token with each call.
pub(crate) type Transport = InterceptedService<Channel, Token>;

/// The servers of one etcd, and the account that is used there.
#[derive(Clone)]
pub(crate) struct Link {
    channel: Channel,
    token: Token,
    login: Option<Arc<(String, String)>>,
}

impl Link {
    /// Reads the files that `trust` names; the connection is opened by the first call.
    ///
    /// # Errors
    /// If a file cannot be read, or an endpoint is not an `http://` or `https://` address.
    pub(crate) fn new(endpoints: &[String], trust: &EtcdTrust, times: Times) -> Result<Self> {
        let secrets = trust.read()?;
        let servers: Vec<Endpoint> = endpoints
            .iter()
            .map(|url| endpoint(url, &secrets, times))
            .collect::<Result<_>>()?;
        Ok(Self {
            channel: Channel::balance_list(servers.into_iter()),
            token: Token::default(),
            login: secrets.login.map(Arc::new),
        })
    }

    pub(crate) fn transport(&self) -> Transport {
        InterceptedService::new(self.channel.clone(), self.token.clone())
    }

    /// Requests a token for the account. False if no account is used.
    pub(crate) async fn log_in(&self) -> std::result::Result<bool, Status> {
        let Some((name, password)) = self.login.as_deref() else {
            return Ok(false);
        };
        let request = AuthenticateRequest {
            name: name.clone(),
            password: password.clone(),
        };
        let answer = AuthClient::new(self.channel.clone())
            .authenticate(request)
            .await?;
        let token = AsciiMetadataValue::try_from(answer.into_inner().token);
        let token = token.map_err(|_| Status::internal("the token is not text"))?;
        *self.token.0.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(true)
    }
}

fn endpoint(url: &str, secrets: &EtcdSecrets, times: Times) -> Result<Endpoint> {
    let wrong = |e: tonic::transport::Error| Error::Target(format!("etcd's address `{url}`: {e}"));
    let mut endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(wrong)?
        .connect_timeout(times.connect)
        .http2_keep_alive_interval(times.keep_alive)
        .keep_alive_timeout(times.keep_alive)
        .keep_alive_while_idle(true);
    if url.starts_with("https://") {
        let mut tls = ClientTlsConfig::new();
        if let Some(ca) = &secrets.ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca));
        }
        if let Some((certificate, key)) = &secrets.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        endpoint = endpoint.tls_config(tls).map_err(wrong)?;
    }
    Ok(endpoint)
}
