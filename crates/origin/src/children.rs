//! Names as a server lists them, until they are a directory's children.

use crate::question::{CHILDREN_MAX, Found, Named};
use esker_site_cache::entry::Attributes;
use esker_site_cache::path::NAME_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Gathers names, and leaves out what no name can be.
#[derive(Debug)]
pub(crate) struct Children {
    named: Vec<Named>,
    complete: bool,
    most: usize,
    /// Names of all listings that one connection reads, this one's among them.
    all: Arc<AtomicUsize>,
}

impl Drop for Children {
    fn drop(&mut self) {
        self.all.fetch_sub(self.named.len(), Ordering::Relaxed);
    }
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
            all: Arc::default(),
        }
    }

    /// One of the listings that a connection reads at once: together they have no more names than one may have.
    pub(crate) fn among(all: &Arc<AtomicUsize>) -> Self {
        let mut children = Self::default();
        children.all = all.clone();
        children
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
        if self.all.load(Ordering::Relaxed) >= self.most {
            return Err(TooMany);
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        self.named.push(Named { name, attributes });
        Ok(())
    }

    /// That there may be more than was listed.
    pub(crate) fn cut(&mut self) {
        self.complete = false;
    }

    /// The answer. A name that a server gave twice, for the directory changed meanwhile, has what it said last.
    pub(crate) fn finish(mut self, attributes: Attributes) -> Found {
        let mut children = std::mem::take(&mut self.named);
        self.all.fetch_sub(children.len(), Ordering::Relaxed);
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
        // Nor do many at once have more; what is given up or handed over counts no longer.
        let all = Arc::default();
        let push = |children: &mut Children, name: &[u8]| {
            children.most = 2;
            children.push(name.into(), Attributes::default())
        };
        let (mut first, mut second) = (Children::among(&all), Children::among(&all));
        assert_eq!(push(&mut first, b"a"), Ok(()));
        assert_eq!(push(&mut second, b"a"), Ok(()));
        assert_eq!(push(&mut second, b"b"), Err(TooMany));
        drop(first);
        assert_eq!(all.load(Ordering::Relaxed), 1);
        second.finish(Attributes::default());
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
