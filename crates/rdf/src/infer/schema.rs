//! Compilation of a schema to rules.

use super::rules::{Fact, FactView, Rule, Rules};
use super::vocabulary::Vocabulary;
use crate::id::Id;
use std::collections::{HashMap, HashSet};

/// Limit of superclasses for transitive reduction.
const SUPERS_MAX: usize = 64;

/// Read access to a schema.
pub(super) trait SchemaSource: FactView {
    /// Returns all distinct pairs of a property.
    fn pairs(&self, p: Id) -> Vec<(Id, Id)>;
    /// Returns all distinct members of a class.
    fn members(&self, class: Id) -> Vec<Id>;
    /// Returns whether the term can be a predicate.
    fn is_iri(&self, id: Id) -> bool;
}

/// Ancestors by class or property.
type Ancestors = HashMap<Id, Vec<Id>>;

fn ancestors(pairs: Vec<(Id, Id)>) -> Ancestors {
    let mut map = Ancestors::new();
    for (a, b) in pairs {
        map.entry(a).or_default().push(b);
    }
    for list in map.values_mut() {
        list.sort_unstable();
        list.dedup();
    }
    map
}

/// Returns the transitive reduction of a closed relation; a superset of it if the relation is not closed.
fn reduced(ancestors: &Ancestors) -> Vec<(Id, Id)> {
    let mut kept = Vec::new();
    let is_above = |a: Id, b: Id| {
        ancestors
            .get(&a)
            .is_some_and(|list| list.binary_search(&b).is_ok())
    };
    for (a, list) in ancestors {
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

/// Returns the rules that close the schema's own relations.
pub(super) fn schema_rules(w: &Vocabulary, owl: bool) -> Vec<Rule> {
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

/// Reads the schema. Returns all rules, and the facts that follow from lists and restrictions alone.
pub(super) fn compile(source: &impl SchemaSource, w: &Vocabulary, owl: bool) -> Rules {
    let mut list = schema_rules(w, owl);
    let classes = ancestors(source.pairs(w.sub_class));
    let properties = ancestors(source.pairs(w.sub_property));
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
    source: &impl SchemaSource,
    w: &Vocabulary,
    classes: &Ancestors,
    properties: &Ancestors,
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

/// Returns a list's items; `None` if the list is cyclic or unfinished.
fn items(
    source: &impl SchemaSource,
    w: &Vocabulary,
    head: Id,
    seen: &mut HashSet<Id>,
) -> Option<Vec<Id>> {
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

/// Compiles restrictions to rules and derives subclass relations between them.
fn restrictions(
    source: &impl SchemaSource,
    w: &Vocabulary,
    classes: &Ancestors,
    properties: &Ancestors,
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
        // Restrictions by property and filler.
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
