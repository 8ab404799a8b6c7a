//! Ids of computed values. Values get their ids in groups, so that the memory accesses of their look-ups overlap.

use super::{Expr, Val, Value, decimal};
use crate::dictionary::Key;
use crate::error::Result;
use crate::exec::{Context, Table};
use crate::id::{self, Id, UNBOUND};
use oxrdf::vocab::xsd;
use std::fmt::Write as _;
use std::ops::Range;

/// Largest number of values in a group.
const GROUP_VALUES: usize = 512;
/// Length of the texts of a group in bytes, above which it is complete.
const GROUP_BYTES: usize = 64 << 10;

/// Kind of a text in a group, with what its key has beside the text.
enum TextKind {
    Iri,
    Plain,
    Lang(Range<usize>),
    Typed(&'static str),
}

/// Values that wait for their ids.
#[derive(Default)]
struct PendingValues {
    texts: String,
    /// Position in the column, kind and text of each value.
    values: Vec<(usize, TextKind, Range<usize>)>,
}

impl PendingValues {
    fn is_full(&self) -> bool {
        self.values.len() >= GROUP_VALUES || self.texts.len() >= GROUP_BYTES
    }

    /// Adds a value for a position; returns its id, if that needs no look-up.
    fn add(&mut self, ctx: &Context<'_>, at: usize, value: Value) -> Id {
        let start = self.texts.len();
        let kind = match value {
            Value::BooleanLiteral(b) => return id::boolean(b.into()),
            Value::IntegerLiteral(n) => match id::integer(n.into()) {
                Some(id) => return id,
                None => self.write(n, xsd::INTEGER.as_str()),
            },
            Value::DecimalLiteral(n) => {
                decimal::put(n, &mut self.texts);
                TextKind::Typed(xsd::DECIMAL.as_str())
            }
            Value::DoubleLiteral(n) => self.write(n, xsd::DOUBLE.as_str()),
            Value::FloatLiteral(n) => self.write(n, xsd::FLOAT.as_str()),
            Value::DayTimeDurationLiteral(n) => {
                decimal::put_duration(n, &mut self.texts);
                TextKind::Typed(xsd::DAY_TIME_DURATION.as_str())
            }
            Value::StringLiteral(text) => {
                self.texts.push_str(&text);
                TextKind::Plain
            }
            Value::NamedNode(iri) => {
                self.texts.push_str(iri.as_str());
                TextKind::Iri
            }
            Value::LangStringLiteral { value, language } => {
                self.texts.push_str(&value);
                let end = self.texts.len();
                self.texts.push_str(&language);
                let kind = TextKind::Lang(end..self.texts.len());
                self.values.push((at, kind, start..end));
                return UNBOUND;
            }
            value => return ctx.number(&value.into()),
        };
        self.values.push((at, kind, start..self.texts.len()));
        UNBOUND
    }

    fn write(&mut self, value: impl std::fmt::Display, datatype: &'static str) -> TextKind {
        let _ = write!(self.texts, "{value}");
        TextKind::Typed(datatype)
    }

    /// Returns the key of a value.
    fn key(&self, kind: &TextKind, range: &Range<usize>) -> Key<'_> {
        let text = |range: &Range<usize>| self.texts.get(range.clone()).unwrap_or_default();
        match kind {
            TextKind::Iri => Key::Iri(text(range)),
            TextKind::Plain => Key::Plain(text(range)),
            TextKind::Lang(tag) => Key::Lang(text(range), text(tag)),
            TextKind::Typed(datatype) => Key::Typed(text(range), datatype),
        }
    }

    /// Numbers the values, writes their ids to the column, and empties the group. Returns the number of new terms.
    fn finish(&mut self, ctx: &Context<'_>, column: &mut [Id]) -> usize {
        let keys = self.values.iter();
        let keys: Vec<_> = keys.map(|(_, kind, text)| self.key(kind, text)).collect();
        let (ids, new) = ctx.number_keys(&keys);
        for ((at, ..), id) in self.values.iter().zip(ids) {
            if let Some(slot) = column.get_mut(*at) {
                *slot = id;
            }
        }
        self.texts.clear();
        self.values.clear();
        new
    }
}

impl Expr {
    /// Returns the ids of the expression's values for all rows of a table; unbound for errors.
    pub(crate) fn ids(&self, ctx: &Context<'_>, table: &Table) -> Result<Vec<Id>> {
        let mut column = Vec::with_capacity(table.len());
        let mut pending = PendingValues::default();
        let mut is_reserved = false;
        for r in 0..table.len() {
            if r % 1024 == 0 {
                ctx.check()?;
            }
            let id = match self.eval(ctx, table.row(r)) {
                None => UNBOUND,
                Some(Val::Id(id)) => id,
                Some(Val::Value(value)) => pending.add(ctx, r, value),
            };
            column.push(id);
            if pending.is_full() {
                let values = pending.values.len();
                let new = pending.finish(ctx, &mut column);
                // The first group shows how many of the values are new.
                if !is_reserved {
                    is_reserved = true;
                    ctx.reserve_terms((table.len() - r).saturating_mul(new) / values.max(1));
                }
            }
        }
        pending.finish(ctx, &mut column);
        Ok(column)
    }
}

impl Val {
    /// Returns the id of the term.
    pub(crate) fn id(self, ctx: &Context<'_>) -> Id {
        let value = match self {
            Self::Id(id) => return id,
            Self::Value(value) => value,
        };
        let mut pending = PendingValues::default();
        let id = pending.add(ctx, 0, value);
        match pending.values.first() {
            Some((_, kind, text)) => ctx.number_key(&pending.key(kind, text)),
            None => id,
        }
    }
}
