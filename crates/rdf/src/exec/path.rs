//! Property paths: breadth-first search that visits each node once, so that the time is linear in the edges visited.

use super::{Context, Table};
use crate::algebra::{Path, Pos};
use crate::error::Result;
use crate::id::Id;
use crate::plan::{PathSearch, Slot};
use crate::quads::Graph;
use std::collections::HashSet;

impl PathSearch {
    /// Returns the pairs that the path connects. `starts` and `ends` are candidate values, if known.
    pub(super) fn run(
        &self,
        ctx: &Context<'_>,
        slot: &Slot,
        starts: Option<Vec<Id>>,
        ends: Option<Vec<Id>>,
    ) -> Result<Table> {
        let (s, path, o) = (self.s, &self.path, self.o);
        let graph = ctx.graph();
        let search = GraphSearch { ctx, graph: &graph };
        // A term outside the graph, bound by other patterns, has no path of length zero.
        let inside = |list: Option<Vec<Id>>| {
            list.map(|mut list| {
                if matches!(path, Path::ZeroOrMore(_) | Path::ZeroOrOne(_)) {
                    list.retain(|id| search.has_node(*id));
                }
                list
            })
        };
        let starts = candidates(s, inside(starts));
        let ends = candidates(o, inside(ends));
        // Start from the end with fewer bound nodes, if either is bound.
        let backwards = match (&starts, &ends) {
            (Some(a), Some(b)) => b.len() < a.len(),
            (None, Some(_)) => true,
            _ => false,
        };
        let (from, to) = if backwards {
            (ends, starts)
        } else {
            (starts, ends)
        };
        let known = from.is_some();
        let from = from.unwrap_or_else(|| search.sources(path, backwards));
        ctx.chose(slot, || {
            let end = if backwards { "end" } else { "start" };
            let which = if known { "known" } else { "possible" };
            format!("from {} {which} nodes at the {end}", from.len())
        });
        let to: Option<HashSet<Id>> = to.map(|list| list.into_iter().collect());
        let same = s == o && matches!(s, Pos::Var(_));
        let (mut subjects, mut objects) = (Vec::new(), Vec::new());
        for (n, start) in from.into_iter().enumerate() {
            if n % 64 == 0 {
                ctx.check()?;
                ctx.fits(subjects.len(), 2)?;
            }
            for end in search.from(path, start, backwards)? {
                if to.as_ref().is_some_and(|t| !t.contains(&end)) || (same && start != end) {
                    continue;
                }
                let (a, b) = if backwards {
                    (end, start)
                } else {
                    (start, end)
                };
                subjects.push(a);
                objects.push(b);
            }
        }
        Ok(self.table(subjects, objects))
    }

    /// Returns the pairs as solutions.
    fn table(&self, subjects: Vec<Id>, objects: Vec<Id>) -> Table {
        let len = subjects.len();
        let (vars, columns) = match (self.s, self.o) {
            (Pos::Var(s), Pos::Var(o)) if s == o => (vec![s], vec![subjects]),
            (Pos::Var(s), Pos::Var(o)) => (vec![s, o], vec![subjects, objects]),
            (Pos::Var(s), Pos::Const(_)) => (vec![s], vec![subjects]),
            (Pos::Const(_), Pos::Var(o)) => (vec![o], vec![objects]),
            (Pos::Const(_), Pos::Const(_)) => (Vec::new(), Vec::new()),
        };
        Table::new(vars, columns, len)
    }
}

fn candidates(p: Pos, list: Option<Vec<Id>>) -> Option<Vec<Id>> {
    match p {
        Pos::Const(id) => Some(vec![id]),
        Pos::Var(_) => list,
    }
}

struct GraphSearch<'a> {
    ctx: &'a Context<'a>,
    graph: &'a Graph,
}

impl GraphSearch<'_> {
    fn has_node(&self, id: Id) -> bool {
        self.graph.predicates().iter().any(|p| {
            self.graph
                .index(*p)
                .is_some_and(|x| !x.so.get(id).is_empty() || !x.os.get(id).is_empty())
        })
    }

    /// Returns all nodes at which a path may begin (or end, if `backwards`).
    fn sources(&self, path: &Path, backwards: bool) -> Vec<Id> {
        let mut ids = Vec::new();
        self.begins(path, backwards, &mut ids);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn begins(&self, path: &Path, backwards: bool, to: &mut Vec<Id>) {
        match path {
            Path::Link(p) => {
                if let Some(x) = self.graph.index(*p) {
                    to.extend(if backwards { x.os.keys() } else { x.so.keys() });
                }
            }
            Path::Reverse(p) => self.begins(p, !backwards, to),
            Path::Sequence(a, b) => self.begins(if backwards { b } else { a }, backwards, to),
            Path::Alternative(a, b) => {
                self.begins(a, backwards, to);
                self.begins(b, backwards, to);
            }
            Path::OneOrMore(p) => self.begins(p, backwards, to),
            // Every node reaches itself.
            Path::ZeroOrMore(_) | Path::ZeroOrOne(_) | Path::Not(_) => {
                for p in self.graph.predicates() {
                    if let Some(x) = self.graph.index(*p) {
                        to.extend(x.so.keys());
                        to.extend(x.os.keys());
                    }
                }
            }
        }
    }

    /// Returns the nodes reached by a path from a node. A closure returns each end once; other paths once for each way.
    fn from(&self, path: &Path, start: Id, backwards: bool) -> Result<Vec<Id>> {
        Ok(match path {
            Path::Link(p) => self.graph.index(*p).map_or_else(Vec::new, |x| {
                if backwards {
                    x.os.get(start)
                } else {
                    x.so.get(start)
                }
                .to_vec()
            }),
            Path::Reverse(p) => self.from(p, start, !backwards)?,
            Path::Sequence(a, b) => {
                let (first, second) = if backwards { (b, a) } else { (a, b) };
                let mut ends = Vec::new();
                for (n, middle) in self.from(first, start, backwards)?.into_iter().enumerate() {
                    if n % 1024 == 0 {
                        self.ctx.check()?;
                    }
                    ends.extend(self.from(second, middle, backwards)?);
                    self.ctx.fits(ends.len(), 1)?;
                }
                ends
            }
            Path::Alternative(a, b) => {
                let mut ends = self.from(a, start, backwards)?;
                ends.extend(self.from(b, start, backwards)?);
                self.ctx.fits(ends.len(), 1)?;
                ends
            }
            Path::ZeroOrOne(p) => {
                let mut ends = vec![start];
                let mut more = self.from(p, start, backwards)?;
                more.sort_unstable();
                more.dedup();
                ends.extend(more.into_iter().filter(|x| *x != start));
                ends
            }
            Path::ZeroOrMore(p) => self.closure(p, vec![start], backwards)?,
            Path::OneOrMore(p) => {
                let first = self.from(p, start, backwards)?;
                self.closure(p, first, backwards)?
            }
            Path::Not(list) => {
                let mut ends = Vec::new();
                for p in self.graph.predicates() {
                    if list.contains(p) {
                        continue;
                    }
                    if let Some(x) = self.graph.index(*p) {
                        ends.extend(if backwards {
                            x.os.get(start)
                        } else {
                            x.so.get(start)
                        });
                    }
                }
                ends
            }
        })
    }

    fn closure(&self, path: &Path, first: Vec<Id>, backwards: bool) -> Result<Vec<Id>> {
        let mut seen: HashSet<Id> = HashSet::new();
        let mut ends = Vec::new();
        for id in first {
            if seen.insert(id) {
                ends.push(id);
            }
        }
        let mut at = 0;
        while let Some(id) = ends.get(at).copied() {
            if at % 1024 == 0 {
                self.ctx.check()?;
            }
            at += 1;
            for next in self.from(path, id, backwards)? {
                if seen.insert(next) {
                    ends.push(next);
                }
            }
        }
        Ok(ends)
    }
}
