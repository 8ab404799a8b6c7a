//! Users of this machine by the claims of tokens.

use crate::settings_oidc::UserClaim;
use esker_access::jwt::TokenClaims;
use esker_model::object::Principal;
use nix::unistd::{Uid, User, getgrouplist};
use std::ffi::CString;

/// Longest login name in bytes.
const NAME_MAX: usize = 256;

/// Returns the name, id and groups of the user whom a token names; the error gives the reason.
pub(super) fn find(claims: &TokenClaims, by: &UserClaim) -> Result<(String, Principal), String> {
    let failed = |e: nix::Error| format!("the directory of this machine's users failed: {e}");
    let (said, user) = match by {
        UserClaim::Name(claim) => {
            let name = claims
                .text(claim)
                .filter(|name| name.len() <= NAME_MAX && !name.contains(char::is_control))
                .ok_or_else(|| missing(claim, "a login name"))?;
            let user = User::from_name(name).map_err(failed)?;
            (format!("no user `{name}`"), user)
        }
        UserClaim::Uid(claim) => {
            let uid = claims.claim(claim).and_then(|value| match value.as_str() {
                Some(text) => text.parse::<u32>().ok(),
                None => u32::try_from(value.as_u64()?).ok(),
            });
            let uid = uid.ok_or_else(|| missing(claim, "a user id"))?;
            let user = User::from_uid(Uid::from_raw(uid)).map_err(failed)?;
            (format!("no user with id {uid}"), user)
        }
    };
    let user = user.ok_or_else(|| {
        format!("this server's machine has {said}: ask its administrator for an account")
    })?;
    // A name at a provider must not give the rights of root, who reads everything.
    if user.uid.is_root() {
        return Err(format!(
            "`{}` is the administrator of this server's machine, who does not log in by a provider",
            user.name
        ));
    }
    let groups = CString::new(user.name.as_str())
        .map_err(|e| e.to_string())
        .and_then(|name| getgrouplist(&name, user.gid).map_err(failed))?;
    let principal = Principal {
        uid: i64::from(user.uid.as_raw()),
        gids: groups.iter().map(|gid| i64::from(gid.as_raw())).collect(),
    };
    Ok((user.name, principal))
}

fn missing(claim: &str, what: &str) -> String {
    format!(
        "the token has no claim `{claim}` with {what}: its provider must add it (the server's settings \
         oidc.user_claim, oidc.scopes)"
    )
}
