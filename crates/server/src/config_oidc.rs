//! The section `[oidc]` of a server's settings.

use crate::settings_oidc::{CALLBACK, OidcSettings, SESSION_MAX, UserClaim};
use esker_config::{DeValue, Key, text, texts, time};
use esker_rpc::oidc::{is_issuer, is_private_url};

/// The section while the file is being read.
#[derive(Debug, Default)]
pub(crate) struct OidcDraft {
    settings: OidcSettings,
    /// Whether the section has any key.
    is_given: bool,
}

impl OidcDraft {
    /// Returns the settings, if there are any; the error names the key that is missing.
    pub(crate) fn finish(self) -> Result<Option<OidcSettings>, &'static str> {
        let settings = self.settings;
        if !self.is_given {
            return Ok(None);
        }
        if settings.issuer.is_empty() {
            return Err("oidc.issuer");
        }
        if settings.client.is_empty() {
            return Err("oidc.client_id");
        }
        Ok(Some(settings))
    }
}

/// Returns a text that fits into a request: visible ASCII.
fn token<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    text(value).filter(|t| t.bytes().all(|b| b.is_ascii_graphic()))
}

/// Stores a value of the section and notes that the section is given.
fn put(draft: &mut OidcDraft, store: impl FnOnce(&mut OidcSettings) -> Option<()>) -> Option<()> {
    draft.is_given = true;
    store(&mut draft.settings)
}

pub(crate) const OIDC_KEYS: [Key<OidcDraft>; 10] = [
    Key {
        path: "oidc.issuer",
        expected: "the address of an OpenID provider as in \"https://login.example.org/realms/lab\"; http:// is for this machine only",
        set: |d, v| {
            let issuer = token(v).filter(|t| is_issuer(t))?;
            put(d, |s| {
                issuer.clone_into(&mut s.issuer);
                Some(())
            })
        },
    },
    Key {
        path: "oidc.client_id",
        expected: "the name of this server as a client of the provider",
        set: |d, v| {
            let client = token(v)?;
            put(d, |s| {
                client.clone_into(&mut s.client);
                Some(())
            })
        },
    },
    Key {
        path: "oidc.client_secret_file",
        expected: "the path of a file that only its owner can read",
        set: |d, v| {
            let file = text(v)?;
            put(d, |s| {
                s.client_secret_file = Some(file.into());
                Some(())
            })
        },
    },
    Key {
        path: "oidc.device_client_id",
        expected: "the name under which `esker login` logs in, a client of the provider without a secret",
        set: |d, v| {
            let client = token(v)?;
            put(d, |s| {
                s.device_client = Some(client.to_owned());
                Some(())
            })
        },
    },
    Key {
        path: "oidc.audience",
        expected: "the audience of access tokens for this server, as in \"https://data.example.org\"",
        set: |d, v| {
            let audience = token(v)?;
            put(d, |s| {
                s.audience = Some(audience.to_owned());
                Some(())
            })
        },
    },
    Key {
        path: "oidc.user_claim",
        expected: "the name of the claim that has the user's login name here, as in \"preferred_username\"",
        set: |d, v| {
            let claim = token(v)?.to_owned();
            put(d, |s| {
                s.users = UserClaim::Name(claim);
                Some(())
            })
        },
    },
    Key {
        path: "oidc.uid_claim",
        expected: "the name of the claim that has the user's id here, a number, instead of `oidc.user_claim`",
        set: |d, v| {
            let claim = token(v)?.to_owned();
            put(d, |s| {
                s.users = UserClaim::Uid(claim);
                Some(())
            })
        },
    },
    Key {
        path: "oidc.scopes",
        expected: "a list of scopes with \"openid\", as in [\"openid\", \"profile\"]",
        set: |d, v| {
            let scopes = texts(v).filter(|all| all.iter().any(|s| s == "openid"))?;
            let plain = |s: &String| s.bytes().all(|b| b.is_ascii_graphic());
            if !scopes.iter().all(plain) {
                return None;
            }
            put(d, |s| {
                s.scopes = scopes.join(" ");
                Some(())
            })
        },
    },
    Key {
        path: "oidc.session",
        expected: "a time up to \"8h\"",
        set: |d, v| {
            let session = time(v).filter(|t| !t.is_zero() && *t <= SESSION_MAX)?;
            put(d, |s| {
                s.session = session;
                Some(())
            })
        },
    },
    Key {
        path: "oidc.redirect",
        expected: "the address of this server's /api/v1/oidc/callback for browsers, as in \
                   \"https://data.example.org/api/v1/oidc/callback\"",
        set: |d, v| {
            let address = token(v).filter(|t| is_private_url(t))?;
            if !address.ends_with(CALLBACK) {
                return None;
            }
            put(d, |s| {
                s.redirect = Some(address.to_owned());
                Some(())
            })
        },
    },
];
