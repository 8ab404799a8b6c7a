//! `esker login` and `esker logout`: tokens of an OpenID provider for the commands of this user.

use crate::args::{LoginArgs, LogoutArgs};
use esker::rpc::Address;
use esker::rpc::http::{Endpoint, RequestBody};
use esker::rpc::oidc::device::PendingLogin;
use esker::rpc::oidc::stored::{StoredLogin, StoredTokens};
use esker::rpc::oidc::{Provider, is_issuer};
use esker_access::time_text;
use esker_model::Error;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use serde_json::Value as Json;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Time limit for the server's answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Largest answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Scope that asks for a token by which others are renewed.
const RENEWAL: &str = "offline_access";

/// The provider that a server names.
struct NamedProvider {
    issuer: String,
    client: String,
    scopes: String,
}

fn address_of(text: &str) -> anyhow::Result<Address> {
    if !Address::is_address(text) {
        return Err(usage(format!(
            "`{text}` is not the address of a server: esker://HOST:PORT"
        )));
    }
    Ok(Address::parse(text)?)
}

fn tokens() -> anyhow::Result<StoredTokens> {
    let none = || Error::Target("there is no home for the tokens: set HOME".into());
    Ok(StoredTokens::of_user().ok_or_else(none)?)
}

/// Asks a server for its provider, without a credential.
fn provider_of(address: &Address, stop: &dyn Fn() -> bool) -> anyhow::Result<NamedProvider> {
    let mut address = address.clone();
    address.trust.anonymous = true;
    let at = address.authority();
    let endpoint = Endpoint::from(&address);
    let until = Some(Instant::now() + ANSWER_TIME);
    let mut answer = endpoint.request(
        "GET",
        "/api/v1/oidc",
        &[],
        RequestBody::Nothing,
        stop,
        until,
    )?;
    let text = answer
        .text(ANSWER_BYTES_MAX)
        .map_err(|e| Error::io(format!("asking {at}"), e))?;
    let json: Option<Json> = serde_json::from_str(&text).ok();
    let value = |name: &str| json.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let named = (value("issuer"), value("client_id"), value("scopes"));
    match (answer.status, named) {
        (200, (Some(issuer), Some(client), Some(scopes))) if is_issuer(&issuer) => {
            Ok(NamedProvider {
                issuer,
                client,
                scopes,
            })
        }
        (200 | 404, _) => Err(Error::Target(format!(
            "the server at {at} has no OpenID provider: use an SSH key (`esker grant`), or let its administrator add one ([oidc] in its settings)"
        ))
        .into()),
        (status, _) => Err(Error::Target(format!(
            "the server at {at} names no OpenID provider (status {status})"
        ))
        .into()),
    }
}

pub(crate) fn login(args: &LoginArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let address = address_of(&args.address)?;
    let tokens = tokens()?;
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.stopped().is_some();
    let named = provider_of(&address, &stop)?;
    let provider = Provider::discover(&named.issuer, &stop)?;
    let scopes = format!("{} {RENEWAL}", named.scopes);
    let pending = PendingLogin::begin(&provider, &named.client, &scopes, &stop)?;
    writeln!(
        context.out,
        "Open this page in a browser, and enter the code:"
    )?;
    writeln!(context.out, "  {}", pending.page)?;
    writeln!(context.out, "  code {}", pending.user_code)?;
    if let Some(page) = &pending.page_with_code {
        writeln!(context.out, "Or open this page, which has the code:")?;
        writeln!(context.out, "  {page}")?;
    }
    context.out.flush()?;
    let issued = pending.wait(&stop)?;
    let login = StoredLogin {
        issuer: named.issuer,
        client: named.client,
        tokens: issued,
    };
    let at = address.authority();
    tokens.put(&at, &login)?;
    let until = time_text(login.expires()).unwrap_or_default();
    writeln!(context.out, "logged in at {at} until {until}")?;
    if login.tokens.refresh.is_none() {
        context.note("the provider issued no refresh token: log in again after that time");
    }
    Ok(Outcome::Done)
}

pub(crate) fn logout(args: &LogoutArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let at = address_of(&args.address)?.authority();
    if !tokens()?.remove(&at)? {
        return Err(Error::Target(format!("you are not logged in at {at}")).into());
    }
    writeln!(context.out, "logged out at {at}")?;
    Ok(Outcome::Done)
}
