//! Closure of a whole graph, set at a time: classes and properties are processed in dependency order, each from whole sorted columns; only
//! within a dependency cycle are new facts propagated further.

use super::lists::{InferredPairs, merge, range, sort_runs, subtract};
use super::order::components;
use super::rules::{Fact, FactView, Rule, RuleNode, Rules};
use super::schema::{SchemaSource, compile, schema_rules};
use super::vocabulary::Vocabulary;
use crate::dictionary::{Dictionary, Head, Parts};
use crate::error::{Error, Result};
use crate::id::{Id, LOCAL};
use crate::quads::{Graph, Index, Pairs, pack, sort, unpack};
use std::collections::{BTreeMap, HashMap};

/// Limits of a closure.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Limit of inferred triples during the closure, in bytes.
    pub memory: usize,
    /// Cancellation check: returns the reason to stop, or `None`.
    pub stop: &'a dyn Fn() -> Option<&'static str>,
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits")
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl Limits<'_> {
    /// No limits and no cancellation.
    pub(crate) const NONE: Limits<'static> = Limits {
        memory: usize::MAX,
        stop: &|| None,
    };

    pub(super) fn check(&self) -> Result<()> {
        (self.stop)().map_or(Ok(()), |why| Err(Error::Stopped(why)))
    }
}

/// State of a closure.
pub(super) struct ClosureBuilder<'a> {
    graph: &'a Graph,
    dictionary: &'a Dictionary,
    pub(super) vocabulary: Vocabulary,
    types: Option<&'a Index>,
    classes: HashMap<Id, Vec<Id>>,
    properties: HashMap<Id, InferredPairs>,
    /// Inferred pairs of `rdf:type` at the start of the current pass.
    typed: InferredPairs,
    limits: Limits<'a>,
    /// Number of inferred triples.
    count: usize,
}

/// Unsorted output of rules.
#[derive(Debug)]
pub(super) enum RuleOutput {
    Ids(Vec<Id>),
    Pairs(Vec<u64>),
}

impl FactView for ClosureBuilder<'_> {
    fn has(&self, s: Id, p: Id, o: Id) -> bool {
        if p == self.vocabulary.kind {
            return self.types.is_some_and(|t| t.so.contains(s, o))
                || self
                    .classes
                    .get(&o)
                    .is_some_and(|list| list.binary_search(&s).is_ok());
        }
        self.base(p).is_some_and(|x| x.so.contains(s, o))
            || self
                .properties
                .get(&p)
                .is_some_and(|n| n.so.binary_search(&pack(s, o)).is_ok())
    }

    fn objects(&self, p: Id, s: Id, to: &mut Vec<Id>) {
        if let Some(x) = self.base(p) {
            to.extend_from_slice(x.so.get(s));
        }
        if let Some(n) = self.new_of(p) {
            to.extend(range(&n.so, s));
        }
    }

    fn subjects(&self, p: Id, o: Id, to: &mut Vec<Id>) {
        if let Some(x) = self.base(p) {
            to.extend_from_slice(x.os.get(o));
        }
        if p == self.vocabulary.kind {
            to.extend_from_slice(self.classes.get(&o).map_or(&[][..], Vec::as_slice));
        } else if let Some(n) = self.properties.get(&p)
            && !n.so.is_empty()
        {
            to.extend(range(n.os(), o));
        }
    }

    fn is_literal(&self, id: Id) -> bool {
        is_literal(self.dictionary, id)
    }

    fn predicates(&self) -> Vec<Id> {
        let mut list: Vec<Id> = self.graph.predicates().to_vec();
        list.extend(self.properties.keys());
        list.push(self.vocabulary.kind);
        list.sort_unstable();
        list.dedup();
        list
    }
}

impl SchemaSource for ClosureBuilder<'_> {
    fn pairs(&self, p: Id) -> Vec<(Id, Id)> {
        self.packed(p).into_iter().map(unpack).collect()
    }

    fn members(&self, class: Id) -> Vec<Id> {
        self.all_members(class)
    }

    fn is_iri(&self, id: Id) -> bool {
        id < LOCAL
            && matches!(
                self.dictionary.parts(id),
                Some(Parts::Stored(Head::Iri(_), _))
            )
    }
}

/// Returns whether a term cannot be a subject.
pub(super) fn is_literal(dictionary: &Dictionary, id: Id) -> bool {
    id >= LOCAL
        || !matches!(
            dictionary.parts(id),
            Some(Parts::Stored(Head::Iri(_) | Head::Blank, _))
        )
}

impl<'a> ClosureBuilder<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        seeds: &[Fact],
        dictionary: &'a Dictionary,
        vocabulary: Vocabulary,
        limits: Limits<'a>,
    ) -> Self {
        let mut work = Self {
            graph,
            dictionary,
            vocabulary,
            types: graph.index(vocabulary.kind),
            classes: HashMap::new(),
            properties: HashMap::new(),
            typed: InferredPairs::default(),
            limits,
            count: 0,
        };
        work.add(seeds.iter().copied());
        work
    }

    pub(super) fn base(&self, p: Id) -> Option<&'a Index> {
        if p == self.vocabulary.kind {
            self.types
        } else {
            self.graph.index(p)
        }
    }

    pub(super) fn new_of(&self, p: Id) -> Option<&InferredPairs> {
        if p == self.vocabulary.kind {
            Some(&self.typed)
        } else {
            self.properties.get(&p)
        }
    }

    pub(super) fn base_members(&self, class: Id) -> &'a [Id] {
        self.types.map_or(&[], |t| t.os.get(class))
    }

    pub(super) fn new_members(&self, class: Id) -> &[Id] {
        self.classes.get(&class).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all_members(&self, class: Id) -> Vec<Id> {
        let mut all = self.new_members(class).to_vec();
        merge(&mut all, self.base_members(class));
        all
    }

    /// Returns all packed pairs of a property, ascending.
    pub(super) fn packed(&self, p: Id) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .base(p)
            .map(|x| x.so.iter().map(|(s, o)| pack(s, o)).collect())
            .unwrap_or_default();
        if let Some(n) = self.new_of(p) {
            merge(&mut all, &n.so);
        }
        all
    }

    /// Adds facts and returns those that are new.
    fn add(&mut self, facts: impl IntoIterator<Item = Fact>) -> Vec<Fact> {
        let mut output: BTreeMap<RuleNode, RuleOutput> = BTreeMap::new();
        for fact in facts {
            put(&mut output, fact, self.vocabulary.kind);
        }
        self.commit_all(output).unwrap_or_default()
    }

    fn commit_all(&mut self, output: BTreeMap<RuleNode, RuleOutput>) -> Result<Vec<Fact>> {
        let mut new = Vec::new();
        for (node, output) in output {
            new.extend(self.commit(node, output, true)?);
        }
        Ok(new)
    }

    /// Sorts the output of rules and adds it to the closure. Returns the new facts.
    fn commit(&mut self, node: RuleNode, output: RuleOutput, edges: bool) -> Result<Vec<Fact>> {
        let kind = self.vocabulary.kind;
        let new = match (node, output) {
            (RuleNode::Class(class), RuleOutput::Ids(mut ids)) => {
                sort_runs(&mut ids);
                ids.dedup();
                subtract(&mut ids, self.base_members(class));
                let known = self.classes.entry(class).or_default();
                subtract(&mut ids, known);
                merge(known, &ids);
                self.count += ids.len();
                ids.into_iter().map(|s| (s, kind, class)).collect()
            }
            (RuleNode::Property(p), RuleOutput::Pairs(pairs)) if p == kind => {
                let mut output = BTreeMap::new();
                for pair in pairs {
                    let (s, o) = unpack(pair);
                    put(&mut output, (s, kind, o), kind);
                }
                return self.commit_all(output);
            }
            (RuleNode::Property(p), RuleOutput::Pairs(mut pairs)) => {
                sort(&mut pairs);
                pairs.dedup();
                if let Some(x) = self.base(p) {
                    let (mut near, mut last, mut list) = (0, 0, &[][..]);
                    pairs.retain(|pair| {
                        let (s, o) = unpack(*pair);
                        if s != last {
                            list = x.so.get_near(s, &mut near);
                            last = s;
                        }
                        list.binary_search(&o).is_err()
                    });
                }
                let known = self.properties.entry(p).or_default();
                subtract(&mut pairs, &known.so);
                if !pairs.is_empty() {
                    merge(&mut known.so, &pairs);
                    known.changed();
                    if edges {
                        merge(&mut known.edges, &pairs);
                    }
                }
                self.count += pairs.len();
                pairs
                    .into_iter()
                    .map(|pair| {
                        let (s, o) = unpack(pair);
                        (s, p, o)
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        // In the end, pairs are stored in both directions.
        if self.count.saturating_mul(16) > self.limits.memory {
            return Err(Error::Refused(format!(
                "the inferred triples need more memory than they may have: {} are in memory, the \
                 limit is {} bytes; load without --infer, with the fewer rules of --infer rdfs, or \
                 allow more memory",
                self.count, self.limits.memory
            )));
        }
        Ok(new)
    }

    /// Computes the closure and returns its rules.
    pub(super) fn close(&mut self, owl: bool) -> Result<Rules> {
        loop {
            let rules = self.close_schema(owl)?;
            let before = self.schema_size(owl);
            loop {
                let count = self.count;
                self.typed = InferredPairs::default();
                if rules.uses_types_as_pairs() || (owl && self.has_same()) {
                    self.typed.so = self.inferred_types();
                }
                self.pass(&rules)?;
                if owl && self.has_same() {
                    self.copy_to_same(&rules)?;
                }
                let again = rules.uses_types_as_pairs()
                    || rules
                        .giving(RuleNode::Property(self.vocabulary.kind))
                        .next()
                        .is_some()
                    || (owl && self.has_same());
                if !again || self.count == count {
                    break;
                }
            }
            // Data can imply schema triples; then the rules are compiled again.
            if self.schema_size(owl) == before {
                return Ok(rules);
            }
        }
    }

    /// Closes the schema: the triples about classes and properties.
    fn close_schema(&mut self, owl: bool) -> Result<Rules> {
        let schema_rules = Rules::new(self.vocabulary, schema_rules(&self.vocabulary, owl), false);
        loop {
            let count = self.count;
            self.pass(&schema_rules)?;
            let rules = compile(self, &self.vocabulary, owl);
            self.add(rules.facts.iter().copied());
            if self.count == count {
                return Ok(rules);
            }
        }
    }

    /// Returns the number of schema triples.
    fn schema_size(&self, owl: bool) -> usize {
        let pairs: usize = self
            .vocabulary
            .predicates(owl)
            .chain([self.vocabulary.first, self.vocabulary.rest])
            .filter_map(|p| self.properties.get(&p))
            .map(|n| n.so.len())
            .sum();
        let kinds = self.vocabulary.kinds();
        pairs
            + kinds
                .iter()
                .map(|c| self.new_members(*c).len())
                .sum::<usize>()
    }

    fn has_same(&self) -> bool {
        self.base(self.vocabulary.same).is_some()
            || self
                .properties
                .get(&self.vocabulary.same)
                .is_some_and(|n| !n.so.is_empty())
    }

    fn inferred_types(&self) -> Vec<u64> {
        let mut pairs: Vec<u64> = self
            .classes
            .iter()
            .flat_map(|(class, list)| list.iter().map(|s| pack(*s, *class)))
            .collect();
        sort(&mut pairs);
        pairs
    }

    /// Applies all rules once, in dependency order.
    fn pass(&mut self, rules: &Rules) -> Result<()> {
        for component in components(rules) {
            self.limits.check()?;
            self.component(rules, &component)?;
        }
        Ok(())
    }

    fn component(&mut self, rules: &Rules, component: &[RuleNode]) -> Result<()> {
        let mut new: Vec<Fact> = Vec::new();
        let inside = |node: &RuleNode| component.binary_search(node).is_ok();
        let circular = component.iter().any(|node| {
            rules
                .giving(*node)
                .any(|rule| rule.bodies().iter().any(inside))
        });
        for node in component {
            let mut output: Option<RuleOutput> = None;
            let mut transitive = false;
            for rule in rules.giving(*node) {
                if matches!(rule, Rule::Transitive { .. }) {
                    transitive = true;
                } else {
                    self.apply_rule(rule, &mut output);
                }
            }
            if let Some(output) = output {
                let found = self.commit(*node, output, true)?;
                if circular {
                    new.extend(found);
                }
            }
            if let (true, RuleNode::Property(p)) = (transitive, node) {
                new.extend(self.transitive(*p)?);
            }
        }
        while circular && !new.is_empty() {
            self.limits.check()?;
            let mut output: BTreeMap<RuleNode, RuleOutput> = BTreeMap::new();
            let mut out = Vec::new();
            for fact in &new {
                let (_, p, o) = *fact;
                let class = (p == self.vocabulary.kind).then_some(RuleNode::Class(o));
                for node in std::iter::once(RuleNode::Property(p)).chain(class) {
                    for rule in rules.using(node) {
                        // The transitive closure of a property is computed separately below.
                        if !matches!(rule, Rule::Transitive { .. })
                            && inside(&rule.head(&self.vocabulary))
                        {
                            rules.apply(rule, *fact, self, &mut out);
                        }
                    }
                }
                for fact in out.drain(..) {
                    put(&mut output, fact, self.vocabulary.kind);
                }
            }
            new.clear();
            for (node, output) in output {
                let found = self.commit(node, output, true)?;
                let closes = !found.is_empty()
                    && rules
                        .giving(node)
                        .any(|r| matches!(r, Rule::Transitive { .. }));
                new.extend(found);
                if let (true, RuleNode::Property(p)) = (closes, node) {
                    new.extend(self.transitive(p)?);
                }
            }
        }
        Ok(())
    }

    /// Computes the transitive closure of a property from each subject.
    fn transitive(&mut self, p: Id) -> Result<Vec<Fact>> {
        let mut edges: Vec<u64> = self
            .base(p)
            .map(|x| x.so.iter().map(|(s, o)| pack(s, o)).collect())
            .unwrap_or_default();
        if let Some(n) = self.new_of(p) {
            merge(
                &mut edges,
                if p == self.vocabulary.kind {
                    &n.so
                } else {
                    &n.edges
                },
            );
        }
        let edges = Pairs::from_sorted(&edges);
        let mut seen = std::collections::HashSet::new();
        let mut left = Vec::new();
        let mut found = Vec::new();
        let (mut here, mut near) = (0, 0);
        for (i, s) in edges.keys().iter().enumerate() {
            let direct = edges.get_near(*s, &mut here);
            seen.clear();
            left.clear();
            left.extend_from_slice(direct);
            seen.extend(direct.iter().copied());
            while let Some(x) = left.pop() {
                for y in edges.get_near(x, &mut near) {
                    if seen.insert(*y) {
                        left.push(*y);
                        found.push(pack(*s, *y));
                    }
                }
            }
            if i % 1024 == 0 {
                self.limits.check()?;
            }
            if found.len().saturating_mul(16) > self.limits.memory {
                break;
            }
        }
        self.commit(RuleNode::Property(p), RuleOutput::Pairs(found), false)
    }

    /// Copies the triples of terms to the terms that are `owl:sameAs` them, once.
    fn copy_to_same(&mut self, rules: &Rules) -> Result<()> {
        let same: Vec<u64> = self
            .packed(self.vocabulary.same)
            .into_iter()
            .filter(|p| p >> 32 != p & 0xffff_ffff)
            .collect();
        let same = Pairs::from_sorted(&same);
        let mut at = 0;
        for p in self.predicates() {
            if self.vocabulary.is_list(p) {
                continue;
            }
            self.limits.check()?;
            let mut found = Vec::new();
            let pairs = self.packed(p);
            let turned = pairs.iter().map(|x| x.rotate_left(32));
            for (pair, subject) in pairs
                .iter()
                .map(|x| (*x, true))
                .chain(turned.map(|x| (x, false)))
            {
                let (key, other) = unpack(pair);
                for x in same.get_near(key, &mut at) {
                    if !subject {
                        found.push(pack(other, *x));
                    } else if !self.is_literal(*x) {
                        found.push(pack(*x, other));
                    }
                }
            }
            if found.is_empty() {
                continue;
            }
            self.commit(RuleNode::Property(p), RuleOutput::Pairs(found), true)?;
            if rules
                .giving(RuleNode::Property(p))
                .any(|r| matches!(r, Rule::Transitive { .. }))
            {
                self.transitive(p)?;
            }
        }
        Ok(())
    }

    /// Returns the inferred pairs by predicate, ascending, except those of the closure `without`.
    pub(super) fn finish(mut self, without: Option<&Graph>) -> BTreeMap<Id, Vec<u64>> {
        let mut all: BTreeMap<Id, Vec<u64>> = std::mem::take(&mut self.properties)
            .into_iter()
            .map(|(p, n)| (p, n.so))
            .collect();
        all.insert(self.vocabulary.kind, self.inferred_types());
        if let Some(graph) = without {
            for (p, pairs) in &mut all {
                let Some(x) = graph.index(*p) else { continue };
                pairs.retain(|pair| {
                    let (s, o) = unpack(*pair);
                    !x.so.contains(s, o)
                });
            }
        }
        all.retain(|_, pairs| !pairs.is_empty());
        all
    }
}

fn put(output: &mut BTreeMap<RuleNode, RuleOutput>, (s, p, o): Fact, kind: Id) {
    if p == kind {
        let ids = output
            .entry(RuleNode::Class(o))
            .or_insert_with(|| RuleOutput::Ids(Vec::new()));
        if let RuleOutput::Ids(ids) = ids {
            ids.push(s);
        }
    } else {
        let pairs = output
            .entry(RuleNode::Property(p))
            .or_insert_with(|| RuleOutput::Pairs(Vec::new()));
        if let RuleOutput::Pairs(pairs) = pairs {
            pairs.push(pack(s, o));
        }
    }
}
