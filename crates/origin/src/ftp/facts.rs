//! Facts about a path, in the format of MLST, MLSD and MLSC (RFC 3659, section 7).

use super::time;
use crate::error::printable;
use esker_site_cache::entry::{Attributes, Kind};

/// The entry that a line describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryRole {
    /// A child of the directory.
    Name,
    /// The listed directory itself.
    Itself,
    /// The parent of the listed directory.
    Parent,
}

/// Maximum number of facts read from one line.
const FACTS_MAX: usize = 40;

/// Parses `fact=value;fact=value; name`. The line may begin with the space that control channels add.
pub fn parse(line: &[u8]) -> Option<(EntryRole, Attributes, &[u8])> {
    let line = line.strip_prefix(b" ").unwrap_or(line);
    let (facts, name) = if let Some(name) = line.strip_prefix(b" ") {
        (&[][..], name)
    } else {
        // A value may contain spaces, though it should not; the last fact ends with a semicolon.
        let at = line.windows(2).position(|w| w == b"; ")?;
        (line.get(..at)?, line.get(at + 2..)?)
    };
    if name.is_empty() {
        return None;
    }
    let mut attributes = Attributes::default();
    let mut about = EntryRole::Name;
    let mut more: Vec<(Box<str>, Box<str>)> = Vec::new();
    for fact in facts.split(|b| *b == b';').take(FACTS_MAX) {
        let Some(at) = fact.iter().position(|b| *b == b'=') else {
            continue;
        };
        let (key, value) = (fact.get(..at)?, fact.get(at + 1..)?);
        let key = printable(key).to_ascii_lowercase();
        match key.as_str() {
            "type" => {
                let (what, kind) = kind(value);
                about = what;
                attributes.kind = kind;
                let link = value.iter().skip(b"os.unix=slink:".len());
                let link: Vec<u8> = link.copied().collect();
                if kind == Kind::Link && !link.is_empty() && value.contains(&b':') {
                    more.push(("target".into(), printable(&link)));
                }
            }
            "size" | "sizd" => attributes.size = time::digits(value),
            "modify" => attributes.modified = time::stamp(value),
            "unix.mode" => attributes.mode = octal(value),
            "" => {}
            _ => {
                let name = key.strip_prefix("unix.").unwrap_or(&key);
                more.push((name.into(), printable(value)));
            }
        }
    }
    if let Some(at) = more.iter().position(|(key, _)| &**key == "slink") {
        follow(&mut attributes, &mut more, at);
    }
    if !more.is_empty() {
        attributes.more = Some(more.into());
    }
    Some((about, attributes, name))
}

/// A server that reports a link's target reports the target's other facts too: the link's own attributes are unknown.
fn follow(attributes: &mut Attributes, more: &mut Vec<(Box<str>, Box<str>)>, at: usize) {
    let link = more.remove(at).1;
    for (key, _) in more.iter_mut() {
        *key = format!("target.{key}").into();
    }
    let kind = match attributes.kind {
        Kind::File => Some("file"),
        Kind::Directory => Some("dir"),
        Kind::Link | Kind::Other | Kind::Unknown => None,
    };
    more.extend(kind.map(|kind| ("target.type".into(), kind.into())));
    let size = attributes.size.map(|size| size.to_string());
    more.extend(size.map(|size| ("target.size".into(), size.into())));
    more.push(("target".into(), link));
    *attributes = Attributes::of(Kind::Link);
}

fn kind(value: &[u8]) -> (EntryRole, Kind) {
    let value = value.to_ascii_lowercase();
    match &value[..] {
        b"file" => (EntryRole::Name, Kind::File),
        b"dir" => (EntryRole::Name, Kind::Directory),
        b"cdir" => (EntryRole::Itself, Kind::Directory),
        b"pdir" => (EntryRole::Parent, Kind::Directory),
        b"os.unix=symlink" | b"os.unix=slink" => (EntryRole::Name, Kind::Link),
        value if value.starts_with(b"os.unix=slink:") => (EntryRole::Name, Kind::Link),
        _ => (EntryRole::Name, Kind::Other),
    }
}

fn octal(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok().filter(|t| t.len() <= 8)?;
    Some(u32::from_str_radix(text, 8).ok()? & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_servers_say() {
        let (about, attributes, name) = parse(
            b" modify=20261123013028;perm=adfr;size=6;type=file;unique=FE00U9B003A;UNIX.group=0;UNIX.mode=0644;UNIX.owner=0; /a b; c",
        )
        .unwrap();
        assert_eq!((about, name), (EntryRole::Name, &b"/a b; c"[..]));
        assert_eq!(attributes.kind, Kind::File);
        assert_eq!(attributes.size, Some(6));
        assert_eq!(attributes.modified, Some(1_795_397_428_000_000_000));
        assert_eq!(attributes.mode, Some(0o644));
        let more = attributes.more.unwrap();
        assert!(more.contains(&("owner".into(), "0".into())));
        assert!(more.contains(&("perm".into(), "adfr".into())));
        let (about, attributes, name) = parse(b"Type=cdir;Size=4096;UNIX.mode=0755; .").unwrap();
        assert_eq!((about, name), (EntryRole::Itself, &b"."[..]));
        assert_eq!(attributes.kind, Kind::Directory);
        // Globus follows links and reports their targets.
        let line = b" Type=file;Size=6;UNIX.mode=0644;UNIX.slink=/data/a b; link";
        let (_, attributes, name) = parse(line).unwrap();
        assert_eq!(name, b"link");
        assert_eq!(
            (attributes.kind, attributes.size, attributes.mode),
            (Kind::Link, None, None)
        );
        assert!(
            attributes
                .more
                .unwrap()
                .contains(&("target".into(), "/data/a b".into()))
        );
        let (_, attributes, _) = parse(b"type=OS.unix=slink:/x; l").unwrap();
        assert_eq!(attributes.kind, Kind::Link);
        assert_eq!(attributes.more.unwrap()[0], ("target".into(), "/x".into()));
        assert_eq!(parse(b"  only a name").unwrap().2, b"only a name");
        for bad in [&b""[..], b"x", b"type=file;", b"type=file; ", b"total 5"] {
            assert_eq!(parse(bad), None);
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_not(line in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
        }

        #[test]
        fn any_facts_are_read(
            facts in prop::collection::vec(("Type|type|size|modify|UNIX.mode|UNIX.slink|x", "[^; ]{0,20}"), 0..60),
            name in "[^\r\n]{1,30}",
        ) {
            let facts: String = facts.iter().flat_map(|(key, value)| [key, "=", value, ";"]).collect();
            let line = format!(" {facts} {name}");
            let (_, attributes, read) = parse(line.as_bytes()).unwrap();
            prop_assert_eq!(read, name.as_bytes());
            prop_assert!(attributes.more.is_none_or(|m| m.len() <= FACTS_MAX + 3));
        }
    }
}
