//! Shared parts of terms: IRI prefixes, languages, datatypes.

use std::collections::HashMap;

/// The kind of a term, with the text that it shares with other terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// An IRI with this prefix.
    Iri(Box<str>),
    /// A blank node; the label follows.
    Blank,
    /// A literal of type `xsd:string`.
    Plain,
    /// A literal with this language tag; a base direction follows the tag after `--`.
    Lang(Box<str>),
    /// A literal with this datatype.
    Typed(Box<str>),
    /// A triple term; the ids of its parts follow ([`super::triple::ids`]).
    Triple,
}

/// Limit of stored IRI prefixes; IRIs with further prefixes are stored in full.
const PREFIXES_MAX: usize = 1 << 16;

/// The table of heads.
#[derive(Debug, Clone)]
pub(crate) struct Heads {
    list: Vec<Head>,
    /// Numbers of heads by kind and text.
    known: HashMap<u8, HashMap<Box<str>, u32>>,
    prefixes: usize,
}

pub(crate) const BLANK: u32 = 0;
pub(crate) const PLAIN: u32 = 1;
const WHOLE: u32 = 2;

impl Default for Heads {
    fn default() -> Self {
        let mut heads = Self {
            list: vec![Head::Blank, Head::Plain],
            known: HashMap::new(),
            prefixes: 0,
        };
        heads.add(Head::Iri("".into()));
        heads
    }
}

impl Heads {
    pub(crate) fn get(&self, n: u32) -> &Head {
        self.list.get(n as usize).unwrap_or(&Head::Blank)
    }

    pub(crate) fn list(&self) -> &[Head] {
        &self.list
    }

    pub(crate) fn bytes(&self) -> usize {
        let texts = self.known.values().flat_map(|heads| heads.keys());
        texts.map(|text| 2 * text.len() + 80).sum()
    }

    pub(crate) fn add(&mut self, head: Head) -> u32 {
        let n = self.list.len() as u32;
        if let Some(key) = key(&head) {
            let heads = self.known.entry(key.0).or_default();
            heads.insert(key.1.into(), n);
            self.prefixes += usize::from(key.0 == b'<');
        }
        self.list.push(head);
        n
    }

    fn find(&self, kind: u8, text: &str) -> Option<u32> {
        self.known.get(&kind)?.get(text).copied()
    }

    /// Returns the head of an IRI and the length of its prefix; `None` if the head must be added first.
    pub(crate) fn of_iri(&self, iri: &str) -> Option<(u32, usize)> {
        let cut = iri.rfind(['/', '#', ':']).map_or(0, |i| i + 1);
        match self.find(b'<', &iri[..cut]) {
            Some(n) => Some((n, cut)),
            None if self.prefixes >= PREFIXES_MAX => Some((WHOLE, 0)),
            None => None,
        }
    }

    /// Adds the head of a new IRI. Returns its number and the length of the prefix.
    pub(crate) fn add_iri(&mut self, iri: &str) -> (u32, usize) {
        let cut = iri.rfind(['/', '#', ':']).map_or(0, |i| i + 1);
        (self.add(Head::Iri(iri[..cut].into())), cut)
    }

    pub(crate) fn of_suffix(&self, kind: u8, text: &str) -> Option<u32> {
        self.find(kind, text)
    }
}

fn key(head: &Head) -> Option<(u8, &str)> {
    match head {
        Head::Iri(p) => Some((b'<', p)),
        Head::Lang(l) => Some((b'@', l)),
        Head::Typed(t) => Some((b'^', t)),
        Head::Triple => Some((b'(', "")),
        Head::Blank | Head::Plain => None,
    }
}
