//! Predictors compared with naive versions of their papers.

use esker_site_cache::entry::{Attributes, Child, Kind, Listing, Request, Wants};
use esker_site_cache::path::{PathId, Paths};
use esker_site_cache::predict::{
    Access, Amp, AmpSettings, CacheView, Dls, DlsSettings, Farmer, FarmerSettings, Nexus,
    NexusSettings, Outcome, Predictor, PredictorKind, PrefetchRequest,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A cache as predictors see it.
struct Fake {
    paths: Paths,
    cached: BTreeSet<Request>,
    listings: BTreeMap<PathId, Arc<Listing>>,
}

impl CacheView for Fake {
    fn paths(&self) -> &Paths {
        &self.paths
    }
    fn listing(&self, path: PathId) -> Option<Arc<Listing>> {
        self.listings.get(&path).cloned()
    }
    fn has_own(&self, request: Request) -> bool {
        self.cached.contains(&request)
    }
    fn answers(&self, request: Request) -> bool {
        self.cached.contains(&request)
    }
    fn is_pending(&self, _request: Request) -> bool {
        false
    }
    fn capacity(&self) -> u64 {
        1 << 20
    }
}

/// Three directories with four names each; the second name of each is a file.
fn fake() -> (Fake, Vec<PathId>) {
    let mut paths = Paths::new();
    let root = paths.origin("test:");
    let mut all = Vec::new();
    for directory in 0..3 {
        for name in 0..4 {
            let path = format!("/{directory}/x{name}");
            all.push(paths.intern(root, path.as_bytes()).unwrap());
        }
    }
    let fake = Fake {
        paths,
        cached: BTreeSet::new(),
        listings: BTreeMap::new(),
    };
    (fake, all)
}

fn list(fake: &mut Fake, parent: PathId, all: &[PathId]) {
    let mine = all.iter().enumerate();
    let mine = mine.filter(|(_, p)| fake.paths.parent(**p) == Some(parent));
    let children = mine
        .map(|(at, path)| Child {
            path: *path,
            attributes: Attributes::of(if at % 4 == 1 {
                Kind::File
            } else {
                Kind::Directory
            }),
        })
        .collect();
    let listing = Listing::new(children, true, &fake.paths);
    fake.listings.insert(parent, Arc::new(listing));
}

fn miss(client: u32, request: Request) -> Access {
    Access {
        client,
        request,
        outcome: Outcome::Miss,
    }
}

fn step(predictor: &mut dyn Predictor, access: Access, fake: &Fake) -> Vec<Request> {
    let mut prefetches: Vec<PrefetchRequest> = Vec::new();
    predictor.learn(access, fake);
    predictor.predict(access, fake, &mut prefetches);
    prefetches.into_iter().map(|w| w.request).collect()
}

proptest! {
    #[test]
    fn dls_is_its_paper(
        threshold in 0_u32..4,
        steps in prop::collection::vec((0_usize..12, any::<bool>(), any::<bool>(), any::<bool>()), 0..80),
    ) {
        let (mut fake, all) = fake();
        let settings = DlsSettings { threshold, ..DlsSettings::default() };
        let mut dls = Dls::new(settings);
        let mut misses: BTreeMap<PathId, u32> = BTreeMap::new();
        let mut asked: BTreeSet<PathId> = BTreeSet::new();
        for (path, lists, comes, forgets) in steps {
            let path = all[path];
            let parent = fake.paths.parent(path).unwrap();
            let wants = if lists { Wants::List } else { Wants::Stat };
            let siblings = |fake: &Fake| -> BTreeSet<Request> {
                let all = all.iter().filter(|p| fake.paths.parent(**p) == Some(parent));
                let all = all.map(|p| Request { path: *p, wants });
                all.filter(|r| !fake.cached.contains(r)).collect()
            };
            let said = step(&mut dls, miss(0, Request { path, wants }), &fake);
            let said: BTreeSet<Request> = said.into_iter().collect();
            if fake.listings.contains_key(&parent) {
                prop_assert_eq!(said, siblings(&fake));
            } else {
                let counter = misses.entry(parent).or_default();
                *counter += 1;
                if *counter > threshold {
                    prop_assert_eq!(said, BTreeSet::from([Request::list(parent)]));
                    asked.insert(parent);
                } else {
                    prop_assert!(said.is_empty());
                }
            }
            fake.cached.insert(Request { path, wants });
            if comes {
                list(&mut fake, parent, &all);
                let mut prefetches = Vec::new();
                dls.on_listing(parent, &fake, &mut prefetches);
                let said: BTreeSet<Request> = prefetches.into_iter().map(|w| w.request).collect();
                let expected = if asked.remove(&parent) { siblings(&fake) } else { BTreeSet::new() };
                prop_assert_eq!(said, expected);
            }
            if forgets {
                fake.listings.remove(&parent);
                fake.cached.clear();
            }
        }
    }

    #[test]
    fn nexus_is_a_sum_over_the_history(
        window in 1_usize..5,
        group in 1_usize..5,
        steps in prop::collection::vec(0_usize..12, 0..60),
    ) {
        let (fake, all) = fake();
        let settings = NexusSettings { window, group, ..NexusSettings::default() };
        let mut nexus = Nexus::new(settings);
        for (now, path) in steps.iter().enumerate() {
            let said = step(&mut nexus, miss(0, Request::list(all[*path])), &fake);
            let mut weights: BTreeMap<usize, u32> = BTreeMap::new();
            for (at, from) in steps[..=now].iter().enumerate().filter(|(_, f)| *f == path) {
                let after = steps[..=now].iter().enumerate().skip(at + 1).take(window);
                for (later, to) in after.filter(|(_, to)| *to != from) {
                    *weights.entry(*to).or_default() += (window - (later - at - 1)) as u32;
                }
            }
            let mut ranked: Vec<_> = weights.into_iter().map(|(to, w)| (std::cmp::Reverse(w), Request::list(all[to]))).collect();
            ranked.sort();
            let expected: Vec<Request> = ranked.into_iter().take(group).map(|r| r.1).collect();
            prop_assert_eq!(said, expected);
        }
    }

    #[test]
    fn amp_counts_what_followed_two_requests_of_a_client(
        period in 1_u64..20,
        steps in prop::collection::vec((0_u32..2, 0_usize..4), 0..80),
    ) {
        let (fake, all) = fake();
        let mut amp = Amp::new(AmpSettings { period, ..AmpSettings::default() });
        let mut histories: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        // All triples of consecutive requests of a client, in the order of the last one, as far as the model has them.
        let mut triples: Vec<[usize; 3]> = Vec::new();
        let mut trained = 0;
        for (now, (client, path)) in steps.iter().enumerate() {
            let history = histories.entry(*client).or_default();
            history.push(*path);
            if let [.., a, b, c] = history[..] {
                triples.push([a, b, c]);
            }
            if (now as u64 + 1).is_multiple_of(period) {
                trained = triples.len();
            }
            let said = step(&mut amp, miss(*client, Request::stat(all[*path])), &fake);
            let next = |a: usize, b: usize| -> Vec<usize> {
                let mut counts: Vec<(usize, usize)> = Vec::new();
                for triple in triples[..trained].iter().filter(|t| t[..2] == [a, b]) {
                    match counts.iter_mut().find(|c| c.0 == triple[2]) {
                        Some(count) => count.1 += 1,
                        None => counts.push((triple[2], 1)),
                    }
                }
                counts.sort_by_key(|c| std::cmp::Reverse(c.1));
                counts.into_iter().map(|c| c.0).collect()
            };
            let mut expected = Vec::new();
            if let [.., a, b] = histories[client][..] {
                let (mut a, mut b, last) = (a, b, b);
                let others = next(a, b);
                while expected.len() < 6 {
                    let Some(best) = next(a, b).first().copied() else { break };
                    if best == last || expected.contains(&best) {
                        break;
                    }
                    expected.push(best);
                    (a, b) = (b, best);
                }
                let first = expected.first().copied();
                for other in others {
                    if first.is_some() && Some(other) != first && expected.len() < 6 && !expected.contains(&other) {
                        expected.push(other);
                    }
                }
            }
            let expected: Vec<Request> = expected.into_iter().map(|p| Request::stat(all[p])).collect();
            prop_assert_eq!(said, expected);
        }
    }

    #[test]
    fn farmer_joins_sequence_and_attributes(
        steps in prop::collection::vec((0_u32..2, 0_usize..12), 0..60),
    ) {
        let (fake, all) = fake();
        let settings = FarmerSettings { group: 100, successors: 100, ..FarmerSettings::default() };
        let mut farmer = Farmer::new(settings);
        for (now, (client, path)) in steps.iter().enumerate() {
            let said = step(&mut farmer, miss(*client, Request::list(all[*path])), &fake);
            let seen = &steps[..=now];
            let client_of = |p: usize| seen.iter().rev().find(|s| s.1 == p).map(|s| s.0);
            let uses = seen.iter().filter(|s| s.1 == *path).count() as f64;
            let mut expected = Vec::new();
            for other in (0..12).filter(|o| o != path) {
                let mut weight = 0.0;
                for (at, _) in seen.iter().enumerate().filter(|(_, s)| s.1 == *path) {
                    for distance in 1..=4 {
                        if seen.get(at + distance).is_some_and(|s| s.1 == other) {
                            weight += 5.0 - distance as f64;
                        }
                    }
                }
                if weight == 0.0 {
                    continue;
                }
                let frequency = f64::min(weight / (uses * 4.0), 1.0);
                let alike = if other / 4 == path / 4 { 0.5 } else { 0.0 };
                let same = f64::from(u8::from(client_of(other) == Some(*client)));
                let strength = 0.7 * f64::midpoint(same, alike) + (1.0 - 0.7) * frequency;
                if strength >= 0.4 {
                    expected.push(Request::list(all[other]));
                }
            }
            let said: BTreeSet<Request> = said.into_iter().collect();
            prop_assert_eq!(said, expected.into_iter().collect());
        }
    }

    /// Guarded DLS never has more prefetches in flight or unused than its share.
    #[test]
    fn guarded_stays_within_its_share(
        learned in any::<bool>(),
        steps in prop::collection::vec((0_usize..12, any::<bool>(), 0_u8..4), 0..120),
    ) {
        let (mut fake, all) = fake();
        let choice = if learned { PredictorKind::Learned } else { PredictorKind::Guarded };
        let mut guarded = choice.make(Some(0));
        for (path, lists, then) in steps {
            let path = all[path];
            let parent = fake.paths.parent(path).unwrap();
            let wants = if lists { Wants::List } else { Wants::Stat };
            let is_prefetch = step(&mut *guarded, miss(0, Request { path, wants }), &fake);
            for prefetch in is_prefetch {
                // Types come from the listing: a file is not listed, and attributes are already answered.
                let at = all.iter().position(|p| *p == prefetch.path);
                if let (Some(at), true) = (at, fake.listings.contains_key(&parent)) && !learned {
                    prop_assert!(prefetch.wants == Wants::List && at % 4 != 1);
                }
                if then == 1 {
                    guarded.on_refused(prefetch, &fake.paths);
                } else if then == 2 {
                    guarded.on_wasted(prefetch, &fake.paths);
                } else {
                    fake.cached.insert(prefetch);
                    if prefetch.path == parent {
                        list(&mut fake, parent, &all);
                        guarded.on_listing(parent, &fake, &mut Vec::new());
                    }
                }
            }
        }
    }
}

/// Guarded DLS after a miss on the first name of the first directory, whose listing arrived; and the prefetches that followed.
fn listed() -> (Fake, Vec<PathId>, Box<dyn Predictor>, Vec<Request>) {
    let (mut fake, all) = fake();
    let mut guarded = PredictorKind::Guarded.make(Some(0));
    let parent = fake.paths.parent(all[0]).unwrap();
    let asked = step(&mut *guarded, miss(0, Request::list(all[0])), &fake);
    assert_eq!(asked, [Request::list(parent)]);
    list(&mut fake, parent, &all);
    let mut prefetches = Vec::new();
    guarded.on_listing(parent, &fake, &mut prefetches);
    let asked = prefetches.into_iter().map(|w| w.request).collect();
    (fake, all, guarded, asked)
}

/// Story: directories that a job had read and the cache had evicted were prefetched again at each listing of their parent, while
/// most directories are read once.
#[test]
fn guarded_does_not_prefetch_what_was_listed_before() {
    let (_, all, _, asked) = listed();
    assert_eq!(asked, [Request::list(all[2]), Request::list(all[3])]);
}

/// Story: listings of which all names were prefetched displaced prefetched entries.
#[test]
fn guarded_holds_a_listing_only_until_all_of_it_is_prefetched() {
    let (fake, all, guarded, asked) = listed();
    let parent = fake.paths.parent(all[0]).unwrap();
    assert!(!guarded.spares(parent, false, &fake.paths));
    assert!(guarded.spares(asked[0].path, true, &fake.paths));
}

/// Story: when a prefetched listing was evicted after siblings from it had been used, the waste was counted in the directory above,
/// which then was no longer prefetched.
#[test]
fn the_eviction_of_a_listing_is_no_waste_of_the_directory_above() {
    let (fake, all, mut guarded, asked) = listed();
    let parent = fake.paths.parent(all[0]).unwrap();
    let above = fake.paths.parent(parent).unwrap();
    step(&mut *guarded, miss(0, Request::list(parent)), &fake);
    let used = Access {
        client: 0,
        request: asked[0],
        outcome: Outcome::FirstUse(asked[0].path),
    };
    step(&mut *guarded, used, &fake);
    guarded.on_wasted(Request::list(parent), &fake.paths);
    let said = guarded.explain(above, &fake.paths).unwrap();
    assert!(said.contains("0 were used and 0 were not"), "{said}");
    let said = guarded.explain(parent, &fake.paths).unwrap();
    assert!(said.contains("1 were used and 0 were not"), "{said}");
}
