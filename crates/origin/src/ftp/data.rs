//! Listings over the data channel, for servers without listings on the control channel: one at a time, nothing else in flight.

use super::listing::{CommandResult, Format, Gather, ParsedListing};
use super::login::FtpTransport;
use super::reply::{Reply, command};
use super::session::ControlChannel;
use crate::error::{Error, Result};
use bytes::BytesMut;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum length of a line in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Abandons the connection on drop unless the listing finished, because later replies could not be matched.
struct AbandonOnDrop<'a>(&'a ControlChannel, bool);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.give_up();
        }
    }
}

impl ControlChannel {
    /// Lists over a data channel.
    pub(super) async fn by_data(
        &self,
        words: &[u8],
        format: Format,
    ) -> Result<CommandResult<ParsedListing>> {
        let _alone = self.data_gate.write().await;
        let mut midway = AbandonOnDrop(self, false);
        let result = self.by_data_alone(words, format).await;
        // No reply is outstanding after other results; after these errors the connection is unusable.
        midway.1 = !matches!(result, Err(Error::TimedOut { .. } | Error::Protocol { .. }));
        result
    }

    async fn by_data_alone(
        &self,
        words: &[u8],
        format: Format,
    ) -> Result<CommandResult<ParsedListing>> {
        let address = match self.passive().await? {
            Ok(address) => address,
            Err(reply) => return Ok(CommandResult::No(reply)),
        };
        let unreachable = |why: String| Error::Busy {
            origin: self.origin.clone(),
            why: format!("no data connection: {why}").into(),
        };
        let connected = timeout(self.silence, TcpStream::connect(address)).await;
        let connected = connected.map_err(|_| unreachable(format!("{address} does not answer")))?;
        let tcp = connected.map_err(|error| unreachable(error.to_string()))?;
        let reply = self.stream.request(command(words, &self.origin));
        let read = async {
            let wire: Box<dyn FtpTransport> = match &self.tls {
                Some(tls) => Box::new(tls.wrap(tcp).await?),
                None => Box::new(tcp),
            };
            let gather = self.gather(format, None);
            // The control channel is silent during the transfer.
            let comes = || self.stream.is_at_work();
            read(wire, gather, self.silence, &self.origin, comes).await
        };
        tokio::pin!(reply, read);
        // A refusal arrives on the control channel while the data channel stays silent.
        let (reply, listed) = tokio::select! {
            reply = &mut reply => {
                let reply = reply?;
                if !reply.is_well() {
                    return Ok(CommandResult::No(reply));
                }
                (reply, read.await?)
            }
            listed = &mut read => {
                // After a failed transfer no final reply can be expected.
                let listed = listed?;
                (reply.await?, listed)
            }
        };
        match reply.code {
            200..300 => Ok(CommandResult::Yes(listed)),
            425 | 426 => Err(self.busy(&reply)),
            _ => Ok(CommandResult::No(reply)),
        }
    }

    /// Asks for the address of a data connection (EPSV or PASV).
    async fn passive(&self) -> Result<Result<SocketAddr, Reply>> {
        let bad = |reply: &Reply| Error::Protocol {
            origin: self.origin.clone(),
            why: format!("no address in `{}`", reply.printable()).into(),
        };
        if self.capabilities().epsv {
            let reply = self.stream.request(command(b"EPSV", &self.origin)).await?;
            if reply.code == 229 {
                let port = extended(&reply.text()).ok_or_else(|| bad(&reply))?;
                return Ok(Ok((self.peer, port).into()));
            }
            self.learn(|capabilities| capabilities.epsv = false);
        }
        let reply = self.stream.request(command(b"PASV", &self.origin)).await?;
        if reply.code != 227 {
            return Ok(Err(reply));
        }
        let address = passive(&reply.text()).ok_or_else(|| bad(&reply))?;
        // Only the port counts: another address is behind the server's router, or belongs to somebody else.
        Ok(Ok((self.peer, address.port()).into()))
    }
}

/// Parses the port in `229 … (|||6446|)`.
pub(super) fn extended(text: &[u8]) -> Option<u16> {
    let open = text.iter().position(|b| *b == b'(')?;
    let inner = text.get(open + 1..)?;
    let inner = inner.get(..inner.iter().position(|b| *b == b')')?)?;
    let mark = *inner.first()?;
    if !(33..=126).contains(&mark) || mark.is_ascii_digit() {
        return None;
    }
    let mut parts = inner.split(|b| *b == mark);
    let (_, _, _, port, end) = (
        parts.next()?,
        parts.next()?,
        parts.next()?,
        parts.next()?,
        parts.next()?,
    );
    let port = super::time::digits(port).filter(|p| (1..=65535).contains(p))?;
    (end.is_empty() && parts.next().is_none()).then_some(port as u16)
}

/// Parses the address in `227 … (127,0,0,1,159,176)`; some servers omit the parentheses.
pub(super) fn passive(text: &[u8]) -> Option<SocketAddr> {
    let is_part = |b: &u8| b.is_ascii_digit() || *b == b',';
    text.split(|b| !is_part(b)).find_map(|run| {
        let numbers: Option<Vec<u64>> =
            run.split(|b| *b == b',').map(super::time::digits).collect();
        let numbers = numbers?;
        let bytes: Vec<u8> = numbers
            .iter()
            .map(|n| u8::try_from(*n).ok())
            .collect::<Option<_>>()?;
        let &[a, b, c, d, high, low] = &bytes[..] else {
            return None;
        };
        let port = u16::from(high) << 8 | u16::from(low);
        (port > 0).then(|| (Ipv4Addr::new(a, b, c, d), port).into())
    })
}

/// Reads a listing until the data connection ends.
pub(super) async fn read<R: AsyncRead + Unpin>(
    mut from: R,
    mut gather: Gather,
    silence: Duration,
    origin: &str,
    comes: impl Fn(),
) -> Result<ParsedListing> {
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(32 << 10);
        let read = timeout(silence, from.read_buf(&mut bytes)).await;
        let read = read.map_err(|_| Error::TimedOut {
            origin: origin.into(),
            seconds: silence.as_secs(),
        })?;
        let count = match read {
            Ok(count) => count,
            // Many servers end TLS without a close message; the control channel says whether the transfer is complete.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            Err(error) => {
                return Err(Error::Broken {
                    origin: origin.into(),
                    why: format!("the data connection: {error}").into(),
                });
            }
        };
        comes();
        while let Some(at) = bytes.iter().position(|b| *b == b'\n') {
            let line = bytes.split_to(at + 1);
            gather.line(line.get(..at).unwrap_or_default())?;
        }
        if count == 0 {
            if !bytes.is_empty() {
                gather.line(&bytes)?;
            }
            return Ok(gather.finish());
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(Error::Protocol {
                origin: origin.into(),
                why: "a line of a listing has no end".into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn where_the_data_is() {
        assert_eq!(
            extended(b"Entering Extended Passive Mode (|||25118|)"),
            Some(25118)
        );
        assert_eq!(extended(b"ok (!!!1!)."), Some(1));
        for bad in [
            &b""[..],
            b"(|||0|)",
            b"(|||65536|)",
            b"(|||1)",
            b"(||1|)",
            b"(1111211)",
            b"(|||1||)",
        ] {
            assert_eq!(extended(bad), None);
        }
        let address = passive(b"Entering Passive Mode (127,0,0,1,159,176).").unwrap();
        assert_eq!(address.to_string(), "127.0.0.1:40880");
        assert!(passive(b"Entering Passive Mode. 127,0,0,1,0,21").is_some());
        for bad in [
            &b""[..],
            b"(127,0,0,1,0,0)",
            b"(1,2,3,4,5)",
            b"(1,2,3,4,5,256)",
            b"(1,2,3,4,5,6,7)",
        ] {
            assert_eq!(passive(bad), None);
        }
    }

    proptest! {
        #[test]
        fn any_reply_is_read_or_not(text in prop::collection::vec(prop_oneof![Just(b'('), Just(b'|'), Just(b','), b'0'..=b'9', any::<u8>()], 0..60)) {
            let _ = extended(&text);
            let _ = passive(&text);
        }
    }
}
