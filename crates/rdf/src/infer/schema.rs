//! From what is said about classes and properties to rules.

use super::rules::{Fact, Rule, Rules, View};
use super::words::Words;
use crate::id::Id;
use std::collections::{HashMap, HashSet};

/// Superclasses up to which it is worth finding out which follow from others.
const SUPERS_MAX: usize = 64;

/// Where a schema is read.
pub(super) trait Source: View {
    /// All pairs of a property, each once.
    fn pairs(&self, p: Id) -> Vec<(Id, Id)>;
    /// All members of a class, each once.
    fn members(&self, class: Id) -> Vec<Id>;
    /// Whether it may be a predicate.
    fn is_iri(&self, id: Id) -> bool;
}

/// What stands above what.
type Above = HashMap<Id, Vec<Id>>;

fn above(pairs: Vec<(Id, Id)>) -> Above {
    let mut map = Above::new();
    for (a, b) in pairs {
        map.entry(a).or_default().push(b);
    }
    for list in map.values_mut() {
        list.sort_unstable();
        list.dedup();
    }
    map
}

/// The pairs from which the others follow, if the relation is closed; more than those if it is not.
fn reduced(above: &Above) -> Vec<(Id, Id)> {
    let mut kept = Vec::new();
    let is_above = |a: Id, b: Id| {
        above
            .get(&a)
            .is_some_and(|list| list.binary_search(&b).is_ok())
    };
    for (a, list) in above {
        for c in list {
            let follows = list.len() <= SUPERS_MAX
                && list
                    .iter()
                    .any(|b| b != c && is_above(*b, *c) && !is_above(*b, *a) && !is_above(*c, *b));
            if !follows && a != c {
                kept.push((*a, *c));
            }
        }
    }
    kept.sort_unstable();
    kept
}

/// The rules by which the schema's own relations grow.
pub(super) fn meta(w: &Words, owl: bool) -> Vec<Rule> {
    let mut list = vec![
        Rule::Transitive { p: w.sub_class },
        Rule::Transitive { p: w.sub_property },
    ];
    if !owl {
        return list;
    }
    for (same, sub) in [
        (w.same_class, w.sub_class),
        (w.same_property, w.sub_property),
    ] {
        list.extend([
            Rule::Property {
                from: same,
                to: sub,
            },
            Rule::Inverse {
                from: same,
                to: sub,
            },
            Rule::Mutual { p: sub, to: same },
        ]);
    }
    for p in [w.domain, w.range] {
        list.push(Rule::Chain {
            parts: vec![p, w.sub_class],
            to: p,
        });
        list.push(Rule::Chain {
            parts: vec![w.sub_property, p],
            to: p,
        });
    }
    list
}

/// Reads the schema: all rules, and what follows from lists and restrictions by themselves.
pub(super) fn compile(source: &impl Source, w: &Words, owl: bool) -> Rules {
    let mut list = meta(w, owl);
    let classes = above(source.pairs(w.sub_class));
    let properties = above(source.pairs(w.sub_property));
    for (from, to) in reduced(&classes) {
        list.push(Rule::Class { from, to });
    }
    for (from, to) in reduced(&properties) {
        if source.is_iri(to) {
            list.push(Rule::Property { from, to });
        }
    }
    for (p, to) in source.pairs(w.domain) {
        list.push(Rule::Domain { p, to });
    }
    for (p, to) in source.pairs(w.range) {
        list.push(Rule::Range { p, to });
    }
    if !owl {
        return Rules::new(*w, list, false);
    }
    let (facts, lists) = compile_owl(source, w, &classes, &properties, &mut list);
    let mut rules = Rules::new(*w, list, true);
    rules.facts = facts;
    rules.lists = lists;
    rules
}

fn compile_owl(
    source: &impl Source,
    w: &Words,
    classes: &Above,
    properties: &Above,
    list: &mut Vec<Rule>,
) -> (HashSet<Fact>, HashSet<Id>) {
    let mut facts = HashSet::new();
    let mut lists = HashSet::new();
    list.push(Rule::Inverse {
        from: w.same,
        to: w.same,
    });
    list.push(Rule::Transitive { p: w.same });
    for (p, q) in source.pairs(w.inverse) {
        for (from, to) in [(p, q), (q, p)] {
            if source.is_iri(to) && source.is_iri(from) {
                list.push(Rule::Inverse { from, to });
            }
        }
    }
    let iris = |class: Id| {
        let mut members = source.members(class);
        members.retain(|p| source.is_iri(*p));
        members
    };
    list.extend(
        iris(w.transitive)
            .into_iter()
            .map(|p| Rule::Transitive { p }),
    );
    list.extend(
        iris(w.symmetric)
            .into_iter()
            .map(|p| Rule::Inverse { from: p, to: p }),
    );
    list.extend(
        iris(w.functional)
            .into_iter()
            .map(|p| Rule::Functional { p }),
    );
    list.extend(
        iris(w.inverse_functional)
            .into_iter()
            .map(|p| Rule::InverseFunctional { p }),
    );
    for (to, head) in source.pairs(w.chain) {
        if let Some(parts) = items(source, w, head, &mut lists)
            && !parts.is_empty()
            && source.is_iri(to)
        {
            list.push(Rule::Chain { parts, to });
        }
    }
    for (to, head) in source.pairs(w.every) {
        if let Some(mut parts) = items(source, w, head, &mut lists)
            && !parts.is_empty()
        {
            facts.extend(parts.iter().map(|part| (to, w.sub_class, *part)));
            parts.sort_unstable();
            parts.dedup();
            list.push(Rule::And { parts, to });
        }
    }
    for (of, head) in source.pairs(w.any) {
        for part in items(source, w, head, &mut lists).unwrap_or_default() {
            if !source.is_literal(part) {
                facts.insert((part, w.sub_class, of));
            }
        }
    }
    for (class, head) in source.pairs(w.one_of) {
        for x in items(source, w, head, &mut lists).unwrap_or_default() {
            if !source.is_literal(x) {
                facts.insert((x, w.kind, class));
            }
        }
    }
    restrictions(source, w, classes, properties, list, &mut facts);
    (facts, lists)
}

/// A list's items, or nothing if it has no end.
fn items(source: &impl Source, w: &Words, head: Id, seen: &mut HashSet<Id>) -> Option<Vec<Id>> {
    let mut list = Vec::new();
    let mut here = HashSet::new();
    let mut at = head;
    while at != w.nil {
        seen.insert(at);
        if !here.insert(at) {
            return None;
        }
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        source.objects(w.first, at, &mut first);
        source.objects(w.rest, at, &mut rest);
        let ([item], [next]) = (first.as_slice(), rest.as_slice()) else {
            return None;
        };
        list.push(*item);
        at = *next;
    }
    Some(list)
}

/// Restrictions: their rules, and which follow from which.
fn restrictions(
    source: &impl Source,
    w: &Words,
    classes: &Above,
    properties: &Above,
    list: &mut Vec<Rule>,
    facts: &mut HashSet<Fact>,
) {
    let mut on: HashMap<Id, Vec<Id>> = HashMap::new();
    for (class, p) in source.pairs(w.on) {
        if source.is_iri(p) {
            on.entry(class).or_default().push(p);
        }
    }
    for word in [w.some, w.all, w.value] {
        // By property and what it leads to.
        let mut known: HashMap<(Id, Id), Vec<Id>> = HashMap::new();
        for (to, of) in source.pairs(word) {
            for p in on.get(&to).into_iter().flatten().copied() {
                known.entry((p, of)).or_default().push(to);
                if word == w.value {
                    list.push(Rule::Gives {
                        class: to,
                        p,
                        value: of,
                    });
                    list.push(Rule::Has { p, value: of, to });
                } else if word == w.all {
                    list.push(Rule::All {
                        class: to,
                        p,
                        to: of,
                    });
                } else if of == w.thing {
                    list.push(Rule::Domain { p, to });
                } else {
                    list.push(Rule::Some { p, of, to });
                }
            }
        }
        for ((p, of), here) in &known {
            let wider = properties.get(p).into_iter().flatten();
            for (other, turned) in wider.map(|q| ((*q, *of), word == w.all)).chain(
                classes
                    .get(of)
                    .into_iter()
                    .flatten()
                    .filter(|_| word != w.value)
                    .map(|c| ((*p, *c), false)),
            ) {
                for there in known.get(&other).into_iter().flatten() {
                    for one in here {
                        let (a, b) = if turned { (there, one) } else { (one, there) };
                        facts.insert((*a, w.sub_class, *b));
                    }
                }
            }
        }
    }
}
