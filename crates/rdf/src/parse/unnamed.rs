//! Blank nodes without labels: the library draws random ones. Here they are numbered as they come, so that a file always
//! gives the same, and parts that are loaded apart agree.

use oxrdf::{BlankNode, GraphName, NamedOrBlankNode, Quad, Term};
use std::collections::HashMap;

/// The numbers of one file's.
#[derive(Debug, Default)]
pub(super) struct Unnamed {
    known: HashMap<u128, BlankNode>,
}

impl Unnamed {
    /// Gives a quad's unlabelled nodes their numbers.
    pub(super) fn settle(&mut self, quad: &mut Quad) {
        if let NamedOrBlankNode::BlankNode(b) = &mut quad.subject {
            self.number(b);
        }
        if let Term::BlankNode(b) = &mut quad.object {
            self.number(b);
        }
        if let GraphName::BlankNode(b) = &mut quad.graph_name {
            self.number(b);
        }
    }

    fn number(&mut self, node: &mut BlankNode) {
        // What was drawn has 128 bits. A label that is such a number is numbered as well, always the same.
        let Some(drawn) = node
            .as_ref()
            .unique_id()
            .filter(|n| *n > u128::from(u64::MAX))
        else {
            return;
        };
        let next = self.known.len();
        // No label in a file begins so.
        let known = self
            .known
            .entry(drawn)
            .or_insert_with(|| BlankNode::new_unchecked(format!("-{next}")));
        *node = known.clone();
    }
}
