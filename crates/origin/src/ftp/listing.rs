//! Parsing of listings, from either channel.

use super::facts::{self, EntryRole};
use super::reply::{Line, Lines, Part, Reply, line, too_long};
use super::unix;
use crate::error::Error;
use crate::request::{ANSWER_BYTES_MAX, CHILDREN_MAX, DirEntry};
use crate::stream::{Chain, Codec as _, Verdict};
use esker_site_cache::entry::{Attributes, Kind};

/// The line format of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The format of MLST (RFC 3659).
    Facts,
    /// The format of `ls -l`; the value is the current time in seconds since 1970, which determines the year of dates
    /// without one.
    Unix(i64),
}

/// The parsed lines of a listing.
#[derive(Debug, Default)]
pub(super) struct ParsedListing {
    /// Attributes of the directory itself, if listed; then the path is a directory and names with a leading dot are included.
    pub(super) own: Option<Attributes>,
    pub(super) children: Vec<DirEntry>,
    /// Attributes of the wanted name, if the listing was filtered by name.
    pub(super) found: Option<Attributes>,
    /// Number of lines that could not be parsed.
    pub(super) unread: usize,
    /// Whether names were dropped, or may be ambiguous.
    pub(super) dropped: bool,
}

/// The result of a command, or the reply that refused it.
#[derive(Debug)]
pub(super) enum CommandResult<T> {
    Yes(T),
    No(Reply),
}

/// Collects the lines of a listing.
pub(super) struct Gather {
    format: Format,
    /// The only wanted name; `None` for all.
    wanted: Option<Box<[u8]>>,
    listed: ParsedListing,
    bytes: usize,
    children_max: usize,
    origin: Box<str>,
}

impl Gather {
    pub(super) fn new(format: Format, wanted: Option<&[u8]>, origin: &str) -> Self {
        Self {
            format,
            wanted: wanted.map(Into::into),
            listed: ParsedListing::default(),
            bytes: 0,
            children_max: CHILDREN_MAX,
            origin: origin.into(),
        }
    }

    pub(super) fn line(&mut self, text: &[u8]) -> Result<(), Error> {
        self.bytes += text.len() + 2;
        if self.bytes > ANSWER_BYTES_MAX || self.listed.children.len() >= self.children_max {
            return Err(Error::Protocol {
                origin: self.origin.clone(),
                why: "a listing without an end".into(),
            });
        }
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let parsed = match self.format {
            Format::Facts => facts::parse(text),
            Format::Unix(now) => unix::parse(text, now).map(|(attributes, name)| {
                let about = match name {
                    b"." => EntryRole::Itself,
                    b".." => EntryRole::Parent,
                    _ => EntryRole::Name,
                };
                (about, attributes, name)
            }),
        };
        let Some((about, attributes, name)) = parsed else {
            let plain = text.trim_ascii();
            if !plain.is_empty() && !plain.starts_with(b"total ") {
                self.listed.unread += 1;
                // The line may be the rest of a name that contains a line break, so the previous name is dropped too.
                self.listed.children.pop();
                self.listed.dropped = true;
            }
            return Ok(());
        };
        match about {
            EntryRole::Itself => self.listed.own = Some(attributes),
            EntryRole::Parent => {}
            EntryRole::Name => self.name(attributes, name),
        }
        Ok(())
    }

    fn name(&mut self, attributes: Attributes, name: &[u8]) {
        if let Some(wanted) = &self.wanted {
            if is_name_of(name, wanted) {
                self.listed.found = Some(attributes);
            }
            return;
        }
        if name == b"." && attributes.kind == Kind::Directory {
            self.listed.own = Some(attributes);
        } else if name != b"." && name != b".." {
            if is_name(name) {
                let name = name.into();
                self.listed.children.push(DirEntry { name, attributes });
            } else {
                self.listed.dropped = true;
            }
        }
    }

    pub(super) fn finish(&mut self) -> ParsedListing {
        let mut listed = std::mem::take(&mut self.listed);
        let children = &mut listed.children;
        if !children.is_sorted_by(|a, b| a.name < b.name) {
            children.sort_by(|a, b| a.name.cmp(&b.name));
            children.dedup_by(|a, b| a.name == b.name);
        }
        listed
    }
}

/// Whether a name in a reply belongs to a path: equal to the path or to its last component.
pub(super) fn is_name_of(name: &[u8], path: &[u8]) -> bool {
    let last = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    name == path || name == last
}

/// Whether a name is valid as a child of a directory.
fn is_name(name: &[u8]) -> bool {
    let wrong = |b: &u8| *b < 32 || *b == 127 || *b == b'/';
    !name.is_empty() && name.len() <= 4096 && !name.iter().any(wrong)
}

/// Builds a command whose reply is a listing.
pub(super) fn listing(
    command: &[u8],
    gather: Gather,
) -> Chain<Lines, CommandResult<ParsedListing>> {
    let mut gather = gather;
    let mut refused = Reply::default();
    Chain::new(line(command), move |line: Line| {
        let ends = Lines::ends(&line);
        if line.code >= 300 {
            return match refused.add(line) {
                Ok(true) => Verdict::Done(CommandResult::No(std::mem::take(&mut refused))),
                Ok(false) => Verdict::Next,
                Err(_) => Verdict::Break(too_long(&gather.origin)),
            };
        }
        if line.part == Part::Middle
            && let Err(error) = gather.line(&line.text)
        {
            return Verdict::Break(error);
        }
        if ends {
            return Verdict::Done(CommandResult::Yes(gather.finish()));
        }
        Verdict::Next
    })
}

/// The result of MLST.
#[derive(Debug)]
pub(super) enum MlstResult {
    Facts(Attributes),
    /// Facts of another path, because the server dropped bytes of the requested one.
    OtherPath,
}

/// Builds an MLST request for the facts of one path.
pub(super) fn mlst(path: &[u8], origin: &str) -> Chain<Lines, CommandResult<MlstResult>> {
    let origin: Box<str> = origin.into();
    let path: Box<[u8]> = path.into();
    let mut found = None;
    let mut reply = Reply::default();
    let command = [b"MLST ", &path[..]].concat();
    Chain::new(line(&command), move |line: Line| {
        if line.code < 300
            && line.part == Part::Middle
            && let Some((_, attributes, name)) = facts::parse(&line.text)
        {
            // Replies are matched by order alone: a reply that names another path means that the order is lost.
            let name = if name.len() > 1 {
                name.strip_suffix(b"/").unwrap_or(name)
            } else {
                name
            };
            let last = |path: &[u8]| path.rsplit(|b| *b == b'/').next().map(<[u8]>::to_vec);
            let is_whole = name.first() == Some(&b'/') && !path.is_ascii();
            let differs = if is_whole {
                name != &*path
            } else {
                path.len() > 1 && last(name) != last(&path)
            };
            if differs {
                if path.is_ascii() {
                    return Verdict::Break(Error::Protocol {
                        origin: origin.clone(),
                        why: "it answered for another path than the one requested".into(),
                    });
                }
                found = Some(MlstResult::OtherPath);
            } else {
                found = Some(MlstResult::Facts(attributes));
            }
        }
        match reply.add(line) {
            Ok(false) => Verdict::Next,
            Ok(true) => match found.take() {
                Some(fact) if reply.is_well() => Verdict::Done(CommandResult::Yes(fact)),
                _ if reply.is_well() => Verdict::Fail(Error::Protocol {
                    origin: origin.clone(),
                    why: format!("no facts in `{}`", reply.printable()).into(),
                }),
                _ => Verdict::Done(CommandResult::No(std::mem::take(&mut reply))),
            },
            Err(_) => Verdict::Break(too_long(&origin)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(format: Format, lines: &[&[u8]]) -> (Vec<String>, bool, bool) {
        let mut gather = Gather::new(format, None, "x");
        for line in lines {
            gather.line(line).unwrap();
        }
        let listed = gather.finish();
        let names = listed.children.iter();
        let names = names.map(|c| String::from_utf8_lossy(&c.name).into_owned());
        (names.collect(), listed.own.is_some(), listed.dropped)
    }

    #[test]
    fn names_that_are_none_are_not_passed_on() {
        let (read, own, dropped) = names(
            Format::Facts,
            &[
                b"type=cdir; .",
                b"type=pdir; ..",
                b"type=file; b",
                b"type=file; a",
                b"type=file; a",
                b"type=dir; ..",
                b"type=dir; .",
            ],
        );
        assert_eq!(
            (read, own, dropped),
            (vec!["a".into(), "b".into()], true, false)
        );
        for bad in [
            &b"type=file; a/b"[..],
            b"type=file; /",
            b"type=file; a\nb",
            b"type=file; \x1b[2J",
        ] {
            assert_eq!(
                names(Format::Facts, &[bad]),
                (vec![], false, true),
                "{bad:?}"
            );
        }
        // A name with a line break: neither half is a valid name.
        let lines: [&[u8]; 3] = [
            b"-rw-r--r-- 1 a b 6 Feb  3  2001 x",
            b"-rw-r--r-- 1 a b 6 Feb  3  2001 new",
            b"line",
        ];
        assert_eq!(
            names(Format::Unix(0), &lines),
            (vec!["x".into()], false, true)
        );
        assert_eq!(
            names(Format::Unix(0), &[b"total 5", b""]),
            (vec![], false, false)
        );
    }

    #[test]
    fn a_listing_without_an_end_is_refused() {
        let mut gather = Gather::new(Format::Facts, None, "x");
        gather.children_max = 10;
        let more = (0..20).try_for_each(|at| gather.line(format!("type=file; {at}").as_bytes()));
        assert!(matches!(more, Err(Error::Protocol { .. })));
    }
}
