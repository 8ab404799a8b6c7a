//! What is remembered of batches that were applied, for servers that are others than before.
//!
//! - A client's numbered batches are remembered by whichever server coordinated them. Each new server knows of all: a batch that
//!   comes again, to any of them, counts once.
//! - A marker of another form is looked for on all servers, so that it may lie on any.
//! - Tagging by a filter is a commit on each server. If all had done it, all have. If only some had, what it had changed now lies among
//!   what it had not, and all of it is to be done again when it is repeated: it finds tags as they should be then.

use crate::node::tagging::{parse_share, share};
use esker_engine::Memory;
use esker_model::Version;
use esker_model::once::Numbered;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

/// Markers by the server that is to have them.
#[derive(Debug)]
pub(super) struct Markers(Vec<BTreeMap<Vec<u8>, Version>>);

impl Markers {
    /// Takes the markers of all servers out of what they remember.
    pub(super) fn of(memory: &mut Memory, before: u32, after: u32) -> Self {
        let mut servers = vec![BTreeMap::new(); after as usize];
        let mut shares = BTreeMap::<Vec<u8>, (Version, BTreeSet<u32>)>::new();
        for (marker, version) in std::mem::take(&mut memory.markers) {
            if let Some((whole, server)) = parse_share(&marker) {
                let (newest, had) = shares
                    .entry(whole.to_vec())
                    .or_insert((version, BTreeSet::new()));
                *newest = (*newest).max(version);
                had.insert(server.0);
                continue;
            }
            let place = FixedState::default().hash_one(&marker) % servers.len().max(1) as u64;
            if let Some(server) = servers.get_mut(place as usize) {
                server.insert(marker, version);
            }
        }
        for (whole, (version, had)) in shares {
            let all = (0..before).all(|server| had.contains(&server));
            match Numbered::parse(&whole) {
                // Those are among the client's batches, too.
                Ok(Some(numbered)) if !all => memory.forget(&numbered),
                Ok(Some(_)) => {}
                _ if all => {
                    for (k, server) in (0..).zip(&mut servers) {
                        let marker = share(whole.clone(), crate::vnode::ServerId(k));
                        server.insert(marker, version);
                    }
                }
                _ => {}
            }
        }
        Self(servers)
    }

    pub(super) fn of_server(&self, k: usize) -> BTreeMap<Vec<u8>, Version> {
        self.0.get(k).cloned().unwrap_or_default()
    }
}
