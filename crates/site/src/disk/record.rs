//! Record format of the disk cache: length, checksum, key, answer.

use crate::wire::convert;
use esker_origin::{DirEntry, PathMetadata};
use esker_rpc::proto;
use esker_site_cache::entry::{Time, Wants};
use prost::Message as _;

/// A record of one path at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) origin: Box<str>,
    pub(super) path: Box<[u8]>,
    pub(super) wants: Wants,
    /// Time of the request, or of the change.
    pub(super) at: Time,
    pub(super) body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// Answer for the path.
    Answer {
        found: PathMetadata,
        subscribed: bool,
    },
    /// Change of the path, or of its subtree.
    Changed { tree: bool },
}

/// Length of the header: body length and checksum, four bytes each.
pub(super) const HEAD: usize = 8;

pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let hash = blake3::hash(bytes);
    let first: [u8; 4] = [
        hash.as_bytes()[0],
        hash.as_bytes()[1],
        hash.as_bytes()[2],
        hash.as_bytes()[3],
    ];
    u32::from_le_bytes(first)
}

impl Record {
    /// Encodes the record with its header.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (found, subscribed, touched) = match &self.body {
            Body::Answer { found, subscribed } => (Some(found), *subscribed, 0),
            Body::Changed { tree } => (None, false, 1 + u32::from(*tree)),
        };
        let mut stored = proto::SiteStored {
            origin: self.origin.to_string(),
            path: self.path.to_vec(),
            list: self.wants == Wants::List,
            at: self.at,
            subscribed,
            touched,
            ..proto::SiteStored::default()
        };
        match found {
            None | Some(PathMetadata::Absent) => {}
            Some(PathMetadata::Present(of)) => stored.attributes = Some(convert::attributes(of)),
            Some(PathMetadata::Listing {
                attributes,
                children,
                complete,
            }) => {
                stored.attributes = Some(convert::attributes(attributes));
                stored.listing = true;
                stored.complete = *complete;
                let child = |c: &DirEntry| proto::SiteChild {
                    name: c.name.to_vec(),
                    attributes: Some(convert::attributes(&c.attributes)),
                };
                stored.children = children.iter().map(child).collect();
            }
        }
        let mut out = vec![0; HEAD];
        out.extend_from_slice(&stored.encode_to_vec());
        let length = (out.len() - HEAD) as u32;
        let sum = checksum(&out[HEAD..]);
        out[..4].copy_from_slice(&length.to_le_bytes());
        out[4..HEAD].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the body length and the checksum of a header.
    pub(super) fn head(bytes: [u8; HEAD]) -> (usize, u32) {
        let both = u64::from_le_bytes(bytes);
        ((both & u64::from(u32::MAX)) as usize, (both >> 32) as u32)
    }

    /// Decodes a body without header; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8], sum: u32) -> Option<Self> {
        if checksum(bytes) != sum {
            return None;
        }
        let stored = proto::SiteStored::decode(bytes).ok()?;
        let body = match (stored.touched, stored.attributes) {
            (0, None) => Body::Answer {
                found: PathMetadata::Absent,
                subscribed: stored.subscribed,
            },
            (0, Some(of)) if stored.listing => {
                let child = |c: proto::SiteChild| DirEntry {
                    name: c.name.into(),
                    attributes: convert::of_attributes(c.attributes.unwrap_or_default()),
                };
                Body::Answer {
                    found: PathMetadata::Listing {
                        attributes: convert::of_attributes(of),
                        children: stored.children.into_iter().map(child).collect(),
                        complete: stored.complete,
                    },
                    subscribed: stored.subscribed,
                }
            }
            (0, Some(of)) => Body::Answer {
                found: PathMetadata::Present(convert::of_attributes(of)),
                subscribed: stored.subscribed,
            },
            (touched, _) => Body::Changed { tree: touched > 1 },
        };
        Some(Self {
            origin: stored.origin.into(),
            path: stored.path.into(),
            wants: if stored.list {
                Wants::List
            } else {
                Wants::Stat
            },
            at: stored.at,
            body,
        })
    }
}
