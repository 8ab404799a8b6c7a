//! Evaluation of filters to sets of slots: through indexes where they help, otherwise by scanning columns.
//!
//! Of several terms in a conjunction, the one with the lowest estimate is evaluated first, regardless of their order in the
//! filter; each next one is looked up in its index or, once few objects are left, tested on each of them.

use super::column::Column;
use super::lookup::{access_of, by_column, by_index, estimate_by_index, wants_of};
use super::sorted::add_ascending;
use super::table::Table;
use esker_model::Value;
use esker_model::filter::{Comparison, Expr, PreparedTest, Term, Test, ValueRef};
use esker_model::object::{OBJECT_TYPE, ObjectId, PlanStep};
use roaring::RoaringBitmap;

/// A filter with resolved names.
#[derive(Debug)]
pub(super) enum FilterNode<'t> {
    All,
    And(Vec<FilterNode<'t>>),
    Or(Vec<FilterNode<'t>>),
    Not(Box<FilterNode<'t>>),
    Term(Box<Leaf<'t>>),
}

/// A term of a filter.
#[derive(Debug)]
pub(super) struct Leaf<'t> {
    field: Field<'t>,
    pub(super) test: &'t Test,
    pub(super) prepared: PreparedTest,
    text: String,
}

/// Meaning of a name in a filter.
#[derive(Debug, Clone, Copy)]
enum Field<'t> {
    Column(&'t Column),
    Id,
    Key,
    Type,
    Created,
    Modified,
    /// A name that no object has.
    Unknown,
}

/// Resolves a name: a special name, else the column of exactly that name, else the predefined attribute whose name differs
/// only in case, as `filter::Fields` does for one object.
fn field<'t>(table: &'t Table, name: &str) -> Field<'t> {
    match name {
        "id" => return Field::Id,
        "key" => return Field::Key,
        "type" => return Field::Type,
        "created" => return Field::Created,
        "modified" | "version" => return Field::Modified,
        _ => {}
    }
    let exact = table.column(name).filter(|c| c.count() > 0);
    exact
        .or_else(|| alike(table, name))
        .map_or(Field::Unknown, Field::Column)
}

/// Returns the predefined attribute whose name differs only in case.
pub(super) fn alike<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    let mut columns = table.columns.iter();
    columns.find(|c| c.predefined && c.name.eq_ignore_ascii_case(name) && c.count() > 0)
}

/// Returns the names in a filter that no object has.
pub(super) fn unknown_names<'e>(table: &Table, expr: &'e Expr) -> Vec<&'e str> {
    let names = expr.names().into_iter();
    names
        .filter(|name| matches!(field(table, name), Field::Unknown))
        .collect()
}

/// Returns the column that a name refers to, if any.
pub(super) fn column_of<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    match field(table, name) {
        Field::Column(column) => Some(column),
        _ => None,
    }
}

impl<'t> FilterNode<'t> {
    pub(super) fn new(table: &'t Table, expr: &'t Expr) -> Self {
        let all = |parts: &'t [Expr]| parts.iter().map(|p| Self::new(table, p)).collect();
        match expr {
            Expr::All => Self::All,
            Expr::And(parts) => Self::And(all(parts)),
            Expr::Or(parts) => Self::Or(all(parts)),
            Expr::Not(inner) => Self::Not(Box::new(Self::new(table, inner))),
            Expr::Term(term) => {
                let field = field(table, &term.name);
                let leaf = |field| Self::Term(Box::new(Leaf::new(field, term)));
                let tag = matches!(field, Field::Column(tag) if !tag.predefined);
                match (field, tag.then(|| alike(table, &term.name)).flatten()) {
                    // If `Name` is a tag of some objects, it still means `name` for the others.
                    (Field::Column(_), Some(alike)) => {
                        let lacking = Leaf {
                            test: &Test::Exists,
                            prepared: PreparedTest::new(&Test::Exists),
                            ..Leaf::new(field, term)
                        };
                        let lacking = Self::Not(Box::new(Self::Term(Box::new(lacking))));
                        let others = Self::And(vec![leaf(Field::Column(alike)), lacking]);
                        Self::Or(vec![leaf(field), others])
                    }
                    _ => leaf(field),
                }
            }
        }
    }
}

impl<'t> Leaf<'t> {
    fn new(field: Field<'t>, term: &'t Term) -> Self {
        Self {
            field,
            test: &term.test,
            prepared: PreparedTest::new(&term.test),
            text: term.to_string(),
        }
    }
}

/// Access method of a term that is tested on the objects that are left.
const ASKED: &str = "asked of each";

/// Estimated result size and access method of a term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// Estimated number of matching objects.
    objects: u64,
    /// Access method: an index, a column scan, or other.
    access: &'static str,
}

/// One evaluation of a filter.
pub(super) struct Select<'t, 'c> {
    pub(super) table: &'t Table,
    /// Clock in microseconds, for the plan.
    pub(super) clock: &'c dyn Fn() -> u64,
    pub(super) plan: Vec<PlanStep>,
}

/// Maximum number of objects touched by a short search.
const SHORT: u64 = 1_024;
/// Cost of testing one object, in objects returned by an index.
const ASKING_COSTS: u64 = 6;
/// Fixed cost of an index look-up, in objects returned by it.
const LOOKING_UP_COSTS: u64 = 256;
/// Cost of testing one object, in values scanned sequentially.
const ASKING_COSTS_OF_READING: u64 = 24;

/// A filter in the order in which it is evaluated.
pub(super) enum Planned<'n, 't> {
    All,
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Term(&'n Leaf<'t>, Estimate),
}

impl<'t> Select<'t, '_> {
    /// Returns the plan of a filter: of terms that are all required, the one with the fewest objects comes first.
    pub(super) fn plan<'n>(&self, node: &'n FilterNode<'t>) -> Planned<'n, 't> {
        self.planned(node).1
    }

    /// Returns the plan of a filter, after the estimated number of objects that match it.
    fn planned<'n>(&self, node: &'n FilterNode<'t>) -> (u64, Planned<'n, 't>) {
        let all = self.table.live.len();
        let each = |parts: &'n [FilterNode<'t>]| -> Vec<(u64, Planned<'n, 't>)> {
            parts.iter().map(|p| self.planned(p)).collect()
        };
        let plans = |parts: Vec<(u64, Planned<'n, 't>)>| parts.into_iter().map(|p| p.1).collect();
        match node {
            FilterNode::All => (all, Planned::All),
            FilterNode::And(parts) => {
                let mut parts = each(parts);
                parts.sort_by_key(|(objects, _)| *objects);
                let least = parts.first().map_or(all, |(objects, _)| *objects);
                (least, Planned::And(plans(parts)))
            }
            FilterNode::Or(parts) => {
                let parts = each(parts);
                let sum: u64 = parts.iter().map(|(objects, _)| objects).sum();
                (sum.min(all), Planned::Or(plans(parts)))
            }
            FilterNode::Not(inner) => {
                let (objects, inner) = self.planned(inner);
                (all.saturating_sub(objects), Planned::Not(Box::new(inner)))
            }
            FilterNode::Term(leaf) => {
                let estimate = self.estimate_term(leaf);
                (estimate.objects, Planned::Term(leaf, estimate))
            }
        }
    }

    /// Returns the slots in `within` (in all objects if `None`) that match the filter.
    pub(super) fn eval(
        &mut self,
        node: &Planned<'_, 't>,
        within: Option<&RoaringBitmap>,
    ) -> RoaringBitmap {
        match node {
            Planned::All => {
                let all = within.unwrap_or(&self.table.live).clone();
                self.plan.push(PlanStep {
                    left: Some(all.len()),
                    micros: Some(0),
                    ..self.everything()
                });
                all
            }
            Planned::And(parts) => {
                let mut left: Option<RoaringBitmap> = within.cloned();
                for part in parts {
                    if left.as_ref().is_some_and(RoaringBitmap::is_empty) {
                        break;
                    }
                    left = Some(self.eval(part, left.as_ref()));
                }
                left.unwrap_or_else(|| self.table.live.clone())
            }
            Planned::Or(parts) => {
                let mut any = RoaringBitmap::new();
                for part in parts {
                    any |= match within {
                        Some(within) => self.eval(part, Some(&(within - &any))),
                        None => self.eval(part, None),
                    };
                }
                any
            }
            Planned::Not(inner) => {
                let base = within.unwrap_or(&self.table.live);
                base - self.eval(inner, Some(base))
            }
            Planned::Term(leaf, estimate) => self.term(leaf, *estimate, within),
        }
    }

    /// Whether the filter has a term that leaves few objects through an existing index.
    pub(super) fn is_short(&self, node: &FilterNode<'t>) -> bool {
        match node {
            FilterNode::And(parts) => parts.iter().any(|p| self.is_short(p)),
            FilterNode::Term(leaf) => {
                let estimate = self.estimate_term(leaf);
                matches!(estimate.access, "index" | "number") && estimate.objects <= SHORT
            }
            FilterNode::All | FilterNode::Or(_) | FilterNode::Not(_) => false,
        }
    }

    fn estimate_term(&self, leaf: &Leaf<'t>) -> Estimate {
        let by = |objects, access| Estimate { objects, access };
        match leaf.field {
            Field::Unknown => by(0, "nothing has it"),
            Field::Id => match leaf.test {
                Test::Compare(Comparison::Eq, _) => by(1, "number"),
                Test::In(xs) => by(xs.len() as u64, "number"),
                _ => by(self.table.live.len(), "column"),
            },
            Field::Column(column) => {
                if matches!(leaf.test, Test::Exists) {
                    return by(column.count(), "presence");
                }
                match column.index_if_built() {
                    Some(index) => by(
                        estimate_by_index(column, &index, leaf.test),
                        access_of(column, leaf.test),
                    ),
                    None if column.is_worth_an_index() => {
                        by(column.count(), "column, or an index built now")
                    }
                    None => by(column.count(), "column"),
                }
            }
            _ => by(self.table.live.len(), "column"),
        }
    }

    /// Adds a plan without evaluating it. `within` tells whether it is evaluated within other objects: then a term is tested on each of
    /// them if they are few.
    pub(super) fn explain(&mut self, node: &Planned<'_, 't>, within: bool) {
        match node {
            Planned::All => self.plan.push(self.everything()),
            Planned::And(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    self.explain(part, within || i > 0);
                }
            }
            Planned::Or(parts) => parts.iter().for_each(|p| self.explain(p, within)),
            Planned::Not(inner) => self.explain(inner, true),
            Planned::Term(leaf, estimate) => self.plan.push(PlanStep {
                server: 0,
                term: leaf.text.clone(),
                access: if within {
                    format!("{}, or {ASKED}", estimate.access)
                } else {
                    estimate.access.into()
                },
                estimate: estimate.objects,
                left: None,
                micros: None,
            }),
        }
    }

    /// Returns the step of a filter that all objects match.
    fn everything(&self) -> PlanStep {
        PlanStep {
            server: 0,
            term: "(everything)".into(),
            access: "all".into(),
            estimate: self.table.live.len(),
            left: None,
            micros: None,
        }
    }

    fn term(
        &mut self,
        leaf: &Leaf<'t>,
        estimate: Estimate,
        within: Option<&RoaringBitmap>,
    ) -> RoaringBitmap {
        let began = (self.clock)();
        let few = within.is_some_and(|w| match leaf.field {
            // The cost of scanning a column depends on its number of values, that of an index look-up on the size of the result.
            Field::Column(column) if estimate.access.starts_with("column") => {
                w.len() * ASKING_COSTS_OF_READING < column.count()
            }
            _ => w.len() * ASKING_COSTS < estimate.objects + LOOKING_UP_COSTS,
        });
        let (slots, access) = match within {
            Some(within) if few => (self.ask_each(leaf, within), ASKED),
            _ => {
                let (all, access) = self.look_up(leaf, estimate.access);
                (within.map_or_else(|| all.clone(), |w| &all & w), access)
            }
        };
        self.plan.push(PlanStep {
            server: 0,
            term: leaf.text.clone(),
            access: access.into(),
            estimate: estimate.objects,
            left: Some(slots.len()),
            micros: Some((self.clock)().saturating_sub(began)),
        });
        slots
    }

    /// Tests a term on each of a few objects.
    fn ask_each(&self, leaf: &Leaf<'t>, within: &RoaringBitmap) -> RoaringBitmap {
        let mut slots = Vec::new();
        for slot in within {
            if self.matches(leaf, slot) {
                slots.push(slot);
            }
        }
        let mut out = RoaringBitmap::new();
        add_ascending(&slots, &mut out);
        out
    }

    /// Whether one object satisfies a term.
    fn matches(&self, leaf: &Leaf<'t>, slot: u32) -> bool {
        let test = &leaf.prepared;
        match leaf.field {
            Field::Column(column) => column.get(slot).is_some_and(|v| test.matches(v.as_ref())),
            Field::Id => test.matches(ValueRef::I64(self.table.id(slot).0 as i64)),
            Field::Key => test.matches(ValueRef::String(&self.table.id(slot).to_string())),
            Field::Type => test.matches(ValueRef::String(OBJECT_TYPE)),
            Field::Created => test.matches(ValueRef::Timestamp(self.table.first(slot).nanos())),
            Field::Modified => test.matches(ValueRef::Timestamp(self.table.latest(slot).nanos())),
            Field::Unknown => false,
        }
    }

    fn look_up(&self, leaf: &Leaf<'t>, access: &'static str) -> (RoaringBitmap, &'static str) {
        match leaf.field {
            Field::Unknown => (RoaringBitmap::new(), access),
            Field::Column(column) => {
                if matches!(leaf.test, Test::Exists) {
                    return (column.slots(), "presence");
                }
                match column.index_for(wants_of(leaf.test)) {
                    Some(index) => (by_index(column, &index, leaf), access_of(column, leaf.test)),
                    None => (by_column(column, leaf), "column"),
                }
            }
            Field::Id if access == "number" => {
                let mut out = RoaringBitmap::new();
                let mut add = |x: &Value| {
                    let id = match x {
                        Value::I64(n) => u64::try_from(*n).ok(),
                        _ => None,
                    };
                    let slot = id.and_then(|id| self.table.slot_of(ObjectId(id)));
                    out.extend(slot.filter(|s| self.table.live.contains(*s)));
                };
                match leaf.test {
                    Test::Compare(_, x) => add(x),
                    Test::In(xs) => xs.iter().for_each(add),
                    _ => {}
                }
                // A number may also be written as a double or as text.
                out.extend(self.odd_ids(leaf));
                (out, access)
            }
            Field::Type if leaf.prepared.matches(ValueRef::String(OBJECT_TYPE)) => {
                (self.table.live.clone(), "all")
            }
            Field::Type => (RoaringBitmap::new(), "all"),
            _ => (self.ask_each(leaf, &self.table.live), "column"),
        }
    }

    /// Returns the objects whose number satisfies a comparison with a value that is not an integer.
    fn odd_ids(&self, leaf: &Leaf<'t>) -> RoaringBitmap {
        let odd = |x: &Value| matches!(x, Value::F64(_));
        let any = match leaf.test {
            Test::Compare(_, x) => odd(x),
            Test::In(xs) => xs.iter().any(odd),
            _ => false,
        };
        if any {
            self.ask_each(leaf, &self.table.live)
        } else {
            RoaringBitmap::new()
        }
    }
}
