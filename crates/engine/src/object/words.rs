//! The texts of one column, each once, with a number; and what finds the numbers of those that a test holds of.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Texts by number. Numbers are given in order and never taken back.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    /// Where each ends.
    ends: Vec<usize>,
    /// Numbers, each with 32 bits of its text's hash: tables grow, and texts are found, without a look at other texts.
    numbers: HashTable<(u32, u32)>,
    hasher: FixedState,
    /// The last one asked for: many objects in a row have the same.
    last: u32,
}

impl Words {
    /// The number of a text, a new one if need be.
    pub(super) fn number(&mut self, word: &str) -> u32 {
        if !self.ends.is_empty() && self.get(self.last) == word {
            return self.last;
        }
        self.last = self.look_up(word);
        self.last
    }

    fn look_up(&mut self, word: &str) -> u32 {
        let hash = self.hash(word);
        let (text, ends) = (&self.text, &self.ends);
        let same = |(n, h): &(u32, u32)| *h == hash && slice(text, ends, *n) == word;
        let entry = self
            .numbers
            .entry(spread(hash), same, |(_, hash)| spread(*hash));
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

    /// Makes room for that many more texts.
    pub(super) fn reserve(&mut self, more: usize) {
        self.ends.reserve(more);
        self.numbers.reserve(more, |(_, hash)| spread(*hash));
    }

    fn hash(&self, word: &str) -> u32 {
        let hash = self.hasher.hash_one(word);
        (hash ^ hash >> 32) as u32
    }

    fn number_of(&self, word: &str, hash: u32) -> Option<u32> {
        let same = |(n, h): &(u32, u32)| *h == hash && slice(&self.text, &self.ends, *n) == word;
        self.numbers.find(spread(hash), same).map(|(n, _)| *n)
    }

    /// The number of a text, if it has one.
    pub(super) fn find(&self, word: &str) -> Option<u32> {
        self.number_of(word, self.hash(word))
    }

    pub(super) fn get(&self, number: u32) -> &str {
        slice(&self.text, &self.ends, number)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.text.capacity() + self.ends.capacity() * 8 + self.numbers.capacity() * 9) as u64
    }
}

/// A table of the library's takes the place from the low bits and a mark from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
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

/// The numbers of the first `known` words in the order of their texts: prefixes and ranges are runs of it.
#[derive(Debug, Default)]
pub(super) struct Order {
    numbers: Vec<u32>,
}

impl Order {
    pub(super) fn new(words: &Words) -> Self {
        let mut numbers: Vec<u32> = (0..words.len() as u32).collect();
        numbers.sort_unstable_by(|a, b| words.get(*a).cmp(words.get(*b)));
        Self { numbers }
    }

    pub(super) fn known(&self) -> usize {
        self.numbers.len()
    }

    /// The numbers of those words that lie behind `low` and before `high`, each asked of a word: monotone in its order.
    pub(super) fn between(
        &self,
        words: &Words,
        below: impl Fn(&str) -> bool,
        inside: impl Fn(&str) -> bool,
    ) -> &[u32] {
        let from = self.numbers.partition_point(|n| below(words.get(*n)));
        let rest = self.numbers.get(from..).unwrap_or_default();
        let len = rest.partition_point(|n| inside(words.get(*n)));
        rest.get(..len).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.numbers.capacity() as u64 * 4
    }
}

/// Which of the first `known` words have three bytes in a row: infixes and suffixes of three bytes or more are looked up in
/// the shortest of their lists, and what it gives is looked at. Trigrams over the different texts, not over the objects:
/// a million objects share few texts, and where they do not, a list still names a small part of them. A suffix array would
/// answer without looking, but has to be built anew for each new text.
#[derive(Debug, Clone, Default)]
pub(super) struct Grams {
    lists: HashMap<[u8; 3], RoaringBitmap, FixedState>,
    known: usize,
}

impl Grams {
    /// Takes in words that are new.
    pub(super) fn extend(&mut self, words: &Words) {
        for number in self.known..words.len() {
            let word = words.get(number as u32);
            for gram in word.as_bytes().windows(3) {
                if let [a, b, c] = gram {
                    self.lists
                        .entry([*a, *b, *c])
                        .or_default()
                        .insert(number as u32);
                }
            }
        }
        self.known = words.len();
    }

    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Numbers of words among which are all with that text in them; `None` if it is too short to say.
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
        // A few lists do nearly all; the rest is decided by looking.
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
