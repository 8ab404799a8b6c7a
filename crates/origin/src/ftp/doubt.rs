//! When a server says no, or may not have understood: what can still be found out.

use super::reply::{Reply, command};
use super::session::{Control, Looked, divide, said};
use super::time;
use super::words::{self, Refusal};
use crate::error::{Error, Result, shown};
use crate::question::Found;
use esker_site_cache::entry::{Attributes, Kind};

impl Control {
    /// A refusal, and what can be found out about its meaning.
    pub(super) async fn refused(
        &self,
        path: &[u8],
        reply: &Reply,
        refusal: Refusal,
    ) -> Result<Found> {
        match refusal {
            Refusal::Absent => return Ok(Found::Absent),
            Refusal::Denied => return Err(self.denied(path, &reply.shown())),
            Refusal::Busy => return Err(self.busy(reply)),
            Refusal::Unsupported | Refusal::Unclear => {}
        }
        // Another command may have clearer words.
        if self.stat_lists().await? {
            match self.stat_line(path).await? {
                Ok(found) => return Ok(found),
                Err(reply) => match words::read(&reply, path) {
                    Refusal::Absent => return Ok(Found::Absent),
                    Refusal::Denied => return Err(self.denied(path, &reply.shown())),
                    Refusal::Busy if reply.code != 0 => return Err(self.busy(&reply)),
                    _ => {}
                },
            }
        }
        self.by_parent(path, reply).await
    }

    /// What the directory above says: if it cannot be seen, neither can be said that something is not in it.
    pub(super) async fn by_parent(&self, path: &[u8], why: &Reply) -> Result<Found> {
        let Some((parent, name)) = divide(path) else {
            return Err(self.denied(path, &why.shown()));
        };
        match &*self.look_together(parent).await? {
            Looked::Listed(listed, complete) => {
                let at = listed.children.binary_search_by(|c| (*c.name).cmp(name));
                match at {
                    Ok(at) => {
                        let child = listed.children.get(at);
                        let attributes = child.map(|c| c.attributes.clone()).unwrap_or_default();
                        Ok(Found::Present(attributes))
                    }
                    Err(_) if *complete => Ok(Found::Absent),
                    Err(_) => self.parts(path, false).await,
                }
            }
            Looked::Refused(reply) if words::read(reply, parent) == Refusal::Busy => {
                Err(self.busy(reply))
            }
            Looked::Nothing | Looked::Refused(_) => match self.stat(parent).await {
                Ok(
                    Found::Absent
                    | Found::Present(Attributes {
                        kind: Kind::File | Kind::Other,
                        ..
                    }),
                ) => Ok(Found::Absent),
                Err(error) if error.is_passing() => Err(error),
                // Names in it can be reached even if it cannot be read.
                Ok(_) | Err(_) => self.parts(path, false).await,
            },
        }
    }

    /// About a path of which the server may not have got all bytes: the directory above has its name, if that can be asked for.
    pub(super) async fn by_bytes(&self, path: &[u8]) -> Result<Found> {
        let Some((parent, name)) = divide(path) else {
            return Ok(Found::Absent);
        };
        if !parent.is_ascii() {
            let above = self.stat(parent).await?;
            return match (above, self.can().bytes) {
                (Found::Absent, _) | (_, Some(true)) => Ok(Found::Absent),
                _ => Err(self.garbled(path)),
            };
        }
        match &*self.look_together(parent).await? {
            Looked::Listed(listed, complete) => {
                if let Some(child) = listed.children.iter().find(|c| &*c.name == name) {
                    self.learn(|can| can.bytes = Some(false));
                    return Ok(Found::Present(child.attributes.clone()));
                }
                if *complete {
                    Ok(Found::Absent)
                } else {
                    Err(self.garbled(path))
                }
            }
            Looked::Nothing | Looked::Refused(_) => match self.stat(parent).await? {
                Found::Present(Attributes {
                    kind: Kind::Directory | Kind::Link | Kind::Unknown,
                    ..
                }) => Err(self.denied(path, "the directory above cannot be read")),
                _ => Ok(Found::Absent),
            },
        }
    }

    pub(super) fn garbled(&self, path: &[u8]) -> Error {
        Error::Unsupported {
            origin: self.origin.clone(),
            why: format!(
                "{}: it loses the bytes of a path that are not ASCII",
                shown(path)
            )
            .into(),
        }
    }

    /// Size and time of a file, or of that to which a link leads: no directory has to be read for them.
    pub(super) async fn quick(&self, path: &[u8]) -> Result<Option<Attributes>> {
        let ask = |words: &[u8]| {
            let words = said(words, path);
            async move { self.say(command(&words, &self.origin)).await }
        };
        let (size, modified) = tokio::join!(ask(b"SIZE"), ask(b"MDTM"));
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

    /// Size, time, and whether one can go there: all that old servers tell.
    pub(super) async fn parts(&self, path: &[u8], ask_parent: bool) -> Result<Found> {
        let ask = |words: &[u8]| {
            let words = said(words, path);
            async move { self.say(command(&words, &self.origin)).await }
        };
        let (size, modified, go) = tokio::join!(ask(b"SIZE"), ask(b"MDTM"), ask(b"CWD"));
        let (size, modified_reply, go) = (size?, modified?, go?);
        if go.is_well() {
            return Ok(Found::Present(Attributes::of(Kind::Directory)));
        }
        let number = |reply: &Reply| (reply.code == 213).then(|| reply.text());
        let modified = number(&modified_reply).and_then(|text| time::stamp(text.trim_ascii()));
        if let Some(text) = number(&size) {
            return Ok(Found::Present(Attributes {
                size: time::digits(text.trim_ascii()),
                modified,
                ..Attributes::of(Kind::File)
            }));
        }
        let all = [&go, &size, &modified_reply].map(|reply| words::read(reply, path));
        let denied = all.contains(&Refusal::Denied);
        // What may not be entered may be there for all to see.
        if denied && !ask_parent {
            return Err(self.denied(path, &go.shown()));
        }
        if all.contains(&Refusal::Absent) && ask_parent && !denied {
            return Ok(Found::Absent);
        }
        if all.contains(&Refusal::Busy) {
            return Err(self.busy(&go));
        }
        if ask_parent {
            return Box::pin(self.by_parent(path, &go)).await;
        }
        Err(self.denied(
            path,
            &format!("it does not show what is there ({})", go.shown()),
        ))
    }
}
