//! Inference rules: derivation from a fact, and test whether a fact is derivable.

use super::vocabulary::Vocabulary;
use crate::id::Id;
use std::collections::{HashMap, HashSet};

/// A triple: subject, predicate, object.
pub(super) type Fact = (Id, Id, Id);

/// Subject of a rule: the members of a class, or the pairs of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RuleNode {
    Class(Id),
    Property(Id),
}

/// A rule instantiated for a class or property of the schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Members of `from` are members of `to`.
    Class { from: Id, to: Id },
    /// Subjects of `p` are members of `to`.
    Domain { p: Id, to: Id },
    /// Objects of `p` are members of `to`.
    Range { p: Id, to: Id },
    /// Pairs of `from` are pairs of `to`.
    Property { from: Id, to: Id },
    /// Reversed pairs of `from` are pairs of `to`.
    Inverse { from: Id, to: Id },
    /// `p` composed with `p` is `p`.
    Transitive { p: Id },
    /// The composition of `parts` is `to`.
    Chain { parts: Vec<Id>, to: Id },
    /// Members of all `parts` are members of `to`.
    And { parts: Vec<Id>, to: Id },
    /// Subjects of `p` whose object is a member of `of` are members of `to`.
    Some { p: Id, of: Id, to: Id },
    /// Objects of `p` whose subject is a member of `class` are members of `to`.
    All { class: Id, p: Id, to: Id },
    /// Members of `class` have `value` as object of `p`.
    Gives { class: Id, p: Id, value: Id },
    /// Subjects of `p` with object `value` are members of `to`.
    Has { p: Id, value: Id, to: Id },
    /// Two objects of one subject of `p` are the same.
    Functional { p: Id },
    /// Two subjects of one object of `p` are the same.
    InverseFunctional { p: Id },
    /// Pairs of `p` that exist in both directions are pairs of `to`.
    Mutual { p: Id, to: Id },
}

/// Read access to facts.
pub(super) trait FactView {
    fn has(&self, s: Id, p: Id, o: Id) -> bool;
    /// Appends the objects of a subject.
    fn objects(&self, p: Id, s: Id, to: &mut Vec<Id>);
    /// Appends the subjects of an object.
    fn subjects(&self, p: Id, o: Id, to: &mut Vec<Id>);
    /// Returns whether the term cannot be a subject.
    fn is_literal(&self, id: Id) -> bool;
    /// Returns all predicates that have triples.
    fn predicates(&self) -> Vec<Id>;
}

/// Compiled rules of a graph.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) vocabulary: Vocabulary,
    pub(super) list: Vec<Rule>,
    by_body: HashMap<RuleNode, Vec<u32>>,
    by_head: HashMap<RuleNode, Vec<u32>>,
    /// Facts that follow from the schema's restrictions and lists alone.
    pub(super) facts: HashSet<Fact>,
    /// Nodes of the lists that were read, including the ends of unfinished ones.
    pub(super) lists: HashSet<Id>,
    /// Whether terms that are `owl:sameAs` each other have the same triples.
    pub(super) owl: bool,
}

impl Rule {
    pub(super) fn head(&self, vocabulary: &Vocabulary) -> RuleNode {
        match *self {
            Self::Class { to, .. }
            | Self::Domain { to, .. }
            | Self::Range { to, .. }
            | Self::And { to, .. }
            | Self::Some { to, .. }
            | Self::All { to, .. }
            | Self::Has { to, .. } => RuleNode::Class(to),
            Self::Property { to, .. }
            | Self::Inverse { to, .. }
            | Self::Chain { to, .. }
            | Self::Mutual { to, .. } => RuleNode::Property(to),
            Self::Transitive { p } | Self::Gives { p, .. } => RuleNode::Property(p),
            Self::Functional { .. } | Self::InverseFunctional { .. } => {
                RuleNode::Property(vocabulary.same)
            }
        }
    }

    pub(super) fn bodies(&self) -> Vec<RuleNode> {
        match self {
            Self::Class { from, .. } => vec![RuleNode::Class(*from)],
            Self::Domain { p, .. }
            | Self::Range { p, .. }
            | Self::Transitive { p }
            | Self::Has { p, .. }
            | Self::Functional { p }
            | Self::InverseFunctional { p }
            | Self::Mutual { p, .. } => vec![RuleNode::Property(*p)],
            Self::Property { from, .. } | Self::Inverse { from, .. } => {
                vec![RuleNode::Property(*from)]
            }
            Self::Chain { parts, .. } => parts.iter().map(|p| RuleNode::Property(*p)).collect(),
            Self::And { parts, .. } => parts.iter().map(|c| RuleNode::Class(*c)).collect(),
            Self::Some { p, of, .. } => vec![RuleNode::Property(*p), RuleNode::Class(*of)],
            Self::All { class, p, .. } => vec![RuleNode::Class(*class), RuleNode::Property(*p)],
            Self::Gives { class, .. } => vec![RuleNode::Class(*class)],
        }
    }
}

impl Rules {
    pub(super) fn new(vocabulary: Vocabulary, list: Vec<Rule>, owl: bool) -> Self {
        let mut rules = Self {
            vocabulary,
            owl,
            ..Self::default()
        };
        let mut seen = HashSet::new();
        for rule in list {
            if !seen.insert(rule.clone()) {
                continue;
            }
            let n = rules.list.len() as u32;
            let mut bodies = rule.bodies();
            bodies.sort_unstable();
            bodies.dedup();
            for body in bodies {
                rules.by_body.entry(body).or_default().push(n);
            }
            rules
                .by_head
                .entry(rule.head(&vocabulary))
                .or_default()
                .push(n);
            rules.list.push(rule);
        }
        rules
    }

    fn of<'a>(
        &'a self,
        map: &'a HashMap<RuleNode, Vec<u32>>,
        node: RuleNode,
    ) -> impl Iterator<Item = &'a Rule> {
        map.get(&node)
            .into_iter()
            .flatten()
            .filter_map(|n| self.list.get(*n as usize))
    }

    /// Returns the rules that derive facts of this kind.
    pub(super) fn giving(&self, node: RuleNode) -> impl Iterator<Item = &Rule> {
        self.of(&self.by_head, node)
    }

    /// Returns the rules that use facts of this kind.
    pub(super) fn using(&self, node: RuleNode) -> impl Iterator<Item = &Rule> {
        self.of(&self.by_body, node)
    }

    /// Returns whether a rule uses the pairs of `rdf:type` as those of a property.
    pub(super) fn uses_types_as_pairs(&self) -> bool {
        self.by_body
            .contains_key(&RuleNode::Property(self.vocabulary.kind))
    }

    /// Returns all classes and properties of the rules.
    pub(super) fn nodes(&self) -> Vec<RuleNode> {
        let mut all: Vec<RuleNode> = self
            .by_body
            .keys()
            .chain(self.by_head.keys())
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Appends everything that follows in one step from a fact together with the visible facts.
    pub(super) fn follow(&self, fact: Fact, view: &impl FactView, out: &mut Vec<Fact>) {
        let (_, p, o) = fact;
        for rule in self.using(RuleNode::Property(p)) {
            self.apply(rule, fact, view, out);
        }
        if p == self.vocabulary.kind {
            for rule in self.using(RuleNode::Class(o)) {
                // A rule with both in its body was already applied above.
                if !rule.bodies().contains(&RuleNode::Property(p)) {
                    self.apply(rule, fact, view, out);
                }
            }
        }
        if self.owl {
            self.copy_to_same(fact, view, out);
        }
    }

    pub(super) fn apply(
        &self,
        rule: &Rule,
        (s, p, o): Fact,
        view: &impl FactView,
        out: &mut Vec<Fact>,
    ) {
        let kind = self.vocabulary.kind;
        let is_member = |class: Id| p == kind && o == class;
        match rule {
            Rule::Class { to, .. } | Rule::Domain { to, .. } => out.push((s, kind, *to)),
            Rule::Range { to, .. } => {
                if !view.is_literal(o) {
                    out.push((o, kind, *to));
                }
            }
            Rule::Property { to, .. } => out.push((s, *to, o)),
            Rule::Inverse { to, .. } => {
                if !view.is_literal(o) {
                    out.push((o, *to, s));
                }
            }
            Rule::Transitive { p } => {
                let mut list = Vec::new();
                view.objects(*p, o, &mut list);
                out.extend(list.drain(..).map(|z| (s, *p, z)));
                view.subjects(*p, s, &mut list);
                out.extend(list.into_iter().map(|w| (w, *p, o)));
            }
            Rule::Chain { parts, to } => {
                for (i, part) in parts.iter().enumerate() {
                    if *part != p {
                        continue;
                    }
                    let lefts = before(view, &parts[..i], s);
                    let rights = after(view, &parts[i + 1..], o);
                    for left in &lefts {
                        out.extend(rights.iter().map(|right| (*left, *to, *right)));
                    }
                }
            }
            Rule::And { parts, to } => {
                if parts.iter().all(|c| *c == o || view.has(s, kind, *c)) {
                    out.push((s, kind, *to));
                }
            }
            Rule::Some { p: by, of, to } => {
                if p == *by && view.has(o, kind, *of) {
                    out.push((s, kind, *to));
                }
                if is_member(*of) {
                    let mut list = Vec::new();
                    view.subjects(*by, s, &mut list);
                    out.extend(list.into_iter().map(|x| (x, kind, *to)));
                }
            }
            Rule::All { class, p: by, to } => {
                if p == *by && !view.is_literal(o) && view.has(s, kind, *class) {
                    out.push((o, kind, *to));
                }
                if is_member(*class) {
                    let mut list = Vec::new();
                    view.objects(*by, s, &mut list);
                    list.retain(|y| !view.is_literal(*y));
                    out.extend(list.into_iter().map(|y| (y, kind, *to)));
                }
            }
            Rule::Gives { p, value, .. } => out.push((s, *p, *value)),
            Rule::Has { value, to, .. } => {
                if o == *value {
                    out.push((s, kind, *to));
                }
            }
            Rule::Functional { p } => {
                let mut list = Vec::new();
                view.objects(*p, s, &mut list);
                self.same(o, &list, view, out);
            }
            Rule::InverseFunctional { p } => {
                let mut list = Vec::new();
                view.subjects(*p, o, &mut list);
                self.same(s, &list, view, out);
            }
            Rule::Mutual { p, to } => {
                if view.has(o, *p, s) {
                    out.push((s, *to, o));
                    out.push((o, *to, s));
                }
            }
        }
    }

    fn same(&self, one: Id, others: &[Id], view: &impl FactView, out: &mut Vec<Fact>) {
        if view.is_literal(one) {
            return;
        }
        for other in others {
            if *other != one && !view.is_literal(*other) {
                out.push((one, self.vocabulary.same, *other));
                out.push((*other, self.vocabulary.same, one));
            }
        }
    }

    /// Copies a fact to the terms that are `owl:sameAs` its terms.
    fn copy_to_same(&self, (s, p, o): Fact, view: &impl FactView, out: &mut Vec<Fact>) {
        let same = self.vocabulary.same;
        if self.vocabulary.is_list(p) {
            return;
        }
        let mut list = Vec::new();
        view.objects(same, s, &mut list);
        list.retain(|x| !view.is_literal(*x));
        out.extend(list.drain(..).map(|x| (x, p, o)));
        view.objects(same, o, &mut list);
        out.extend(list.drain(..).map(|x| (s, p, x)));
        if p != same || s == o {
            return;
        }
        for q in view.predicates() {
            if self.vocabulary.is_list(q) {
                continue;
            }
            view.objects(q, s, &mut list);
            if view.is_literal(o) {
                list.clear();
            }
            out.extend(list.drain(..).map(|x| (o, q, x)));
            view.subjects(q, s, &mut list);
            out.extend(list.drain(..).map(|x| (x, q, o)));
        }
    }

    /// Returns whether a fact follows in one step from the visible facts.
    pub(super) fn derivable(&self, fact: Fact, view: &impl FactView) -> bool {
        let (s, p, o) = fact;
        if self.facts.contains(&fact) {
            return true;
        }
        let by_rule = self
            .giving(RuleNode::Property(p))
            .any(|rule| self.gives(rule, fact, view))
            || (p == self.vocabulary.kind
                && self
                    .giving(RuleNode::Class(o))
                    .any(|rule| self.gives(rule, fact, view)));
        if by_rule || !self.owl || self.vocabulary.is_list(p) {
            return by_rule;
        }
        let same = self.vocabulary.same;
        let mut list = Vec::new();
        view.subjects(same, s, &mut list);
        if list.drain(..).any(|x| view.has(x, p, o)) {
            return true;
        }
        view.subjects(same, o, &mut list);
        list.iter().any(|x| view.has(s, p, *x))
    }

    fn gives(&self, rule: &Rule, (s, _, o): Fact, view: &impl FactView) -> bool {
        let kind = self.vocabulary.kind;
        let mut list = Vec::new();
        match rule {
            Rule::Class { from, .. } => view.has(s, kind, *from),
            Rule::Domain { p, .. } => {
                view.objects(*p, s, &mut list);
                !list.is_empty()
            }
            Rule::Range { p, .. } => {
                view.subjects(*p, s, &mut list);
                !list.is_empty()
            }
            Rule::Property { from, .. } => view.has(s, *from, o),
            Rule::Inverse { from, .. } => view.has(o, *from, s),
            Rule::Transitive { p } => {
                view.objects(*p, s, &mut list);
                list.iter().any(|z| view.has(*z, *p, o))
            }
            Rule::Chain { parts, .. } => after(view, parts, s).contains(&o),
            Rule::And { parts, .. } => parts.iter().all(|c| view.has(s, kind, *c)),
            Rule::Some { p, of, .. } => {
                view.objects(*p, s, &mut list);
                list.iter().any(|y| view.has(*y, kind, *of))
            }
            Rule::All { class, p, .. } => {
                view.subjects(*p, s, &mut list);
                list.iter().any(|x| view.has(*x, kind, *class))
            }
            Rule::Gives { class, value, .. } => o == *value && view.has(s, kind, *class),
            Rule::Has { p, value, .. } => view.has(s, *p, *value),
            Rule::Functional { p } => {
                view.subjects(*p, s, &mut list);
                s != o && !view.is_literal(o) && list.iter().any(|x| view.has(*x, *p, o))
            }
            Rule::InverseFunctional { p } => {
                view.objects(*p, s, &mut list);
                s != o && !view.is_literal(o) && list.iter().any(|y| view.has(o, *p, *y))
            }
            Rule::Mutual { p, .. } => view.has(s, *p, o) && view.has(o, *p, s),
        }
    }
}

/// Returns the end nodes of a property chain.
pub(super) fn after(view: &impl FactView, parts: &[Id], from: Id) -> Vec<Id> {
    let mut at = vec![from];
    for p in parts {
        let mut next = Vec::new();
        for x in &at {
            view.objects(*p, *x, &mut next);
        }
        next.sort_unstable();
        next.dedup();
        at = next;
    }
    at
}

/// Returns the start nodes of a property chain.
fn before(view: &impl FactView, parts: &[Id], to: Id) -> Vec<Id> {
    let mut at = vec![to];
    for p in parts.iter().rev() {
        let mut next = Vec::new();
        for x in &at {
            view.subjects(*p, *x, &mut next);
        }
        next.sort_unstable();
        next.dedup();
        at = next;
    }
    at
}
