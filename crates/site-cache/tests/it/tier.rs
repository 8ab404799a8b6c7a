//! A tier: what one listing answers, how old answers may be, who waits, and that deletions hold.

use esker_site_cache::cache::Policy;
use esker_site_cache::entry::{
    Answer, Attributes, Change, Child, Failure, Happened, Kind, Listing, Request, State, Wants,
};
use esker_site_cache::path::{PathId, Paths};
use esker_site_cache::queue::{Class, Run};
use esker_site_cache::tier::{Ask, Fetched, Freshness, Output, Reply, Settings, Tier, Who};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

fn ask(request: Request) -> Ask {
    Ask {
        who: Who::Client(1),
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
        let mut tier = Tier::new(Settings::default());
        let mut out = Vec::new();
        assert_eq!(
            tier.ask(0, ask(Request::list(d)), paths, &mut out),
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
        assert!(tier.answered(9, run, Fetched::Answer(answer), paths, &mut out));
        out.clear();
        let Reply::Answer(answer) = tier.ask(10, ask(Request::stat(a)), paths, &mut out) else {
            panic!("the listing answers");
        };
        assert_eq!((answer.state, answer.at), (State::Present(file(5)), 3));
        // Of a name without attributes only the origin knows more.
        assert_eq!(
            tier.ask(10, ask(Request::stat(link)), paths, &mut out),
            Reply::Wait
        );
        for path in [missing, deep] {
            let said = tier.ask(11, ask(Request::stat(path)), paths, &mut out);
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
    let mut tier = Tier::new(Settings {
        running_max: 1,
        ..Settings::default()
    });
    let mut out = Vec::new();
    let prefetch = |path| Ask {
        class: Class::Prefetch(1),
        who: Who::Tier(4),
        ..ask(Request::stat(path))
    };
    tier.ask(0, prefetch(a), paths, &mut out);
    tier.ask(0, prefetch(b), paths, &mut out);
    let first = sent(&mut out);
    assert_eq!((first.len(), first[0].1.path), (1, a));
    tier.ask(1, ask(Request::stat(b)), paths, &mut out);
    tier.ask(1, ask(Request::stat(a)), paths, &mut out);
    assert!(out.is_empty());
    let answer = Fetched::Answer(Answer::absent(1));
    tier.answered(2, first[0].0, answer.clone(), paths, &mut out);
    let told: Vec<Who> = out
        .iter()
        .filter_map(|o| match o {
            Output::Done { who, result, .. } => result.as_ref().ok().map(|_| *who),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Who::Tier(4), Who::Client(1)]);
    let second = sent(&mut out);
    assert_eq!((second[0].1.path, second[0].2), (b, Class::Fetch));
    // An answer that nobody waits for any more is no harm.
    assert!(!tier.answered(2, first[0].0, answer, paths, &mut out));
}

#[test]
fn a_fetch_takes_the_place_of_a_prefetch() {
    let mut tree = Tree::new();
    let (a, b) = (tree.path("/a"), tree.path("/b"));
    let paths = &tree.paths;
    let mut cloud = Tier::new(Settings::cloud(1));
    let mut out = Vec::new();
    let prefetch = Ask {
        class: Class::Prefetch(6),
        who: Who::Tier(1),
        ..ask(Request::list(a))
    };
    cloud.ask(0, prefetch, paths, &mut out);
    let run = sent(&mut out)[0].0;
    let fetch = Ask {
        who: Who::Tier(1),
        ..ask(Request::list(b))
    };
    cloud.ask(1, fetch, paths, &mut out);
    assert_eq!(out[0], Output::Cancel(run));
    assert_eq!(sent(&mut out)[0].1.path, b);
    assert!(!cloud.answered(2, run, Fetched::Answer(Answer::absent(0)), paths, &mut out));
}

#[test]
fn answers_grow_old() {
    let mut tree = Tree::new();
    let a = tree.path("/a");
    let paths = &tree.paths;
    let mut tier = Tier::new(Settings {
        freshness: Freshness::TimeToLive {
            least: 100,
            most: 350,
        },
        ..Settings::default()
    });
    let mut out = Vec::new();
    let mut fetch = |tier: &mut Tier, now: u64, fetched: Fetched| {
        assert_eq!(
            tier.ask(now, ask(Request::stat(a)), paths, &mut out),
            Reply::Wait
        );
        let run = sent(&mut out)[0].0;
        tier.answered(now, run, fetched, paths, &mut out);
        out.clear();
    };
    let at = |now: u64, size: u64| Fetched::Answer(Answer::present(file(size), now));
    let fresh = |tier: &Tier, now: u64| tier.look(now, Request::stat(a), paths).is_some();
    fetch(&mut tier, 0, at(0, 1));
    assert!(fresh(&tier, 100) && !fresh(&tier, 101));
    // Twice as long after nothing had changed, but never longer than the most.
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
    let mut tier = Tier::new(Settings {
        freshness: Freshness::TimeToLive {
            least: 100,
            most: 100,
        },
        ..Settings::default()
    });
    let mut out = Vec::new();
    tier.ask(0, ask(Request::stat(a)), paths, &mut out);
    let early = sent(&mut out)[0].0;
    // Whoever demands an answer that is younger than what is on its way waits for the next.
    let newest = Ask {
        max_age: Some(0),
        ticket: 8,
        ..ask(Request::stat(a))
    };
    assert_eq!(tier.ask(50, newest, paths, &mut out), Reply::Wait);
    let old = Fetched::Answer(Answer::present(file(1), 10));
    tier.answered(60, early, old, paths, &mut out);
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
    tier.answered(80, late, new, paths, &mut out);
    assert!(matches!(&out[0], Output::Done { ticket: 8, result: Ok(a), .. } if a.at == 70));
    out.clear();
    // Later, the origin hangs: what was known does for those who said so.
    for (stale_if_error, good) in [(false, false), (true, true)] {
        let asked = Ask {
            stale_if_error,
            ..ask(Request::stat(a))
        };
        assert_eq!(tier.ask(500, asked, paths, &mut out), Reply::Wait);
        let run = sent(&mut out)[0].0;
        let failed = Fetched::Failed(Failure::Origin("it hangs".into()));
        tier.answered(600, run, failed, paths, &mut out);
        let Output::Done { result, .. } = &out[0] else {
            panic!("{out:?}");
        };
        assert_eq!(result.is_ok(), good);
        out.clear();
    }
}

/// When nobody can be asked, the listing above does for a path that was never asked about itself.
#[test]
fn an_old_listing_answers_for_its_names_if_it_must() {
    let mut tree = Tree::new();
    let (above, a, none) = (tree.path("/d"), tree.path("/d/a"), tree.path("/d/none"));
    let paths = &tree.paths;
    let mut tier = Tier::new(Settings {
        freshness: Freshness::TimeToLive {
            least: 100,
            most: 100,
        },
        ..Settings::default()
    });
    let mut out = Vec::new();
    assert_eq!(
        tier.ask(0, ask(Request::list(above)), paths, &mut out),
        Reply::Wait
    );
    let run = sent(&mut out)[0].0;
    let child = Child {
        path: a,
        attributes: file(7),
    };
    let listing = directory(vec![child], true, 0, paths);
    tier.answered(0, run, Fetched::Answer(listing), paths, &mut out);
    out.clear();
    for (path, state) in [(a, State::Present(file(7))), (none, State::Absent)] {
        for stale_if_error in [false, true] {
            let asked = Ask {
                stale_if_error,
                ..ask(Request::stat(path))
            };
            assert_eq!(tier.ask(500, asked, paths, &mut out), Reply::Wait);
            let run = sent(&mut out)[0].0;
            let failed = Fetched::Failed(Failure::Origin("it hangs".into()));
            tier.answered(600, run, failed, paths, &mut out);
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
    let mut tier = Tier::new(Settings {
        capacity: 4096,
        predictor: esker_site_cache::predict::Choice::Learned.make(None),
        subscribed_max: 4,
        ..Settings::default()
    });
    let mut out = Vec::new();
    for i in 0..2000 {
        let path = tree.path(&format!("/d{}/{i}", i % 7));
        if tier.ask(i, ask(Request::stat(path)), &tree.paths, &mut out) == Reply::Wait {
            while let Some((run, request, _)) = sent(&mut out).pop() {
                let answer = Answer::present(file(request.path.index() as u64), i);
                tier.answered(i, run, Fetched::Answer(answer), &tree.paths, &mut out);
            }
        }
        if i % 500 == 499 {
            let mut held = vec![false; tree.paths.bound()];
            tier.held(&mut |path| held[path.index()] = true);
            tree.paths.sweep(|path| held[path.index()]);
        }
        assert!(tier.used() <= 4096);
    }
    // Whatever is kept still says what it said.
    for i in 1990..2000 {
        let path = tree.path(&format!("/d{}/{i}", i % 7));
        if let Some(answer) = tier.look(3000, Request::stat(path), &tree.paths) {
            assert_eq!(answer.state, State::Present(file(path.index() as u64)));
        }
    }
}

/// An origin, a cloud service and two edges, with messages that take their time.
struct Network {
    tree: Tree,
    names: Vec<PathId>,
    /// What is there, with the number of its making.
    world: BTreeMap<PathId, u64>,
    made: u64,
    cloud: Tier,
    edges: [Tier; 2],
    /// Changes that the cloud has not heard of.
    unpublished: VecDeque<(Change, Option<u64>)>,
    at_origin: Vec<(Run, Request, Option<Answer>)>,
    to_cloud: Vec<Ask>,
    to_edge: [Vec<(Run, Fetched)>; 2],
    tells: [VecDeque<Change>; 2],
    /// Of each edge, up to which making a path is known to be gone.
    dead: [BTreeMap<PathId, u64>; 2],
    /// By change told: what it ended. Deletions are told in the order in which they happened.
    ended: BTreeMap<PathId, VecDeque<u64>>,
    now: u64,
}

impl Network {
    fn new(capacity: u64, subscribed_max: usize, policy: Policy) -> Self {
        let mut tree = Tree::new();
        let names = ["/d", "/d/a", "/d/b", "/d/c/x", "/e"];
        let names: Vec<PathId> = names.iter().map(|n| tree.path(n)).collect();
        let edge = || {
            Tier::new(Settings {
                capacity,
                policy,
                predictor: esker_site_cache::predict::Choice::Guarded.make(Some(0)),
                ..Settings::default()
            })
        };
        Self {
            tree,
            names,
            world: BTreeMap::new(),
            made: 0,
            cloud: Tier::new(Settings {
                subscribed_max,
                ..Settings::cloud(3)
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
            size: self.world.get(&path).copied(),
            ..Attributes::default()
        }
    }

    fn above_x(&self) -> PathId {
        self.tree.paths.parent(self.names[3]).unwrap()
    }

    fn read(&self, request: Request) -> Answer {
        let path = request.path;
        if path != self.tree.root && !self.world.contains_key(&path) {
            return Answer::absent(self.now);
        }
        let mut answer = Answer::present(self.attributes(path), self.now);
        if request.wants == Wants::List && self.attributes(path).kind == Kind::Directory {
            let below = self.world.keys().copied();
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
        if self.world.contains_key(&path) {
            for below in self.tree.paths.subtree(path) {
                if let Some(made) = self.world.remove(&below) {
                    self.ended.entry(below).or_default().push_back(made);
                }
            }
            let happened = Happened::Deleted;
            self.unpublished
                .push_back((Change { path, happened }, Some(self.made)));
            return;
        }
        let missing: Vec<PathId> = self.tree.paths.upwards(path).collect();
        for path in missing.into_iter().rev() {
            if path != self.tree.root && !self.world.contains_key(&path) {
                self.made += 1;
                self.world.insert(path, self.made);
                let happened = Happened::Changed(self.attributes(path));
                self.unpublished
                    .push_back((Change { path, happened }, None));
            }
        }
    }

    fn cloud_says(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send { sent, .. } => self.at_origin.push((sent.run, sent.key, None)),
                Output::Cancel(_) => {}
                Output::Done {
                    who: Who::Tier(edge),
                    ticket,
                    result,
                } => {
                    let fetched = match result {
                        Ok(answer) => Fetched::Answer(answer),
                        Err(failure) => Fetched::Failed(failure),
                    };
                    self.to_edge[edge as usize].push((Run(ticket), fetched));
                }
                Output::Tell { to, change } => self.tells[to as usize].push_back(change),
                other @ Output::Done { .. } => panic!("{other:?}"),
            }
        }
    }

    fn edge_says(&mut self, edge: usize, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send { sent, .. } => self.to_cloud.push(Ask {
                    who: Who::Tier(edge as u32),
                    ticket: sent.run.0,
                    class: sent.class,
                    ..ask(sent.key)
                }),
                Output::Done { result, ticket, .. } => {
                    let path = self.names.get(ticket as usize).copied();
                    self.check(edge, path.unwrap_or(self.tree.root), result);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Nothing is there any more that the edge has been told is gone.
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
        if change.happened == Happened::Deleted {
            // All makings up to now that are not there any more and were published: those before the present one.
            for path in self.tree.paths.subtree(change.path) {
                let waiting = self.unpublished.iter().filter_map(|(c, m)| {
                    (c.happened == Happened::Deleted && self.tree.paths.covers(c.path, path))
                        .then_some(*m)
                });
                // Who was forgotten meanwhile is told of that instead of what happened later.
                let also = self.tells[edge].iter().any(|c| {
                    !matches!(c.happened, Happened::Changed(_))
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

    fn arrive(&mut self, which: usize) -> bool {
        if self.to_cloud.is_empty() {
            return false;
        }
        let asked = self.to_cloud.remove(which % self.to_cloud.len());
        let mut out = Vec::new();
        let said = self.cloud.ask(self.now, asked, &self.tree.paths, &mut out);
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
            .answered(self.now, run, fetched, &self.tree.paths, &mut out);
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
        self.edges[edge].answered(self.now, run, fetched, &self.tree.paths, &mut out);
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
        let asked = Ask {
            ticket: name as u64,
            ..ask(request)
        };
        let said = self.edges[edge].ask(self.now, asked, &self.tree.paths, &mut out);
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
                || self.arrive(0)
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
                9 => _ = network.arrive(which),
                _ => _ = network.answer(edge, which),
            }
        }
        network.settle();
        // At rest, both edges say what is true.
        for edge in 0..2 {
            for name in 0..network.names.len() {
                let path = network.names[name];
                for request in [Request::stat(path), Request::list(path)] {
                    let said = network.edges[edge].look(network.now, request, &network.tree.paths);
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
        let said = network.edges[0].look(network.now, Request::stat(path), &network.tree.paths);
        assert!(said.is_none_or(|answer| answer.is_absent() != there));
        network.client(0, 1, false);
        network.settle();
        let said = network.edges[0].look(network.now, Request::stat(path), &network.tree.paths);
        assert_eq!(said.map(|answer| answer.is_absent()), Some(!there));
    }
}

#[test]
fn who_is_told_of_a_deletion_hears_of_its_end() {
    // The edge asks for what is deep below, and hears of the directory above only because that is deleted.
    let mut network = Network::new(100_000, 100, Policy::Lru);
    network.client(0, 3, false);
    network.settle();
    for _ in 0..3 {
        network.change(0);
    }
    network.settle();
    let directory = Request::stat(network.names[0]);
    let said = network.edges[0].look(network.now, directory, &network.tree.paths);
    assert!(said.is_none_or(|answer| !answer.is_absent()));
}
