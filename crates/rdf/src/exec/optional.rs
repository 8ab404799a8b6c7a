//! `OPTIONAL`, as a left outer join or as an anti-join.

use super::join::join;
use super::join_all::equality;
use super::profile::Began;
use super::{Context, Table, Var};
use crate::error::Result;
use crate::expr::Expr;
use crate::id::Id;
use crate::plan::{Mode, Optional, Pattern, Plan, ROW, Slot, Step};

impl Optional {
    pub(super) fn run(&self, ctx: &Context<'_>, slot: &Slot) -> Result<Table> {
        let l = self.left.run(ctx)?;
        if l.is_empty() {
            ctx.chose(slot, || "the optional side is not needed".into());
            return Ok(Table::empty(self.needed.clone()));
        }
        if let Some((plan, fixed)) = self.led()
            && let Some(pattern) = plan.pattern()
            && let Some(table) = self.run_led(ctx, &l, plan, pattern, fixed)?
        {
            ctx.chose(slot, || format!("led by {} rows", l.len()));
            return Ok(table);
        }
        let r = match self.service() {
            Some(service) => {
                let began = Began::now(ctx);
                let r = service.run(ctx, &self.right.slot, Some(&l))?;
                began.end(ctx, &self.right.slot, l.len(), r.len());
                r
            }
            None => self.right.run(ctx)?,
        };
        ctx.chose(slot, || {
            format!("hash join of {} x {} rows", l.len(), r.len())
        });
        let equal = if ctx.options.optimise {
            self.equalities(&l, &r)
        } else {
            Vec::new()
        };
        join(ctx, &l, &r, &equal, &self.filters, self.mode, &self.needed)
    }

    /// Returns the variables of both sides that filters equate.
    fn equalities(&self, l: &Table, r: &Table) -> Vec<(Var, Var)> {
        let pair = |(a, b)| {
            let only_left = |v| l.is_always_bound(v) && !r.vars().contains(&v);
            let only_right = |v| r.is_always_bound(v) && !l.vars().contains(&v);
            if only_left(a) && only_right(b) {
                Some((a, b))
            } else {
                (only_left(b) && only_right(a)).then_some((b, a))
            }
        };
        self.filters
            .iter()
            .filter_map(equality)
            .filter_map(pair)
            .collect()
    }

    /// Solves the optional side led by the left rows, if that is cheaper than solving it alone.
    fn run_led(
        &self,
        ctx: &Context<'_>,
        l: &Table,
        plan: &Plan,
        pattern: &Pattern,
        fixed: &[(Var, Id)],
    ) -> Result<Option<Table>> {
        let vars: Vec<Var> = pattern.vars().collect();
        let mut tested = self.filters.iter().flat_map(Expr::vars);
        if !self.shared.iter().all(|v| l.is_always_bound(*v))
            || !tested.all(|v| vars.contains(&v) || l.is_always_bound(v))
        {
            return Ok(None);
        }
        let graph = ctx.graph();
        let read = self.read(l, pattern);
        let steps = pattern.led_steps(&graph, &read, l.len(), true);
        let (led, alone) = if pattern.distinct {
            // Steps that only test existence would hide what they search.
            let cost = |seeded, rows| pattern.all_rows(&graph, seeded, rows);
            (cost(&read, l.len()), cost(&[], 1))
        } else {
            let own = || rows_of(&pattern.own_steps(&graph, true));
            let alone = pattern.steps.as_deref().map_or_else(own, rows_of);
            (rows_of(&steps), alone)
        };
        if led + l.len() as f64 > alone * 2.0 + 64.0 {
            return Ok(None);
        }
        let began = Began::now(ctx);
        let mut leading = l.clone();
        leading.keep(&read);
        leading.set_column(ROW, (0..l.len() as u32).collect());
        let found = pattern.follow(ctx, &plan.slot, &graph, &steps, Some(leading))?;
        began.end(ctx, &plan.slot, l.len(), found.len());
        if !fixed.is_empty() {
            // The pattern is the only part of a group.
            began.end(ctx, &self.right.slot, l.len(), found.len());
        }
        Ok(Some(self.merge(l, &found, fixed)))
    }

    /// Returns the variables of the left rows that the optional side reads, and that of their numbers.
    fn read(&self, l: &Table, pattern: &Pattern) -> Vec<Var> {
        let filters = pattern.filters.iter().chain(&self.filters);
        let tested: Vec<Var> = filters.flat_map(Expr::vars).collect();
        let is_read = |v: &Var| self.shared.contains(v) || tested.contains(v);
        let mut read: Vec<Var> = l.vars().iter().copied().filter(is_read).collect();
        read.push(ROW);
        read
    }

    /// Returns the left rows with the solutions of the optional side that they led to.
    fn merge(&self, l: &Table, found: &Table, fixed: &[(Var, Id)]) -> Table {
        let rows = found.column(ROW).unwrap_or(&[]);
        let mut hit = vec![false; l.len()];
        rows.iter().for_each(|r| hit[*r as usize] = true);
        let unmatched: Vec<u32> = (0..l.len() as u32).filter(|r| !hit[*r as usize]).collect();
        let unmatched = l.select_vars(&unmatched, &self.needed);
        if self.mode == Mode::Anti {
            return unmatched;
        }
        let mut table = l.select_vars(rows, &self.needed);
        for (v, column) in found.vars().iter().zip(found.columns()) {
            if *v != ROW {
                table.set_column(*v, column.clone());
            }
        }
        for (v, id) in fixed.iter().filter(|(v, _)| self.needed.contains(v)) {
            table.set_column(*v, vec![*id; table.len()]);
        }
        table.append(unmatched);
        table
    }
}

/// Returns the estimated number of rows that all steps produce together.
fn rows_of(steps: &[Step]) -> f64 {
    steps.iter().filter_map(Step::expected).sum()
}
