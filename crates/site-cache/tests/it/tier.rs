//! A tier: coverage of a listing, ages of answers, waiters, and lasting deletions.

use esker_site_cache::cache::Policy;
use esker_site_cache::entry::{
    Answer, Attributes, Change, ChangeKind, Child, Failure, Kind, Listing, Request, State, Wants,
};
use esker_site_cache::path::{PathId, Paths};
use esker_site_cache::queue::{Class, Run};
use esker_site_cache::tier::{
    Fetched, Freshness, Output, Reply, Requester, Tier, TierRequest, TierSettings,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

fn fetch_request(request: Request) -> TierRequest {
    TierRequest {
        requester: Requester::Client(1),
        ticket: 7,
        request,
        class: Class::Fetch,
        max_age: None,
        stale_if_error: false,
    }
}

fn sent(out: &mut Vec<Output>) -> Vec<(Run, Request, Class)> {
    let all = out.drain(..);
    all.filter_map(|o| match o {
        Output::Send { sent, .. } => Some((sent.run, sent.key, sent.class)),
        _ => None,
    })
    .collect()
}

fn file(size: u64) -> Attributes {
    Attributes {
        size: Some(size),
        ..Attributes::of(Kind::File)
    }
}

fn directory(children: Vec<Child>, complete: bool, at: u64, paths: &Paths) -> Answer {
    Answer {
        listing: Some(Arc::new(Listing::new(children, complete, paths))),
        ..Answer::present(Attributes::of(Kind::Directory), at)
    }
}

struct Tree {
    paths: Paths,
    root: PathId,
}

impl Tree {
    fn new() -> Self {
        let mut paths = Paths::new();
        let root = paths.origin("test:");
        Self { paths, root }
    }

    fn path(&mut self, path: &str) -> PathId {
        self.paths.intern(self.root, path.as_bytes()).unwrap()
    }
}

#[test]
fn one_listing_answers_everything_under_it() {
    for complete in [true, false] {
        let mut tree = Tree::new();
        let (d, a, link) = (tree.path("/d"), tree.path("/d/a"), tree.path("/d/l"));
        let (missing, deep) = (tree.path("/d/no"), tree.path("/d/no/x/y"));
        let paths = &tree.paths;
        let mut tier = Tier::new(TierSettings::default());
        let mut out = Vec::new();
        assert_eq!(
            tier.request(0, fetch_request(Request::list(d)), paths, &mut out),
            Reply::Wait
        );
        let run = sent(&mut out)[0].0;
        let children = vec![
            Child {
                path: a,
                attributes: file(5),
            },
            Child {
                path: link,
                attributes: Attributes::default(),
            },
        ];
        let answer = directory(children, complete, 3, paths);
        assert!(tier.handle_response(9, run, Fetched::Answer(answer), paths, &mut out));
        out.clear();
        let Reply::Answer(answer) =
            tier.request(10, fetch_request(Request::stat(a)), paths, &mut out)
        else {
            panic!("the listing answers");
        };
        assert_eq!((answer.state, answer.at), (State::Present(file(5)), 3));
        // A name without attributes requires a request to the origin.
        assert_eq!(
            tier.request(10, fetch_request(Request::stat(link)), paths, &mut out),
            Reply::Wait
        );
        for path in [missing, deep] {
            let said = tier.request(11, fetch_request(Request::stat(path)), paths, &mut out);
            let absent = matches!(&said, Reply::Answer(a) if a.is_absent());
            assert_eq!(absent, complete, "{said:?}");
        }
        assert_eq!(tier.stats().absent, if complete { 2 } else { 0 });
    }
}

#[test]
fn fetches_join_prefetches_and_raise_them() {
    let mut tree = Tree::new();
    let (a, b) = (tree.path("/a"), tree.path("/b"));
    let paths = &tree.paths;
    let mut tier = Tier::new(TierSettings {
        running_max: 1,
        ..TierSettings::default()
    });
    let mut out = Vec::new();
    let prefetch = |path| TierRequest {
        class: Class::Prefetch(1),
        requester: Requester::Tier(4),
        ..fetch_request(Request::stat(path))
    };
    tier.request(0, prefetch(a), paths, &mut out);
    tier.request(0, prefetch(b), paths, &mut out);
    let first = sent(&mut out);
    assert_eq!((first.len(), first[0].1.path), (1, a));
    tier.request(1, fetch_request(Request::stat(b)), paths, &mut out);
    tier.request(1, fetch_request(Request::stat(a)), paths, &mut out);
    assert!(out.is_empty());
    let answer = Fetched::Answer(Answer::absent(1));
    tier.handle_response(2, first[0].0, answer.clone(), paths, &mut out);
    let told: Vec<Requester> = out
        .iter()
        .filter_map(|o| match o {
            Output::Done {
                requester, result, ..
            } => result.as_ref().ok().map(|_| *requester),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Requester::Tier(4), Requester::Client(1)]);
    let second = sent(&mut out);
    assert_eq!((second[0].1.path, second[0].2), (b, Class::Fetch));
    // An answer without waiters does no harm.
    assert!(!tier.handle_response(2, first[0].0, answer, paths, &mut out));
}

#[test]
fn a_fetch_takes_the_place_of_a_prefetch() {
    let mut tree = Tree::new();
    let (a, b) = (tree.path("/a"), tree.path("/b"));
    let paths = &tree.paths;
    let mut cloud = Tier::new(TierSettings::cloud(1));
    let mut out = Vec::new();
    let prefetch = TierRequest {
        class: Class::Prefetch(6),
        requester: Requester::Tier(1),
        ..fetch_request(Request::list(a))
    };
    cloud.request(0, prefetch, paths, &mut out);
    let run = sent(&mut out)[0].0;
    let fetch = TierRequest {
        requester: Requester::Tier(1),
        ..fetch_request(Request::list(b))
    };
    cloud.request(1, fetch, paths, &mut out);
    assert_eq!(out[0], Output::Cancel(run));
    assert_eq!(sent(&mut out)[0].1.path, b);
    assert!(!cloud.handle_response(2, run, Fetched::Answer(Answer::absent(0)), paths, &mut out));
}

#[test]
fn answers_grow_old() {
    let mut tree = Tree::new();
    let a = tree.path("/a");
    let paths = &tree.paths;
    let mut tier = Tier::new(TierSettings {
        freshness: Freshness::TimeToLive {
            least: 100,
            most: 350,
        },
        ..TierSettings::default()
    });
    let mut out = Vec::new();
    let mut fetch = |tier: &mut Tier, now: u64, fetched: Fetched| {
        assert_eq!(
            tier.request(now, fetch_request(Request::stat(a)), paths, &mut out),
            Reply::Wait
        );
        let run = sent(&mut out)[0].0;
        tier.handle_response(now, run, fetched, paths, &mut out);
        out.clear();
    };
    let at = |now: u64, size: u64| Fetched::Answer(Answer::present(file(size), now));
    let fresh = |tier: &Tier, now: u64| tier.peek(now, Request::stat(a), paths).is_some();
    fetch(&mut tier, 0, at(0, 1));
    assert!(fresh(&tier, 100) && !fresh(&tier, 101));
    // The time to live doubles without changes, up to the maximum.
    fetch(&mut tier, 200, at(200, 1));
    assert!(fresh(&tier, 400) && !fresh(&tier, 401));
    fetch(&mut tier, 500, Fetched::Unchanged(500, false));
    assert!(fresh(&tier, 850) && !fresh(&tier, 851));
    fetch(&mut tier, 900, at(900, 2));
    assert!(fresh(&tier, 1000) && !fresh(&tier, 1001));
}

#[test]
fn a_client_may_demand_newer_or_take_older() {
    let mut tree = Tree::new();
    let a = tree.path("/a");
    let paths = &tree.paths;
    let mut tier = Tier::new(TierSettings {
        freshness: Freshness::TimeToLive {
            least: 100,
            most: 100,
        },
        ..TierSettings::default()
    });
    let mut out = Vec::new();
    tier.request(0, fetch_request(Request::stat(a)), paths, &mut out);
    let early = sent(&mut out)[0].0;
    // A client that demands an answer younger than the one in flight waits for the next.
    let newest = TierRequest {
        max_age: Some(0),
        ticket: 8,
        ..fetch_request(Request::stat(a))
    };
    assert_eq!(tier.request(50, newest, paths, &mut out), Reply::Wait);
    let old = Fetched::Answer(Answer::present(file(1), 10));
    tier.handle_response(60, early, old, paths, &mut out);
    let tickets: Vec<u64> = out
        .iter()
        .filter_map(|o| match o {
            Output::Done { ticket, .. } => Some(*ticket),
            _ => None,
        })
        .collect();
    assert_eq!(tickets, [7]);
    let late = sent(&mut out)[0].0;
    let new = Fetched::Answer(Answer::present(file(2), 70));
    tier.handle_response(80, late, new, paths, &mut out);
    assert!(matches!(&out[0], Output::Done { ticket: 8, result: Ok(a), .. } if a.at == 70));
    out.clear();
    // Later, the origin hangs: clients that accept expired answers get them.
    for (stale_if_error, good) in [(false, false), (true, true)] {
        let asked = TierRequest {
            stale_if_error,
            ..fetch_request(Request::stat(a))
        };
        assert_eq!(tier.request(500, asked, paths, &mut out), Reply::Wait);
        let run = sent(&mut out)[0].0;
        let failed = Fetched::Failed(Failure::Origin("it hangs".into()));
        tier.handle_response(600, run, failed, paths, &mut out);
        let Output::Done { result, .. } = &out[0] else {
            panic!("{out:?}");
        };
        assert_eq!(result.is_ok(), good);
        out.clear();
    }
}

/// While upstream is unreachable, the parent's listing answers for a path that was never requested itself.
#[test]
fn an_old_listing_answers_for_its_names_if_it_must() {
    let mut tree = Tree::new();
    let (above, a, none) = (tree.path("/d"), tree.path("/d/a"), tree.path("/d/none"));
    let paths = &tree.paths;
    let mut tier = Tier::new(TierSettings {
        freshness: Freshness::TimeToLive {
            least: 100,
            most: 100,
        },
        ..TierSettings::default()
    });
    let mut out = Vec::new();
    assert_eq!(
        tier.request(0, fetch_request(Request::list(above)), paths, &mut out),
        Reply::Wait
    );
    let run = sent(&mut out)[0].0;
    let child = Child {
        path: a,
        attributes: file(7),
    };
    let listing = directory(vec![child], true, 0, paths);
    tier.handle_response(0, run, Fetched::Answer(listing), paths, &mut out);
    out.clear();
    for (path, state) in [(a, State::Present(file(7))), (none, State::Absent)] {
        for stale_if_error in [false, true] {
            let asked = TierRequest {
                stale_if_error,
                ..fetch_request(Request::stat(path))
            };
            assert_eq!(tier.request(500, asked, paths, &mut out), Reply::Wait);
            let run = sent(&mut out)[0].0;
            let failed = Fetched::Failed(Failure::Origin("it hangs".into()));
            tier.handle_response(600, run, failed, paths, &mut out);
            let Output::Done { result, .. } = &out[0] else {
                panic!("{out:?}");
            };
            let got = result.as_ref().ok().map(|a| (a.state.clone(), a.at));
            assert_eq!(got, stale_if_error.then(|| (state.clone(), 0)));
            out.clear();
        }
    }
}

#[test]
fn numbers_of_paths_that_nobody_holds_are_given_again() {
    let mut tree = Tree::new();
    let mut tier = Tier::new(TierSettings {
        capacity: 4096,
        predictor: esker_site_cache::predict::PredictorKind::Learned.make(None),
        subscribed_max: 4,
        ..TierSettings::default()
    });
    let mut out = Vec::new();
    for i in 0..2000 {
        let path = tree.path(&format!("/d{}/{i}", i % 7));
        if tier.request(i, fetch_request(Request::stat(path)), &tree.paths, &mut out) == Reply::Wait
        {
            while let Some((run, request, _)) = sent(&mut out).pop() {
                let answer = Answer::present(file(request.path.index() as u64), i);
                tier.handle_response(i, run, Fetched::Answer(answer), &tree.paths, &mut out);
            }
        }
        if i % 500 == 499 {
            let mut held = vec![false; tree.paths.bound()];
            tier.mark_used_paths(&mut |path| held[path.index()] = true);
            tree.paths.sweep(|path| held[path.index()]);
        }
        assert!(tier.used() <= 4096);
    }
    // All kept paths still have their names.
    for i in 1990..2000 {
        let path = tree.path(&format!("/d{}/{i}", i % 7));
        if let Some(answer) = tier.peek(3000, Request::stat(path), &tree.paths) {
            assert_eq!(answer.state, State::Present(file(path.index() as u64)));
        }
    }
}

/// An origin, a cloud service and two edges, with delayed messages.
struct Network {
    tree: Tree,
    names: Vec<PathId>,
    /// Existing paths, with the number of their creation.
    origin: BTreeMap<PathId, u64>,
    made: u64,
    cloud: Tier,
    edges: [Tier; 2],
    /// Changes that have not reached the cloud.
    unpublished: VecDeque<(Change, Option<u64>)>,
    at_origin: Vec<(Run, Request, Option<Answer>)>,
    to_cloud: Vec<TierRequest>,
    to_edge: [Vec<(Run, Fetched)>; 2],
    tells: [VecDeque<Change>; 2],
    /// Per edge, the latest creation of each path that is known to be deleted.
    dead: [BTreeMap<PathId, u64>; 2],
    /// Per notified change, the creation that it ended. Deletions are notified in order.
    ended: BTreeMap<PathId, VecDeque<u64>>,
    now: u64,
}

impl Network {
    fn new(capacity: u64, subscribed_max: usize, policy: Policy) -> Self {
        let mut tree = Tree::new();
        let names = ["/d", "/d/a", "/d/b", "/d/c/x", "/e"];
        let names: Vec<PathId> = names.iter().map(|n| tree.path(n)).collect();
        let edge = || {
            Tier::new(TierSettings {
                capacity,
                policy,
                predictor: esker_site_cache::predict::PredictorKind::Guarded.make(Some(0)),
                ..TierSettings::default()
            })
        };
        Self {
            tree,
            names,
            origin: BTreeMap::new(),
            made: 0,
            cloud: Tier::new(TierSettings {
                subscribed_max,
                ..TierSettings::cloud(3)
            }),
            edges: [edge(), edge()],
            unpublished: VecDeque::new(),
            at_origin: Vec::new(),
            to_cloud: Vec::new(),
            to_edge: [Vec::new(), Vec::new()],
            tells: [VecDeque::new(), VecDeque::new()],
            dead: [BTreeMap::new(), BTreeMap::new()],
            ended: BTreeMap::new(),
            now: 0,
        }
    }

    fn attributes(&self, path: PathId) -> Attributes {
        let below = |p: &PathId| self.tree.paths.parent(*p) == Some(path);
        let kind =
            if path == self.tree.root || self.names.iter().any(below) || path == self.above_x() {
                Kind::Directory
            } else {
                Kind::File
            };
        Attributes {
            kind,
            size: self.origin.get(&path).copied(),
            ..Attributes::default()
        }
    }

    fn above_x(&self) -> PathId {
        self.tree.paths.parent(self.names[3]).unwrap()
    }

    fn read(&self, request: Request) -> Answer {
        let path = request.path;
        if path != self.tree.root && !self.origin.contains_key(&path) {
            return Answer::absent(self.now);
        }
        let mut answer = Answer::present(self.attributes(path), self.now);
        if request.wants == Wants::List && self.attributes(path).kind == Kind::Directory {
            let below = self.origin.keys().copied();
            let below = below.filter(|p| self.tree.paths.parent(*p) == Some(path));
            let children = below
                .map(|path| Child {
                    path,
                    attributes: self.attributes(path),
                })
                .collect();
            answer.listing = Some(Arc::new(Listing::new(children, true, &self.tree.paths)));
        }
        answer
    }

    fn change(&mut self, name: usize) {
        let path = self.names[name];
        if self.origin.contains_key(&path) {
            for below in self.tree.paths.subtree(path) {
                if let Some(made) = self.origin.remove(&below) {
                    self.ended.entry(below).or_default().push_back(made);
                }
            }
            let kind = ChangeKind::Deleted;
            self.unpublished
                .push_back((Change { path, kind }, Some(self.made)));
            return;
        }
        let missing: Vec<PathId> = self.tree.paths.upwards(path).collect();
        for path in missing.into_iter().rev() {
            if path != self.tree.root && !self.origin.contains_key(&path) {
                self.made += 1;
                self.origin.insert(path, self.made);
                let kind = ChangeKind::Changed(self.attributes(path));
                self.unpublished.push_back((Change { path, kind }, None));
            }
        }
    }

    fn cloud_says(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send { sent, .. } => self.at_origin.push((sent.run, sent.key, None)),
                Output::Cancel(_) => {}
                Output::Done {
                    requester: Requester::Tier(edge),
                    ticket,
                    result,
                } => {
                    let fetched = match result {
                        Ok(answer) => Fetched::Answer(answer),
                        Err(failure) => Fetched::Failed(failure),
                    };
                    self.to_edge[edge as usize].push((Run(ticket), fetched));
                }
                Output::Notify { to, change } => self.tells[to as usize].push_back(change),
                other @ Output::Done { .. } => panic!("{other:?}"),
            }
        }
    }

    fn edge_says(&mut self, edge: usize, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send { sent, .. } => self.to_cloud.push(TierRequest {
                    requester: Requester::Tier(edge as u32),
                    ticket: sent.run.0,
                    class: sent.class,
                    ..fetch_request(sent.key)
                }),
                Output::Done { result, ticket, .. } => {
                    let path = self.names.get(ticket as usize).copied();
                    self.check(edge, path.unwrap_or(self.tree.root), result);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Checks that no answer shows a path after the edge was notified of its deletion.
    fn check(&self, edge: usize, path: PathId, result: Result<Answer, Failure>) {
        let Ok(answer) = result else { return };
        let dead = |path: PathId| self.dead[edge].get(&path).copied().unwrap_or(0);
        if let State::Present(attributes) = &answer.state {
            let made = attributes.size.unwrap_or(u64::MAX);
            assert!(
                made > dead(path),
                "{} came back",
                self.tree.paths.text(path)
            );
        }
        for child in answer.listing.iter().flat_map(|l| l.children()) {
            let made = child.attributes.size.unwrap_or(u64::MAX);
            assert!(
                made > dead(child.path),
                "{} came back",
                self.tree.paths.text(child.path)
            );
        }
    }

    fn publish(&mut self) -> bool {
        let Some((change, _)) = self.unpublished.pop_front() else {
            return false;
        };
        let mut out = Vec::new();
        self.cloud
            .publish(self.now, &change, &self.tree.paths, &mut out);
        self.cloud_says(out);
        true
    }

    fn tell(&mut self, edge: usize) -> bool {
        let Some(change) = self.tells[edge].pop_front() else {
            return false;
        };
        let mut out = Vec::new();
        self.edges[edge].publish(self.now, &change, &self.tree.paths, &mut out);
        if change.kind == ChangeKind::Deleted {
            // All earlier creations that were published as ended: those before the present one.
            for path in self.tree.paths.subtree(change.path) {
                let waiting = self.unpublished.iter().filter_map(|(c, m)| {
                    (c.kind == ChangeKind::Deleted && self.tree.paths.covers(c.path, path))
                        .then_some(*m)
                });
                // A tier that was forgotten meanwhile is notified of that instead of later changes.
                let also = self.tells[edge].iter().any(|c| {
                    !matches!(c.kind, ChangeKind::Changed(_))
                        && self.tree.paths.covers(c.path, path)
                });
                if waiting.count() == 0
                    && !also
                    && let Some(made) = self.ended.get(&path).and_then(|e| e.back())
                {
                    self.dead[edge].insert(path, *made);
                }
            }
        }
        self.edge_says(edge, out);
        true
    }

    fn deliver_request(&mut self, which: usize) -> bool {
        if self.to_cloud.is_empty() {
            return false;
        }
        let asked = self.to_cloud.remove(which % self.to_cloud.len());
        let mut out = Vec::new();
        let said = self
            .cloud
            .request(self.now, asked, &self.tree.paths, &mut out);
        assert_eq!(said, Reply::Wait);
        self.cloud_says(out);
        true
    }

    fn serve(&mut self, which: usize) -> bool {
        if self.at_origin.is_empty() {
            return false;
        }
        let which = which % self.at_origin.len();
        let (run, request, read) = self.at_origin[which].clone();
        let Some(answer) = read else {
            self.at_origin[which].2 = Some(self.read(request));
            return true;
        };
        self.at_origin.remove(which);
        let mut out = Vec::new();
        let fetched = Fetched::Answer(answer);
        self.cloud
            .handle_response(self.now, run, fetched, &self.tree.paths, &mut out);
        self.cloud_says(out);
        true
    }

    fn answer(&mut self, edge: usize, which: usize) -> bool {
        if self.to_edge[edge].is_empty() {
            return false;
        }
        let which = which % self.to_edge[edge].len();
        let (run, fetched) = self.to_edge[edge].remove(which);
        let mut out = Vec::new();
        self.edges[edge].handle_response(self.now, run, fetched, &self.tree.paths, &mut out);
        self.edge_says(edge, out);
        true
    }

    fn client(&mut self, edge: usize, name: usize, list: bool) {
        let path = self.names[name];
        let request = if list {
            Request::list(path)
        } else {
            Request::stat(path)
        };
        let mut out = Vec::new();
        let asked = TierRequest {
            ticket: name as u64,
            ..fetch_request(request)
        };
        let said = self.edges[edge].request(self.now, asked, &self.tree.paths, &mut out);
        self.edge_says(edge, out);
        match said {
            Reply::Answer(answer) => self.check(edge, path, Ok(answer)),
            Reply::Wait => {}
            Reply::Refused(failure) => panic!("{failure}"),
        }
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.now += 1;
            let moved = self.publish()
                || self.tell(0)
                || self.tell(1)
                || self.deliver_request(0)
                || self.serve(0)
                || self.answer(0, 0)
                || self.answer(1, 0);
            if !moved {
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn nothing_comes_back_after_its_deletion_was_published(
        capacity in prop_oneof![Just(400_u64), Just(100_000)],
        subscribed_max in 1_usize..5,
        policy in 0_usize..4,
        steps in prop::collection::vec((0_u8..12, 0_usize..5, 0_usize..2, any::<bool>()), 0..250),
    ) {
        let mut network = Network::new(capacity, subscribed_max, Policy::ALL[policy]);
        for (what, which, edge, list) in steps {
            network.now += 1;
            match what {
                0..3 => network.client(edge, which, list),
                3 => network.change(which),
                4..6 => _ = network.publish(),
                6 => _ = network.tell(edge),
                7..9 => _ = network.serve(which),
                9 => _ = network.deliver_request(which),
                _ => _ = network.answer(edge, which),
            }
        }
        network.settle();
        // At rest, both edges answer correctly.
        for edge in 0..2 {
            for name in 0..network.names.len() {
                let path = network.names[name];
                for request in [Request::stat(path), Request::list(path)] {
                    let said = network.edges[edge].peek(network.now, request, &network.tree.paths);
                    let Some(said) = said else { continue };
                    let truth = network.read(request);
                    prop_assert_eq!(said.is_absent(), truth.is_absent(), "{}", network.tree.paths.text(path));
                    if let (Some(said), Some(truth)) = (&said.listing, &truth.listing) {
                        prop_assert_eq!(said.children(), truth.children());
                    }
                    if let (State::Present(said), State::Present(truth)) = (&said.state, &truth.state) {
                        prop_assert_eq!(said.size, truth.size);
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_made_again_after_its_deletion_is_heard_of() {
    let mut network = Network::new(100_000, 100, Policy::Lru);
    let path = network.names[1];
    for (what, there) in [(1, true), (0, false), (1, true)] {
        network.change(what);
        network.settle();
        let said = network.edges[0].peek(network.now, Request::stat(path), &network.tree.paths);
        assert!(said.is_none_or(|answer| answer.is_absent() != there));
        network.client(0, 1, false);
        network.settle();
        let said = network.edges[0].peek(network.now, Request::stat(path), &network.tree.paths);
        assert_eq!(said.map(|answer| answer.is_absent()), Some(!there));
    }
}

#[test]
fn tiers_notified_of_a_deletion_are_notified_of_its_end() {
    // The edge requests a path deep below, and is notified of the directory above only because that is deleted.
    let mut network = Network::new(100_000, 100, Policy::Lru);
    network.client(0, 3, false);
    network.settle();
    for _ in 0..3 {
        network.change(0);
    }
    network.settle();
    let directory = Request::stat(network.names[0]);
    let said = network.edges[0].peek(network.now, directory, &network.tree.paths);
    assert!(said.is_none_or(|answer| !answer.is_absent()));
}
