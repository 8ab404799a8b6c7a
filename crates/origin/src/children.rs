//! Names as a server lists them, until they are a directory's children.

use crate::question::{CHILDREN_MAX, Found, Named};
use esker_site_cache::entry::Attributes;
use esker_site_cache::path::NAME_BYTES_MAX;

/// Gathers names, and leaves out what no name can be.
#[derive(Debug)]
pub(crate) struct Children {
    named: Vec<Named>,
    complete: bool,
    most: usize,
}

/// There are more names than one listing may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Default for Children {
    fn default() -> Self {
        Self::at_most(CHILDREN_MAX)
    }
}

impl Children {
    pub(crate) fn at_most(most: usize) -> Self {
        Self {
            named: Vec::new(),
            complete: true,
            most,
        }
    }

    /// Takes a name. `.` and `..` are no children; a name that cannot be one is left out, and the listing is incomplete.
    pub(crate) fn push(&mut self, name: Box<[u8]>, attributes: Attributes) -> Result<(), TooMany> {
        if matches!(&*name, b"." | b"..") {
            return Ok(());
        }
        let sound = (1..=NAME_BYTES_MAX).contains(&name.len());
        if !sound || name.contains(&b'/') || name.contains(&0) {
            self.complete = false;
            return Ok(());
        }
        if self.named.len() >= self.most {
            return Err(TooMany);
        }
        self.named.push(Named { name, attributes });
        Ok(())
    }

    /// That there may be more than was listed.
    pub(crate) fn cut(&mut self) {
        self.complete = false;
    }

    /// The answer. A name that a server gave twice, for the directory changed meanwhile, has what it said last.
    pub(crate) fn finish(self, attributes: Attributes) -> Found {
        let mut children = self.named;
        children.reverse();
        children.sort_by(|a, b| a.name.cmp(&b.name));
        children.dedup_by(|a, b| a.name == b.name);
        Found::Listing {
            attributes,
            children,
            complete: self.complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_site_cache::entry::Kind;

    fn gathered(names: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
        let mut children = Children::at_most(3);
        for (at, name) in names.iter().enumerate() {
            let size = Some(at as u64);
            let attributes = Attributes {
                size,
                ..Attributes::default()
            };
            children.push((*name).into(), attributes).unwrap();
        }
        let Found::Listing {
            children, complete, ..
        } = children.finish(Attributes::of(Kind::Directory))
        else {
            unreachable!("a listing")
        };
        let shown = |n: &Named| [&n.name[..], &[b'0' + n.attributes.size.unwrap() as u8]].concat();
        (children.iter().map(shown).collect(), complete)
    }

    #[test]
    fn what_cannot_be_a_name_is_left_out() {
        assert_eq!(
            gathered(&[b".", b"b", b"..", b"a", b"b"]),
            (vec![b"a3".to_vec(), b"b4".to_vec()], true)
        );
        for bad in [&b"a/b"[..], b"", b"a\0", &[b'x'; 4097]] {
            assert_eq!(gathered(&[bad, b"a"]), (vec![b"a1".to_vec()], false));
        }
    }

    #[test]
    fn a_listing_without_end_ends() {
        let mut children = Children::at_most(1);
        assert_eq!(
            children.push(b"a"[..].into(), Attributes::default()),
            Ok(())
        );
        assert_eq!(
            children.push(b"b"[..].into(), Attributes::default()),
            Err(TooMany)
        );
    }
}
