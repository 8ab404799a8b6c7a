//! Users of this machine by the claims of tokens.

use crate::settings_oidc::UserClaim;
use esker_access::accounts::{Accounts, LookupError};
use esker_access::jwt::TokenClaims;
use esker_model::object::Principal;

/// Longest login name in bytes.
const NAME_MAX: usize = 256;

/// Returns the name, id and groups of the user whom a token names; the error gives the reason.
pub(super) fn find(claims: &TokenClaims, by: &UserClaim) -> Result<(String, Principal), String> {
    let (said, account) = match by {
        UserClaim::Name(claim) => {
            let name = claims
                .text(claim)
                .filter(|name| name.len() <= NAME_MAX && !name.contains(char::is_control))
                .ok_or_else(|| missing(claim, "a login name"))?;
            (
                format!("no user `{name}`"),
                Accounts::system().by_login(name),
            )
        }
        UserClaim::Uid(claim) => {
            let uid = claims.claim(claim).and_then(|value| match value.as_str() {
                Some(text) => text.parse::<u32>().ok(),
                None => u32::try_from(value.as_u64()?).ok(),
            });
            let uid = uid.ok_or_else(|| missing(claim, "a user id"))?;
            (
                format!("no user with id {uid}"),
                Accounts::system().by_uid(uid),
            )
        }
    };
    let account = account.map_err(|e| match e {
        LookupError::NotFound => {
            format!("this server's machine has {said}: ask its administrator for an account")
        }
        LookupError::Unavailable(why) => why,
    })?;
    // A name at a provider must not give the rights of root, who reads everything.
    if account.uid == 0 {
        return Err(format!(
            "`{}` is the administrator of this server's machine, who does not log in by a provider",
            account.login
        ));
    }
    let principal = Principal {
        uid: i64::from(account.uid),
        gids: account.gids.iter().map(|gid| i64::from(*gid)).collect(),
    };
    Ok((account.login.clone(), principal))
}

fn missing(claim: &str, what: &str) -> String {
    format!(
        "the token has no claim `{claim}` with {what}: its provider must add it (the server's settings \
         oidc.user_claim, oidc.scopes)"
    )
}
