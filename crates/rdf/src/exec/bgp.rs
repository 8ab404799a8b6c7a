//! Executes the steps of a basic graph pattern batch by batch, so that execution stops as soon as there are enough solutions.

use super::Var;
use super::bits::Bits;
use super::context::Context;
use super::parallel::portions;
use super::rows::{DuplicateFilter, distinct};
use super::steps::{Constraint, RequiredRef, Side, Step, steps};
use super::table::{Row, Table, gather};
use crate::error::Result;
use crate::expr::Expr;
use crate::id::Id;
use crate::plan::{Pos, Triple, order};
use crate::quads::{Graph, Index, Pairs, seek};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Approximate limit of rows in a batch.
const BATCH: usize = 1 << 14;
/// Size of a result, in rows, from which duplicates are removed where they do not matter.
const COMPACT: usize = 1 << 20;

/// Solves a basic graph pattern, starting from the rows of `seed`, in which every variable is bound.
pub(crate) fn solve(
    ctx: &Context<'_>,
    graph: &Graph,
    triples: &[Triple],
    filters: &[Expr],
    seed: Table,
    required: &RequiredRef<'_>,
    names: &dyn Fn(Var) -> String,
) -> Result<Table> {
    let seeded = seed.vars().to_vec();
    let existential = if ctx.options.optimise {
        existential(triples, filters, &seeded, required)
    } else {
        Vec::new()
    };
    let order = order(
        graph,
        triples,
        &seeded,
        seed.len(),
        &existential,
        &|v| {
            required.distinct
                && !required.vars.contains(&v)
                && !filters.iter().any(|f| f.vars().contains(&v))
        },
        ctx.options.optimise,
    );
    let steps = steps(&order, triples, filters, &seeded, &existential, required);
    for step in &steps {
        ctx.note(|| step.show(&|id| show_term(ctx, id), names));
    }
    let mut vars: Vec<Var> = seeded;
    vars.extend(order.iter().map(|(v, _)| *v));
    vars.retain(|v| required.vars.contains(v));
    let most = order.iter().map(|(_, n)| *n).fold(0.0, f64::max);
    let plain = |f: &Expr| !f.has_exists() && !f.is_volatile();
    let many = most.max(seed.len() as f64) >= ctx.options.parallel_rows as f64;
    if ctx.options.threads > 1 && required.limit.is_none() && many && filters.iter().all(plain) {
        return parallel(ctx, graph, &steps, seed, vars, required);
    }
    let mut run = Pipeline::new(ctx, graph, &steps, vars, required.limit);
    run.count = required.count;
    if required.distinct {
        run.compact_at = COMPACT;
    }
    run.all(seed)?;
    Ok(run.out)
}

/// Notes the steps that would solve a basic graph pattern. Returns the estimated number of solutions.
pub(super) fn explain(
    ctx: &Context<'_>,
    triples: &[Triple],
    filters: &[Expr],
    seeded: &[Var],
    rows: f64,
    required: &RequiredRef<'_>,
) -> f64 {
    let graph = ctx.graph();
    let existential = existential(triples, filters, seeded, required);
    let asked = |v: Var| {
        required.distinct
            && !required.vars.contains(&v)
            && !filters.iter().any(|f| f.vars().contains(&v))
    };
    let count = rows.min(1e15) as usize;
    let order = order(&graph, triples, seeded, count, &existential, &asked, true);
    for step in steps(&order, triples, filters, seeded, &existential, required) {
        ctx.note(|| step.show(&|id| show_term(ctx, id), &|v| ctx.name(v)));
    }
    order.last().map_or(rows, |(_, n)| *n)
}

/// Estimates the number of solutions of a basic graph pattern.
pub(super) fn estimate(graph: &Graph, triples: &[Triple], seeded: &[Var], rows: usize) -> f64 {
    let order = order(graph, triples, seeded, rows, &[], &|_| false, true);
    order.last().map_or(rows as f64, |(_, n)| *n)
}

/// Like [`solve`], on several threads: the first steps run until there are enough rows, which are then divided among the threads.
fn parallel(
    ctx: &Context<'_>,
    graph: &Graph,
    steps: &[Step],
    seed: Table,
    vars: Vec<Var>,
    required: &RequiredRef<'_>,
) -> Result<Table> {
    let (mut rows, mut at) = (seed, 0);
    let enough = (ctx.options.threads * 64).min(ctx.options.parallel_rows);
    while at < steps.len() && rows.len() < enough {
        let last = at + 1 == steps.len();
        let out = if last { vars.clone() } else { Vec::new() };
        let mut run = Pipeline::new(ctx, graph, &steps[at..=at], out, None);
        run.narrow = last;
        run.count = last && required.count;
        run.all(rows)?;
        rows = run.out;
        at += 1;
    }
    if at == steps.len() {
        return Ok(rows.project(&vars));
    }
    let left = &steps[at..];
    let each = (rows.len() / (ctx.options.threads * 8)).clamp(1, BATCH);
    ctx.note(|| {
        format!(
            "from here on {} threads, {each} rows at a time",
            ctx.options.threads
        )
    });
    let total = AtomicUsize::new(0);
    let parts = portions(
        ctx,
        rows.len(),
        each,
        || {
            left.iter()
                .map(|s| StepState::new(s, graph))
                .collect::<Vec<_>>()
        },
        |fork, states, range| {
            let mut run = Pipeline::new(fork, graph, left, vars.clone(), None);
            run.states = std::mem::take(states);
            run.count = required.count;
            let list: Vec<u32> = range.map(|r| r as u32).collect();
            run.push(0, rows.select(&list))?;
            *states = run.states;
            let sum = total.fetch_add(run.out.len(), Ordering::Relaxed) + run.out.len();
            if !required.count {
                fork.fits(sum, vars.len())?;
            }
            Ok(run.out)
        },
    )?;
    let mut out = Table::empty(vars);
    out.reserve(total.into_inner());
    parts.into_iter().for_each(|part| out.append(part));
    Ok(if required.distinct && out.len() >= COMPACT {
        distinct(out)
    } else {
        out
    })
}

/// Returns existential variables: they occur once, nothing reads them, and duplicate solutions do not matter. They are never bound.
fn existential(
    triples: &[Triple],
    filters: &[Expr],
    seeded: &[Var],
    required: &RequiredRef<'_>,
) -> Vec<Var> {
    if !required.distinct {
        return Vec::new();
    }
    let all: Vec<Var> = triples.iter().flat_map(Triple::vars).collect();
    let asked: Vec<Var> = filters.iter().flat_map(Expr::vars).collect();
    let is_existential = |v: &Var| {
        all.iter().filter(|x| *x == v).count() == 1
            && !asked.contains(v)
            && !seeded.contains(v)
            && !required.vars.contains(v)
    };
    let mut found = Vec::new();
    for t in triples {
        // At most one position of a pattern: the other one is the key of the lists.
        let place = [t.o, t.s]
            .into_iter()
            .filter_map(Pos::var)
            .find(is_existential);
        found.extend(place);
    }
    found
}

pub(crate) fn show_term(ctx: &Context<'_>, id: Id) -> String {
    ctx.term(id).map_or_else(|| "?".into(), |t| t.to_string())
}

/// State of a step between batches.
struct StepState<'a> {
    /// For each constraint: the index if its predicate is constant, the position of the last search, a bitmap.
    constraints: Vec<ConstraintState<'a>>,
    seen: DuplicateFilter,
}

struct ConstraintState<'a> {
    index: Option<&'a Index>,
    /// The list, if it does not depend on the row.
    list: Option<&'a [Id]>,
    near: usize,
    probes: usize,
    bits: Option<Bits>,
}

impl<'a> StepState<'a> {
    fn new(step: &Step, graph: &'a Graph) -> Self {
        let constraints = match step {
            Step::Extend { constraints, .. } => constraints
                .iter()
                .map(|c| ConstraintState::new(c, graph))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            constraints,
            seen: DuplicateFilter::default(),
        }
    }
}

impl<'a> ConstraintState<'a> {
    fn new(con: &Constraint, graph: &'a Graph) -> Self {
        let index = match con {
            Constraint::Values {
                p: Pos::Const(p), ..
            }
            | Constraint::Keys {
                p: Pos::Const(p), ..
            } => graph.index(*p),
            _ => None,
        };
        let list = match con {
            Constraint::Values {
                p: Pos::Const(_),
                key: Pos::Const(key),
                side,
            } => Some(index.map_or(&[][..], |x| by(x, *side).get(*key))),
            Constraint::Keys {
                p: Pos::Const(_),
                side,
            } => Some(index.map_or(&[][..], |x| of(x, *side))),
            _ => None,
        };
        Self {
            index,
            list,
            near: 0,
            probes: 0,
            bits: None,
        }
    }

    /// Returns the list for one row, given the row's predicate and key.
    fn list(&mut self, con: &Constraint, graph: &'a Graph, p: Id, key: Id) -> &'a [Id] {
        if let Some(list) = self.list {
            return list;
        }
        match *con {
            Constraint::Values { p: place, side, .. } => {
                let index = match place {
                    Pos::Const(_) => self.index,
                    Pos::Var(_) => graph.index(p),
                };
                index.map_or(&[], |x| by(x, side).get_near(key, &mut self.near))
            }
            Constraint::Keys { side, .. } => graph.index(p).map_or(&[], |x| of(x, side)),
            Constraint::Predicates { .. } => graph.predicates(),
        }
    }
}

/// Returns the pairs whose values are on a side.
fn by(index: &Index, side: Side) -> &Pairs {
    match side {
        Side::Objects => &index.so,
        Side::Subjects => &index.os,
    }
}

/// Returns all distinct values on a side.
fn of(index: &Index, side: Side) -> &[Id] {
    match side {
        Side::Objects => index.os.keys(),
        Side::Subjects => index.so.keys(),
    }
}

struct Pipeline<'a, 'b> {
    ctx: &'b Context<'b>,
    graph: &'a Graph,
    steps: &'b [Step],
    states: Vec<StepState<'a>>,
    out: Table,
    /// Whether the output has only the columns of `out`, or all columns.
    narrow: bool,
    limit: usize,
    /// Whether only the number of rows is needed; then `out` has no columns.
    count: bool,
    /// Size of `out`, in rows, at which duplicates are removed where they do not matter.
    compact_at: usize,
}

impl<'a, 'b> Pipeline<'a, 'b> {
    fn new(
        ctx: &'b Context<'b>,
        graph: &'a Graph,
        steps: &'b [Step],
        vars: Vec<Var>,
        limit: Option<usize>,
    ) -> Self {
        Self {
            ctx,
            graph,
            steps,
            states: steps.iter().map(|s| StepState::new(s, graph)).collect(),
            out: Table::empty(vars),
            narrow: true,
            limit: limit.unwrap_or(usize::MAX),
            count: false,
            compact_at: usize::MAX,
        }
    }

    /// Pushes a table through the steps. A large one is split into batches; with a limit the first ones are small.
    fn all(&mut self, seed: Table) -> Result<()> {
        let mut portion = if self.limit < usize::MAX { 256 } else { BATCH };
        if seed.len() <= portion {
            self.push(0, seed)?;
            return Ok(());
        }
        let mut from = 0;
        while from < seed.len() {
            let rows: Vec<u32> = (from..(from + portion).min(seed.len()))
                .map(|r| r as u32)
                .collect();
            from += rows.len();
            portion = (portion * 4).min(BATCH);
            if !self.push(0, seed.select(&rows))? {
                break;
            }
        }
        Ok(())
    }

    /// Pushes rows through the steps starting at `at`. Returns `false` when there are enough results.
    fn push(&mut self, at: usize, rows: Table) -> Result<bool> {
        if rows.is_empty() {
            return Ok(true);
        }
        let steps = self.steps;
        let Some(step) = steps.get(at) else {
            self.out.append(if self.narrow {
                rows.project(self.out.vars())
            } else {
                rows
            });
            if self.out.len() >= self.compact_at {
                self.out = distinct(std::mem::take(&mut self.out));
                self.compact_at = COMPACT.max(self.out.len() * 2);
            }
            if !self.count {
                self.ctx.fits_table(&self.out)?;
            }
            if self.out.len() >= self.limit {
                self.out.truncate(self.limit);
                return Ok(false);
            }
            return Ok(true);
        };
        match step {
            Step::Extend {
                var,
                constraints,
                exists,
                keep,
                ..
            } => self.extend(at, &rows, *var, constraints, *exists, keep),
            Step::Check { triple, keep } => {
                let kept: Vec<u32> = (0..rows.len() as u32)
                    .filter(|r| {
                        let row = rows.row(*r as usize);
                        let get = |p: Pos| value(row, p);
                        let known = |p: Pos| match p {
                            Pos::Var(v) if rows.column(v).is_none() => None,
                            p => Some(value(row, p)),
                        };
                        has(self.graph, get(triple.p), known(triple.s), known(triple.o))
                    })
                    .collect();
                self.push(at + 1, rows.select_vars(&kept, keep))
            }
            Step::Filter { expr, keep } => {
                self.ctx.check()?;
                let kept = expr.select(self.ctx, &rows, (0..rows.len() as u32).collect());
                let next = if kept.len() == rows.len() && keep.len() == rows.vars().len() {
                    rows
                } else {
                    rows.select_vars(&kept, keep)
                };
                self.push(at + 1, next)
            }
            Step::Dedupe => {
                let seen = &mut self.states[at].seen;
                let kept = seen.add(&rows);
                self.ctx.fits(seen.len(), rows.vars().len() + 2)?;
                let next = match kept {
                    Some(kept) => rows.select(&kept),
                    None => rows,
                };
                self.push(at + 1, next)
            }
        }
    }

    fn extend(
        &mut self,
        at: usize,
        rows: &Table,
        var: Var,
        constraints: &[Constraint],
        exists: bool,
        keep: &[Var],
    ) -> Result<bool> {
        let emit = !exists && keep.contains(&var);
        // The values of the last step are only counted.
        let counts = self.count && at + 1 == self.steps.len();
        let mut count = 0;
        let mut picked: Vec<u32> = Vec::new();
        let mut values: Vec<Id> = Vec::new();
        let graph = self.graph;
        let mut lists: Vec<&[Id]> = Vec::with_capacity(constraints.len());
        let mut at_row = 0;
        let batch = if self.limit < BATCH { 512 } else { BATCH };
        // Columns are resolved once per batch.
        let constraint_columns: Vec<[Option<&[Id]>; 2]> = constraints
            .iter()
            .map(|c| constraint_columns(c, rows))
            .collect();
        while at_row < rows.len() {
            if at_row % 256 == 0 {
                self.ctx.check()?;
            }
            let row = at_row;
            at_row += 1;
            let state = &mut self.states[at];
            lists.clear();
            let mut least = 0;
            for (i, (con, cs)) in constraints.iter().zip(&mut state.constraints).enumerate() {
                let get = |p: Pos, n: usize| match p {
                    Pos::Const(id) => id,
                    Pos::Var(_) => constraint_columns[i][n]
                        .and_then(|c| c.get(row))
                        .copied()
                        .unwrap_or(0),
                };
                let (p, key) = match *con {
                    Constraint::Values { p, key, .. } => (get(p, 0), get(key, 1)),
                    Constraint::Keys { p, .. } => (get(p, 0), 0),
                    Constraint::Predicates { .. } => (0, 0),
                };
                let list = cs.list(con, graph, p, key);
                if lists
                    .get(least)
                    .is_none_or(|l: &&[Id]| list.len() < l.len())
                {
                    least = i;
                }
                lists.push(list);
            }
            let Some(candidates) = lists.get(least).copied() else {
                continue;
            };
            if candidates.is_empty() {
                continue;
            }
            let only =
                constraints.len() == 1 && !matches!(constraints[0], Constraint::Predicates { .. });
            if only {
                if counts {
                    count += if exists { 1 } else { candidates.len() };
                } else if exists {
                    picked.push(row as u32);
                } else {
                    picked.resize(picked.len() + candidates.len(), row as u32);
                    if emit {
                        values.extend_from_slice(candidates);
                    }
                }
            } else {
                intersect(
                    graph,
                    constraints,
                    &mut state.constraints,
                    &lists,
                    least,
                    &constraint_columns,
                    row,
                    exists,
                    |v| {
                        if counts {
                            count += 1;
                            return;
                        }
                        picked.push(row as u32);
                        if emit {
                            values.push(v);
                        }
                    },
                );
            }
            if count >= self.limit {
                break;
            }
            if picked.len() >= batch {
                self.ctx.fits(picked.len(), keep.len() + 1)?;
                let next = make(rows, &picked, emit.then_some((var, &mut values)), keep);
                picked.clear();
                if !self.push(at + 1, next)? {
                    return Ok(false);
                }
            }
        }
        if counts {
            return self.push(at + 1, Table::without_columns(count));
        }
        let next = make(rows, &picked, emit.then_some((var, &mut values)), keep);
        self.push(at + 1, next)
    }
}

fn make(rows: &Table, picked: &[u32], new: Option<(Var, &mut Vec<Id>)>, keep: &[Var]) -> Table {
    let mut vars = Vec::with_capacity(keep.len());
    let mut columns = Vec::with_capacity(keep.len());
    for (v, c) in rows.vars().iter().zip(rows.columns()) {
        if keep.contains(v) {
            vars.push(*v);
            columns.push(gather(c, picked));
        }
    }
    if let Some((var, values)) = new {
        vars.push(var);
        columns.push(std::mem::take(values));
    }
    Table::new(vars, columns, picked.len())
}

/// Returns the columns that a constraint reads: predicate and key, or subject and object.
fn constraint_columns<'t>(con: &Constraint, rows: &'t Table) -> [Option<&'t [Id]>; 2] {
    let column = |p: Pos| p.var().and_then(|v| rows.column(v));
    match con {
        Constraint::Values { p, key, .. } => [column(*p), column(*key)],
        Constraint::Keys { p, .. } => [column(*p), None],
        Constraint::Predicates { s, o } => [s.and_then(column), o.and_then(column)],
    }
}

/// Calls `found` for each value in the intersection of all lists.
#[expect(
    clippy::too_many_arguments,
    reason = "the inner loop of all queries; a struct would only rename them"
)]
fn intersect(
    graph: &Graph,
    constraints: &[Constraint],
    states: &mut [ConstraintState<'_>],
    lists: &[&[Id]],
    least: usize,
    constraint_columns: &[[Option<&[Id]>; 2]],
    row: usize,
    exists: bool,
    mut found: impl FnMut(Id),
) {
    let candidates = lists[least];
    'next: for value in candidates {
        for (i, list) in lists.iter().enumerate() {
            if let Constraint::Predicates { s, o } = &constraints[i] {
                let get = |p: &Option<Pos>, n: usize| match p {
                    Some(Pos::Const(id)) => Some(*id),
                    Some(Pos::Var(_)) => constraint_columns[i][n].and_then(|c| c.get(row)).copied(),
                    None => None,
                };
                if !has(graph, *value, get(s, 0), get(o, 1)) {
                    continue 'next;
                }
            }
            if i == least {
                continue;
            }
            let state = &mut states[i];
            if state.list.is_some() {
                // A list that is the same for all rows gets a bitmap after enough probes.
                state.probes += 1;
                if let Some(bits) = &state.bits {
                    if bits.has(*value) {
                        continue;
                    }
                    continue 'next;
                }
                if state.probes > list.len() / 4 + 32 {
                    state.bits = Bits::of(list);
                }
                state.near = seek(list, *value, state.near);
                if list.get(state.near) != Some(value) {
                    continue 'next;
                }
            } else if list.len() <= 8 {
                if !list.contains(value) {
                    continue 'next;
                }
            } else if list.binary_search(value).is_err() {
                continue 'next;
            }
        }
        found(*value);
        if exists {
            return;
        }
    }
}

/// Returns whether a predicate has a triple with this subject and object.
fn has(graph: &Graph, p: Id, s: Option<Id>, o: Option<Id>) -> bool {
    let Some(index) = graph.index(p) else {
        return false;
    };
    match (s, o) {
        (Some(s), Some(o)) => index.so.contains(s, o),
        (Some(s), None) => !index.so.get(s).is_empty(),
        (None, Some(o)) => !index.os.get(o).is_empty(),
        (None, None) => true,
    }
}

fn value(row: Row<'_>, p: Pos) -> Id {
    match p {
        Pos::Const(id) => id,
        Pos::Var(v) => row.get(v),
    }
}
