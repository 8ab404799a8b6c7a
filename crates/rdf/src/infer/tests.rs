//! Closures compared with naive evaluation of the rules as the standards write them, and incremental changes compared with a closure from
//! scratch.

use super::{Inference, Limits};
use crate::RdfFormat;
use crate::dictionary::Key;
use crate::id::{Id, UNBOUND};
use crate::parse::Loader;
use crate::quads::{Dataset, Quad};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

type Triples = BTreeSet<(Id, Id, Id)>;

const PREFIXES: &str = "@prefix : <http://e/> . @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n";

fn load(text: &str) -> Dataset {
    let mut loader = Loader::new(Dataset::default(), "t", false);
    let text = format!("{PREFIXES}{text}");
    loader
        .read("test", &mut text.as_bytes(), RdfFormat::TriG, None, None)
        .unwrap_or_else(|e| panic!("{e} in {text}"));
    loader.finish().0
}

fn closed(text: &str, kind: Inference) -> Dataset {
    let mut data = load(text);
    data.infer(Some(kind), Limits::NONE).unwrap();
    data
}

fn triples(data: &Dataset, g: Id) -> Triples {
    data.graph(g)
        .map(|g| g.triples().collect())
        .unwrap_or_default()
}

struct Random(u64);

impl Random {
    fn less_than(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn of(&mut self, kind: &str, n: u64) -> String {
        format!(":{kind}{}", self.less_than(n))
    }

    fn thing(&mut self) -> String {
        match self.less_than(8) {
            0 => "\"x\"".into(),
            1 => "7".into(),
            _ => self.of("i", 7),
        }
    }

    fn class(&mut self) -> String {
        match self.less_than(4) {
            0 => self.of("r", 3),
            _ => self.of("c", 5),
        }
    }

    /// Returns a random data triple.
    fn data(&mut self) -> String {
        match self.less_than(12) {
            0..=2 => format!("{} a {} .", self.of("i", 7), self.class()),
            3 if self.less_than(3) == 0 => {
                format!("{} owl:sameAs {} .", self.of("i", 7), self.of("i", 7))
            }
            _ => format!("{} {} {} .", self.of("i", 7), self.of("p", 5), self.thing()),
        }
    }

    /// Returns one or several random schema triples.
    fn schema(&mut self, owl: bool) -> String {
        let (p, q, c, d) = (self.of("p", 5), self.of("p", 5), self.class(), self.class());
        match self.less_than(if owl { 18 } else { 4 }) {
            0 => format!("{c} rdfs:subClassOf {d} ."),
            1 => format!("{p} rdfs:subPropertyOf {q} ."),
            2 => format!("{p} rdfs:domain {c} ."),
            3 => format!("{p} rdfs:range {c} ."),
            4 => format!("{c} owl:equivalentClass {d} ."),
            5 => format!("{p} owl:equivalentProperty {q} ."),
            6 => format!("{p} owl:inverseOf {q} ."),
            7 => format!("{p} a owl:TransitiveProperty ."),
            8 => format!("{p} a owl:SymmetricProperty ."),
            9 => match self.less_than(3) {
                0 => format!("{p} a owl:FunctionalProperty ."),
                1 => format!("{p} a owl:InverseFunctionalProperty ."),
                _ => format!("{p} rdfs:subPropertyOf rdf:type ."),
            },
            10 => format!("{c} owl:intersectionOf ( {d} {} ) .", self.class()),
            11 => format!("{c} owl:unionOf ( {d} {} ) .", self.class()),
            12 => format!("{c} owl:oneOf ( {} :i1 ) .", self.of("i", 7)),
            13 => format!("{p} owl:propertyChainAxiom ( {q} {} ) .", self.of("p", 5)),
            14 => format!("{p} owl:propertyChainAxiom ( {q} :p0 {q} ) ."),
            n => {
                let what = match n {
                    15 => format!("owl:someValuesFrom {d}"),
                    16 => format!("owl:allValuesFrom {d}"),
                    _ => format!("owl:hasValue {}", self.thing()),
                };
                format!("{} owl:onProperty {p} ; {what} .", self.of("r", 3))
            }
        }
    }
}

/// Rules as the standards write them: `body => head`, terms as CURIEs, variables with a question mark.
const RDFS: &[&str] = &[
    "?p rdfs:domain ?c . ?x ?p ?y => ?x rdf:type ?c",
    "?p rdfs:range ?c . ?x ?p ?y => ?y rdf:type ?c",
    "?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?r => ?p rdfs:subPropertyOf ?r",
    "?p rdfs:subPropertyOf ?q . ?x ?p ?y => ?x ?q ?y",
    "?c rdfs:subClassOf ?d . ?x rdf:type ?c => ?x rdf:type ?d",
    "?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?e => ?c rdfs:subClassOf ?e",
];

const OWL: &[&str] = &[
    "?x owl:sameAs ?y => ?y owl:sameAs ?x",
    "?x owl:sameAs ?y . ?y owl:sameAs ?z => ?x owl:sameAs ?z",
    "?s owl:sameAs ?t . ?s ?p ?o => ?t ?p ?o",
    "?o owl:sameAs ?t . ?s ?p ?o => ?s ?p ?t",
    "?p rdf:type owl:FunctionalProperty . ?x ?p ?y . ?x ?p ?z => ?y owl:sameAs ?z",
    "?p rdf:type owl:InverseFunctionalProperty . ?x ?p ?z . ?y ?p ?z => ?x owl:sameAs ?y",
    "?p rdf:type owl:SymmetricProperty . ?x ?p ?y => ?y ?p ?x",
    "?p rdf:type owl:TransitiveProperty . ?x ?p ?y . ?y ?p ?z => ?x ?p ?z",
    "?p owl:inverseOf ?q . ?x ?p ?y => ?y ?q ?x",
    "?p owl:inverseOf ?q . ?x ?q ?y => ?y ?p ?x",
    "?r owl:someValuesFrom ?c . ?r owl:onProperty ?p . ?x ?p ?y . ?y rdf:type ?c => ?x rdf:type ?r",
    "?r owl:allValuesFrom ?c . ?r owl:onProperty ?p . ?x rdf:type ?r . ?x ?p ?y => ?y rdf:type ?c",
    "?r owl:hasValue ?v . ?r owl:onProperty ?p . ?x rdf:type ?r => ?x ?p ?v",
    "?r owl:hasValue ?v . ?r owl:onProperty ?p . ?x ?p ?v => ?x rdf:type ?r",
    "?c owl:equivalentClass ?d => ?c rdfs:subClassOf ?d",
    "?c owl:equivalentClass ?d => ?d rdfs:subClassOf ?c",
    "?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?c => ?c owl:equivalentClass ?d",
    "?c owl:equivalentProperty ?d => ?c rdfs:subPropertyOf ?d",
    "?c owl:equivalentProperty ?d => ?d rdfs:subPropertyOf ?c",
    "?c rdfs:subPropertyOf ?d . ?d rdfs:subPropertyOf ?c => ?c owl:equivalentProperty ?d",
    "?p rdfs:domain ?c . ?c rdfs:subClassOf ?d => ?p rdfs:domain ?d",
    "?q rdfs:domain ?c . ?p rdfs:subPropertyOf ?q => ?p rdfs:domain ?c",
    "?p rdfs:range ?c . ?c rdfs:subClassOf ?d => ?p rdfs:range ?d",
    "?q rdfs:range ?c . ?p rdfs:subPropertyOf ?q => ?p rdfs:range ?c",
    "?a owl:hasValue ?v . ?a owl:onProperty ?p . ?b owl:hasValue ?v . ?b owl:onProperty ?q . ?p rdfs:subPropertyOf ?q => ?a rdfs:subClassOf ?b",
    "?a owl:someValuesFrom ?c . ?a owl:onProperty ?p . ?b owl:someValuesFrom ?d . ?b owl:onProperty ?p . ?c rdfs:subClassOf ?d => ?a rdfs:subClassOf ?b",
    "?a owl:someValuesFrom ?c . ?a owl:onProperty ?p . ?b owl:someValuesFrom ?c . ?b owl:onProperty ?q . ?p rdfs:subPropertyOf ?q => ?a rdfs:subClassOf ?b",
    "?a owl:allValuesFrom ?c . ?a owl:onProperty ?p . ?b owl:allValuesFrom ?d . ?b owl:onProperty ?p . ?c rdfs:subClassOf ?d => ?a rdfs:subClassOf ?b",
    "?a owl:allValuesFrom ?c . ?a owl:onProperty ?p . ?b owl:allValuesFrom ?c . ?b owl:onProperty ?q . ?p rdfs:subPropertyOf ?q => ?b rdfs:subClassOf ?a",
    // Lists of two and three items.
    "?c owl:intersectionOf ?l . ?l rdf:first ?a . ?l rdf:rest ?m . ?m rdf:first ?b . ?m rdf:rest rdf:nil . ?x rdf:type ?a . ?x rdf:type ?b => ?x rdf:type ?c",
    "?c owl:intersectionOf ?l . ?l rdf:first ?a => ?c rdfs:subClassOf ?a",
    "?c owl:intersectionOf ?l . ?l rdf:rest ?m . ?m rdf:first ?a => ?c rdfs:subClassOf ?a",
    "?c owl:unionOf ?l . ?l rdf:first ?a => ?a rdfs:subClassOf ?c",
    "?c owl:unionOf ?l . ?l rdf:rest ?m . ?m rdf:first ?a => ?a rdfs:subClassOf ?c",
    "?c owl:oneOf ?l . ?l rdf:first ?a => ?a rdf:type ?c",
    "?c owl:oneOf ?l . ?l rdf:rest ?m . ?m rdf:first ?a => ?a rdf:type ?c",
    "?p owl:propertyChainAxiom ?l . ?l rdf:first ?a . ?l rdf:rest ?m . ?m rdf:first ?b . ?m rdf:rest rdf:nil . ?x ?a ?y . ?y ?b ?z => ?x ?p ?z",
    "?p owl:propertyChainAxiom ?l . ?l rdf:first ?a . ?l rdf:rest ?m . ?m rdf:first ?b . ?m rdf:rest ?n . ?n rdf:first ?d . ?n rdf:rest rdf:nil . ?x ?a ?y . ?y ?b ?z . ?z ?d ?w => ?x ?p ?w",
];

#[derive(Clone, Copy)]
enum PatternTerm {
    Var(usize),
    Word(Id),
}

/// Computes the closure by naive evaluation: each rule on all triples until nothing is new.
fn naive(data: &Dataset, owl: bool) -> Triples {
    let term = |curie: &str| {
        let spaces = [
            ("rdf:", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
            ("rdfs:", "http://www.w3.org/2000/01/rdf-schema#"),
            ("owl:", "http://www.w3.org/2002/07/owl#"),
        ];
        let (space, local) = spaces
            .iter()
            .find_map(|(p, s)| Some((s, curie.strip_prefix(p)?)))
            .unwrap();
        data.dictionary
            .find(&Key::Iri(&format!("{space}{local}")))
            .unwrap_or(Id::MAX)
    };
    let mut rules: Vec<(Vec<[PatternTerm; 3]>, [PatternTerm; 3])> = Vec::new();
    let texts = RDFS.iter().chain(if owl { OWL } else { &[] });
    for text in texts {
        let mut names: HashMap<String, usize> = HashMap::new();
        let mut pattern = |text: &str| -> [PatternTerm; 3] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(words.len(), 3, "{text}");
            std::array::from_fn(|i| {
                if words[i].starts_with('?') {
                    let next = names.len();
                    PatternTerm::Var(*names.entry(words[i].to_owned()).or_insert(next))
                } else {
                    PatternTerm::Word(term(words[i]))
                }
            })
        };
        let (body, head) = text.split_once(" => ").unwrap();
        let body = body.split(" . ").map(&mut pattern).collect();
        rules.push((body, pattern(head)));
    }
    let text = |id: Id| data.dictionary.term(id).unwrap().to_string();
    let mut all = triples(data, UNBOUND);
    loop {
        let before = all.len();
        for (body, head) in &rules {
            let mut rows: Vec<[Id; 16]> = vec![[0; 16]];
            for pattern in body {
                let mut next = Vec::new();
                for row in &rows {
                    for (s, p, o) in &all {
                        let mut row = *row;
                        let fits = pattern
                            .iter()
                            .zip([*s, *p, *o])
                            .all(|(slot, id)| match slot {
                                PatternTerm::Word(w) => *w == id,
                                PatternTerm::Var(v) if row[*v] == 0 => {
                                    row[*v] = id;
                                    true
                                }
                                PatternTerm::Var(v) => row[*v] == id,
                            });
                        if fits {
                            next.push(row);
                        }
                    }
                }
                rows = next;
            }
            for row in rows {
                let [s, p, o] = head.map(|slot| match slot {
                    PatternTerm::Word(w) => w,
                    PatternTerm::Var(v) => row[v],
                });
                let same = p == term("owl:sameAs");
                let literal = same && text(o).starts_with('"');
                // Lists are not rewritten.
                if p == term("rdf:first") || p == term("rdf:rest") {
                    continue;
                }
                if !text(s).starts_with('"') && text(p).starts_with('<') && !literal {
                    all.insert((s, p, o));
                }
            }
        }
        if all.len() == before {
            return all;
        }
    }
}

/// Removes trivial reflexive triples (`x owl:sameAs x`, `c rdfs:subClassOf c`), which some rules derive.
fn without_selves(data: &Dataset, mut all: Triples) -> Triples {
    let vocabulary = super::Vocabulary::find(&data.dictionary);
    let relations = [
        vocabulary.same,
        vocabulary.sub_class,
        vocabulary.sub_property,
        vocabulary.same_class,
        vocabulary.same_property,
    ];
    all.retain(|(s, p, o)| s != o || !relations.contains(p));
    all
}

fn triples_text(data: &Dataset, list: impl IntoIterator<Item = (Id, Id, Id)>) -> String {
    let term = |id: Id| data.dictionary.term(id).unwrap().to_string();
    list.into_iter().fold(String::new(), |mut text, (s, p, o)| {
        let _ = writeln!(text, "{} {} {}", term(s), term(p), term(o));
        text
    })
}

#[track_caller]
fn assert_same(data: &Dataset, ours: &Triples, right: &Triples, about: &str) {
    let missing: Vec<_> = right.difference(ours).copied().collect();
    let more: Vec<_> = ours.difference(right).copied().collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "{about}\nmissing:\n{}too many:\n{}",
        triples_text(data, missing),
        triples_text(data, more)
    );
}

#[test]
fn a_closure_is_what_the_rules_give_one_by_one() {
    for seed in 0..120 {
        let mut random = Random(seed);
        let owl = seed % 3 > 0;
        let mut text = String::new();
        for _ in 0..random.less_than(8) {
            text.push_str(&random.schema(owl));
        }
        for _ in 0..random.less_than(14) {
            text.push_str(&random.data());
        }
        check(&text, owl);
    }
    // Found by random tests: two equal terms of a property that is its own subproperty.
    check(
        ":r0 owl:onProperty :p0 ; owl:hasValue 7 . :r1 owl:onProperty :p0 ; owl:hasValue 7 . :p0 owl:equivalentProperty :p1 .",
        true,
    );
}

#[track_caller]
fn check(text: &str, owl: bool) {
    let kind = if owl {
        Inference::OwlRl
    } else {
        Inference::Rdfs
    };
    let data = closed(text, kind);
    let right = naive(&data.asserted(), owl);
    let ours = without_selves(&data, triples(&data, UNBOUND));
    let right = without_selves(&data, right);
    assert_same(&data, &ours, &right, text);
}

/// A named graph has its own closure with the default graph's schema, except what that schema implies alone.
#[test]
fn a_named_graph_sees_the_default_graphs_schema() {
    let data = closed(
        ":c1 rdfs:subClassOf :c2 . :c2 rdfs:subClassOf :c3 . :p0 rdfs:domain :c1 .
         :i0 a :c1 .
         :g { :i1 a :c1 . :i2 :p0 :i3 . :c3 rdfs:subClassOf :c4 }
         :h { :i1 a :c2 }",
        Inference::Rdfs,
    );
    let graph = |name: &str| {
        let g = data.dictionary.find(&Key::Iri(name)).unwrap();
        let inferred = data.inferred_graph(g).unwrap().triples();
        let text = triples_text(&data, inferred)
            .replace("http://e/", "")
            .replace("http://www.w3.org/1999/02/22-rdf-syntax-ns#", "")
            .replace("http://www.w3.org/2000/01/rdf-schema#", "");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        graph("http://e/g"),
        [
            "<c1> <subClassOf> <c4>",
            "<c2> <subClassOf> <c4>",
            "<i1> <type> <c2>",
            "<i1> <type> <c3>",
            "<i1> <type> <c4>",
            "<i2> <type> <c1>",
            "<i2> <type> <c2>",
            "<i2> <type> <c3>",
            "<i2> <type> <c4>",
        ]
    );
    assert_eq!(graph("http://e/h"), ["<i1> <type> <c3>"]);
    assert_eq!(data.inferred_len(), 9 + 1 + 3);
}

/// Random changes of data and sometimes of schema, in three graphs.
#[test]
fn changes_leave_what_a_closure_from_the_beginning_gives() {
    for seed in 0..45 {
        let mut random = Random(1000 + seed);
        let owl = seed % 3 > 0;
        let kind = if owl {
            Inference::OwlRl
        } else {
            Inference::Rdfs
        };
        let part = |random: &mut Random, schema: u64, triples: u64| {
            let mut text = String::new();
            for _ in 0..schema {
                text.push_str(&random.schema(owl));
            }
            for _ in 0..triples {
                text.push_str(&random.data());
            }
            text
        };
        let text = format!(
            "{} :g {{ {} }} :h {{ {} }}",
            part(&mut random, 6, 12),
            part(&mut random, seed % 2, 8),
            part(&mut random, 0, 4)
        );
        let mut data = closed(&text, kind);
        for step in 0..12 {
            let schema = u64::from(random.less_than(6) == 0);
            let mut changes: Vec<(Quad, bool)> = Vec::new();
            let new = part(&mut random, schema, 2);
            let graph = ["", ":g", ":h", ":new"][random.less_than(4) as usize];
            let added = load(&format!("{graph} {{ {new} }}"));
            for q in added.quads() {
                let mut number = |id: Id| {
                    let term = added.dictionary.term(id).unwrap();
                    data.dictionary.intern_term(term.as_ref()).unwrap()
                };
                let g = if q.g == UNBOUND { UNBOUND } else { number(q.g) };
                let quad = Quad {
                    s: number(q.s),
                    p: number(q.p),
                    o: number(q.o),
                    g,
                };
                changes.push((quad, true));
            }
            let asserted: Vec<Quad> = data.asserted().quads().collect();
            for _ in 0..random.less_than(3) {
                if !asserted.is_empty() {
                    let at = random.less_than(asserted.len() as u64) as usize;
                    changes.push((asserted[at], false));
                }
            }
            let snapshot = data.clone();
            let before: Vec<Quad> = snapshot.quads().collect();
            let mut expected: BTreeSet<Quad> = asserted.iter().copied().collect();
            if random.less_than(20) == 0 {
                let g = changes.first().map_or(UNBOUND, |c| c.0.g);
                data.clear(g);
                expected.retain(|q| q.g != g);
            } else {
                let (added, removed) = data.change(&changes);
                let count = expected.len();
                for (q, add) in &changes {
                    if *add {
                        expected.insert(*q);
                    } else {
                        expected.remove(q);
                    }
                }
                assert_eq!(count + added - removed, expected.len());
            }
            let mut right = data.asserted();
            assert_eq!(right.quads().collect::<BTreeSet<Quad>>(), expected);
            right.infer(Some(kind), Limits::NONE).unwrap();
            let graphs = std::iter::once(UNBOUND).chain(right.names());
            for g in graphs {
                let list: Vec<_> = changes.iter().map(|c| (c.0.s, c.0.p, c.0.o)).collect();
                let about = format!(
                    "seed {seed} step {step} graph {g}: {text}\nchanges {changes:?}:\n{}",
                    triples_text(&data, list)
                );
                let (ours, all) = (triples(&data, g), triples(&right, g));
                assert_same(
                    &data,
                    &without_selves(&data, ours),
                    &without_selves(&data, all),
                    &about,
                );
            }
            assert_eq!(data.names().count(), right.names().count());
            assert!(snapshot.quads().eq(before), "a snapshot changed");
            // A decoded image is equivalent, and changes continue on it.
            if step % 4 == 0 {
                data = Dataset::decode(&data.encode()).unwrap();
            }
        }
    }
}

/// Returns the triples by graph name, with whether each is asserted.
fn named_quads(data: &Dataset) -> BTreeSet<String> {
    let term = |id: Id| {
        data.dictionary
            .term(id)
            .map_or_else(String::new, |t| t.to_string())
    };
    let quads = data.quads().map(|q| {
        let asserted = data.is_asserted(&q);
        format!(
            "{} {} {} {} {asserted}",
            term(q.g),
            term(q.s),
            term(q.p),
            term(q.o)
        )
    });
    quads.collect()
}

/// A principal that may not see some graphs sees what follows from the others: nothing that a hidden schema implies is in a named graph,
/// and nothing that a graph implies itself is lost.
#[test]
fn nothing_follows_from_what_is_hidden() {
    let (mut differ, mut hidden_schemas) = (0, 0);
    for seed in 0..200 {
        let mut random = Random(seed);
        let kind = if seed % 3 > 0 {
            Inference::OwlRl
        } else {
            Inference::Rdfs
        };
        let graphs: [(bool, String); 4] = std::array::from_fn(|i| {
            let mut text = String::new();
            for _ in 0..random.less_than(if i == 0 { 8 } else { 4 }) {
                text.push_str(&random.schema(kind == Inference::OwlRl));
            }
            for _ in 0..=random.less_than(9) {
                text.push_str(&random.data());
            }
            let text = match i {
                0 => text,
                i => format!(":g{i} {{ {text} }}\n"),
            };
            (random.less_than(2) == 0, text)
        });
        let text: String = graphs.iter().map(|(_, text)| text.as_str()).collect();
        let mut data = closed(&text, kind);
        let hidden: Vec<Id> = (0..4)
            .filter(|i| graphs[*i].0)
            .filter_map(|i| match i {
                0 => Some(UNBOUND),
                i => data.dictionary.find(&Key::Iri(&format!("http://e/g{i}"))),
            })
            .collect();
        let without = |data: &Dataset| {
            let mut data = data.clone();
            for g in &hidden {
                data.put_graph(*g, std::sync::Arc::default());
            }
            data
        };
        let mut less = without(&data.asserted());
        less.infer(Some(kind), Limits::NONE).unwrap();
        // In the second round closures are cached, in the third one a graph has changed.
        for turn in 0..3 {
            let mut view = data.clone();
            view.hide(&hidden, None, "", Limits::NONE).unwrap();
            assert_eq!(
                named_quads(&view),
                named_quads(&less),
                "seed {seed}, turn {turn}"
            );
            assert_eq!(view.inferred_len(), less.inferred_len());
            hidden_schemas += usize::from(graphs[0].0);
            differ += usize::from(named_quads(&without(&data)) != named_quads(&less));
            if turn == 1 {
                let open = (1..4).find(|i| !graphs[*i].0);
                let Some(open) = open else { break };
                for data in [&mut data, &mut less] {
                    let [s, p, o, g] = ["i1", "p1", "i2", &format!("g{open}")].map(|n| {
                        data.dictionary
                            .intern(&Key::Iri(&format!("http://e/{n}")))
                            .unwrap()
                    });
                    data.change(&[(Quad { s, p, o, g }, true)]);
                }
            }
        }
    }
    assert!(differ > 20, "{differ} of {hidden_schemas}");
}
