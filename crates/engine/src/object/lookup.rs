//! The slots of one column that satisfy a term: through its index, or by scanning the column.

use super::column::{Column, IndexNeeds, IndexView, float_key};
use super::select::Leaf;
use super::sorted::{Sorted, add_ascending};
use super::spans;
use esker_model::Value;
use esker_model::filter::{Comparison, Pattern, PatternKind, Test, ValueRef};
use roaring::RoaringBitmap;
use std::ops::Bound;

pub(super) fn access_of(column: &Column, test: &Test) -> &'static str {
    match test {
        _ if column.dictionary.len() == 0 => "index",
        Test::Like(p) => match p.kind() {
            PatternKind::Exact(_) | PatternKind::Prefix(_) => "index",
            _ => "text index",
        },
        Test::Contains(_) | Test::Matches(_) => "text index",
        _ => "index",
    }
}

pub(super) fn estimate_by_index(column: &Column, index: &IndexView, test: &Test) -> u64 {
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
                    let word = column.dictionary.find(text)?;
                    let sorted = &index.built.texts;
                    Some(sorted.count(Bound::Included(word), Bound::Included(word)))
                };
                texts.into_iter().filter_map(count).sum()
            }
            // A tenth of the texts is a guess; a better estimate would need the text index's full work.
            None => all / 10 + 1,
        };
    }
    objects
        + column.nulls.len() * u64::from(test.matches(&Value::Null))
        + column.others.len() as u64
}

/// Returns the texts that a test accepts, if it is a finite list.
fn exact_texts(test: &Test) -> Option<Vec<&str>> {
    fn text(x: &Value) -> Option<&str> {
        match x {
            Value::String(s) => Some(s.as_str()),
            _ => None,
        }
    }
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

/// Returns all slots of a column that satisfy a term, through its index.
pub(super) fn by_index(column: &Column, index: &IndexView, leaf: &Leaf<'_>) -> RoaringBitmap {
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
            .collect_where(|v| leaf.prepared.matches(ValueRef::I64(v)), &mut out),
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
                    .matches(ValueRef::F64(super::column::float_of(key)))
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
        let holds = |v: esker_model::value::ValueView<'_>| leaf.prepared.matches(v.as_ref());
        if column.get(slot).is_some_and(holds) {
            changed.push(slot);
        }
    }
    add_ascending(&changed, &mut out);
    odd_kinds(column, leaf, true, &mut out);
    out
}

/// Adds slots with values that are in no index: few, or decided as a group.
fn odd_kinds(column: &Column, leaf: &Leaf<'_>, by_index: bool, out: &mut RoaringBitmap) {
    if !column.nulls.is_empty() && leaf.prepared.matches(ValueRef::Null) {
        *out |= &column.nulls;
    }
    for (slot, value) in &column.others {
        if leaf.prepared.matches(ValueRef::from(value)) {
            out.insert(*slot);
        }
    }
    for group in &column.groups {
        let indexed = matches!(
            group.value,
            Value::I64(_) | Value::F64(_) | Value::Timestamp(_) | Value::String(_)
        );
        if !(indexed && by_index) && leaf.prepared.matches(ValueRef::from(&group.value)) {
            *out |= &group.slots;
        }
    }
}

fn texts_by_index(column: &Column, index: &IndexView, leaf: &Leaf<'_>, out: &mut RoaringBitmap) {
    let sorted = &index.built.texts;
    let mut add = |word: u32| sorted.collect(Bound::Included(word), Bound::Included(word), out);
    if let Some(texts) = exact_texts(leaf.test) {
        let mut words: Vec<u32> = texts
            .iter()
            .filter_map(|t| column.dictionary.find(t))
            .collect();
        words.sort_unstable();
        words.dedup();
        words.into_iter().for_each(add);
        return;
    }
    let holds = |word: u32| {
        leaf.prepared
            .matches(ValueRef::String(column.dictionary.get(word)))
    };
    if let (Some(ends), Some(order)) = (text_span(leaf.test), &index.order) {
        let inside = order.between(
            &column.dictionary,
            |text| ends.precedes(text),
            |text| ends.inside(text),
        );
        // The test may be narrower than its span.
        inside
            .iter()
            .copied()
            .filter(|w| holds(*w))
            .for_each(&mut add);
        let new = order.covered() as u32..column.dictionary.len() as u32;
        new.filter(|w| holds(*w)).for_each(add);
        return;
    }
    if let (Some(infix), Some(grams)) = (infix_of(leaf.test), &index.grams)
        && let Some(candidates) = grams.candidates(infix)
    {
        candidates.iter().filter(|w| holds(*w)).for_each(&mut add);
        let new = grams.covered() as u32..column.dictionary.len() as u32;
        new.filter(|w| holds(*w)).for_each(add);
        return;
    }
    (0..column.dictionary.len() as u32)
        .filter(|w| holds(*w))
        .for_each(add);
}

pub(super) fn wants_of(test: &Test) -> IndexNeeds {
    IndexNeeds {
        order: text_span(test).is_some(),
        grams: infix_of(test).is_some_and(|infix| infix.len() >= 3),
        now: false,
    }
}

/// Returns a text that every accepted text contains, if the test is case-sensitive.
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

/// A contiguous range in the order of texts.
struct TextSpan<'x> {
    low: Bound<&'x str>,
    high: UpperBound<'x>,
}

enum UpperBound<'x> {
    None,
    Before(&'x str),
    Until(&'x str),
    /// All texts with this prefix.
    Prefix(&'x str),
}

impl TextSpan<'_> {
    fn precedes(&self, text: &str) -> bool {
        match self.low {
            Bound::Unbounded => false,
            Bound::Included(low) => text < low,
            Bound::Excluded(low) => text <= low,
        }
    }

    fn inside(&self, text: &str) -> bool {
        match self.high {
            UpperBound::None => true,
            UpperBound::Before(high) => text < high,
            UpperBound::Until(high) => text <= high,
            UpperBound::Prefix(prefix) => text.starts_with(prefix),
        }
    }
}

fn text_span(test: &Test) -> Option<TextSpan<'_>> {
    let span = |low, high| Some(TextSpan { low, high });
    match test {
        Test::Like(p) if !p.ignores_case() => match p.kind() {
            PatternKind::Prefix(s) if !s.is_empty() => {
                span(Bound::Included(s), UpperBound::Prefix(s))
            }
            _ => None,
        },
        Test::Compare(comparison, Value::String(s)) => match comparison {
            Comparison::Lt => span(Bound::Unbounded, UpperBound::Before(s)),
            Comparison::Le => span(Bound::Unbounded, UpperBound::Until(s)),
            Comparison::Gt => span(Bound::Excluded(s), UpperBound::None),
            Comparison::Ge => span(Bound::Included(s), UpperBound::None),
            _ => None,
        },
        Test::Between(Value::String(low), Value::String(high)) => {
            span(Bound::Included(low), UpperBound::Until(high))
        }
        _ => None,
    }
}

/// Returns all slots of a column that satisfy a term, by scanning it.
pub(super) fn by_column(column: &Column, leaf: &Leaf<'_>) -> RoaringBitmap {
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
        // Most filters have a single span.
        Some([(low, high)]) => {
            let (low, high) = (*low, *high);
            column.ints.for_each(|slot, v| {
                if low <= v && v <= high {
                    slots.push(slot);
                }
            });
        }
        _ => column.ints.for_each(|slot, v| {
            if leaf.prepared.matches(ValueRef::I64(v)) {
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
            if leaf.prepared.matches(ValueRef::F64(f64::from_bits(bits))) {
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
        // Each distinct text is tested once.
        let holds = |w: u32| {
            leaf.prepared
                .matches(ValueRef::String(column.dictionary.get(w)))
        };
        if let Some([one]) = exact_texts(leaf.test).as_deref() {
            if let Some(wanted) = column.dictionary.find(one) {
                column.texts.for_each(|slot, word| {
                    if word == wanted {
                        slots.push(slot);
                    }
                });
            }
        } else {
            let said: Vec<bool> = (0..column.dictionary.len() as u32).map(holds).collect();
            column.texts.for_each(|slot, word| {
                if said.get(word as usize) == Some(&true) {
                    slots.push(slot);
                }
            });
        }
        take(&mut slots, column.texts.in_order());
    }
    odd_kinds(column, leaf, false, &mut out);
    out
}
