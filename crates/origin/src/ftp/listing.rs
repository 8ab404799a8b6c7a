//! Lines of listings to names, whichever channel they come on.

use super::facts::{self, About};
use super::reply::{Line, Lines, Part, Reply, line, too_long};
use super::unix;
use crate::error::Error;
use crate::question::{ANSWER_BYTES_MAX, CHILDREN_MAX, Named};
use crate::stream::{Chain, Codec as _, Verdict};
use esker_site_cache::entry::{Attributes, Kind};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// As MLST has them.
    Facts,
    /// As `ls -l` has them; the time tells the year of dates without one.
    Unix(i64),
}

/// What a listing said.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The directory itself, if it was listed: then this is a directory, and names with a dot in front are not hidden.
    pub(super) own: Option<Attributes>,
    pub(super) children: Vec<Named>,
    /// The one that was looked for, if it was one.
    pub(super) found: Option<Attributes>,
    /// Lines that cannot be a name's.
    pub(super) unread: usize,
    /// Names that were not taken, or that may be more than one.
    pub(super) dropped: bool,
}

/// An answer, or what the server said instead.
#[derive(Debug)]
pub(super) enum Said<T> {
    Yes(T),
    No(Reply),
}

/// Gathers lines.
pub(super) struct Gather {
    format: Format,
    /// Only this one is wanted.
    wanted: Option<Box<[u8]>>,
    listed: Listed,
    bytes: usize,
    children_max: usize,
    origin: Box<str>,
}

impl Gather {
    pub(super) fn new(format: Format, wanted: Option<&[u8]>, origin: &str) -> Self {
        Self {
            format,
            wanted: wanted.map(Into::into),
            listed: Listed::default(),
            bytes: 0,
            children_max: CHILDREN_MAX,
            origin: origin.into(),
        }
    }

    pub(super) fn line(&mut self, text: &[u8]) -> Result<(), Error> {
        self.bytes += text.len() + 2;
        if self.bytes > ANSWER_BYTES_MAX || self.listed.children.len() >= self.children_max {
            return Err(Error::Nonsense {
                origin: self.origin.clone(),
                why: "a listing without an end".into(),
            });
        }
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let parsed = match self.format {
            Format::Facts => facts::parse(text),
            Format::Unix(now) => unix::parse(text, now).map(|(attributes, name)| {
                let about = match name {
                    b"." => About::Itself,
                    b".." => About::Above,
                    _ => About::Name,
                };
                (about, attributes, name)
            }),
        };
        let Some((about, attributes, name)) = parsed else {
            let plain = text.trim_ascii();
            if !plain.is_empty() && !plain.starts_with(b"total ") {
                self.listed.unread += 1;
                // It may be the rest of a name with an end of line in it.
                self.listed.children.pop();
                self.listed.dropped = true;
            }
            return Ok(());
        };
        match about {
            About::Itself => self.listed.own = Some(attributes),
            About::Above => {}
            About::Name => self.name(attributes, name),
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
                self.listed.children.push(Named { name, attributes });
            } else {
                self.listed.dropped = true;
            }
        }
    }

    pub(super) fn finish(&mut self) -> Listed {
        let mut listed = std::mem::take(&mut self.listed);
        let children = &mut listed.children;
        if !children.is_sorted_by(|a, b| a.name < b.name) {
            children.sort_by(|a, b| a.name.cmp(&b.name));
            children.dedup_by(|a, b| a.name == b.name);
        }
        listed
    }
}

/// Whether a name in a reply is that of a path: the path itself, or its last part.
pub(super) fn is_name_of(name: &[u8], path: &[u8]) -> bool {
    let last = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    name == path || name == last
}

/// Whether it can be passed on as one name of a directory.
fn is_name(name: &[u8]) -> bool {
    let wrong = |b: &u8| *b < 32 || *b == 127 || *b == b'/';
    !name.is_empty() && name.len() <= 4096 && !name.iter().any(wrong)
}

/// A command whose reply is a listing.
pub(super) fn listing(command: &[u8], gather: Gather) -> Chain<Lines, Said<Listed>> {
    let mut gather = gather;
    let mut refused = Reply::default();
    Chain::new(line(command), move |line: Line| {
        let ends = Lines::ends(&line);
        if line.code >= 300 {
            return match refused.add(line) {
                Ok(true) => Verdict::Done(Said::No(std::mem::take(&mut refused))),
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
            return Verdict::Done(Said::Yes(gather.finish()));
        }
        Verdict::Next
    })
}

/// What MLST told.
#[derive(Debug)]
pub(super) enum Fact {
    Of(Attributes),
    /// Of a path that has lost bytes on its way.
    OfAnother,
}

/// MLST: facts about one path.
pub(super) fn mlst(path: &[u8], origin: &str) -> Chain<Lines, Said<Fact>> {
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
            // Replies are matched by their order alone: one that names another path was never this one's.
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
                    return Verdict::Break(Error::Nonsense {
                        origin: origin.clone(),
                        why: "it answers about another path than the one that was asked about"
                            .into(),
                    });
                }
                found = Some(Fact::OfAnother);
            } else {
                found = Some(Fact::Of(attributes));
            }
        }
        match reply.add(line) {
            Ok(false) => Verdict::Next,
            Ok(true) => match found.take() {
                Some(fact) if reply.is_well() => Verdict::Done(Said::Yes(fact)),
                _ if reply.is_well() => Verdict::Skip(Error::Nonsense {
                    origin: origin.clone(),
                    why: format!("no facts in `{}`", reply.shown()).into(),
                }),
                _ => Verdict::Done(Said::No(std::mem::take(&mut reply))),
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
        // A name with an end of line in it: neither half is a name.
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
        assert!(matches!(more, Err(Error::Nonsense { .. })));
    }
}
