//! Order in which the variables of a basic graph pattern are bound: the cheapest by statistics of the predicates and by samples of their
//! lists.

use crate::algebra::{Pos, Triple};
use crate::exec::Var;
use crate::id::Id;
use crate::quads::{Graph, Pairs};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Number of variables up to which all orders are compared.
const ALL_ORDERS: usize = 7;

/// Sampled values for estimating the selectivity of intersections.
const SAMPLE: usize = 32;
/// Number of values up to which no sample is taken.
const FEW: f64 = 64.0;

/// Selectivity of a constraint on a variable: the number of values that remain, the number of all values, and the values.
struct Selectivity<'g> {
    values: f64,
    of: f64,
    lists: Lists<'g>,
}

/// Lists of a constraint's values.
#[derive(Clone, Copy)]
enum Lists<'g> {
    /// One list, independent of the row.
    One(&'g [Id]),
    /// One list per key.
    Many(&'g Pairs),
    Unknown,
}

/// Returns the order of variables, with the estimated number of solutions after each.
pub(crate) fn order(
    graph: &Graph,
    triples: &[Triple],
    seeded: &[Var],
    rows: usize,
    existential: &[Var],
    existence_only: &dyn Fn(Var) -> bool,
    optimise: bool,
) -> Vec<(Var, f64)> {
    let mut vars: Vec<Var> = Vec::new();
    let mut of: HashMap<Var, Vec<usize>> = HashMap::new();
    for (i, t) in triples.iter().enumerate() {
        for var in t.vars() {
            let of = of.entry(var).or_default();
            if of.is_empty() && !seeded.contains(&var) && !existential.contains(&var) {
                vars.push(var);
            }
            if of.last() != Some(&i) {
                of.push(i);
            }
        }
    }
    let costs = Costs {
        graph,
        triples,
        of,
        seeded,
        existential,
        existence_only,
        total: graph.len() as f64,
        seen: RefCell::default(),
    };
    let rows = rows as f64;
    if optimise && vars.len() <= ALL_ORDERS {
        costs.best(&vars, rows)
    } else {
        costs.greedy(&vars, rows, optimise)
    }
}

/// Estimates the fraction of values that are in all other lists.
fn sample(from: Lists<'_>, others: &[&[Id]]) -> f64 {
    let all = match from {
        Lists::One(list) => list,
        Lists::Many(pairs) => pairs.values(),
        Lists::Unknown => &[],
    };
    let step = (all.len() / SAMPLE).max(1);
    let (mut looked, mut found) = (0.0, 0.0);
    for value in all.iter().skip(step / 2).step_by(step) {
        looked += 1.0;
        if others.iter().all(|list| list.binary_search(value).is_ok()) {
            found += 1.0;
        }
    }
    // A value that a sample misses may still exist.
    if looked == 0.0 {
        1.0
    } else {
        f64::max(found, 0.5) / looked
    }
}

struct Costs<'a> {
    graph: &'a Graph,
    triples: &'a [Triple],
    /// Patterns in which each variable occurs.
    of: HashMap<Var, Vec<usize>>,
    seeded: &'a [Var],
    existential: &'a [Var],
    /// Whether only the existence of a variable's value matters once its patterns are complete.
    existence_only: &'a dyn Fn(Var) -> bool,
    total: f64,
    /// Cached samples, by variable, leading pattern, and bitmask of restricting patterns.
    seen: RefCell<HashMap<(Var, usize, u32), f64>>,
}

impl<'a> Costs<'a> {
    /// Returns the patterns in which a variable occurs, with their indices.
    fn of(&self, var: Var) -> impl Iterator<Item = (usize, &'a Triple)> {
        let places = self.of.get(&var).map_or(&[][..], Vec::as_slice);
        places.iter().map(|i| (*i, &self.triples[*i]))
    }

    /// Returns the cost of binding a variable in `rows` rows, and the number of rows afterwards. `None` if no pattern constrains it.
    fn step(&self, var: Var, bound: &dyn Fn(Var) -> bool, rows: f64) -> Option<(f64, f64)> {
        let mut all: Vec<(usize, Selectivity<'a>)> = Vec::with_capacity(4);
        let mut linked = false;
        for (i, t) in self.of(var) {
            let (selectivity, links) = self.selectivity(t, var, bound);
            linked |= links;
            all.extend(selectivity.map(|l| (i, l)));
        }
        let (lead, least) = all
            .iter()
            .enumerate()
            .map(|(i, (_, l))| (i, l.values))
            .min_by(|a, b| a.1.total_cmp(&b.1))?;
        let each = self.each(var, &all, lead);
        let complete = || {
            self.of(var).all(|(_, t)| {
                t.vars()
                    .all(|v| v == var || bound(v) || self.existential.contains(&v))
            })
        };
        if (self.existence_only)(var) && complete() {
            // The search ends at the first value.
            let looked = least / each.max(1.0);
            let cost = rows * (0.5 + all.len() as f64 * (0.5 + looked));
            return Some((cost, rows * each.min(1.0)));
        }
        let after = each * rows;
        // A variable that no bound one constrains creates a product: a last resort.
        let product = if linked || rows <= 1.0 { 1.0 } else { 4.0 };
        let probes = all.len() as f64 - 1.0;
        let cost = rows * (0.5 + probes * 0.5 + least * (1.0 + 0.5 * probes)) * product + after;
        Some((cost, after))
    }

    /// Estimates the values that satisfy all constraints: those of the shortest list, times a sampled selectivity for lists that are
    /// independent of the row; other lists are assumed to be independent of each other.
    fn each(&self, var: Var, all: &[(usize, Selectivity<'a>)], lead: usize) -> f64 {
        let (triple, first) = &all[lead];
        let sampled = |l: &Selectivity<'a>| matches!(l.lists, Lists::One(_));
        let looks = first.values > FEW && self.triples.len() <= 32;
        let mut part = None;
        if looks && !matches!(first.lists, Lists::Unknown) {
            let others = || {
                let not_lead = |(i, _): &(usize, &(usize, Selectivity<'a>))| *i != lead;
                all.iter().enumerate().filter(not_lead).map(|(_, l)| l)
            };
            let mask = others()
                .filter(|(_, l)| sampled(l))
                .fold(0u32, |mask, (i, _)| mask | 1 << i);
            part = Some(
                *self
                    .seen
                    .borrow_mut()
                    .entry((var, *triple, mask))
                    .or_insert_with(|| {
                        if mask == 0 {
                            return 1.0;
                        }
                        let lists: Vec<&[Id]> = others()
                            .filter_map(|(_, l)| match l.lists {
                                Lists::One(list) => Some(list),
                                _ => None,
                            })
                            .collect();
                        sample(first.lists, &lists)
                    }),
            );
        }
        let of = all.iter().map(|(_, l)| l.of).fold(1.0, f64::max);
        let mut after = first.values * part.unwrap_or(1.0);
        for (i, (_, l)) in all.iter().enumerate() {
            if i != lead && (part.is_none() || !sampled(l)) {
                after *= (l.values / of).min(1.0);
            }
        }
        after.min(first.values)
    }

    fn selectivity(
        &self,
        t: &Triple,
        var: Var,
        bound: &dyn Fn(Var) -> bool,
    ) -> (Option<Selectivity<'a>>, bool) {
        let fixed = |p: Pos| match p {
            Pos::Const(_) => true,
            Pos::Var(v) => v != var && bound(v),
        };
        let links = [t.s, t.p, t.o]
            .into_iter()
            .any(|p| matches!(p, Pos::Var(v) if v != var && bound(v)));
        let predicates = self.graph.predicates().len() as f64;
        if t.p == Pos::Var(var) {
            let share = if fixed(t.s) || fixed(t.o) { 0.5 } else { 1.0 };
            let values = (predicates * share).max(0.1);
            return (
                Some(Selectivity {
                    values,
                    of: predicates.max(1.0),
                    lists: Lists::Unknown,
                }),
                links,
            );
        }
        if !fixed(t.p) {
            return (None, links);
        }
        let (count, subjects, objects, index) = match t.p {
            Pos::Const(p) => match self.graph.index(p) {
                Some(x) => (
                    x.so.len() as f64,
                    x.so.keys().len() as f64,
                    x.os.keys().len() as f64,
                    Some(x),
                ),
                None => (0.0, 0.0, 0.0, None),
            },
            Pos::Var(_) => {
                let each = self.total / predicates.max(1.0);
                (each, each * 0.7 + 1.0, each * 0.5 + 1.0, None)
            }
        };
        let is_object = t.o == Pos::Var(var);
        let (keys, others, other) = if is_object {
            (objects, subjects, t.s)
        } else {
            (subjects, objects, t.o)
        };
        let values = match other {
            Pos::Const(id) => match index {
                Some(x) if is_object => x.so.get(id).len() as f64,
                Some(x) => x.os.get(id).len() as f64,
                None => count / others.max(1.0),
            },
            Pos::Var(v) if v != var && bound(v) => count / others.max(1.0),
            Pos::Var(_) => keys,
        };
        let lists = match (index, other) {
            (None, _) => Lists::Unknown,
            (Some(x), Pos::Const(id)) if is_object => Lists::One(x.so.get(id)),
            (Some(x), Pos::Const(id)) => Lists::One(x.os.get(id)),
            (Some(x), Pos::Var(v)) if v != var && bound(v) => {
                Lists::Many(if is_object { &x.so } else { &x.os })
            }
            (Some(x), Pos::Var(_)) => Lists::One(if is_object { x.os.keys() } else { x.so.keys() }),
        };
        (
            Some(Selectivity {
                values,
                of: keys.max(1.0),
                lists,
            }),
            links,
        )
    }

    fn is_seeded(&self, var: Var) -> bool {
        self.seeded.contains(&var)
    }

    /// Dynamic programming over sets of variables.
    fn best(&self, vars: &[Var], rows: f64) -> Vec<(Var, f64)> {
        let n = vars.len();
        let sets = 1usize << n;
        // Cost, rows and last variable of the cheapest way to each set.
        let mut ways: Vec<Option<(f64, f64, usize)>> = vec![None; sets];
        if let Some(first) = ways.first_mut() {
            *first = Some((0.0, rows, usize::MAX));
        }
        for set in 0..sets {
            let Some((cost, rows, _)) = ways[set] else {
                continue;
            };
            let bound = |v: Var| {
                self.is_seeded(v)
                    || vars
                        .iter()
                        .position(|x| *x == v)
                        .is_some_and(|i| set & (1 << i) != 0)
            };
            for (i, var) in vars.iter().enumerate() {
                if set & (1 << i) != 0 {
                    continue;
                }
                let Some((more, after)) = self.step(*var, &bound, rows) else {
                    continue;
                };
                let way = &mut ways[set | 1 << i];
                if way.is_none_or(|w| cost + more < w.0) {
                    *way = Some((cost + more, after, i));
                }
            }
        }
        let mut order = Vec::with_capacity(n);
        let mut set = sets - 1;
        while set != 0 {
            let Some((_, rows, last)) = ways[set] else {
                return self.greedy(vars, rows, false);
            };
            order.push((vars[last], rows));
            set &= !(1 << last);
        }
        order.reverse();
        order
    }

    fn greedy(&self, vars: &[Var], mut rows: f64, optimise: bool) -> Vec<(Var, f64)> {
        let mut left = vars.to_vec();
        let mut order: Vec<(Var, f64)> = Vec::with_capacity(left.len());
        let mut ordered: HashSet<Var> = HashSet::new();
        while !left.is_empty() {
            let bound = |v: Var| self.is_seeded(v) || ordered.contains(&v);
            let mut best: Option<(f64, f64, usize)> = None;
            for (i, var) in left.iter().enumerate() {
                if let Some((cost, after)) = self.step(*var, &bound, rows)
                    && best.is_none_or(|b| cost < b.0)
                {
                    best = Some((cost, after, i));
                    if !optimise {
                        break;
                    }
                }
            }
            // There is always a candidate: a predicate variable has no prerequisites, and others depend at most on it.
            let (_, after, i) = best.unwrap_or((0.0, rows, 0));
            rows = after;
            let var = left.remove(i);
            ordered.insert(var);
            order.push((var, after));
        }
        order
    }
}
