//! Templates of CONSTRUCT and of updates: the terms that a solution puts into their triples.

use crate::algebra::{Pos, Translator};
use crate::dictionary::Key;
use crate::exec::{Context, Row, Var};
use crate::id::{Id, UNBOUND};
use spargebra::term::{
    GraphNamePattern, GroundQuadPattern, GroundTermPattern, NamedNodePattern, QuadPattern,
    TermPattern, TriplePattern,
};
use std::collections::HashMap;

/// A position of a template.
pub(crate) enum TemplateTerm {
    /// A constant or a variable.
    At(Pos),
    /// A blank node, new for each solution.
    Blank(String),
    /// A triple term of a subject, a predicate and an object.
    Triple(Box<[Self; 3]>),
    /// The default graph.
    Default,
}

/// Blank nodes of one solution, by their labels in the template.
pub(crate) type Labels<'t> = HashMap<&'t str, Id>;

impl TemplateTerm {
    /// Translates a subject or an object.
    pub(crate) fn of(t: &mut Translator<'_, '_>, term: &TermPattern) -> Self {
        match term {
            TermPattern::BlankNode(b) => Self::Blank(b.as_str().to_owned()),
            TermPattern::NamedNode(n) => Self::At(Pos::Const(t.iri(n))),
            TermPattern::Literal(l) => Self::At(Pos::Const(t.literal(l))),
            TermPattern::Variable(v) => Self::At(Pos::Var(t.var(v))),
            TermPattern::Triple(triple) => Self::Triple(Box::new(Self::triple(t, triple))),
        }
    }

    /// Translates a triple that CONSTRUCT makes.
    pub(crate) fn triple(t: &mut Translator<'_, '_>, triple: &TriplePattern) -> [Self; 3] {
        [
            Self::of(t, &triple.subject),
            Self::name(t, &triple.predicate),
            Self::of(t, &triple.object),
        ]
    }

    /// Translates a quad to be added.
    pub(crate) fn quad(t: &mut Translator<'_, '_>, quad: &QuadPattern) -> [Self; 4] {
        [
            Self::of(t, &quad.subject),
            Self::name(t, &quad.predicate),
            Self::of(t, &quad.object),
            Self::graph(t, &quad.graph_name),
        ]
    }

    /// Translates a quad to be removed.
    pub(crate) fn ground_quad(t: &mut Translator<'_, '_>, quad: &GroundQuadPattern) -> [Self; 4] {
        [
            Self::ground(t, &quad.subject),
            Self::name(t, &quad.predicate),
            Self::ground(t, &quad.object),
            Self::graph(t, &quad.graph_name),
        ]
    }

    fn ground(t: &mut Translator<'_, '_>, term: &GroundTermPattern) -> Self {
        match term {
            GroundTermPattern::NamedNode(n) => Self::At(Pos::Const(t.iri(n))),
            GroundTermPattern::Literal(l) => Self::At(Pos::Const(t.literal(l))),
            GroundTermPattern::Variable(v) => Self::At(Pos::Var(t.var(v))),
            GroundTermPattern::Triple(triple) => Self::Triple(Box::new([
                Self::ground(t, &triple.subject),
                Self::name(t, &triple.predicate),
                Self::ground(t, &triple.object),
            ])),
        }
    }

    fn name(t: &mut Translator<'_, '_>, name: &NamedNodePattern) -> Self {
        Self::At(t.name(name))
    }

    fn graph(t: &mut Translator<'_, '_>, graph: &GraphNamePattern) -> Self {
        match graph {
            GraphNamePattern::NamedNode(n) => Self::At(Pos::Const(t.iri(n))),
            GraphNamePattern::Variable(v) => Self::At(Pos::Var(t.var(v))),
            GraphNamePattern::DefaultGraph => Self::Default,
        }
    }

    /// Appends the variables, including those of triple terms.
    pub(crate) fn vars(&self, to: &mut Vec<Var>) {
        match self {
            Self::At(pos) => to.extend(pos.var()),
            Self::Triple(parts) => parts.iter().for_each(|part| part.vars(to)),
            Self::Blank(_) | Self::Default => {}
        }
    }

    /// Returns whether there are blank nodes.
    pub(crate) fn has_blank(&self) -> bool {
        match self {
            Self::Blank(_) => true,
            Self::Triple(parts) => parts.iter().any(Self::has_blank),
            Self::At(_) | Self::Default => false,
        }
    }

    /// Returns the term for a solution: unbound for the default graph, `None` if a variable is unbound or three terms form no triple.
    pub(crate) fn instance<'t>(
        &'t self,
        ctx: &Context<'_>,
        row: Row<'_>,
        labels: &mut Labels<'t>,
    ) -> Option<Id> {
        let id = match self {
            Self::Default => return Some(UNBOUND),
            Self::At(Pos::Const(id)) => *id,
            Self::At(Pos::Var(v)) => row.get(*v),
            Self::Blank(label) => *labels
                .entry(label)
                .or_insert_with(|| ctx.number_key(&Key::Blank(&ctx.fresh_label()))),
            Self::Triple(parts) => {
                let mut part = |i: usize| parts[i].instance(ctx, row, labels);
                ctx.number_triple([part(0)?, part(1)?, part(2)?])
            }
        };
        (id != UNBOUND).then_some(id)
    }
}
