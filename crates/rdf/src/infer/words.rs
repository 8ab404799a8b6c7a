//! The words of RDFS and OWL that rules are about, in numbers.

use crate::dictionary::{Dictionary, Key};
use crate::error::Result;
use crate::id::{Id, UNBOUND};
use crate::quads::Graph;

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
const OWL: &str = "http://www.w3.org/2002/07/owl#";

macro_rules! words {
    ($($field:ident = $space:ident $local:literal,)*) => {
        /// Numbers of the words.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(super) struct Words {
            $(pub(super) $field: Id,)*
        }

        impl Words {
            /// Adds the words to a dictionary.
            pub(super) fn intern(dictionary: &mut Dictionary) -> Result<Self> {
                Ok(Self {
                    $($field: dictionary.intern(&Key::Iri(&format!("{}{}", $space, $local)))?,)*
                })
            }

            /// The words of a dictionary that has them.
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

words! {
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

impl Words {
    /// The predicates that say something about classes and properties.
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

    /// Whether that is what lists are made of: two values of one would make two lists of it, so it stays as it is
    /// written.
    pub(super) const fn is_list(&self, p: Id) -> bool {
        p == self.first || p == self.rest
    }

    /// The classes whose members are properties that behave in a special way.
    pub(super) const fn kinds(&self) -> [Id; 4] {
        [
            self.transitive,
            self.symmetric,
            self.functional,
            self.inverse_functional,
        ]
    }

    /// The triples of a graph that say something about classes and properties.
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
        // Lists that these triples lead to.
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
