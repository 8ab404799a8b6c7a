//! Executes the steps of a basic graph pattern batch by batch, so that execution stops as soon as there are enough solutions.

use super::Var;
use super::bits::Bits;
use super::context::Context;
use super::parallel::portions;
use super::rows::{DuplicateFilter, distinct};
use super::table::{Row, Table, gather};
use crate::algebra::Pos;
use crate::error::Result;
use crate::id::Id;
use crate::plan::{Constraint, Pattern, Side, Slot, Step, StepRecord, is_movable, show_step};
use crate::quads::{Graph, Index, Pairs, seek};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Approximate limit of rows in a batch.
const BATCH: usize = 1 << 14;
/// Size of a result, in rows, from which duplicates are removed where they do not matter.
const COMPACT: usize = 1 << 20;

impl Pattern {
    /// Solves the pattern, alone or from the rows of `leading`, in which every variable is bound.
    pub(super) fn run(
        &self,
        ctx: &Context<'_>,
        slot: &Slot,
        leading: Option<Table>,
    ) -> Result<Table> {
        let graph = ctx.graph();
        let optimise = ctx.options.optimise;
        let steps = match (&leading, &self.steps) {
            (Some(rows), _) => {
                Cow::Owned(self.led_steps(&graph, rows.vars(), rows.len(), optimise))
            }
            (None, Some(steps)) => Cow::Borrowed(steps.as_slice()),
            (None, None) => Cow::Owned(self.own_steps(&graph, optimise)),
        };
        self.follow(ctx, slot, &graph, &steps, leading)
    }

    /// Solves the pattern by these steps.
    pub(super) fn follow(
        &self,
        ctx: &Context<'_>,
        slot: &Slot,
        graph: &Graph,
        steps: &[Step],
        leading: Option<Table>,
    ) -> Result<Table> {
        let needed = match (&leading, &self.led) {
            (Some(_), Some(led)) => &led.needed,
            _ => &self.needed,
        };
        let rows = leading.unwrap_or_else(Table::unit);
        let mut vars: Vec<Var> = rows.vars().to_vec();
        vars.extend(steps.iter().filter_map(Step::var));
        vars.retain(|v| needed.contains(v));
        let most = steps.iter().filter_map(Step::expected).fold(0.0, f64::max);
        let many = most.max(rows.len() as f64) >= ctx.options.parallel_rows as f64;
        let mut run = Pipeline::new(ctx, graph, steps, vars, ctx.at_most(self.limit));
        run.count = self.count;
        if ctx.options.threads > 1 && self.limit.is_none() && many && steps.iter().all(is_plain) {
            run = self.parallel(slot, run, rows)?;
        } else {
            if self.distinct {
                run.compact_at = COMPACT;
            }
            run.all(rows)?;
        }
        run.record(slot);
        Ok(run.out)
    }

    /// Runs the steps on several threads: the first ones until there are enough rows, which are then divided among the threads.
    fn parallel<'a, 'b>(
        &self,
        slot: &Slot,
        mut run: Pipeline<'a, 'b>,
        leading: Table,
    ) -> Result<Pipeline<'a, 'b>> {
        let (ctx, graph, steps) = (run.ctx, run.graph, run.steps);
        let vars = run.out.vars().to_vec();
        let (mut rows, mut at) = (leading, 0);
        let enough = (ctx.options.threads * 64).min(ctx.options.parallel_rows);
        while at < steps.len() && rows.len() < enough {
            let last = at + 1 == steps.len();
            let out = if last { vars.clone() } else { Vec::new() };
            let mut one = Pipeline::new(ctx, graph, &steps[at..=at], out, None);
            one.narrow = last;
            one.count = last && self.count;
            one.all(rows)?;
            run.add_counts(at, &one.counts);
            rows = one.out;
            at += 1;
        }
        if at == steps.len() {
            run.finished += rows.len() as u64;
            run.out = rows.project(&vars);
            return Ok(run);
        }
        let left = &steps[at..];
        let each = (rows.len() / (ctx.options.threads * 8)).clamp(1, BATCH);
        ctx.chose(slot, || {
            let threads = ctx.options.threads;
            format!(
                "from step {} on {threads} threads, {each} rows at a time",
                at + 1
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
                let mut part = Pipeline::new(fork, graph, left, vars.clone(), None);
                part.states = std::mem::take(states);
                part.count = self.count;
                let list: Vec<u32> = range.map(|r| r as u32).collect();
                part.push(0, rows.select(&list))?;
                *states = part.states;
                let sum = total.fetch_add(part.out.len(), Ordering::Relaxed) + part.out.len();
                if !self.count {
                    fork.fits(sum, vars.len())?;
                }
                Ok((part.out, part.counts))
            },
        )?;
        run.out.reserve(total.into_inner());
        for (part, counts) in parts {
            run.add_counts(at, &counts);
            run.finished += part.len() as u64;
            run.out.append(part);
        }
        if self.distinct && run.out.len() >= COMPACT {
            run.out = distinct(run.out);
        }
        Ok(run)
    }
}

/// Returns whether a step may run on any thread.
fn is_plain(step: &Step) -> bool {
    match step {
        Step::Filter { expr, .. } => is_movable(expr),
        _ => true,
    }
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
    /// Rows and time of each step; empty if no profile is requested.
    counts: Vec<StepCount>,
    /// Rows after the last step.
    finished: u64,
    /// Time of all steps, in nanoseconds.
    timed: u64,
}

/// Rows and time of a step.
#[derive(Default, Clone, Copy)]
struct StepCount {
    rows: u64,
    /// Time without that of later steps.
    nanos: u64,
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
            counts: if ctx.profile && !ctx.is_view() {
                vec![StepCount::default(); steps.len()]
            } else {
                // The rows of a step may depend on the order of term ids, which a view hides.
                Vec::new()
            },
            finished: 0,
            timed: 0,
        }
    }

    /// Adds the counts of steps from `at` on.
    fn add_counts(&mut self, at: usize, counts: &[StepCount]) {
        for (to, from) in self.counts.iter_mut().skip(at).zip(counts) {
            to.rows += from.rows;
            to.nanos += from.nanos;
        }
    }

    /// Records the steps, if a profile is requested.
    fn record(&self, slot: &Slot) {
        if !self.ctx.profile {
            return;
        }
        let steps = self.steps.iter().enumerate().map(|(i, step)| {
            let rows = |i: usize| self.counts.get(i).map(|c| c.rows);
            StepRecord {
                label: show_step(self.ctx, step),
                expected: step.expected(),
                counted: self.counts.get(i).map(|c| {
                    let out = rows(i + 1).unwrap_or(self.finished);
                    (c.rows, out, c.nanos)
                }),
            }
        });
        let steps = steps.collect();
        slot.record(|record| record.add_steps(steps));
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
        let Some(count) = self.counts.get_mut(at) else {
            return self.step(at, rows);
        };
        count.rows += rows.len() as u64;
        let (began, before) = (self.ctx.nanos(), self.timed);
        let more = self.step(at, rows);
        let all = self.ctx.nanos().saturating_sub(began);
        let own = all.saturating_sub(self.timed - before);
        self.timed += own;
        if let Some(count) = self.counts.get_mut(at) {
            count.nanos += own;
        }
        more
    }

    fn step(&mut self, at: usize, rows: Table) -> Result<bool> {
        let steps = self.steps;
        let Some(step) = steps.get(at) else {
            self.finished += rows.len() as u64;
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
