//! The children of a directory, gathered from the names that a server lists.

use crate::request::{CHILDREN_MAX, DirEntry, PathMetadata};
use esker_site_cache::entry::Attributes;
use esker_site_cache::path::NAME_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Collects the names of one listing and drops invalid ones.
#[derive(Debug)]
pub(crate) struct Children {
    named: Vec<DirEntry>,
    complete: bool,
    most: usize,
    /// Number of names in all listings that one connection reads, this listing included.
    all: Arc<AtomicUsize>,
}

impl Drop for Children {
    fn drop(&mut self) {
        self.all.fetch_sub(self.named.len(), Ordering::Relaxed);
    }
}

/// Error: one listing has more names than [`CHILDREN_MAX`].
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

    /// A listing that shares the counter `all` with the connection's other listings; together they may have as many names as one.
    pub(crate) fn among(all: &Arc<AtomicUsize>) -> Self {
        let mut children = Self::default();
        children.all = all.clone();
        children
    }

    /// Adds a name. `.` and `..` are skipped; an invalid name is dropped and makes the listing incomplete.
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
        self.named.push(DirEntry { name, attributes });
        Ok(())
    }

    /// Marks the listing as incomplete.
    pub(crate) fn cut(&mut self) {
        self.complete = false;
    }

    /// Returns the response. If a server lists a name twice because the directory changed, the last attributes count.
    pub(crate) fn finish(mut self, attributes: Attributes) -> PathMetadata {
        let mut children = std::mem::take(&mut self.named);
        self.all.fetch_sub(children.len(), Ordering::Relaxed);
        children.reverse();
        children.sort_by(|a, b| a.name.cmp(&b.name));
        children.dedup_by(|a, b| a.name == b.name);
        PathMetadata::Listing {
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
        let PathMetadata::Listing {
            children, complete, ..
        } = children.finish(Attributes::of(Kind::Directory))
        else {
            unreachable!("a listing")
        };
        let printable =
            |n: &DirEntry| [&n.name[..], &[b'0' + n.attributes.size.unwrap() as u8]].concat();
        (children.iter().map(printable).collect(), complete)
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
        // Concurrent listings share the limit; finished and dropped listings no longer count.
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
