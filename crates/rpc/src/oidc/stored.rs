//! Tokens that `esker login` keeps for later commands: the file `~/.esker/tokens`, JSON by the addresses of servers.
//!
//! A token is sent only to the server for which its user has logged in, over TLS after the server has proved itself. An expired one is
//! renewed by one command at a time, because a provider may accept a refresh token once.

use super::{ClientCredentials, IssuedTokens, Provider};
use crate::Address;
use crate::logins::use_logins;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use esker_access::{Folder, home, own_folder, read_secret, replace_file, rights};
use esker_model::{Error, Result};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// Time before its end at which a token is renewed, in seconds.
const RENEW_BEFORE: i64 = 30;
/// Name of the file in `~/.esker`.
const NAME: &str = "tokens";

/// The tokens of this process's user.
#[derive(Debug, Clone)]
pub struct StoredTokens {
    folder: PathBuf,
}

/// Login at one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLogin {
    /// Address of the provider.
    pub issuer: String,
    /// Client as which the command logged in.
    pub client: String,
    /// Tokens that the provider issued last.
    pub tokens: IssuedTokens,
}

/// Returns a claim of a token without checking the token: the server does that.
fn unchecked_claim(token: &str, name: &str) -> Option<Json> {
    let claims = token.split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Json = serde_json::from_slice(&bytes).ok()?;
    claims.get(name).cloned()
}

impl StoredLogin {
    /// Seconds since 1970 at which the token expires.
    pub fn expires(&self) -> i64 {
        let claim = unchecked_claim(&self.tokens.id, "exp");
        claim.and_then(|time| time.as_i64()).unwrap_or(0)
    }

    fn parse(json: &Json) -> Option<Self> {
        let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        Some(Self {
            issuer: text("issuer")?,
            client: text("client")?,
            tokens: IssuedTokens {
                id: text("token")?,
                refresh: text("refresh"),
            },
        })
    }

    fn json(&self) -> Json {
        json!({
            "issuer": self.issuer,
            "client": self.client,
            "token": self.tokens.id,
            "refresh": self.tokens.refresh,
        })
    }

    /// Renews an expired token; without a refresh token the user must log in again.
    fn renewed(self, server: &str) -> Result<Self> {
        let again = format!("log in again: `esker login esker://{server}`");
        let Some(refresh) = &self.tokens.refresh else {
            return Err(Error::Target(format!(
                "the login at {server} has expired: {again}"
            )));
        };
        let credentials = ClientCredentials {
            id: &self.client,
            secret: None,
        };
        let renewed = Provider::discover(&self.issuer, &|| false)
            .and_then(|provider| provider.refresh(credentials, refresh));
        let mut tokens = renewed.map_err(|e| {
            Error::Target(format!(
                "the login at {server} has expired and was not renewed: {e}; {again}"
            ))
        })?;
        // A provider that returns no new refresh token means the old one.
        tokens.refresh = tokens.refresh.or(self.tokens.refresh);
        Ok(Self { tokens, ..self })
    }
}

impl StoredTokens {
    /// The tokens in `~/.esker`; `None` for a process without a home.
    pub fn of_user() -> Option<Self> {
        home().map(|folder| Self { folder })
    }

    /// The tokens in another folder.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    fn read(&self) -> Result<Map<String, Json>> {
        let Some(text) = read_secret(&self.path())? else {
            return Ok(Map::new());
        };
        serde_json::from_str(&text).map_err(|e| {
            Error::Target(format!(
                "`{}` does not contain tokens ({e}): remove it, and log in again by `esker login`",
                self.path().display()
            ))
        })
    }

    fn write(&self, all: &Map<String, Json>) -> Result<()> {
        let text = serde_json::to_string_pretty(all).unwrap_or_default() + "\n";
        replace_file(&self.path(), 0o600, text.as_bytes())
    }

    fn lock(&self) -> Result<std::fs::File> {
        own_folder(&self.folder)?;
        Folder::open(&self.folder)?.lock()
    }

    /// Stores the login at a server (`HOST:PORT`).
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn put(&self, server: &str, login: &StoredLogin) -> Result<()> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        all.insert(server.to_owned(), login.json());
        self.write(&all)
    }

    /// Removes the login at a server; returns whether there was one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn remove(&self, server: &str) -> Result<bool> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let removed = all.shift_remove(server).is_some();
        if removed {
            self.write(&all)?;
        }
        Ok(removed)
    }

    /// Returns the login at a server, as it is stored.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn get(&self, server: &str) -> Result<Option<StoredLogin>> {
        Ok(self.read()?.get(server).and_then(StoredLogin::parse))
    }

    /// Returns a token for a server that is valid now, and renews an expired one; `None` without a login at that server.
    ///
    /// # Errors
    /// Returns an error if the login has expired and cannot be renewed.
    pub fn valid_token(&self, server: &str) -> Result<Option<String>> {
        let fresh = |login: &StoredLogin| login.expires() > rights::now() + RENEW_BEFORE;
        match self.get(server)? {
            None => return Ok(None),
            Some(login) if fresh(&login) => return Ok(Some(login.tokens.id)),
            Some(_) => {}
        }
        let _lock = self.lock()?;
        let mut all = self.read()?;
        // Another command may have renewed it meanwhile.
        let Some(login) = all.get(server).and_then(StoredLogin::parse) else {
            return Ok(None);
        };
        let login = if fresh(&login) {
            login
        } else {
            let login = login.renewed(server)?;
            all.insert(server.to_owned(), login.json());
            self.write(&all)?;
            login
        };
        Ok(Some(login.tokens.id))
    }
}

/// Makes the clients of this process send the tokens of its user's logins.
pub fn use_stored_logins() {
    use_logins(authorization);
}

/// Returns the token of this process's user for a server, as the text of the header `authorization`.
fn authorization(address: &Address) -> Result<Option<String>> {
    let Some(stored) = StoredTokens::of_user() else {
        return Ok(None);
    };
    let token = stored.valid_token(&address.authority())?;
    Ok(token.map(|token| format!("Bearer {token}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn login(expires: i64, refresh: Option<&str>) -> StoredLogin {
        let claims = json!({"exp": expires}).to_string();
        StoredLogin {
            issuer: "http://127.0.0.1:1".into(),
            client: "esker-command".into(),
            tokens: IssuedTokens {
                id: format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims)),
                refresh: refresh.map(str::to_owned),
            },
        }
    }

    #[test]
    fn a_login_is_kept_for_its_server_and_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredTokens::in_folder(dir.path().join("esker"));
        assert_eq!(stored.get("a:1").unwrap(), None);
        let login = login(rights::now() + 300, Some("r"));
        stored.put("a:1", &login).unwrap();
        assert_eq!(stored.get("a:1").unwrap(), Some(login.clone()));
        assert_eq!(stored.valid_token("a:1").unwrap(), Some(login.tokens.id));
        assert_eq!(stored.valid_token("a:2").unwrap(), None);
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(stored.path()), 0o600);
        assert_eq!(mode(dir.path().join("esker")), 0o700);
        assert!(stored.remove("a:1").unwrap() && !stored.remove("a:1").unwrap());
        // A file that others can read is not used.
        std::fs::set_permissions(stored.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            stored
                .get("a:1")
                .unwrap_err()
                .to_string()
                .contains("chmod 600")
        );
    }

    #[test]
    fn an_expired_login_says_how_to_get_another() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredTokens::in_folder(dir.path().to_path_buf());
        stored.put("a:1", &login(rights::now(), None)).unwrap();
        let e = stored.valid_token("a:1").unwrap_err().to_string();
        assert_eq!(
            e,
            "the login at a:1 has expired: log in again: `esker login esker://a:1`"
        );
        stored.put("a:1", &login(rights::now(), Some("r"))).unwrap();
        let e = stored.valid_token("a:1").unwrap_err().to_string();
        assert!(
            e.contains("was not renewed: the OpenID provider `http://127.0.0.1:1`"),
            "{e}"
        );
        // The login remains, so that it is renewed once the provider is back.
        assert!(stored.get("a:1").unwrap().is_some());
    }
}
