//! JSON Web Tokens of an issuer (RFC 7519): signatures by the issuer's published keys (RFC 7517), and the claims that a server checks.
//!
//! *ring* verifies RS256, PS256, ES256 and `EdDSA`. No other algorithm is accepted: neither `none`, nor one with a shared secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value as Json};
use std::fmt;

/// Largest token in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Largest number of keys that an issuer may publish.
const KEYS_MAX: usize = 100;
/// Difference between the clocks of an issuer and of this machine that is accepted, in seconds.
pub const CLOCK_SKEW: i64 = 60;

/// Algorithms of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignatureKind {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl SignatureKind {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "PS256" => Self::Ps256,
            "ES256" => Self::Es256,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// Numbers of a public key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PublicNumbers {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of the curve P-256 without compression.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key by which an issuer signs tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IssuerKey {
    id: Option<String>,
    /// The only algorithm for which the issuer uses the key, if it says so.
    kind: Option<SignatureKind>,
    numbers: PublicNumbers,
}

/// The published keys of an issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet(Vec<IssuerKey>);

/// Reasons for refusing a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefused {
    /// The text is not a token of the expected form.
    Malformed(String),
    /// The token is signed by an algorithm that is not accepted.
    Algorithm(String),
    /// The issuer has not published the key that the token names.
    UnknownKey(String),
    /// The signature is not by the issuer's key.
    Signature,
    /// A claim differs from what is expected.
    Claim(String),
    /// The token's time is over.
    Expired(i64),
}

impl fmt::Display for TokenRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "it is not a signed JSON Web Token: {why}"),
            Self::Algorithm(name) => write!(
                f,
                "it is signed by the algorithm `{name}`; accepted are RS256, PS256, ES256 and EdDSA"
            ),
            Self::UnknownKey(id) => {
                write!(
                    f,
                    "its issuer has published no key `{id}` for such signatures"
                )
            }
            Self::Signature => f.write_str("its signature is not by its issuer's key"),
            Self::Claim(why) => f.write_str(why),
            Self::Expired(seconds) => write!(f, "it expired {seconds} s ago"),
        }
    }
}

fn malformed(why: &str) -> TokenRefused {
    TokenRefused::Malformed(why.to_owned())
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

impl IssuerKey {
    /// Reads a key of a set; `None` for keys of other kinds or for other uses, which a set may have.
    fn parse(json: &Json) -> Option<Self> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        if text("use").is_some_and(|u| u != "sig") {
            return None;
        }
        let number = |name: &str| bytes_of(text(name)?);
        let numbers = match (text("kty")?, text("crv")) {
            ("RSA", _) => PublicNumbers::Rsa {
                modulus: number("n")?,
                exponent: number("e")?,
            },
            ("EC", Some("P-256")) => {
                let (x, y) = (number("x")?, number("y")?);
                if (x.len(), y.len()) != (32, 32) {
                    return None;
                }
                PublicNumbers::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => PublicNumbers::Ed25519(number("x")?),
            _ => return None,
        };
        let kind = match text("alg") {
            Some(name) => Some(SignatureKind::parse(name)?),
            None => None,
        };
        let id = text("kid").map(str::to_owned);
        Some(Self { id, kind, numbers })
    }

    /// Whether the key makes signatures of a kind.
    fn fits(&self, kind: SignatureKind) -> bool {
        let own = match self.numbers {
            PublicNumbers::Rsa { .. } => {
                matches!(kind, SignatureKind::Rs256 | SignatureKind::Ps256)
            }
            PublicNumbers::P256(_) => kind == SignatureKind::Es256,
            PublicNumbers::Ed25519(_) => kind == SignatureKind::EdDsa,
        };
        own && self.kind.is_none_or(|only| only == kind)
    }

    fn verify(&self, kind: SignatureKind, bytes: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.numbers {
            PublicNumbers::Rsa { modulus, exponent } => {
                let parameters: &RsaParameters = match kind {
                    SignatureKind::Ps256 => &RSA_PSS_2048_8192_SHA256,
                    _ => &RSA_PKCS1_2048_8192_SHA256,
                };
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, bytes, signature)
            }
            PublicNumbers::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(bytes, signature)
            }
            PublicNumbers::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(bytes, signature)
            }
        };
        verified.is_ok()
    }
}

impl KeySet {
    /// Reads the document of an issuer's keys. Keys of other kinds are left out; a set without any usable key is an error.
    ///
    /// # Errors
    /// Returns a message that says why the document is no set of keys.
    pub fn parse(document: &Json) -> Result<Self, String> {
        let keys = document.get("keys").and_then(Json::as_array);
        let keys = keys.ok_or("expected a JSON object with a list `keys`")?;
        if keys.len() > KEYS_MAX {
            return Err(format!(
                "it has {} keys; at most {KEYS_MAX} are accepted",
                keys.len()
            ));
        }
        let usable: Vec<IssuerKey> = keys.iter().filter_map(IssuerKey::parse).collect();
        if usable.is_empty() {
            return Err("it has no key for signatures by RS256, PS256, ES256 or EdDSA".to_owned());
        }
        Ok(Self(usable))
    }

    /// Verifies a token's signature and returns its claims, of which none is checked yet.
    ///
    /// # Errors
    /// Returns why the token is refused.
    pub fn verify(&self, token: &str) -> Result<TokenClaims, TokenRefused> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(malformed("it is longer than 16 KiB"));
        }
        let (signed, signature) = token
            .rsplit_once('.')
            .ok_or_else(|| malformed("it has no signature"))?;
        let (header, claims) = signed
            .split_once('.')
            .filter(|(_, claims)| !claims.contains('.'))
            .ok_or_else(|| malformed("expected three parts"))?;
        let header = object_of(header, "header fields")?;
        let text = |name: &str| header.get(name).and_then(Json::as_str);
        let algorithm = text("alg").ok_or_else(|| malformed("its header has no `alg`"))?;
        let kind = SignatureKind::parse(algorithm)
            .ok_or_else(|| TokenRefused::Algorithm(algorithm.to_owned()))?;
        if header.contains_key("crit") {
            return Err(malformed("its header has critical extensions"));
        }
        let token_type = text("typ").map(str::to_ascii_lowercase);
        let is_access = match token_type.as_deref() {
            None | Some("jwt") => false,
            Some("at+jwt" | "application/at+jwt") => true,
            // Tokens for other purposes, such as `logout+jwt`, are signed by the same keys.
            Some(other) => return Err(malformed(&format!("its type is `{other}`"))),
        };
        let signature =
            bytes_of(signature).ok_or_else(|| malformed("its signature is not valid base64url"))?;
        let id = text("kid");
        let mut fitting = self
            .0
            .iter()
            .filter(|key| key.fits(kind) && (id.is_none() || key.id.as_deref() == id))
            .peekable();
        if fitting.peek().is_none() {
            return Err(TokenRefused::UnknownKey(id.unwrap_or("").to_owned()));
        }
        if !fitting.any(|key| key.verify(kind, signed.as_bytes(), &signature)) {
            return Err(TokenRefused::Signature);
        }
        Ok(TokenClaims {
            claims: object_of(claims, "claims")?,
            is_access,
        })
    }
}

/// Returns the challenge that a login sends in place of its verifier (RFC 7636, method S256).
pub fn pkce_challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

/// Decodes a part of a token that is a JSON object.
fn object_of(part: &str, what: &str) -> Result<Map<String, Json>, TokenRefused> {
    let bytes =
        bytes_of(part).ok_or_else(|| malformed(&format!("its {what} are not valid base64url")))?;
    serde_json::from_slice(&bytes)
        .map_err(|_| malformed(&format!("its {what} are not a JSON object")))
}

/// Claims of a token whose signature was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenClaims {
    claims: Map<String, Json>,
    /// Whether it is an access token by its type (RFC 9068).
    is_access: bool,
}

/// Values that the claims of a token must have.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedClaims<'a> {
    /// Address of the issuer.
    pub issuer: &'a str,
    /// Clients of the issuer whose ID tokens are accepted.
    pub clients: &'a [&'a str],
    /// Name of this server as the audience of access tokens.
    pub audience: Option<&'a str>,
    /// Value that a login sent; `None` for tokens that were obtained elsewhere.
    pub nonce: Option<&'a str>,
    /// Present time in seconds since 1970.
    pub now: i64,
}

impl TokenClaims {
    /// Returns a claim that is a non-empty text.
    pub fn text(&self, name: &str) -> Option<&str> {
        let text = self.claims.get(name).and_then(Json::as_str);
        text.filter(|text| !text.is_empty())
    }

    /// Returns any claim by its name.
    pub fn claim(&self, name: &str) -> Option<&Json> {
        self.claims.get(name)
    }

    /// Returns a time in whole seconds since 1970.
    fn time(&self, name: &str) -> Result<i64, TokenRefused> {
        let time = self.claims.get(name).and_then(Json::as_i64);
        time.ok_or_else(|| {
            TokenRefused::Claim(format!("its claim `{name}` is not a number of seconds"))
        })
    }

    fn audiences(&self) -> Vec<&str> {
        match self.claims.get("aud") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Checks issuer, audience, times and nonce; returns the subject and the end of the token in seconds since 1970.
    ///
    /// # Errors
    /// Returns the first claim that differs from what is expected.
    pub fn check(&self, expected: &ExpectedClaims<'_>) -> Result<(&str, i64), TokenRefused> {
        let claim = |why: String| Err(TokenRefused::Claim(why));
        match self.text("iss") {
            Some(issuer) if issuer == expected.issuer => {}
            other => {
                return claim(format!(
                    "its issuer is `{}`, and this server accepts tokens of `{}`",
                    other.unwrap_or_default(),
                    expected.issuer
                ));
            }
        }
        self.check_audience(expected)?;
        // A logout token has the audience of an ID token.
        if self.claims.contains_key("events") {
            return claim("it reports events and names no logged-in user".to_owned());
        }
        let (expires, issued) = (self.time("exp")?, self.time("iat")?);
        if expires.saturating_add(CLOCK_SKEW) <= expected.now {
            return Err(TokenRefused::Expired(expected.now.saturating_sub(expires)));
        }
        let latest = expected.now.saturating_add(CLOCK_SKEW);
        if issued > latest || (self.claims.contains_key("nbf") && self.time("nbf")? > latest) {
            return claim(
                "it is valid only in the future: compare the clocks of this machine and of the issuer"
                    .to_owned(),
            );
        }
        if let Some(nonce) = expected.nonce
            && self.text("nonce") != Some(nonce)
        {
            return claim("its claim `nonce` is not that of this login".to_owned());
        }
        let Some(subject) = self.text("sub") else {
            return claim("it has no claim `sub`".to_owned());
        };
        Ok((subject, expires))
    }

    /// An ID token is made for one of this server's clients, an access token for this server.
    fn check_audience(&self, expected: &ExpectedClaims<'_>) -> Result<(), TokenRefused> {
        let audiences = self.audiences();
        let for_server = expected.nonce.is_none()
            && expected
                .audience
                .is_some_and(|own| audiences.contains(&own));
        let is_client = |name: &str| expected.clients.contains(&name);
        let for_client = !self.is_access
            && audiences.iter().any(|audience| is_client(audience))
            && match self.text("azp") {
                Some(party) => is_client(party),
                None => audiences.len() == 1,
            };
        if for_server || for_client {
            return Ok(());
        }
        Err(TokenRefused::Claim(format!(
            "its audience is `{}`, which is not this server's",
            audiences.join(" ")
        )))
    }
}

#[cfg(test)]
mod tests;
