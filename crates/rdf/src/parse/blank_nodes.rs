//! Numbering of unlabelled blank nodes. The library labels them at random; here they are numbered in order, so that a file always gives the
//! same result, and parts that are loaded separately agree.

use oxrdf::{BlankNode, GraphName, NamedOrBlankNode, Quad, Term};
use std::collections::HashMap;

/// Numbers of one file's unlabelled blank nodes.
#[derive(Debug, Default)]
pub(super) struct BlankNodeNumbers {
    known: HashMap<u128, BlankNode>,
}

impl BlankNodeNumbers {
    /// Replaces a quad's unlabelled blank nodes by numbered ones.
    pub(super) fn renumber(&mut self, quad: &mut Quad) {
        if let NamedOrBlankNode::BlankNode(b) = &mut quad.subject {
            self.number(b);
        }
        self.object(&mut quad.object);
        if let GraphName::BlankNode(b) = &mut quad.graph_name {
            self.number(b);
        }
    }

    fn object(&mut self, mut object: &mut Term) {
        loop {
            match object {
                Term::BlankNode(b) => return self.number(b),
                Term::Triple(t) => {
                    if let NamedOrBlankNode::BlankNode(b) = &mut t.subject {
                        self.number(b);
                    }
                    object = &mut t.object;
                }
                Term::NamedNode(_) | Term::Literal(_) => return,
            }
        }
    }

    fn number(&mut self, node: &mut BlankNode) {
        // Random labels have 128 bits. A written label that looks like such a number is numbered as well, deterministically.
        let Some(drawn) = node
            .as_ref()
            .unique_id()
            .filter(|n| *n > u128::from(u64::MAX))
        else {
            return;
        };
        let next = self.known.len();
        // No label in a file begins with this character.
        let known = self
            .known
            .entry(drawn)
            .or_insert_with(|| BlankNode::new_unchecked(format!("-{next}")));
        *node = known.clone();
    }
}
