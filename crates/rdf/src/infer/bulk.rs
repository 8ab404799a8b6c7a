//! The closure of a graph, set by set: classes and properties in the order in which they depend on each other, each
//! from whole sorted columns; only where they depend on each other in a circle, what is new is followed further.

use super::order::components;
use super::rules::{Fact, Node, Rule, Rules, View, after};
use super::schema::{Source, compile, meta};
use super::words::Words;
use crate::dictionary::{Dictionary, Head, Parts};
use crate::error::{Error, Result};
use crate::id::{Id, LOCAL};
use crate::quads::{Graph, Index, Pairs, pack, sort, unpack};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

/// What a closure may use.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Bytes that inferred triples may have while they are found.
    pub memory: usize,
    /// Asked now and then: whether to stop, and why.
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
    /// None.
    pub(crate) const NONE: Limits<'static> = Limits {
        memory: usize::MAX,
        stop: &|| None,
    };

    fn check(&self) -> Result<()> {
        (self.stop)().map_or(Ok(()), |why| Err(Error::Stopped(why)))
    }
}

/// Pairs of a property that are not in the graph.
#[derive(Debug, Default)]
struct New {
    so: Vec<u64>,
    os: OnceCell<Vec<u64>>,
    /// Those that are edges of a transitive property: not found by following others.
    edges: Vec<u64>,
}

impl New {
    fn os(&self) -> &[u64] {
        self.os.get_or_init(|| {
            let mut turned: Vec<u64> = self.so.iter().map(|p| p.rotate_left(32)).collect();
            sort(&mut turned);
            turned
        })
    }
}

/// A graph that is being closed.
pub(super) struct Work<'a> {
    graph: &'a Graph,
    dictionary: &'a Dictionary,
    words: Words,
    types: Option<&'a Index>,
    classes: HashMap<Id, Vec<Id>>,
    properties: HashMap<Id, New>,
    /// Inferred pairs of `rdf:type`, as they were when the last pass began.
    typed: New,
    limits: Limits<'a>,
    /// Inferred triples.
    count: usize,
}

/// What a rule gave, before it is sorted.
#[derive(Debug)]
enum Given {
    Ids(Vec<Id>),
    Pairs(Vec<u64>),
}

/// The values of a key in packed pairs that ascend.
fn range(pairs: &[u64], key: Id) -> impl Iterator<Item = Id> + '_ {
    let from = pairs.partition_point(|p| *p < pack(key, 0));
    pairs[from..]
        .iter()
        .map(|p| unpack(*p))
        .take_while(move |(k, _)| *k == key)
        .map(|(_, v)| v)
}

/// Both lists as one, ascending; they have nothing in common.
fn merge<T: Ord + Copy>(a: &mut Vec<T>, b: &[T]) {
    if b.is_empty() {
        return;
    }
    if a.last() < b.first() {
        a.extend_from_slice(b);
        return;
    }
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i] < b[j] {
            all.push(a[i]);
            i += 1;
        } else {
            all.push(b[j]);
            j += 1;
        }
    }
    all.extend_from_slice(&a[i..]);
    all.extend_from_slice(&b[j..]);
    *a = all;
}

/// Takes out of an ascending list what stands in another one.
fn subtract<T: Ord + Copy>(list: &mut Vec<T>, other: &[T]) {
    let mut at = 0;
    list.retain(|x| {
        while at < other.len() && other[at] < *x {
            at += 1;
        }
        other.get(at) != Some(x)
    });
}

impl View for Work<'_> {
    fn has(&self, s: Id, p: Id, o: Id) -> bool {
        if p == self.words.kind {
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
        if p == self.words.kind {
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
        list.push(self.words.kind);
        list.sort_unstable();
        list.dedup();
        list
    }
}

impl Source for Work<'_> {
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

/// Whether a term may not be a subject.
pub(super) fn is_literal(dictionary: &Dictionary, id: Id) -> bool {
    id >= LOCAL
        || !matches!(
            dictionary.parts(id),
            Some(Parts::Stored(Head::Iri(_) | Head::Blank, _))
        )
}

impl<'a> Work<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        seeds: &[Fact],
        dictionary: &'a Dictionary,
        words: Words,
        limits: Limits<'a>,
    ) -> Self {
        let mut work = Self {
            graph,
            dictionary,
            words,
            types: graph.index(words.kind),
            classes: HashMap::new(),
            properties: HashMap::new(),
            typed: New::default(),
            limits,
            count: 0,
        };
        work.add(seeds.iter().copied());
        work
    }

    fn base(&self, p: Id) -> Option<&'a Index> {
        if p == self.words.kind {
            self.types
        } else {
            self.graph.index(p)
        }
    }

    fn new_of(&self, p: Id) -> Option<&New> {
        if p == self.words.kind {
            Some(&self.typed)
        } else {
            self.properties.get(&p)
        }
    }

    fn base_members(&self, class: Id) -> &'a [Id] {
        self.types.map_or(&[], |t| t.os.get(class))
    }

    fn new_members(&self, class: Id) -> &[Id] {
        self.classes.get(&class).map_or(&[], Vec::as_slice)
    }

    fn all_members(&self, class: Id) -> Vec<Id> {
        let mut all = self.new_members(class).to_vec();
        merge(&mut all, self.base_members(class));
        all
    }

    /// All pairs of a property, ascending.
    fn packed(&self, p: Id) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .base(p)
            .map(|x| x.so.iter().map(|(s, o)| pack(s, o)).collect())
            .unwrap_or_default();
        if let Some(n) = self.new_of(p) {
            merge(&mut all, &n.so);
        }
        all
    }

    /// Adds facts; those that were new.
    fn add(&mut self, facts: impl IntoIterator<Item = Fact>) -> Vec<Fact> {
        let mut given: BTreeMap<Node, Given> = BTreeMap::new();
        for fact in facts {
            put(&mut given, fact, self.words.kind);
        }
        self.commit_all(given).unwrap_or_default()
    }

    fn commit_all(&mut self, given: BTreeMap<Node, Given>) -> Result<Vec<Fact>> {
        let mut new = Vec::new();
        for (node, given) in given {
            new.extend(self.commit(node, given, true)?);
        }
        Ok(new)
    }

    /// Makes what rules gave a part of the closure. What was new.
    fn commit(&mut self, node: Node, given: Given, edges: bool) -> Result<Vec<Fact>> {
        let kind = self.words.kind;
        let new = match (node, given) {
            (Node::Class(class), Given::Ids(mut ids)) => {
                // Sorted lists stand one after the other, which this sort makes use of.
                ids.sort();
                ids.dedup();
                subtract(&mut ids, self.base_members(class));
                let known = self.classes.entry(class).or_default();
                subtract(&mut ids, known);
                merge(known, &ids);
                self.count += ids.len();
                ids.into_iter().map(|s| (s, kind, class)).collect()
            }
            (Node::Property(p), Given::Pairs(pairs)) if p == kind => {
                let mut given = BTreeMap::new();
                for pair in pairs {
                    let (s, o) = unpack(pair);
                    put(&mut given, (s, kind, o), kind);
                }
                return self.commit_all(given);
            }
            (Node::Property(p), Given::Pairs(mut pairs)) => {
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
                    known.os = OnceCell::new();
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
        // Pairs stand in both directions at the end.
        if self.count.saturating_mul(16) > self.limits.memory {
            return Err(Error::Refused(format!(
                "the inferred triples need more memory than they may have: {} stand in memory, the limit is {} bytes; load without \
                 --infer, with the fewer rules of --infer rdfs, or allow more memory",
                self.count, self.limits.memory
            )));
        }
        Ok(new)
    }

    /// Finds all that follows, and by which rules.
    pub(super) fn close(&mut self, owl: bool) -> Result<Rules> {
        loop {
            let rules = self.close_schema(owl)?;
            let before = self.schema_size(owl);
            loop {
                let count = self.count;
                self.typed = New::default();
                if rules.uses_types_as_pairs() || (owl && self.has_same()) {
                    self.typed.so = self.inferred_types();
                }
                self.pass(&rules)?;
                if owl && self.has_same() {
                    self.replace(&rules)?;
                }
                let again = rules.uses_types_as_pairs()
                    || rules
                        .giving(Node::Property(self.words.kind))
                        .next()
                        .is_some()
                    || (owl && self.has_same());
                if !again || self.count == count {
                    break;
                }
            }
            // Data may say something about classes by roundabout ways.
            if self.schema_size(owl) == before {
                return Ok(rules);
            }
        }
    }

    /// Closes what is said about classes and properties.
    fn close_schema(&mut self, owl: bool) -> Result<Rules> {
        let meta = Rules::new(self.words, meta(&self.words, owl), false);
        loop {
            let count = self.count;
            self.pass(&meta)?;
            let rules = compile(self, &self.words, owl);
            self.add(rules.facts.iter().copied());
            if self.count == count {
                return Ok(rules);
            }
        }
    }

    /// How much is said about classes and properties.
    fn schema_size(&self, owl: bool) -> usize {
        let pairs: usize = self
            .words
            .predicates(owl)
            .chain([self.words.first, self.words.rest])
            .filter_map(|p| self.properties.get(&p))
            .map(|n| n.so.len())
            .sum();
        let kinds = self.words.kinds();
        pairs
            + kinds
                .iter()
                .map(|c| self.new_members(*c).len())
                .sum::<usize>()
    }

    fn has_same(&self) -> bool {
        self.base(self.words.same).is_some()
            || self
                .properties
                .get(&self.words.same)
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

    /// Applies all rules, each after those that give what it uses.
    fn pass(&mut self, rules: &Rules) -> Result<()> {
        for component in components(rules) {
            self.limits.check()?;
            self.component(rules, &component)?;
        }
        Ok(())
    }

    fn component(&mut self, rules: &Rules, component: &[Node]) -> Result<()> {
        let mut new: Vec<Fact> = Vec::new();
        let inside = |node: &Node| component.binary_search(node).is_ok();
        let circular = component.iter().any(|node| {
            rules
                .giving(*node)
                .any(|rule| rule.bodies().iter().any(inside))
        });
        for node in component {
            let mut given: Option<Given> = None;
            let mut transitive = false;
            for rule in rules.giving(*node) {
                if matches!(rule, Rule::Transitive { .. }) {
                    transitive = true;
                } else {
                    self.fire(rule, &mut given);
                }
            }
            if let Some(given) = given {
                let found = self.commit(*node, given, true)?;
                if circular {
                    new.extend(found);
                }
            }
            if let (true, Node::Property(p)) = (transitive, node) {
                new.extend(self.transitive(*p)?);
            }
        }
        while circular && !new.is_empty() {
            self.limits.check()?;
            let mut given: BTreeMap<Node, Given> = BTreeMap::new();
            let mut out = Vec::new();
            for fact in &new {
                let (_, p, o) = *fact;
                let class = (p == self.words.kind).then_some(Node::Class(o));
                for node in std::iter::once(Node::Property(p)).chain(class) {
                    for rule in rules.using(node) {
                        // A transitive property is closed as a whole below.
                        if !matches!(rule, Rule::Transitive { .. })
                            && inside(&rule.head(&self.words))
                        {
                            rules.apply(rule, *fact, self, &mut out);
                        }
                    }
                }
                for fact in out.drain(..) {
                    put(&mut given, fact, self.words.kind);
                }
            }
            new.clear();
            for (node, given) in given {
                let found = self.commit(node, given, true)?;
                let closes = !found.is_empty()
                    && rules
                        .giving(node)
                        .any(|r| matches!(r, Rule::Transitive { .. }));
                new.extend(found);
                if let (true, Node::Property(p)) = (closes, node) {
                    new.extend(self.transitive(p)?);
                }
            }
        }
        Ok(())
    }

    /// All that a rule gives from what is there.
    fn fire(&self, rule: &Rule, given: &mut Option<Given>) {
        match rule.head(&self.words) {
            Node::Class(_) => {
                let given = given.get_or_insert_with(|| Given::Ids(Vec::new()));
                if let Given::Ids(out) = given {
                    self.fire_class(rule, out);
                }
            }
            Node::Property(_) => {
                let given = given.get_or_insert_with(|| Given::Pairs(Vec::new()));
                if let Given::Pairs(out) = given {
                    self.fire_property(rule, out);
                }
            }
        }
    }

    fn fire_class(&self, rule: &Rule, out: &mut Vec<Id>) {
        match rule {
            Rule::Class { from, .. } => {
                out.extend_from_slice(self.base_members(*from));
                out.extend_from_slice(self.new_members(*from));
            }
            Rule::Domain { p, .. } => {
                if let Some(x) = self.base(*p) {
                    out.extend_from_slice(x.so.keys());
                }
                if let Some(n) = self.new_of(*p) {
                    keys(&n.so, out);
                }
            }
            Rule::Range { p, .. } => {
                let mut list = Vec::new();
                if let Some(x) = self.base(*p) {
                    list.extend_from_slice(x.os.keys());
                }
                if let Some(n) = self.new_of(*p) {
                    keys(n.os(), &mut list);
                }
                list.retain(|y| !self.is_literal(*y));
                out.extend(list);
            }
            Rule::And { parts, .. } => {
                let mut parts: Vec<Id> = parts.clone();
                parts.sort_by_key(|c| self.base_members(*c).len() + self.new_members(*c).len());
                if let Some((first, others)) = parts.split_first() {
                    let mut list = self.all_members(*first);
                    for class in others {
                        let other = self.all_members(*class);
                        let mut at = 0;
                        list.retain(|x| {
                            at = crate::quads::seek(&other, *x, at);
                            other.get(at) == Some(x)
                        });
                    }
                    out.extend(list);
                }
            }
            Rule::Some { p, of, .. } => {
                let members = self.all_members(*of);
                let mut list = Vec::new();
                if let Some(x) = self.base(*p) {
                    join(&members, &x.os, &mut list);
                }
                if let Some(n) = self.new_of(*p) {
                    join_packed(&members, n.os(), &mut list);
                }
                out.extend(list);
            }
            Rule::All { class, p, .. } => {
                let members = self.all_members(*class);
                let mut list = Vec::new();
                if let Some(x) = self.base(*p) {
                    join(&members, &x.so, &mut list);
                }
                if let Some(n) = self.new_of(*p) {
                    join_packed(&members, &n.so, &mut list);
                }
                list.sort_unstable();
                list.dedup();
                list.retain(|y| !self.is_literal(*y));
                out.extend(list);
            }
            Rule::Has { p, value, .. } => self.subjects(*p, *value, out),
            _ => {}
        }
    }

    fn fire_property(&self, rule: &Rule, out: &mut Vec<u64>) {
        match rule {
            Rule::Property { from, .. } => out.extend(self.packed(*from)),
            Rule::Inverse { from, .. } => {
                let (mut last, mut literal) = (0, false);
                let mut put = |o: Id, s: Id| {
                    if o != last {
                        last = o;
                        literal = self.is_literal(o);
                    }
                    if !literal {
                        out.push(pack(o, s));
                    }
                };
                if let Some(x) = self.base(*from) {
                    x.os.iter().for_each(|(o, s)| put(o, s));
                }
                if let Some(n) = self.new_of(*from) {
                    n.os()
                        .iter()
                        .map(|p| unpack(*p))
                        .for_each(|(o, s)| put(o, s));
                }
            }
            Rule::Chain { parts, .. } => {
                let Some((first, others)) = parts.split_first() else {
                    return;
                };
                let (mut last, mut ends) = (0, Vec::new());
                let mut by_middle: Vec<u64> = self
                    .packed(*first)
                    .into_iter()
                    .map(|p| p.rotate_left(32))
                    .collect();
                sort(&mut by_middle);
                for (middle, s) in by_middle.into_iter().map(unpack) {
                    if middle != last {
                        last = middle;
                        ends = after(self, others, middle);
                    }
                    out.extend(ends.iter().map(|o| pack(s, *o)));
                }
            }
            Rule::Gives { class, value, .. } => {
                out.extend(
                    self.all_members(*class)
                        .into_iter()
                        .map(|x| pack(x, *value)),
                );
            }
            Rule::Functional { p } => {
                let pairs = self.packed(*p);
                self.all_the_same(&pairs, out);
            }
            Rule::InverseFunctional { p } => {
                let mut pairs: Vec<u64> = self
                    .packed(*p)
                    .into_iter()
                    .map(|p| p.rotate_left(32))
                    .collect();
                sort(&mut pairs);
                self.all_the_same(&pairs, out);
            }
            Rule::Mutual { p, .. } => {
                out.extend(self.packed(*p).into_iter().filter(|pair| {
                    let (s, o) = unpack(*pair);
                    self.has(o, *p, s)
                }));
            }
            _ => {}
        }
    }

    /// The values of a key are all the same; the first is said of each other, the rest follows.
    fn all_the_same(&self, pairs: &[u64], out: &mut Vec<u64>) {
        for group in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
            if group.len() < 2 {
                continue;
            }
            let mut values = group
                .iter()
                .map(|p| unpack(*p).1)
                .filter(|v| !self.is_literal(*v));
            if let Some(first) = values.next() {
                for other in values {
                    out.push(pack(first, other));
                    out.push(pack(other, first));
                }
            }
        }
    }

    /// Follows a property from each of its subjects.
    fn transitive(&mut self, p: Id) -> Result<Vec<Fact>> {
        let mut edges: Vec<u64> = self
            .base(p)
            .map(|x| x.so.iter().map(|(s, o)| pack(s, o)).collect())
            .unwrap_or_default();
        if let Some(n) = self.new_of(p) {
            merge(
                &mut edges,
                if p == self.words.kind {
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
        self.commit(Node::Property(p), Given::Pairs(found), false)
    }

    /// What is the same has the same triples: of everything, once.
    fn replace(&mut self, rules: &Rules) -> Result<()> {
        let same: Vec<u64> = self
            .packed(self.words.same)
            .into_iter()
            .filter(|p| p >> 32 != p & 0xffff_ffff)
            .collect();
        let same = Pairs::from_sorted(&same);
        let mut at = 0;
        for p in self.predicates() {
            if self.words.is_list(p) {
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
            self.commit(Node::Property(p), Given::Pairs(found), true)?;
            if rules
                .giving(Node::Property(p))
                .any(|r| matches!(r, Rule::Transitive { .. }))
            {
                self.transitive(p)?;
            }
        }
        Ok(())
    }

    /// What was found, without the triples of another closure: pairs by predicate, ascending.
    pub(super) fn finish(mut self, without: Option<&Graph>) -> BTreeMap<Id, Vec<u64>> {
        let mut all: BTreeMap<Id, Vec<u64>> = std::mem::take(&mut self.properties)
            .into_iter()
            .map(|(p, n)| (p, n.so))
            .collect();
        all.insert(self.words.kind, self.inferred_types());
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

fn put(given: &mut BTreeMap<Node, Given>, (s, p, o): Fact, kind: Id) {
    if p == kind {
        let ids = given
            .entry(Node::Class(o))
            .or_insert_with(|| Given::Ids(Vec::new()));
        if let Given::Ids(ids) = ids {
            ids.push(s);
        }
    } else {
        let pairs = given
            .entry(Node::Property(p))
            .or_insert_with(|| Given::Pairs(Vec::new()));
        if let Given::Pairs(pairs) = pairs {
            pairs.push(pack(s, o));
        }
    }
}

/// The keys of packed pairs that ascend, each once.
fn keys(pairs: &[u64], to: &mut Vec<Id>) {
    let mut last = None;
    for pair in pairs {
        let key = unpack(*pair).0;
        if last != Some(key) {
            to.push(key);
            last = Some(key);
        }
    }
}

/// The values of all keys that stand in a list.
fn join(list: &[Id], pairs: &Pairs, to: &mut Vec<Id>) {
    if list.len() < pairs.keys().len() {
        let mut near = 0;
        for x in list {
            to.extend_from_slice(pairs.get_near(*x, &mut near));
        }
    } else {
        let (mut at, mut near) = (0, 0);
        for key in pairs.keys() {
            at = crate::quads::seek(list, *key, at);
            if list.get(at) == Some(key) {
                to.extend_from_slice(pairs.get_near(*key, &mut near));
            }
        }
    }
}

fn join_packed(list: &[Id], pairs: &[u64], to: &mut Vec<Id>) {
    let mut at = 0;
    for pair in pairs {
        let (key, value) = unpack(*pair);
        at = crate::quads::seek(list, key, at);
        if list.get(at) == Some(&key) {
            to.push(value);
        }
    }
}
