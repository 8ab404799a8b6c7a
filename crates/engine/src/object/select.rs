//! What a filter holds of: sets of slots, made by indexes where they help and by reading columns where not.
//!
//! Of terms that must all hold, the one that is expected to leave the fewest objects goes first, whatever order they are
//! written in; each next one is looked up in its index, or, once few objects are left, asked of each of them.

use super::column::{Column, View, Wants, float_key};
use super::sorted::{Sorted, add_ascending};
use super::spans;
use super::table::Table;
use esker_model::Value;
use esker_model::filter::{
    Comparison, Expr, Pattern, PatternKind, PreparedTest, Term, Test, ValueRef,
};
use esker_model::object::{OBJECT_TYPE, ObjectId, PlanStep};
use roaring::RoaringBitmap;
use std::ops::Bound;

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
    test: &'t Test,
    prepared: PreparedTest,
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

fn alike<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
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
                match (field, alike(table, &term.name)) {
                    // `Name` is a tag of some objects: of others it is still their `name`.
                    (Field::Column(tag), Some(alike)) if !tag.predefined => {
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
            text: Expr::Term(term.clone()).to_string(),
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

/// To ask one object costs as much as so many that an index gives.
const ASKING_COSTS: u64 = 6;
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
            _ => w.len() * ASKING_COSTS < estimate.objects,
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

fn access_of(column: &Column, test: &Test) -> &'static str {
    match test {
        _ if column.words.len() == 0 => "index",
        Test::Like(p) => match p.kind() {
            PatternKind::Exact(_) | PatternKind::Prefix(_) => "index",
            _ => "text index",
        },
        Test::Contains(_) | Test::Matches(_) => "text index",
        _ => "index",
    }
}

fn estimate_by_index(column: &Column, index: &View, test: &Test) -> u64 {
    let inside = |spans: Option<Vec<(i64, i64)>>, sorted: &Sorted<i64>, all: usize| match spans {
        Some(spans) => {
            let count = |(a, b)| sorted.count(Bound::Included(a), Bound::Included(b));
            spans.into_iter().map(count).sum()
        }
        None => all as u64 / 2,
    };
    let mut objects = index.changed.len();
    if !index.built.ints.is_empty() {
        objects += inside(spans::ints(test), &index.built.ints, column.ints.len());
    }
    if !index.built.times.is_empty() {
        objects += inside(Some(test.times()), &index.built.times, column.times.len());
    }
    if !index.built.floats.is_empty() {
        objects += match spans::floats(test) {
            Some(spans) => {
                let count = |(a, b)| {
                    let sorted = &index.built.floats;
                    sorted.count(Bound::Included(a), Bound::Included(b))
                };
                spans.into_iter().map(count).sum()
            }
            None => column.floats.len() as u64 / 2,
        };
    }
    if !index.built.texts.is_empty() {
        let all = column.texts.len() as u64;
        objects += match exact_texts(test) {
            Some(texts) => {
                let count = |text: &str| {
                    let word = column.words.find(text)?;
                    let sorted = &index.built.texts;
                    Some(sorted.count(Bound::Included(word), Bound::Included(word)))
                };
                texts.into_iter().filter_map(count).sum()
            }
            // A tenth of the texts is a guess; a text index tells more only by doing the work.
            None => all / 10 + 1,
        };
    }
    objects + column.nulls.len() * u64::from(test.holds(&Value::Null)) + column.others.len() as u64
}

/// The texts that alone fulfil a test, if it is such a test.
fn exact_texts(test: &Test) -> Option<Vec<&str>> {
    let text = |x| match x {
        &Value::String(ref s) => Some(s.as_str()),
        _ => None,
    };
    match test {
        Test::Compare(Comparison::Eq, x) => Some(text(x).into_iter().collect()),
        Test::In(xs) => Some(xs.iter().filter_map(text).collect()),
        Test::Like(p) => match p.kind() {
            PatternKind::Exact(s) if !p.ignores_case() => Some(vec![s]),
            _ => None,
        },
        _ => None,
    }
}

/// All slots of a column that a term holds of, by its index.
fn by_index(column: &Column, index: &View, leaf: &Leaf<'_>) -> RoaringBitmap {
    let (test, built) = (leaf.test, &index.built);
    let mut out = RoaringBitmap::new();
    match spans::ints(test) {
        Some(spans) => {
            for (a, b) in spans {
                built
                    .ints
                    .collect(Bound::Included(a), Bound::Included(b), &mut out);
            }
        }
        None => built
            .ints
            .collect_where(|v| leaf.prepared.holds(ValueRef::I64(v)), &mut out),
    }
    match spans::floats(test) {
        Some(spans) => {
            for (a, b) in spans {
                built
                    .floats
                    .collect(Bound::Included(a), Bound::Included(b), &mut out);
            }
        }
        None => built.floats.collect_where(
            |key| {
                leaf.prepared
                    .holds(ValueRef::F64(super::column::float_of(key)))
            },
            &mut out,
        ),
    }
    for (a, b) in test.times() {
        built
            .times
            .collect(Bound::Included(a), Bound::Included(b), &mut out);
    }
    if !built.texts.is_empty() {
        texts_by_index(column, index, leaf, &mut out);
    }
    out -= &index.changed;
    let mut changed: Vec<u32> = Vec::new();
    for slot in &index.changed {
        let holds = |v: esker_model::value::ValueView<'_>| leaf.prepared.holds(v.as_ref());
        if column.get(slot).is_some_and(holds) {
            changed.push(slot);
        }
    }
    add_ascending(&changed, &mut out);
    odd_kinds(column, leaf, true, &mut out);
    out
}

/// Slots with values that are in no index: few, or decided at once.
fn odd_kinds(column: &Column, leaf: &Leaf<'_>, by_index: bool, out: &mut RoaringBitmap) {
    if !column.nulls.is_empty() && leaf.prepared.holds(ValueRef::Null) {
        *out |= &column.nulls;
    }
    for (slot, value) in &column.others {
        if leaf.prepared.holds(ValueRef::from(value)) {
            out.insert(*slot);
        }
    }
    for group in &column.groups {
        let indexed = matches!(
            group.value,
            Value::I64(_) | Value::F64(_) | Value::Timestamp(_) | Value::String(_)
        );
        if !(indexed && by_index) && leaf.prepared.holds(ValueRef::from(&group.value)) {
            *out |= &group.slots;
        }
    }
}

fn texts_by_index(column: &Column, index: &View, leaf: &Leaf<'_>, out: &mut RoaringBitmap) {
    let sorted = &index.built.texts;
    let mut add = |word: u32| sorted.collect(Bound::Included(word), Bound::Included(word), out);
    if let Some(texts) = exact_texts(leaf.test) {
        let mut words: Vec<u32> = texts.iter().filter_map(|t| column.words.find(t)).collect();
        words.sort_unstable();
        words.dedup();
        words.into_iter().for_each(add);
        return;
    }
    let holds = |word: u32| {
        leaf.prepared
            .holds(ValueRef::String(column.words.get(word)))
    };
    if let (Some(ends), Some(order)) = (text_span(leaf.test), &index.order) {
        let inside = order.between(
            &column.words,
            |text| ends.below(text),
            |text| ends.inside(text),
        );
        // What is asked may be narrower than the span that it lies in.
        inside
            .iter()
            .copied()
            .filter(|w| holds(*w))
            .for_each(&mut add);
        let new = order.known() as u32..column.words.len() as u32;
        new.filter(|w| holds(*w)).for_each(add);
        return;
    }
    if let (Some(infix), Some(grams)) = (infix_of(leaf.test), &index.grams)
        && let Some(candidates) = grams.candidates(infix)
    {
        candidates.iter().filter(|w| holds(*w)).for_each(&mut add);
        let new = grams.known() as u32..column.words.len() as u32;
        new.filter(|w| holds(*w)).for_each(add);
        return;
    }
    (0..column.words.len() as u32)
        .filter(|w| holds(*w))
        .for_each(add);
}

fn wants_of(test: &Test) -> Wants {
    Wants {
        order: text_span(test).is_some(),
        grams: infix_of(test).is_some_and(|infix| infix.len() >= 3),
        now: false,
    }
}

/// Text that is in each text that fulfils the test, where case counts.
fn infix_of(test: &Test) -> Option<&str> {
    let literal = |p: &'_ Pattern| (!p.ignores_case()).then_some(());
    match test {
        Test::Like(p) => {
            literal(p)?;
            Some(p.longest_literal())
        }
        Test::Contains(Value::String(s)) => Some(s),
        _ => None,
    }
}

/// A run of texts in their order.
struct TextSpan<'x> {
    low: Bound<&'x str>,
    high: High<'x>,
}

enum High<'x> {
    None,
    Before(&'x str),
    Until(&'x str),
    /// All that begins so.
    Prefix(&'x str),
}

impl TextSpan<'_> {
    fn below(&self, text: &str) -> bool {
        match self.low {
            Bound::Unbounded => false,
            Bound::Included(low) => text < low,
            Bound::Excluded(low) => text <= low,
        }
    }

    fn inside(&self, text: &str) -> bool {
        match self.high {
            High::None => true,
            High::Before(high) => text < high,
            High::Until(high) => text <= high,
            High::Prefix(prefix) => text.starts_with(prefix),
        }
    }
}

fn text_span(test: &Test) -> Option<TextSpan<'_>> {
    let span = |low, high| Some(TextSpan { low, high });
    match test {
        Test::Like(p) if !p.ignores_case() => match p.kind() {
            PatternKind::Prefix(s) if !s.is_empty() => span(Bound::Included(s), High::Prefix(s)),
            _ => None,
        },
        Test::Compare(comparison, Value::String(s)) => match comparison {
            Comparison::Lt => span(Bound::Unbounded, High::Before(s)),
            Comparison::Le => span(Bound::Unbounded, High::Until(s)),
            Comparison::Gt => span(Bound::Excluded(s), High::None),
            Comparison::Ge => span(Bound::Included(s), High::None),
            _ => None,
        },
        Test::Between(Value::String(low), Value::String(high)) => {
            span(Bound::Included(low), High::Until(high))
        }
        _ => None,
    }
}

/// All slots of a column that a term holds of, by reading it.
fn by_column(column: &Column, leaf: &Leaf<'_>) -> RoaringBitmap {
    let mut out = RoaringBitmap::new();
    let mut slots = Vec::new();
    let mut take = |slots: &mut Vec<u32>, in_order: bool| {
        if !in_order {
            slots.sort_unstable();
        }
        add_ascending(slots, &mut out);
        slots.clear();
    };
    match spans::ints(leaf.test).as_deref() {
        // Most filters ask for one stretch.
        Some([(low, high)]) => {
            let (low, high) = (*low, *high);
            column.ints.for_each(|slot, v| {
                if low <= v && v <= high {
                    slots.push(slot);
                }
            });
        }
        _ => column.ints.for_each(|slot, v| {
            if leaf.prepared.holds(ValueRef::I64(v)) {
                slots.push(slot);
            }
        }),
    }
    take(&mut slots, column.ints.in_order());
    match spans::floats(leaf.test).as_deref() {
        Some([(low, high)]) => {
            let (low, high) = (*low, *high);
            column.floats.for_each(|slot, bits| {
                let key = float_key(f64::from_bits(bits));
                if low <= key && key <= high {
                    slots.push(slot);
                }
            });
        }
        _ => column.floats.for_each(|slot, bits| {
            if leaf.prepared.holds(ValueRef::F64(f64::from_bits(bits))) {
                slots.push(slot);
            }
        }),
    }
    take(&mut slots, column.floats.in_order());
    let times = leaf.test.times();
    if !times.is_empty() {
        column.times.for_each(|slot, v| {
            if times.iter().any(|(a, b)| *a <= v && v <= *b) {
                slots.push(slot);
            }
        });
        take(&mut slots, column.times.in_order());
    }
    if !column.texts.is_empty() {
        // Each different text is asked once.
        let holds = |w: u32| leaf.prepared.holds(ValueRef::String(column.words.get(w)));
        match exact_texts(leaf.test).as_deref() {
            Some([one]) => {
                if let Some(wanted) = column.words.find(one) {
                    column.texts.for_each(|slot, word| {
                        if word == wanted {
                            slots.push(slot);
                        }
                    });
                }
            }
            _ => {
                let said: Vec<bool> = (0..column.words.len() as u32).map(holds).collect();
                column.texts.for_each(|slot, word| {
                    if said.get(word as usize) == Some(&true) {
                        slots.push(slot);
                    }
                });
            }
        }
        take(&mut slots, column.texts.in_order());
    }
    odd_kinds(column, leaf, false, &mut out);
    out
}
