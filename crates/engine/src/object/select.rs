//! What a filter holds of: sets of slots, made by indexes where they help and by reading columns where not.
//!
//! Of terms that must all hold, the one that is expected to leave the fewest objects goes first, whatever order they are
//! written in; each next one is looked up in its index, or, once few objects are left, asked of each of them.

use super::column::Column;
use super::lookup::{access_of, by_column, by_index, estimate_by_index, wants_of};
use super::sorted::add_ascending;
use super::table::Table;
use esker_model::Value;
use esker_model::filter::{Comparison, Expr, PreparedTest, Term, Test, ValueRef};
use esker_model::object::{OBJECT_TYPE, ObjectId, PlanStep};
use roaring::RoaringBitmap;

/// A filter, with its names looked up.
#[derive(Debug)]
pub(super) enum Node<'t> {
    All,
    And(Vec<Node<'t>>),
    Or(Vec<Node<'t>>),
    Not(Box<Node<'t>>),
    Term(Box<Leaf<'t>>),
}

/// A term.
#[derive(Debug)]
pub(super) struct Leaf<'t> {
    field: Field<'t>,
    pub(super) test: &'t Test,
    pub(super) prepared: PreparedTest,
    text: String,
}

/// What a name means.
#[derive(Debug, Clone, Copy)]
enum Field<'t> {
    Column(&'t Column),
    Id,
    Key,
    Type,
    Created,
    Modified,
    /// No object has it.
    Unknown,
}

/// What stands under a name: what it means of itself, else the column of exactly that name, else the predefined attribute
/// whose name differs in case only, as `filter::Fields` has it for one object.
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

/// The predefined attribute whose name differs in case only.
pub(super) fn alike<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    let mut columns = table.columns.iter();
    columns.find(|c| c.predefined && c.name.eq_ignore_ascii_case(name) && c.count() > 0)
}

/// Names of a filter that say nothing of any object.
pub(super) fn unknown_names<'e>(table: &Table, expr: &'e Expr) -> Vec<&'e str> {
    let names = expr.names().into_iter();
    names
        .filter(|name| matches!(field(table, name), Field::Unknown))
        .collect()
}

/// The column that a name stands for, if it is one.
pub(super) fn column_of<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    match field(table, name) {
        Field::Column(column) => Some(column),
        _ => None,
    }
}

impl<'t> Node<'t> {
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
                    // `Name` is a tag of some objects: of others it is still their `name`.
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

/// What a term will cost and leave.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// Objects that it leaves, by what is known.
    objects: u64,
    /// By what.
    access: &'static str,
}

/// One evaluation.
pub(super) struct Select<'t, 'c> {
    pub(super) table: &'t Table,
    /// Microseconds, for the plan.
    pub(super) clock: &'c dyn Fn() -> u64,
    pub(super) plan: Vec<PlanStep>,
}

/// A search that touches no more objects than this is a short one.
const SHORT: u64 = 1_024;
/// To ask one object costs as much as so many that an index gives.
const ASKING_COSTS: u64 = 6;
/// To look into an index costs as much as so many that it gives, however few they are.
const LOOKING_UP_COSTS: u64 = 256;
/// To ask one object costs as much as so many values that are read in a row.
const ASKING_COSTS_OF_READING: u64 = 24;

impl<'t> Select<'t, '_> {
    /// The slots of those among `within` (of all, without it) that the filter holds of.
    pub(super) fn eval(
        &mut self,
        node: &Node<'t>,
        within: Option<&RoaringBitmap>,
    ) -> RoaringBitmap {
        match node {
            Node::All => within.unwrap_or(&self.table.live).clone(),
            Node::And(parts) => self.all_of(parts, within),
            Node::Or(parts) => {
                let mut any = RoaringBitmap::new();
                for part in parts {
                    any |= match within {
                        Some(within) => self.eval(part, Some(&(within - &any))),
                        None => self.eval(part, None),
                    };
                }
                any
            }
            Node::Not(inner) => {
                let base = within.unwrap_or(&self.table.live);
                base - self.eval(inner, Some(base))
            }
            Node::Term(leaf) => self.term(leaf, within),
        }
    }

    fn all_of(&mut self, parts: &[Node<'t>], within: Option<&RoaringBitmap>) -> RoaringBitmap {
        let mut order: Vec<_> = parts.iter().map(|p| (self.estimate(p), p)).collect();
        order.sort_by_key(|(objects, _)| *objects);
        let mut left: Option<RoaringBitmap> = within.cloned();
        for (_, part) in order {
            if left.as_ref().is_some_and(RoaringBitmap::is_empty) {
                break;
            }
            left = Some(self.eval(part, left.as_ref()));
        }
        left.unwrap_or_else(|| self.table.live.clone())
    }

    /// How many objects a filter is expected to hold of.
    fn estimate(&self, node: &Node<'t>) -> u64 {
        let all = self.table.live.len();
        match node {
            Node::All => all,
            Node::And(parts) => parts.iter().map(|p| self.estimate(p)).min().unwrap_or(all),
            Node::Or(parts) => {
                let sum: u64 = parts.iter().map(|p| self.estimate(p)).sum();
                sum.min(all)
            }
            Node::Not(inner) => all.saturating_sub(self.estimate(inner)),
            Node::Term(leaf) => self.estimate_term(leaf).objects,
        }
    }

    /// Whether a filter is terms of which one leaves few objects by an index that is there.
    pub(super) fn is_short(&self, node: &Node<'t>) -> bool {
        match node {
            Node::And(parts) => parts.iter().any(|p| self.is_short(p)),
            Node::Term(leaf) => {
                let estimate = self.estimate_term(leaf);
                matches!(estimate.access, "index" | "number") && estimate.objects <= SHORT
            }
            Node::All | Node::Or(_) | Node::Not(_) => false,
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

    /// How it would go about a filter.
    pub(super) fn explain(&mut self, node: &Node<'t>) {
        match node {
            Node::All => self.plan.push(PlanStep {
                server: 0,
                term: "(everything)".into(),
                access: "all".into(),
                estimate: self.table.live.len(),
                left: None,
                micros: None,
            }),
            Node::And(parts) => {
                let mut order: Vec<_> = parts.iter().map(|p| (self.estimate(p), p)).collect();
                order.sort_by_key(|(objects, _)| *objects);
                for (_, part) in order {
                    self.explain(part);
                }
            }
            Node::Or(parts) => parts.iter().for_each(|p| self.explain(p)),
            Node::Not(inner) => self.explain(inner),
            Node::Term(leaf) => {
                let estimate = self.estimate_term(leaf);
                self.plan.push(PlanStep {
                    server: 0,
                    term: leaf.text.clone(),
                    access: estimate.access.into(),
                    estimate: estimate.objects,
                    left: None,
                    micros: None,
                });
            }
        }
    }

    fn term(&mut self, leaf: &Leaf<'t>, within: Option<&RoaringBitmap>) -> RoaringBitmap {
        let began = (self.clock)();
        let estimate = self.estimate_term(leaf);
        let few = within.is_some_and(|w| match leaf.field {
            // To read a column costs by its values, to look into its index by what that gives.
            Field::Column(column) if estimate.access.starts_with("column") => {
                w.len() * ASKING_COSTS_OF_READING < column.count()
            }
            _ => w.len() * ASKING_COSTS < estimate.objects + LOOKING_UP_COSTS,
        });
        let (slots, access) = match within {
            Some(within) if few => (self.ask_each(leaf, within), "asked of each"),
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

    /// Those of a few that a term holds of.
    fn ask_each(&self, leaf: &Leaf<'t>, within: &RoaringBitmap) -> RoaringBitmap {
        let mut slots = Vec::new();
        for slot in within {
            if self.holds(leaf, slot) {
                slots.push(slot);
            }
        }
        let mut out = RoaringBitmap::new();
        add_ascending(&slots, &mut out);
        out
    }

    /// Whether a term holds of one object.
    fn holds(&self, leaf: &Leaf<'t>, slot: u32) -> bool {
        let test = &leaf.prepared;
        match leaf.field {
            Field::Column(column) => column.get(slot).is_some_and(|v| test.holds(v.as_ref())),
            Field::Id => test.holds(ValueRef::I64(self.table.id(slot).0 as i64)),
            Field::Key => test.holds(ValueRef::String(&self.table.id(slot).to_string())),
            Field::Type => test.holds(ValueRef::String(OBJECT_TYPE)),
            Field::Created => test.holds(ValueRef::Timestamp(self.table.first(slot).nanos())),
            Field::Modified => test.holds(ValueRef::Timestamp(self.table.latest(slot).nanos())),
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
                match column.index_wanted(wants_of(leaf.test)) {
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
            Field::Type if leaf.prepared.holds(ValueRef::String(OBJECT_TYPE)) => {
                (self.table.live.clone(), "all")
            }
            Field::Type => (RoaringBitmap::new(), "all"),
            _ => (self.ask_each(leaf, &self.table.live), "column"),
        }
    }

    /// Objects that a comparison of their number with something else than an integer holds of.
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
