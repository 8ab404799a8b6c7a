//! Solutions in columns.

use crate::id::{Id, UNBOUND};

/// Number of a variable in a query.
pub type Var = u32;

/// Solutions in columns: one per variable, 0 where it is unbound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    vars: Vec<Var>,
    columns: Vec<Vec<Id>>,
    len: usize,
}

/// One solution of a table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The table of the row.
    pub table: &'a Table,
    /// Index of the row.
    pub at: usize,
}

impl Row<'_> {
    /// Returns the value of a variable, 0 if it is unbound.
    pub fn get(&self, var: Var) -> Id {
        self.table
            .column(var)
            .and_then(|c| c.get(self.at))
            .copied()
            .unwrap_or(UNBOUND)
    }
}

impl Table {
    /// Returns a table of one solution without bindings.
    pub fn unit() -> Self {
        Self {
            len: 1,
            ..Self::default()
        }
    }

    /// Returns a table without solutions.
    pub fn empty(vars: Vec<Var>) -> Self {
        Self {
            columns: vec![Vec::new(); vars.len()],
            vars,
            len: 0,
        }
    }

    /// Creates a table from columns of equal length.
    pub fn new(vars: Vec<Var>, columns: Vec<Vec<Id>>, len: usize) -> Self {
        debug_assert!(columns.iter().all(|c| c.len() == len) && vars.len() == columns.len());
        Self { vars, columns, len }
    }

    /// Returns the number of solutions.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no solutions.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the variables that have columns.
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// Returns the values of a variable.
    pub fn column(&self, var: Var) -> Option<&[Id]> {
        let i = self.vars.iter().position(|v| *v == var)?;
        self.columns.get(i).map(Vec::as_slice)
    }

    /// Returns all columns, in the order of [`Self::vars`].
    pub fn columns(&self) -> &[Vec<Id>] {
        &self.columns
    }

    /// Returns one of the solutions.
    pub const fn row(&self, at: usize) -> Row<'_> {
        Row { table: self, at }
    }

    /// Iterates over all solutions.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len).map(|at| self.row(at))
    }

    /// Returns whether a variable is bound in every solution.
    pub fn is_always_bound(&self, var: Var) -> bool {
        self.column(var).is_some_and(|c| !c.contains(&UNBOUND))
    }

    /// Returns the rows with these indices, in their order.
    #[must_use]
    pub fn select(&self, rows: &[u32]) -> Self {
        Self {
            vars: self.vars.clone(),
            columns: self.columns.iter().map(|c| gather(c, rows)).collect(),
            len: rows.len(),
        }
    }

    /// Returns selected rows with only the columns `keep`.
    #[must_use]
    pub fn select_vars(&self, rows: &[u32], keep: &[Var]) -> Self {
        let kept = || {
            self.vars
                .iter()
                .zip(&self.columns)
                .filter(|(v, _)| keep.contains(v))
        };
        Self {
            vars: kept().map(|(v, _)| *v).collect(),
            columns: kept().map(|(_, c)| gather(c, rows)).collect(),
            len: rows.len(),
        }
    }

    /// Returns the table with exactly these columns in this order; missing columns are unbound.
    #[must_use]
    pub fn project(mut self, vars: &[Var]) -> Self {
        let columns = vars
            .iter()
            .enumerate()
            .map(|(n, v)| match self.vars.iter().position(|x| x == v) {
                Some(i) if vars[n + 1..].contains(v) => self.columns[i].clone(),
                Some(i) => std::mem::take(&mut self.columns[i]),
                None => vec![UNBOUND; self.len],
            })
            .collect();
        Self {
            vars: vars.to_vec(),
            columns,
            len: self.len,
        }
    }

    /// Drops the columns of all other variables.
    pub fn keep(&mut self, vars: &[Var]) {
        let mut i = 0;
        while i < self.vars.len() {
            if vars.contains(&self.vars[i]) {
                i += 1;
            } else {
                self.vars.remove(i);
                self.columns.remove(i);
            }
        }
    }

    /// Returns a table with `len` rows and no columns.
    pub(crate) const fn without_columns(len: usize) -> Self {
        Self {
            vars: Vec::new(),
            columns: Vec::new(),
            len,
        }
    }

    /// Returns the first `len` rows of the cross product with a table of other variables. Only the columns `keep` are built.
    pub(crate) fn product(&self, other: &Self, keep: &[Var], len: usize) -> Self {
        let mut table = Self::without_columns(len);
        let kept = |t: &Self| -> Vec<(Var, usize)> {
            let all = t.vars.iter().copied().enumerate();
            all.filter(|(_, v)| keep.contains(v))
                .map(|(i, v)| (v, i))
                .collect()
        };
        for (var, i) in kept(self) {
            let mut all = Vec::with_capacity(len);
            for id in &self.columns[i] {
                let left = len - all.len();
                all.resize(all.len() + other.len.min(left), *id);
            }
            table.set_column(var, all);
        }
        for (var, i) in kept(other) {
            let mut all = Vec::with_capacity(len);
            let column = &other.columns[i];
            while all.len() < len && !column.is_empty() {
                let left = len - all.len();
                all.extend_from_slice(&column[..column.len().min(left)]);
            }
            table.set_column(var, all);
        }
        table
    }

    /// Adds or replaces a column.
    pub fn set_column(&mut self, var: Var, column: Vec<Id>) {
        debug_assert_eq!(column.len(), self.len);
        match self.vars.iter().position(|v| *v == var) {
            Some(i) => self.columns[i] = column,
            None => {
                self.vars.push(var);
                self.columns.push(column);
            }
        }
    }

    /// Reserves capacity for `rows` more solutions.
    pub(crate) fn reserve(&mut self, rows: usize) {
        for column in &mut self.columns {
            column.reserve(rows);
        }
    }

    /// Appends the solutions of another table; variables that one of them lacks are unbound there.
    pub fn append(&mut self, mut other: Self) {
        if self.len == 0 && self.vars.is_empty() {
            *self = other;
            return;
        }
        if self.vars == other.vars {
            for (to, from) in self.columns.iter_mut().zip(&mut other.columns) {
                to.append(from);
            }
            self.len += other.len;
            return;
        }
        for var in &other.vars {
            if !self.vars.contains(var) {
                self.vars.push(*var);
                self.columns.push(vec![UNBOUND; self.len]);
            }
        }
        self.len += other.len;
        for (var, to) in self.vars.iter().zip(&mut self.columns) {
            match other.column(*var) {
                Some(from) => to.extend_from_slice(from),
                None => to.resize(self.len, UNBOUND),
            }
        }
    }

    /// Keeps only the first `len` solutions.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.columns.iter_mut().for_each(|c| c.truncate(len));
        }
    }

    /// Drops the first `n` solutions.
    pub fn skip(&mut self, n: usize) {
        let n = n.min(self.len);
        if n > 0 {
            self.len -= n;
            self.columns.iter_mut().for_each(|c| drop(c.drain(..n)));
        }
    }
}

pub(crate) fn gather(column: &[Id], rows: &[u32]) -> Vec<Id> {
    rows.iter().map(|r| column[*r as usize]).collect()
}
