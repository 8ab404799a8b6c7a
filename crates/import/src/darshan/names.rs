//! The name region: record id to file name, stored in one arena with binary search.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::bytes::{ByteOrder, until_nul, with_text};
use super::error::{Damage, Region};
use super::inflate::Inflate;
use super::limits::{NAME_BYTES_MAX, NAMES_BYTES_MAX, NAMES_MAX};

/// File names by record id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    arena: String,
    /// Sorted by id: id, start of the name in the arena, length of the name.
    entries: Vec<(u64, u32, u32)>,
}

/// Storage format of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameLayout {
    /// `[id u64][length u32][bytes]`, format 3.00.
    Counted,
    /// `[id u64][bytes][00]`, since 3.10.
    Terminated,
}

impl Names {
    /// Returns the name of a record, if the log has it. A log that ran out of memory for names has empty ones or none.
    pub fn get(&self, id: u64) -> Option<&str> {
        let at = self
            .entries
            .binary_search_by_key(&id, |entry| entry.0)
            .ok()?;
        let (_, start, len) = *self.entries.get(at)?;
        self.arena
            .get(start as usize..start as usize + len as usize)
            .filter(|name| !name.is_empty())
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over all names, by ascending record id.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.entries.iter().filter_map(|(id, start, len)| {
            Some((
                *id,
                self.arena
                    .get(*start as usize..*start as usize + *len as usize)?,
            ))
        })
    }

    /// Adds a name, up to its first NUL; [`Names::finish`] must be called after the last one. Returns `false` at the limit.
    pub(crate) fn push(&mut self, id: u64, name: &[u8]) -> bool {
        with_text(name, |name| self.push_text(id, name))
    }

    fn push_text(&mut self, id: u64, name: &str) -> bool {
        let (Ok(start), Ok(len)) = (u32::try_from(self.arena.len()), u32::try_from(name.len()))
        else {
            return false;
        };
        if self
            .entries
            .last()
            .is_some_and(|last| last.0 == id && last.2 == len)
        {
            return true; // old logs repeat the name for every rank
        }
        if self.entries.len() >= NAMES_MAX || self.arena.len() + name.len() > NAMES_BYTES_MAX {
            return false;
        }
        self.arena.push_str(name);
        self.entries.push((id, start, len));
        true
    }

    /// Sorts by id. Of several names for one id the first non-empty one stays, as in Darshan's own library.
    pub(crate) fn finish(&mut self) {
        // The arena is in the order of the file.
        self.entries
            .sort_unstable_by_key(|(id, start, len)| (*id, *len == 0, *start));
        self.entries.dedup_by_key(|entry| entry.0);
    }

    /// Reads the whole region, through a buffer of [`BUFFER_BYTES`](super::limits::BUFFER_BYTES).
    pub(crate) fn read(
        stream: &mut Inflate<'_>,
        layout: NameLayout,
        order: ByteOrder,
        buffer: &mut [u8],
    ) -> (Self, Option<Damage>) {
        let mut names = Self::default();
        let mut have = 0;
        let mut damage = None;
        loop {
            let mut ended = false;
            match buffer.get_mut(have..).map(|room| stream.read(room)) {
                Some(Ok(0)) | None => ended = true,
                Some(Ok(n)) => have += n,
                Some(Err(error)) => {
                    damage = Some(Damage {
                        region: Region::Names,
                        byte: error.byte,
                        what: error.what,
                    });
                    ended = true;
                }
            }
            let mut taken = 0;
            while let Some(rest) = buffer.get(taken..have) {
                let Some((id, name, size)) = one(rest, layout, order) else {
                    break;
                };
                if !names.push(id, name) {
                    let what = "more names than fit in memory (limits::NAMES_MAX, NAMES_BYTES_MAX)"
                        .to_owned();
                    damage = Some(Damage {
                        region: Region::Names,
                        byte: stream.position(),
                        what,
                    });
                    ended = true;
                    break;
                }
                taken += size;
            }
            buffer.copy_within(taken..have, 0);
            have -= taken;
            if damage.is_none() && (have > NAME_BYTES_MAX + 12 || (ended && have > 0)) {
                let what = if ended {
                    format!("the last name is cut short: {have} bytes are left over")
                } else {
                    format!("a name is longer than {NAME_BYTES_MAX} bytes")
                };
                damage = Some(Damage {
                    region: Region::Names,
                    byte: stream.position(),
                    what,
                });
                ended = true;
            }
            if ended {
                names.finish();
                return (names, damage);
            }
        }
    }
}

/// Returns the first name in `rest`: id, bytes, size of the whole entry; `None` if it is incomplete.
fn one(rest: &[u8], layout: NameLayout, order: ByteOrder) -> Option<(u64, &[u8], usize)> {
    match layout {
        NameLayout::Terminated => {
            let tail = rest.get(8..)?;
            let name = until_nul(tail)?;
            Some((order.u64(rest, 0), name, 8 + name.len() + 1))
        }
        NameLayout::Counted => {
            let tail = rest.get(12..)?;
            let len = order.u32(rest, 8) as usize;
            Some((order.u64(rest, 0), tail.get(..len)?, 12 + len))
        }
    }
}
