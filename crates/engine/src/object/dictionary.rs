//! Dictionary of the texts of one column, each with a number, and indexes that find the texts that satisfy a test.

use super::positions::{by_position, widen};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Texts by number. Numbers are assigned in order and never reused.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    text: String,
    /// End of each text in `text`.
    ends: Vec<usize>,
    /// Numbers, each with 32 bits of its text's hash: the table grows and finds texts without reading other texts.
    numbers: HashTable<(u32, u32)>,
    hasher: FixedState,
    /// Number of the last text looked up: consecutive objects often have the same.
    last: u32,
}

impl Dictionary {
    /// Returns the number of a text; assigns one if it is new.
    pub(super) fn number(&mut self, word: &str) -> u32 {
        if !self.ends.is_empty() && self.get(self.last) == word {
            return self.last;
        }
        self.last = self.look_up(word);
        self.last
    }

    /// [`Self::number`] for a text that is not likely to be the last one.
    pub(super) fn look_up(&mut self, word: &str) -> u32 {
        let hash = self.hash(word);
        let (text, ends) = (&self.text, &self.ends);
        let same = |(n, h): &(u32, u32)| *h == hash && slice(text, ends, *n) == word;
        let entry = self
            .numbers
            .entry(widen(hash), same, |(_, hash)| widen(*hash));
        match entry {
            Entry::Occupied(known) => known.get().0,
            Entry::Vacant(place) => {
                let number = self.ends.len() as u32;
                place.insert((number, hash));
                self.text.push_str(word);
                self.ends.push(self.text.len());
                number
            }
        }
    }

    /// Reserves capacity for more texts, and for bytes of them.
    pub(super) fn reserve(&mut self, more: usize, bytes: usize) {
        self.ends.reserve_exact(more);
        self.text.reserve_exact(bytes);
    }

    /// Adds a text with a new number, even if it has one. [`Self::settle`] must follow before any look-up.
    pub(super) fn append(&mut self, word: &str) -> u32 {
        self.text.push_str(word);
        self.ends.push(self.text.len());
        self.ends.len() as u32 - 1
    }

    /// Makes the appended texts known to look-ups. If some are equal, returns the new number of each text by its present one.
    pub(super) fn settle(&mut self) -> Option<Vec<u32>> {
        if self.numbers.len() == self.ends.len() {
            return None;
        }
        let hashes: Vec<u32> = (0..self.ends.len() as u32)
            .map(|number| self.hash(self.get(number)))
            .collect();
        let mut numbers = HashTable::with_capacity(hashes.len());
        let mut equal = Vec::new();
        let (text, ends) = (&self.text, &self.ends);
        let all = by_position(hashes.iter().copied().zip(0..), numbers.num_buckets());
        for (hash, number) in all {
            // The texts are not near one another: they are read only if their hashes are equal.
            let same = |(n, h): &(u32, u32)| {
                *h == hash && slice(text, ends, *n) == slice(text, ends, number)
            };
            match numbers.entry(widen(hash), same, |(_, hash)| widen(*hash)) {
                Entry::Occupied(first) => equal.push((number, first.get().0)),
                Entry::Vacant(place) => {
                    place.insert((number, hash));
                }
            }
        }
        self.numbers = numbers;
        if equal.is_empty() {
            return None;
        }
        // The first of equal texts has the least number, so all keep their order.
        equal.sort_unstable();
        let mut distinct = Self::default();
        let mut equal = equal.into_iter().peekable();
        let mut renumbered: Vec<u32> = Vec::with_capacity(self.ends.len());
        for number in 0..self.ends.len() as u32 {
            let next = match equal.next_if(|(one, _)| *one == number) {
                Some((_, first)) => renumbered.get(first as usize).copied().unwrap_or(0),
                None => distinct.append(self.get(number)),
            };
            renumbered.push(next);
        }
        for (number, _) in &mut self.numbers {
            *number = renumbered.get(*number as usize).copied().unwrap_or(0);
        }
        (self.text, self.ends, self.last) = (distinct.text, distinct.ends, 0);
        self.text.shrink_to_fit();
        self.numbers.shrink_to_fit(|(_, hash)| widen(*hash));
        Some(renumbered)
    }

    /// Removes all texts, and keeps their memory.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.numbers.clear();
        self.last = 0;
    }

    fn hash(&self, word: &str) -> u32 {
        let hash = self.hasher.hash_one(word);
        (hash ^ hash >> 32) as u32
    }

    fn number_of(&self, word: &str, hash: u32) -> Option<u32> {
        let same = |(n, h): &(u32, u32)| *h == hash && slice(&self.text, &self.ends, *n) == word;
        self.numbers.find(widen(hash), same).map(|(n, _)| *n)
    }

    /// Returns the number of a text, if it has one.
    pub(super) fn find(&self, word: &str) -> Option<u32> {
        self.number_of(word, self.hash(word))
    }

    pub(super) fn get(&self, number: u32) -> &str {
        slice(&self.text, &self.ends, number)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.text.capacity() + self.ends.capacity() * 8 + self.numbers.capacity() * 9) as u64
    }
}

fn slice<'w>(text: &'w str, ends: &[usize], number: u32) -> &'w str {
    let number = number as usize;
    let start = match number {
        0 => 0,
        _ => ends.get(number - 1).copied().unwrap_or(0),
    };
    ends.get(number)
        .and_then(|end| text.get(start..*end))
        .unwrap_or_default()
}

/// The numbers of the first texts in text order: prefixes and ranges are contiguous in it.
#[derive(Debug, Default)]
pub(super) struct TextOrder {
    numbers: Vec<u32>,
}

impl TextOrder {
    pub(super) fn new(dictionary: &Dictionary) -> Self {
        let mut numbers: Vec<u32> = (0..dictionary.len() as u32).collect();
        numbers.sort_unstable_by(|a, b| dictionary.get(*a).cmp(dictionary.get(*b)));
        Self { numbers }
    }

    pub(super) fn covered(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the numbers of the texts between two bounds, which are given as predicates monotone in text order.
    pub(super) fn between(
        &self,
        dictionary: &Dictionary,
        below: impl Fn(&str) -> bool,
        inside: impl Fn(&str) -> bool,
    ) -> &[u32] {
        let from = self.numbers.partition_point(|n| below(dictionary.get(*n)));
        let rest = self.numbers.get(from..).unwrap_or_default();
        let len = rest.partition_point(|n| inside(dictionary.get(*n)));
        rest.get(..len).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.numbers.capacity() as u64 * 4
    }
}

/// Trigram index of the first texts: infixes and suffixes of three bytes or more are looked up in the shortest of their lists,
/// and the candidates are tested. Trigrams cover the distinct texts, not the objects: a million objects share few texts, and
/// where they do not, a list still contains a small fraction of them. A suffix array would need no test of candidates, but
/// must be rebuilt for each new text.
#[derive(Debug, Clone, Default)]
pub(super) struct TrigramIndex {
    lists: HashMap<[u8; 3], RoaringBitmap, FixedState>,
    covered: usize,
}

impl TrigramIndex {
    /// Adds texts that are not indexed yet.
    pub(super) fn extend(&mut self, dictionary: &Dictionary) {
        for number in self.covered..dictionary.len() {
            let word = dictionary.get(number as u32);
            for gram in word.as_bytes().windows(3) {
                if let [a, b, c] = gram {
                    self.lists
                        .entry([*a, *b, *c])
                        .or_default()
                        .insert(number as u32);
                }
            }
        }
        self.covered = dictionary.len();
    }

    pub(super) fn covered(&self) -> usize {
        self.covered
    }

    /// Returns a superset of the texts that contain `infix`; `None` if it is too short.
    pub(super) fn candidates(&self, infix: &str) -> Option<RoaringBitmap> {
        let mut lists = Vec::new();
        for gram in infix.as_bytes().windows(3) {
            if let [a, b, c] = gram {
                match self.lists.get(&[*a, *b, *c]) {
                    Some(list) => lists.push(list),
                    None => return Some(RoaringBitmap::new()),
                }
            }
        }
        lists.sort_unstable_by_key(|list| list.len());
        let (first, rest) = lists.split_first()?;
        let mut all = (*first).clone();
        // A few lists filter nearly everything; the candidates are tested anyway.
        for list in rest.iter().take(3) {
            all &= *list;
        }
        Some(all)
    }

    pub(super) fn bytes(&self) -> u64 {
        let lists = self.lists.values().map(RoaringBitmap::serialized_size);
        (lists.sum::<usize>() + self.lists.capacity() * 48) as u64
    }
}
