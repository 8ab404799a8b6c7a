//! Simulated origin of a replay: the tree that a trace implies, before the trace and as changed by it.

use crate::entry::{
    Answer, Attributes, Change, ChangeKind, Child, Kind, Listing, Request, State, Time, Wants,
};
use crate::path::{PathId, Paths};
use crate::trace::{Event, Op, Traces};
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
struct OriginNode {
    exists: bool,
    directory: bool,
    children: Vec<PathId>,
    listing: Option<Arc<Listing>>,
}

/// A tree of paths.
#[derive(Debug, Clone, Default)]
pub struct SimulatedOrigin {
    nodes: Vec<OriginNode>,
    /// Shared listing of all empty directories.
    empty: Option<Arc<Listing>>,
}

impl SimulatedOrigin {
    /// Derives the tree before the first of these events. A path that is read, and its ancestors, must have existed, unless the
    /// trace reports it missing or creates it first.
    pub fn before(events: &[Event], traces: &Traces) -> Self {
        let mut origin = Self::default();
        origin.fit(&traces.paths);
        let paths = &traces.paths;
        let mut seen = vec![false; paths.bound()];
        origin.add(traces.root, true, paths, &mut Vec::new());
        let mut none = Vec::new();
        for event in events {
            let first = !std::mem::replace(&mut seen[event.path.index()], true);
            // The ancestors of a path that is read or created existed, too, unless the trace created them before.
            let above: Vec<PathId> = paths.upwards(event.path).skip(1).collect();
            let there = event.op != Op::Create && event.found != Some(false);
            for path in above {
                if event.found == Some(false) {
                    break;
                }
                if !std::mem::replace(&mut seen[path.index()], true) {
                    origin.add(path, true, paths, &mut none);
                }
            }
            if first && there {
                let directory = event.directory || event.op == Op::List;
                origin.add(event.path, directory, paths, &mut none);
            }
            if event.op == Op::List {
                origin.nodes[event.path.index()].directory = true;
            }
            if let Some(to) = event.to {
                seen[to.index()] = true;
            }
        }
        origin
    }

    fn fit(&mut self, paths: &Paths) {
        if self.nodes.len() < paths.bound() {
            self.nodes.resize(paths.bound(), OriginNode::default());
        }
    }

    /// Whether the path exists.
    pub fn exists(&self, path: PathId) -> bool {
        self.nodes.get(path.index()).is_some_and(|n| n.exists)
    }

    fn attributes(&self, path: PathId) -> Attributes {
        Attributes::of(if self.nodes[path.index()].directory {
            Kind::Directory
        } else {
            Kind::File
        })
    }

    /// Creates a path and its missing ancestors; appends the changes.
    fn add(&mut self, path: PathId, directory: bool, paths: &Paths, changes: &mut Vec<Change>) {
        let missing: Vec<PathId> = paths
            .upwards(path)
            .take_while(|p| *p == path || !self.exists(*p))
            .collect();
        for at in missing.into_iter().rev() {
            let parent = paths.parent(at);
            let node = &mut self.nodes[at.index()];
            let new = !node.exists;
            node.exists = true;
            node.directory = at != path || directory || !node.children.is_empty();
            if let Some(parent) = parent {
                let above = &mut self.nodes[parent.index()];
                above.directory = true;
                above.listing = None;
                if new {
                    above.children.push(at);
                }
            }
            let kind = ChangeKind::Changed(self.attributes(at));
            changes.push(Change { path: at, kind });
        }
    }

    fn remove(&mut self, path: PathId, paths: &Paths, changes: &mut Vec<Change>) -> Vec<PathId> {
        if !self.exists(path) {
            return Vec::new();
        }
        if let Some(parent) = paths.parent(path) {
            let above = &mut self.nodes[parent.index()];
            above.listing = None;
            above.children.retain(|c| *c != path);
        }
        let mut gone = vec![path];
        let mut at = 0;
        while let Some(next) = gone.get(at).copied() {
            let node = &mut self.nodes[next.index()];
            node.exists = false;
            node.listing = None;
            gone.append(&mut node.children);
            at += 1;
        }
        let kind = ChangeKind::Deleted;
        changes.push(Change { path, kind });
        gone
    }

    /// Applies an event. Reads change nothing, except that where the trace contradicts the tree, the trace is right: a client that
    /// it does not show made the change.
    pub fn apply(&mut self, event: &Event, paths: &mut Paths, changes: &mut Vec<Change>) {
        self.fit(paths);
        let path = event.path;
        match event.op {
            Op::List | Op::Stat | Op::Open => match (event.found, self.exists(path)) {
                (Some(false), true) => {
                    self.remove(path, paths, changes);
                }
                (Some(true), false) => {
                    let directory = event.directory || event.op == Op::List;
                    self.add(path, directory, paths, changes);
                }
                _ => {}
            },
            Op::Create => self.add(path, event.directory, paths, changes),
            Op::Set => {
                if self.exists(path) {
                    let kind = ChangeKind::Changed(self.attributes(path));
                    changes.push(Change { path, kind });
                }
            }
            Op::Delete => {
                self.remove(path, paths, changes);
            }
            Op::Rename => self.rename(path, event.to, paths, changes),
        }
    }

    fn rename(
        &mut self,
        from: PathId,
        to: Option<PathId>,
        paths: &mut Paths,
        changes: &mut Vec<Change>,
    ) {
        let Some(to) = to else { return };
        if from == to || !self.exists(from) || paths.covers(from, to) {
            return;
        }
        let directory = self.nodes[from.index()].directory;
        let moved = self.remove(from, paths, changes);
        // Cached answers about the new path are invalid, whether it existed or not.
        self.remove(to, paths, changes);
        let kind = ChangeKind::Deleted;
        changes.push(Change { path: to, kind });
        self.add(to, directory, paths, changes);
        let mut unsaid = Vec::new();
        for path in moved.into_iter().skip(1) {
            let names: Vec<Vec<u8>> = paths
                .upwards(path)
                .take_while(|p| *p != from)
                .map(|p| paths.name(p).to_vec())
                .collect();
            let mut at = to;
            for name in names.iter().rev() {
                match paths.child(at, name) {
                    Ok(child) => at = child,
                    Err(_) => return,
                }
            }
            self.fit(paths);
            let directory = self.nodes[path.index()].directory;
            self.add(at, directory, paths, &mut unsaid);
        }
    }

    /// Returns the origin's answer to a request.
    pub fn answer(&mut self, request: Request, at: Time, paths: &Paths) -> Answer {
        self.fit(paths);
        let path = request.path;
        if !self.exists(path) {
            return Answer::absent(at);
        }
        let attributes = self.attributes(path);
        let listing = (request.wants == Wants::List && attributes.kind == Kind::Directory)
            .then(|| self.listing(path, paths));
        let state = State::Present(attributes);
        Answer {
            state,
            listing,
            at,
            subscribed: false,
        }
    }

    fn listing(&mut self, path: PathId, paths: &Paths) -> Arc<Listing> {
        if let Some(made) = &self.nodes[path.index()].listing {
            return made.clone();
        }
        if self.nodes[path.index()].children.is_empty() {
            let empty = || Arc::new(Listing::new(Vec::new(), true, paths));
            return self.empty.get_or_insert_with(empty).clone();
        }
        let children = self.nodes[path.index()].children.iter();
        let children = children
            .map(|child| Child {
                path: *child,
                attributes: self.attributes(*child),
            })
            .collect();
        let made = Arc::new(Listing::new(children, true, paths));
        self.nodes[path.index()].listing = Some(made.clone());
        made
    }
}
