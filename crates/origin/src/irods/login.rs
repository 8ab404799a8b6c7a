//! Accounts of iRODS and its native authentication.
//!
//! `iinit` of the icommands writes `~/.irods/irods_environment.json` and the password to `~/.irods/.irodsA`, obfuscated but not
//! encrypted. Both are read here, and `IRODS_USER_NAME`, `IRODS_ZONE_NAME` and `IRODS_PASSWORD`.

use crate::error::{Error, Result};
use crate::origin_url::OriginUrl;
use md5::{Digest as _, Md5};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Maximum length of a password; shorter ones are padded with zeros.
const PASSWORD_MAX: usize = 50;
/// Maximum size of a file in bytes.
const FILE_MAX: u64 = 1 << 20;

/// An iRODS account with its password.
#[derive(Clone, PartialEq, Eq)]
pub struct IrodsLogin {
    /// The name of the user.
    pub user: Box<str>,
    /// The zone of the user.
    pub zone: Box<str>,
    /// The password; empty for `anonymous`.
    pub password: Box<str>,
}

/// Omits the password.
impl fmt::Debug for IrodsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.user, self.zone)
    }
}

impl IrodsLogin {
    /// Finds the account for an origin in the environment and the files of the user. A URL may contain `user%23zone@`.
    pub fn find(origin_url: &OriginUrl) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let folder = std::env::home_dir().unwrap_or_default().join(".irods");
        let path = |name: &str, file: &str| {
            variable(name).map_or_else(|| folder.join(file), PathBuf::from)
        };
        let environment = path("IRODS_ENVIRONMENT_FILE", "irods_environment.json");
        let hidden = path("IRODS_AUTHENTICATION_FILE", ".irodsA");
        Self::of(
            origin_url,
            &variable,
            &read(&environment).unwrap_or_default(),
            &|| {
                let owner = std::fs::metadata(&hidden).ok()?.uid();
                reveal(&read(&hidden)?, owner)
            },
        )
    }

    fn of(
        origin_url: &OriginUrl,
        variable: &dyn Fn(&str) -> Option<String>,
        environment: &str,
        hidden: &dyn Fn() -> Option<String>,
    ) -> Result<Self> {
        let settings: serde_json::Value = serde_json::from_str(environment).unwrap_or_default();
        let setting = |name: &str| settings.get(name)?.as_str().map(str::to_owned);
        let bad = |why: &str| Error::InvalidName {
            what: origin_url.to_string().into(),
            why: why.into(),
        };
        let named = origin_url
            .user
            .as_deref()
            .map(|u| u.split_once('#').unwrap_or((u, "")));
        let (user, zone) = named.unwrap_or_default();
        let filled = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
        let user = filled(user)
            .or_else(|| variable("IRODS_USER_NAME"))
            .or_else(|| setting("irods_user_name"));
        let zone = filled(zone)
            .or_else(|| variable("IRODS_ZONE_NAME"))
            .or_else(|| setting("irods_zone_name"));
        let user = user.ok_or_else(|| {
            bad("as whom? Run `iinit`, set IRODS_USER_NAME, or write irods://USER%23ZONE@HOST/")
        })?;
        let zone = zone.ok_or_else(|| {
            bad("of which zone is the user? Run `iinit`, set IRODS_ZONE_NAME, or write irods://USER%23ZONE@HOST/")
        })?;
        // The obfuscated password belongs to the user in the environment file only.
        let own = setting("irods_user_name").is_none_or(|own| own == user);
        let password = variable("IRODS_PASSWORD")
            .or_else(|| own.then(hidden).flatten())
            .unwrap_or_default();
        if password.is_empty() && user != "anonymous" {
            return Err(bad(
                "there is no password: run `iinit`, or set IRODS_PASSWORD",
            ));
        }
        Ok(Self {
            user: user.into(),
            zone: zone.into(),
            password: password.into(),
        })
    }

    /// Computes the response to a server's challenge.
    pub(super) fn response(&self, challenge: &[u8]) -> [u8; 16] {
        let mut password = self.password.trim().as_bytes().to_vec();
        password.resize(PASSWORD_MAX, 0);
        let mut hash = Md5::new();
        hash.update(challenge);
        hash.update(&password);
        // The server handles the response as zero-terminated text.
        <[u8; 16]>::from(hash.finalize()).map(|b| b.max(1))
    }
}

/// Returns whether TLS is required, and the certificates file from the user's environment. TLS is required unless the environment
/// refuses it (`"irods_client_server_policy": "CS_NEG_REFUSE"`), so that no server or attacker can switch it off.
pub(super) fn tls() -> (bool, Option<PathBuf>) {
    let folder = std::env::home_dir().unwrap_or_default().join(".irods");
    let path = std::env::var_os("IRODS_ENVIRONMENT_FILE")
        .map_or_else(|| folder.join("irods_environment.json"), PathBuf::from);
    tls_of(&read(&path).unwrap_or_default())
}

fn tls_of(environment: &str) -> (bool, Option<PathBuf>) {
    let settings: serde_json::Value = serde_json::from_str(environment).unwrap_or_default();
    let setting = |name: &str| settings.get(name).and_then(|v| v.as_str());
    let required = setting("irods_client_server_policy") != Some("CS_NEG_REFUSE");
    let trusted = setting("irods_ssl_ca_certificate_file").filter(|f| !f.is_empty());
    (required, trusted.map(PathBuf::from))
}

fn read(path: &Path) -> Option<String> {
    let short = std::fs::metadata(path).ok()?.len() <= FILE_MAX;
    short.then(|| std::fs::read_to_string(path).ok()).flatten()
}

/// Shift amounts of the password obfuscation.
const SHIFTS: [u32; 16] = [
    0xd768_b678,
    0xedfd_af56,
    0x2420_231b,
    0x9870_98d8,
    0xc1bd_feee,
    0xf572_341f,
    0x478d_ef3a,
    0xa830_d343,
    0x774d_fa2a,
    0x6720_731e,
    0x346f_a320,
    0x6ffd_f43a,
    0x7723_a320,
    0xdf67_d02e,
    0x86ad_240a,
    0xe76d_342e,
];

/// The cyclic alphabet that is shifted: digits, capitals, small letters, and `!` to `/`.
fn circle() -> Vec<u8> {
    let ranges = [b'0'..=b'9', b'A'..=b'Z', b'a'..=b'z', b'!'..=b'/'];
    ranges.into_iter().flatten().collect()
}

/// Decodes the password in `.irodsA` for the user with this number: after a dot and five unused bytes comes the index of a shift,
/// then the password, each character moved along the alphabet.
fn reveal(text: &str, user: u32) -> Option<String> {
    let bytes = text.as_bytes();
    let choice = bytes.get(6)?.checked_sub(b'e')?;
    let shift = *SHIFTS.get(usize::from(choice))?;
    let circle = circle();
    let mut by = 15;
    let mut out = Vec::new();
    for byte in &bytes[7..] {
        if matches!(byte, 0 | b'\n' | b'\r') {
            break;
        }
        let back = ((shift >> by) & 0x1f) as usize + (user & 0xf5f) as usize;
        by = if by + 3 > 28 { 0 } else { by + 3 };
        out.push(match circle.iter().position(|c| c == byte) {
            Some(at) => circle[(at + circle.len() * 64 - back) % circle.len()],
            None => *byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENVIRONMENT: &str =
        r#"{"irods_user_name": "ann", "irods_zone_name": "lab", "irods_port": 1247}"#;

    fn found(url: &str, environment: &str) -> Result<IrodsLogin> {
        let origin_url = OriginUrl::parse(url).unwrap().0;
        IrodsLogin::of(&origin_url, &|_| None, environment, &|| Some("word".into()))
    }

    #[test]
    fn users_are_found_where_they_are_kept() {
        let login = found("irods://host/", ENVIRONMENT).unwrap();
        assert_eq!(format!("{login:?} {}", login.password), "ann#lab word");
        let login = found("irods://bob%23far@host/", "").unwrap();
        assert_eq!(format!("{login:?}"), "bob#far");
        let error = found("irods://host/", "").unwrap_err().to_string();
        assert!(error.contains("iinit"), "{error}");
        // The obfuscated password is not bob's.
        assert!(found("irods://bob@host/", ENVIRONMENT).is_err());
        assert!(found("irods://anonymous@host/", ENVIRONMENT).is_ok());
    }

    /// Passwords obfuscated by python-irodsclient for three user numbers.
    #[test]
    fn hidden_passwords_are_revealed() {
        for (user, text) in [
            (0, ".qpz1me*%Qz2#) xB)$~\0"),
            (1000, ".jis*fe#xJs+v\" q4\"w~\0"),
            (70_000, ".32CT/eMHsCUFL AdLG~\0"),
        ] {
            assert_eq!(reveal(text, user).as_deref(), Some("se/cret W0rd~"));
        }
    }

    #[test]
    fn the_environment_says_whether_tls() {
        // No policy of the server disables TLS.
        assert_eq!(tls_of(ENVIRONMENT), (true, None));
        assert_eq!(tls_of("nonsense"), (true, None));
        let text = r#"{"irods_client_server_policy": "CS_NEG_DONT_CARE"}"#;
        assert_eq!(tls_of(text), (true, None));
        let text = r#"{"irods_client_server_policy": "CS_NEG_REFUSE"}"#;
        assert_eq!(tls_of(text), (false, None));
        let text = r#"{"irods_client_server_policy": "CS_NEG_REQUIRE", "irods_ssl_ca_certificate_file": "/ca"}"#;
        assert_eq!(tls_of(text), (true, Some("/ca".into())));
    }

    proptest! {
        #[test]
        fn any_file_is_read(text in "\\PC{0,40}", user: u32) {
            let _ = reveal(&text, user);
            let _ = found("irods://host/", &text);
        }
    }
}
