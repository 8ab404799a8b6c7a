//! Term ids of the RDFS and OWL vocabulary that the rules use.

use crate::dictionary::{Dictionary, Key};
use crate::error::Result;
use crate::id::{Id, UNBOUND};
use crate::quads::Graph;

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
const OWL: &str = "http://www.w3.org/2002/07/owl#";

macro_rules! vocabulary {
    ($($field:ident = $space:ident $local:literal,)*) => {
        /// Term ids of the vocabulary.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(super) struct Vocabulary {
            $(pub(super) $field: Id,)*
        }

        impl Vocabulary {
            /// Adds the vocabulary to a dictionary.
            pub(super) fn intern(dictionary: &mut Dictionary) -> Result<Self> {
                Ok(Self {
                    $($field: dictionary.intern(&Key::Iri(&format!("{}{}", $space, $local)))?,)*
                })
            }

            /// Looks up the vocabulary in a dictionary that contains it.
            pub(super) fn find(dictionary: &Dictionary) -> Self {
                Self {
                    $($field: dictionary
                        .find(&Key::Iri(&format!("{}{}", $space, $local)))
                        .unwrap_or(UNBOUND),)*
                }
            }
        }
    };
}

vocabulary! {
    kind = RDF "type",
    first = RDF "first",
    rest = RDF "rest",
    nil = RDF "nil",
    sub_class = RDFS "subClassOf",
    sub_property = RDFS "subPropertyOf",
    domain = RDFS "domain",
    range = RDFS "range",
    same_class = OWL "equivalentClass",
    same_property = OWL "equivalentProperty",
    inverse = OWL "inverseOf",
    chain = OWL "propertyChainAxiom",
    every = OWL "intersectionOf",
    any = OWL "unionOf",
    one_of = OWL "oneOf",
    on = OWL "onProperty",
    some = OWL "someValuesFrom",
    all = OWL "allValuesFrom",
    value = OWL "hasValue",
    thing = OWL "Thing",
    transitive = OWL "TransitiveProperty",
    symmetric = OWL "SymmetricProperty",
    functional = OWL "FunctionalProperty",
    inverse_functional = OWL "InverseFunctionalProperty",
    same = OWL "sameAs",
}

impl Vocabulary {
    /// Returns the predicates of schema triples.
    pub(super) fn predicates(&self, owl: bool) -> impl Iterator<Item = Id> + use<> {
        let all = [
            self.sub_class,
            self.sub_property,
            self.domain,
            self.range,
            self.same_class,
            self.same_property,
            self.inverse,
            self.chain,
            self.every,
            self.any,
            self.one_of,
            self.on,
            self.some,
            self.all,
            self.value,
        ];
        all.into_iter().take(if owl { usize::MAX } else { 4 })
    }

    /// Returns whether a predicate is part of an RDF list. Lists are not rewritten by `owl:sameAs`: a node with two values of one of these
    /// predicates would become two lists.
    pub(super) const fn is_list(&self, p: Id) -> bool {
        p == self.first || p == self.rest
    }

    /// Returns the classes of properties with special semantics.
    pub(super) const fn kinds(&self) -> [Id; 4] {
        [
            self.transitive,
            self.symmetric,
            self.functional,
            self.inverse_functional,
        ]
    }

    /// Returns the schema triples of a graph.
    pub(super) fn schema_of(&self, graph: &Graph, owl: bool) -> Vec<(Id, Id, Id)> {
        let mut list = Vec::new();
        for p in self.predicates(owl) {
            if let Some(index) = graph.index(p) {
                list.extend(index.so.iter().map(|(s, o)| (s, p, o)));
            }
        }
        if !owl {
            return list;
        }
        if let Some(index) = graph.index(self.kind) {
            for class in self.kinds() {
                list.extend(index.os.get(class).iter().map(|x| (*x, self.kind, class)));
            }
        }
        // Lists to which these triples lead.
        let heads = [self.every, self.any, self.one_of, self.chain];
        let mut left: Vec<Id> = list
            .iter()
            .filter(|t| heads.contains(&t.1))
            .map(|t| t.2)
            .collect();
        let mut seen = std::collections::HashSet::new();
        while let Some(node) = left.pop() {
            if !seen.insert(node) {
                continue;
            }
            for p in [self.first, self.rest] {
                for o in graph.index(p).map_or(&[][..], |x| x.so.get(node)) {
                    list.push((node, p, *o));
                    if p == self.rest {
                        left.push(*o);
                    }
                }
            }
        }
        list
    }
}
