//! The generated objects, and their rows in the key-value store.

use crate::random::Random;
use clap::ValueEnum;
use esker_model::object::{Identity, ObjectId};
use esker_model::record::{UserAttribute, VertexRecord};
use esker_model::{Batch, Op, Properties, Value, Version, VertexTypeId};
use std::ops::Range;

/// The application of all objects.
const APP: &str = "vpic";
/// The owner of all objects.
const OWNER: i64 = 1001;
/// The four names of the second workload.
const FOUR: [&str; 4] = ["density", "energy", "momentum", "pressure"];
/// Number of values of the tag `Conf`; each is on 2.5 % of the objects.
pub(super) const CONFS: u32 = 40;
/// Number of objects with each value of the tag `run`.
pub(super) const RUN: u32 = 100;

/// SoMeta's workloads (section III-A).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Names {
    /// One name, with a time step for each object
    One,
    /// Four names in turn
    Four,
    /// A name for each object
    Unique,
}

impl Names {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::One => "one name",
            Self::Four => "four names",
            Self::Unique => "all unique",
        }
    }

    /// Returns the ID attributes of an object, by its number.
    pub(super) fn identity(self, number: u32) -> Identity {
        let (name, step) = match self {
            Self::One => ("energy".to_owned(), number),
            Self::Four => (FOUR[number as usize % 4].to_owned(), number / 4),
            Self::Unique => (format!("object-{number:08}"), 0),
        };
        Identity {
            name,
            app: APP.to_owned(),
            owner: OWNER,
            step: i64::from(step),
        }
    }
}

/// Attributes and tags of the objects besides the ID attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tags {
    /// The data location and the tag `Conf`.
    Few,
    /// In addition `run`, a number shared by [`RUN`] objects, and `energy`, a number between 0 and 1.
    Many,
}

/// Objects of one workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectShape {
    pub(super) names: Names,
    pub(super) tags: Tags,
}

impl ObjectShape {
    /// Builds a batch that creates these objects.
    pub(super) fn batch(self, numbers: Range<usize>) -> Batch {
        let mut batch = Batch::new();
        for number in numbers {
            let number = number as u32;
            batch.push(Op::CreateObject {
                identity: self.names.identity(number),
                attributes: Properties::new().with("location", location(number)),
                tags: self.tags(number),
            });
        }
        batch
    }

    fn tags(self, number: u32) -> Properties {
        let tags = Properties::new().with("Conf", i64::from(number % CONFS));
        match self.tags {
            Tags::Few => tags,
            Tags::Many => tags
                .with("run", i64::from(number / RUN))
                .with("energy", Random::new(u64::from(number)).unit()),
        }
    }

    /// Returns the objects as rows: attributes by id, and ids by the hash of the identity.
    pub(super) fn rows(self, type_id: VertexTypeId, numbers: Range<usize>) -> ObjectRows {
        let mut rows = ObjectRows::default();
        for number in numbers {
            rows.push(self, type_id, number as u32);
        }
        rows
    }
}

fn location(number: u32) -> String {
    format!("/scratch/vpic/{:05}/{:03}.h5", number / 1000, number % 1000)
}

/// Rows for the key-value store: two for each object.
#[derive(Default)]
pub(super) struct ObjectRows {
    pairs: Vec<([u8; 17], Vec<u8>)>,
}

impl ObjectRows {
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(k, v)| (k.as_slice(), v.as_slice()))
    }

    fn push(&mut self, shape: ObjectShape, type_id: VertexTypeId, number: u32) {
        let identity = shape.names.identity(number);
        let version = Version::new(1_700_000_000_000, 0);
        let id = ObjectId::new(identity.prefix(), u64::from(number));
        let user = shape.tags(number).into_iter();
        let record = VertexRecord {
            deleted: false,
            mentioned: false,
            first: version,
            latest: version,
            static_version: version,
            type_id,
            key: id.to_string(),
            attributes: Properties::new()
                .with("app", identity.app.clone())
                .with("location", location(number))
                .with("mode", Value::I64(0o644))
                .with("name", identity.name.clone())
                .with("owner", identity.owner)
                .with("step", identity.step),
            user: user
                .map(|(name, value)| UserAttribute {
                    name,
                    version,
                    value,
                })
                .collect(),
        };
        let mut row = Vec::new();
        record.encode(&mut row);
        self.pairs.push((row_key(id), row));
        self.pairs
            .push((identity_key(&identity), id.0.to_be_bytes().to_vec()));
    }
}

/// The key of an object's row.
pub(super) fn row_key(id: ObjectId) -> [u8; 17] {
    key(1, id.vertex().0)
}

/// The key of the row that maps an identity to its object.
pub(super) fn identity_key(identity: &Identity) -> [u8; 17] {
    key(3, identity.hash())
}

fn key(table: u8, rest: [u8; 16]) -> [u8; 17] {
    let mut key = [table; 17];
    if let Some(tail) = key.last_chunk_mut() {
        *tail = rest;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_objects_are_one() {
        for names in [Names::One, Names::Four, Names::Unique] {
            let identities: HashSet<_> = (0..4000).map(|n| names.identity(n)).collect();
            assert_eq!(identities.len(), 4000, "{names:?}");
            let different: HashSet<_> = identities.into_iter().map(|i| i.name).collect();
            let expected = match names {
                Names::One => 1,
                Names::Four => 4,
                Names::Unique => 4000,
            };
            assert_eq!(different.len(), expected);
        }
    }

    #[test]
    fn each_object_is_two_rows() {
        let shape = ObjectShape {
            names: Names::Four,
            tags: Tags::Many,
        };
        let rows = shape.rows(VertexTypeId(9), 5..8);
        let keys: HashSet<_> = rows.rows().map(|(key, _)| key.to_vec()).collect();
        assert_eq!(keys.len(), 6);
        assert!(keys.contains(identity_key(&Names::Four.identity(7)).as_slice()));
    }
}
