//! Fallbacks when a server refuses a command or may have misread its path.

use super::refusal::{self, Refusal};
use super::reply::{Reply, command};
use super::session::{ControlChannel, ListOutcome, command_with_path, divide};
use super::time;
use crate::error::{Error, Result, printable};
use crate::request::PathMetadata;
use esker_site_cache::entry::{Attributes, Kind};

impl ControlChannel {
    /// Resolves a refusal: tries other commands until the path is known to be absent, denied or present.
    pub(super) async fn refused(
        &self,
        path: &[u8],
        reply: &Reply,
        refusal: Refusal,
    ) -> Result<PathMetadata> {
        match refusal {
            Refusal::Absent => return Ok(PathMetadata::Absent),
            Refusal::Denied => return Err(self.denied(path, &reply.printable())),
            Refusal::Busy => return Err(self.busy(reply)),
            Refusal::Unsupported | Refusal::Unclear => {}
        }
        // Another command may return a clearer message.
        if self.stat_lists().await? {
            match self.stat_line(path).await? {
                Ok(found) => return Ok(found),
                Err(reply) => match refusal::read(&reply, path) {
                    Refusal::Absent => return Ok(PathMetadata::Absent),
                    Refusal::Denied => return Err(self.denied(path, &reply.printable())),
                    Refusal::Busy if reply.code != 0 => return Err(self.busy(&reply)),
                    _ => {}
                },
            }
        }
        self.by_parent(path, reply).await
    }

    /// Looks for the name in the parent directory. If the parent cannot be listed, the path is not reported as absent.
    pub(super) async fn by_parent(&self, path: &[u8], why: &Reply) -> Result<PathMetadata> {
        let Some((parent, name)) = divide(path) else {
            return Err(self.denied(path, &why.printable()));
        };
        match &*self.list_shared(parent).await? {
            ListOutcome::Listed(listed, complete) => {
                let at = listed.children.binary_search_by(|c| (*c.name).cmp(name));
                match at {
                    Ok(at) => {
                        let child = listed.children.get(at);
                        let attributes = child.map(|c| c.attributes.clone()).unwrap_or_default();
                        Ok(PathMetadata::Present(attributes))
                    }
                    Err(_) if *complete => Ok(PathMetadata::Absent),
                    Err(_) => self.basic_attributes(path, false).await,
                }
            }
            ListOutcome::Refused(reply) if refusal::read(reply, parent) == Refusal::Busy => {
                Err(self.busy(reply))
            }
            ListOutcome::Nothing | ListOutcome::Refused(_) => match self.stat(parent).await {
                Ok(
                    PathMetadata::Absent
                    | PathMetadata::Present(Attributes {
                        kind: Kind::File | Kind::Other,
                        ..
                    }),
                ) => Ok(PathMetadata::Absent),
                Err(error) if error.is_transient() => Err(error),
                // Entries can be reachable even if the directory cannot be read.
                Ok(_) | Err(_) => self.basic_attributes(path, false).await,
            },
        }
    }

    /// Looks for a non-ASCII name in the parent directory, because the server may have dropped bytes of the path.
    pub(super) async fn by_bytes(&self, path: &[u8]) -> Result<PathMetadata> {
        let Some((parent, name)) = divide(path) else {
            return Ok(PathMetadata::Absent);
        };
        if !parent.is_ascii() {
            let above = self.stat(parent).await?;
            return match (above, self.capabilities().bytes) {
                (PathMetadata::Absent, _) | (_, Some(true)) => Ok(PathMetadata::Absent),
                _ => Err(self.garbled(path)),
            };
        }
        match &*self.list_shared(parent).await? {
            ListOutcome::Listed(listed, complete) => {
                if let Some(child) = listed.children.iter().find(|c| &*c.name == name) {
                    self.learn(|capabilities| capabilities.bytes = Some(false));
                    return Ok(PathMetadata::Present(child.attributes.clone()));
                }
                if *complete {
                    Ok(PathMetadata::Absent)
                } else {
                    Err(self.garbled(path))
                }
            }
            ListOutcome::Nothing | ListOutcome::Refused(_) => match self.stat(parent).await? {
                PathMetadata::Present(Attributes {
                    kind: Kind::Directory | Kind::Link | Kind::Unknown,
                    ..
                }) => Err(self.denied(path, "the parent directory cannot be read")),
                _ => Ok(PathMetadata::Absent),
            },
        }
    }

    pub(super) fn garbled(&self, path: &[u8]) -> Error {
        Error::Unsupported {
            origin: self.origin.clone(),
            why: format!(
                "{}: it loses the bytes of a path that are not ASCII",
                printable(path)
            )
            .into(),
        }
    }

    /// Returns size and time of a file or of a link's target, without reading a directory.
    pub(super) async fn size_and_time(&self, path: &[u8]) -> Result<Option<Attributes>> {
        let request = |words: &[u8]| {
            let words = command_with_path(words, path);
            async move { self.say(command(&words, &self.origin)).await }
        };
        let (size, modified) = tokio::join!(request(b"SIZE"), request(b"MDTM"));
        let (size, modified) = (size?, modified?);
        if size.code != 213 || modified.code != 213 {
            return Ok(None);
        }
        Ok(Some(Attributes {
            size: time::digits(size.text().trim_ascii()),
            modified: time::stamp(modified.text().trim_ascii()),
            ..Attributes::of(Kind::File)
        }))
    }

    /// Returns size, time and whether CWD succeeds: all that old servers offer.
    pub(super) async fn basic_attributes(
        &self,
        path: &[u8],
        ask_parent: bool,
    ) -> Result<PathMetadata> {
        let request = |words: &[u8]| {
            let words = command_with_path(words, path);
            async move { self.say(command(&words, &self.origin)).await }
        };
        let (size, modified, go) =
            tokio::join!(request(b"SIZE"), request(b"MDTM"), request(b"CWD"));
        let (size, modified_reply, go) = (size?, modified?, go?);
        if go.is_well() {
            return Ok(PathMetadata::Present(Attributes::of(Kind::Directory)));
        }
        let number = |reply: &Reply| (reply.code == 213).then(|| reply.text());
        let modified = number(&modified_reply).and_then(|text| time::stamp(text.trim_ascii()));
        if let Some(text) = number(&size) {
            return Ok(PathMetadata::Present(Attributes {
                size: time::digits(text.trim_ascii()),
                modified,
                ..Attributes::of(Kind::File)
            }));
        }
        let all = [&go, &size, &modified_reply].map(|reply| refusal::read(reply, path));
        let denied = all.contains(&Refusal::Denied);
        // A directory that refuses CWD may still be visible to its parent's readers.
        if denied && !ask_parent {
            return Err(self.denied(path, &go.printable()));
        }
        if all.contains(&Refusal::Absent) && ask_parent && !denied {
            return Ok(PathMetadata::Absent);
        }
        if all.contains(&Refusal::Busy) {
            return Err(self.busy(&go));
        }
        if ask_parent {
            return Box::pin(self.by_parent(path, &go)).await;
        }
        Err(self.denied(
            path,
            &format!("it does not list the directory ({})", go.printable()),
        ))
    }
}
