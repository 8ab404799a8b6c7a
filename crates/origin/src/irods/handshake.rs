//! The start of a connection: introduction, TLS negotiation, version and login; and the error codes of iRODS.

use super::login::IrodsLogin;
use super::message::{self, Body, Message, call, pack};
use super::tls::{IrodsTransport, TlsPolicy};
use super::xml;
use crate::dav::base64;
use crate::error::{Error, Result, printable};
use tokio::io::{AsyncWriteExt as _, BufReader};

pub(super) const NO_FILE: i32 = -310;
/// The path belongs to no collection of the catalogue, so it does not exist.
pub(super) const NO_PATH: i32 = -358;
pub(super) const NO_ROWS: i32 = -808;
pub(super) const NO_COLLECTION: i32 = -814;
pub(super) const NO_DATA: i32 = -817;
const NO_ACCESS: i32 = -818;
const BAD_LOGIN: i32 = -826;
const BAD_USER: i32 = -827;
const EXPIRED: i32 = -840;
/// The catalogue is unavailable, too many queries are open, or the server lacks memory, files or processes.
const BUSY: [i32; 7] = [-803, -860, -16, -18, -38, -49, -105];

/// Size of the read buffer in bytes.
pub(super) const BUFFER: usize = 64 << 10;

/// A connection before it accepts requests.
pub(super) struct Handshake {
    pub(super) origin: Box<str>,
    pub(super) stream: BufReader<Box<dyn IrodsTransport>>,
}

impl Handshake {
    fn broken(&self, error: &std::io::Error) -> Error {
        let (origin, why) = (self.origin.clone(), io_error_text(error));
        Error::Broken { origin, why }
    }

    fn protocol_error(&self, why: &str) -> Error {
        let origin = self.origin.clone();
        let why = why.into();
        Error::Protocol { origin, why }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let sent = sent.await;
        sent.map_err(|e| self.broken(&e))
    }

    async fn read(&mut self) -> Result<Message> {
        let read = message::read(&mut self.stream).await;
        let message = read.map_err(|e| self.broken(&e))?;
        let message = message.map_err(|why| self.protocol_error(why))?;
        if message.info < 0 {
            return Err(refused(&self.origin, &message));
        }
        Ok(message)
    }

    async fn call(&mut self, bytes: &[u8]) -> Result<Message> {
        self.send(bytes).await?;
        self.read().await
    }

    fn field(&self, message: &Message, name: &str) -> Result<Vec<u8>> {
        let root = xml::parse(&message.body).map_err(|why| self.protocol_error(why))?;
        let lacks = || self.protocol_error(&format!("a message that lacks {name}"));
        root.string(name, false).ok_or_else(lacks)
    }

    /// Introduces the user, negotiates TLS and returns the server's version.
    pub(super) async fn begin(&mut self, login: &IrodsLogin, tls: &TlsPolicy) -> Result<Vec<u8>> {
        let (user, zone) = (login.user.as_bytes(), login.zone.as_bytes());
        let handshake = Body::new()
            .number("irodsProt", 1)
            .number("reconnFlag", 0)
            .number("connectCnt", 0)
            .put("proxyUser", user)
            .put("proxyRcatZone", zone)
            .put("clientUser", user)
            .put("clientRcatZone", zone)
            .put("relVersion", b"rods4.3.0")
            .put("apiVersion", b"d")
            .put("option", b"eskerrequest_server_negotiation");
        let mut secure = false;
        let mut message = self
            .call(&pack(
                "RODS_CONNECT",
                0,
                &handshake.within("StartupPack_PI"),
            ))
            .await?;
        if message.kind == b"RODS_CS_NEG_T" {
            let policy = self.field(&message, "result")?;
            let refuses = tls.required && policy == b"CS_NEG_REFUSE";
            secure = tls.required || policy == b"CS_NEG_REQUIRE";
            let (status, result) = match (refuses, secure) {
                (true, _) => (0, "cs_neg_result_kw=CS_NEG_FAILURE;"),
                (_, true) => (1, "cs_neg_result_kw=CS_NEG_USE_SSL;"),
                (_, false) => (1, "cs_neg_result_kw=CS_NEG_USE_TCP;"),
            };
            let body = Body::new()
                .number("status", status)
                .put("result", result.as_bytes());
            self.send(&pack("RODS_CS_NEG_T", 0, &body.within("CS_NEG_PI")))
                .await?;
            if refuses {
                return Err(self.no_tls());
            }
            message = self.read().await?;
        } else if tls.required {
            return Err(self.no_tls());
        }
        if message.kind != b"RODS_VERSION" {
            return Err(self.protocol_error("something other than its version first"));
        }
        let release = self.field(&message, "relVersion")?;
        if secure {
            self.secure(tls).await?;
        }
        Ok(release)
    }

    fn no_tls(&self) -> Error {
        Error::Unsupported {
            origin: self.origin.clone(),
            why:
                "it does not support TLS, and without it others could eavesdrop and answer in its \
                  place; to accept that, set \"irods_client_server_policy\": \"CS_NEG_REFUSE\" in \
                  irods_environment.json"
                    .into(),
        }
    }

    async fn secure(&mut self, tls: &TlsPolicy) -> Result<()> {
        if !self.stream.buffer().is_empty() {
            // Input before TLS may have been injected by an attacker.
            return Err(self.protocol_error("more data than expected before TLS"));
        }
        let empty: Box<dyn IrodsTransport> = Box::new(tokio::io::empty());
        let plain = std::mem::replace(&mut self.stream, BufReader::new(empty));
        let secured = tls.wrap(plain.into_inner(), &self.origin).await?;
        self.stream = BufReader::with_capacity(BUFFER, secured);
        Ok(())
    }

    /// Challenge-response authentication for servers before 4.3.
    pub(super) async fn log_in(&mut self, login: &IrodsLogin) -> Result<()> {
        let message = self
            .call(&pack("RODS_API_REQ", call::AUTH_REQUEST, b""))
            .await?;
        let challenge = self.field(&message, "challenge")?;
        let challenge = unbase64(&challenge)
            .ok_or_else(|| self.protocol_error("a challenge that is not in base 64"))?;
        let name = format!("{}#{}", login.user, login.zone);
        let body = Body::new()
            .put("response", base64(&login.response(&challenge)).as_bytes())
            .put("username", name.as_bytes());
        let body = body.within("authResponseInp_PI");
        self.call(&pack("RODS_API_REQ", call::AUTH_RESPONSE, &body))
            .await?;
        Ok(())
    }

    /// Challenge-response authentication with the message names of later servers.
    pub(super) async fn log_in_by_steps(&mut self, login: &IrodsLogin) -> Result<()> {
        let begin = serde_json::json!({
            "scheme": "native",
            "user_name": &*login.user,
            "zone_name": &*login.zone,
            "next_operation": "auth_agent_auth_request",
        });
        let mut state = self.step(&begin).await?;
        let challenge = state.get("request_result").and_then(|v| v.as_str());
        let challenge =
            challenge.ok_or_else(|| self.protocol_error("a login without a challenge"))?;
        let digest = base64(&login.response(challenge.as_bytes()));
        let Some(fields) = state.as_object_mut() else {
            return Err(self.protocol_error("a login without fields"));
        };
        for (name, value) in [
            ("digest", &*digest),
            ("next_operation", "auth_agent_auth_response"),
            ("scheme", "native"),
            ("user_name", &*login.user),
            ("zone_name", &*login.zone),
        ] {
            fields.insert(name.into(), value.into());
        }
        self.step(&state).await?;
        Ok(())
    }

    async fn step(&mut self, state: &serde_json::Value) -> Result<serde_json::Value> {
        let json = state.to_string();
        let body = Body::new()
            .number("buflen", json.len())
            .put("buf", base64(json.as_bytes()).as_bytes());
        let body = pack(
            "RODS_API_REQ",
            call::AUTHENTICATION,
            &body.within("BinBytesBuf_PI"),
        );
        let message = self.call(&body).await?;
        let mut json = unbase64(&self.field(&message, "buf")?).unwrap_or_default();
        // The server's text ends with a zero byte.
        json.retain(|b| *b != 0);
        serde_json::from_slice(&json)
            .map_err(|_| self.protocol_error("a login that is not in JSON"))
    }
}

/// Converts the negative result of a call to an error.
pub(super) fn refused(origin: &str, message: &Message) -> Error {
    let origin: Box<str> = origin.into();
    let words = printable(&message::error_text(&message.error));
    let said = |what: &str| -> Box<str> {
        let told = if words.is_empty() {
            String::new()
        } else {
            format!(": {words}")
        };
        format!("{what} (iRODS error {}{told})", message.info).into()
    };
    let code = message.info / 1000;
    match code {
        NO_ACCESS => {
            let why = said("no permission");
            Error::Denied { origin, why }
        }
        BAD_LOGIN => {
            let why = said("the password is wrong; run `iinit` again, or set IRODS_PASSWORD");
            Error::Denied { origin, why }
        }
        BAD_USER => {
            let why = said(
                "it knows no such user in this zone; are IRODS_USER_NAME and IRODS_ZONE_NAME right?",
            );
            Error::Denied { origin, why }
        }
        EXPIRED => {
            let why = said("the password has expired; run `iinit` again");
            Error::Denied { origin, why }
        }
        _ if BUSY.contains(&code) => {
            let why = said("too much to do");
            Error::Busy { origin, why }
        }
        _ => {
            let why = said("the call failed");
            Error::Denied { origin, why }
        }
    }
}

pub(super) fn io_error_text(error: &std::io::Error) -> Box<str> {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the server closed it".into(),
        _ => error.to_string().into(),
    }
}

/// Decodes base64 (RFC 4648, section 4); skips spaces and line breaks.
fn unbase64(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.iter().filter(|b| !b.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

/// Parses the numbers in `rods4.2.11`.
pub(super) fn version(text: &[u8]) -> (u32, u32, u32) {
    let text = String::from_utf8_lossy(text);
    let mut numbers = text
        .trim_start_matches("rods")
        .split('.')
        .map(|n| n.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn base64_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(unbase64(base64(&bytes).as_bytes()), Some(bytes.clone()));
            let _ = (unbase64(&bytes), version(&bytes));
        }
    }

    #[test]
    fn versions_are_compared() {
        assert!(version(b"rods4.2.11") >= (4, 2, 9) && version(b"rods4.2.8") < (4, 2, 9));
        assert!(version(b"rods4.3.0") == (4, 3, 0) && version(b"nothing") == (0, 0, 0));
    }
}
