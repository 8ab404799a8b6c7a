//! Translation of the parser's algebra to the executable one. Joins become groups, filters are split into conjuncts, and variables local to
//! a sub-query get distinct numbers.

use super::node::{Aggregate, Group, Node, Path, Service};
use super::pattern::{Pos, Triple, components};
use super::variable_names::VariableNames;
use crate::dictionary::Key;
use crate::error::{Error, Result};
use crate::exec::{Context, Var};
use crate::expr::{Comparison, Expr};
use crate::id::{Id, UNBOUND};
use oxrdf::{Literal, NamedNode, Variable};
use spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, Function, GraphPattern, OrderExpression,
    PropertyPathExpression,
};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};
use std::collections::HashMap;
use std::sync::Arc;

/// Limit of nested patterns: deeper ones would overflow the stack.
const DEPTH_MAX: usize = 400;

/// Translator of one query.
pub struct Translator<'a, 'b> {
    ctx: &'a Context<'b>,
    /// Names of all variables.
    pub names: VariableNames,
    scope: HashMap<String, Var>,
    depth: usize,
    /// Triple terms with variables, in the pattern that is being translated; a term follows those within it.
    unfolded: Vec<Unfolded>,
}

/// A variable for a triple term that a pattern contains, and the parts of the term.
struct Unfolded {
    term: Var,
    parts: [Pos; 3],
}

impl<'a, 'b> Translator<'a, 'b> {
    /// Creates a translator without variables.
    pub fn new(ctx: &'a Context<'b>) -> Self {
        Self {
            ctx,
            names: VariableNames::default(),
            scope: HashMap::new(),
            depth: 0,
            unfolded: Vec::new(),
        }
    }

    /// Returns the number of a variable.
    pub fn var(&mut self, v: &Variable) -> Var {
        self.named(v.as_str())
    }

    fn named(&mut self, name: &str) -> Var {
        if let Some(var) = self.scope.get(name) {
            return *var;
        }
        let var = self.names.new_variable(name);
        self.scope.insert(name.to_owned(), var);
        var
    }

    pub(crate) fn iri(&self, n: &NamedNode) -> Id {
        self.ctx.number_key(&Key::Iri(n.as_str()))
    }

    pub(crate) fn literal(&self, l: &Literal) -> Id {
        Key::with(l.as_ref().into(), |key| self.ctx.number_key(key))
    }

    /// Translates a position of a triple pattern. A triple term with variables becomes a variable; [`Self::unfold`] binds those within it.
    fn pos(&mut self, t: &TermPattern) -> Pos {
        match t {
            TermPattern::NamedNode(n) => Pos::Const(self.iri(n)),
            TermPattern::Literal(l) => Pos::Const(self.literal(l)),
            TermPattern::Variable(v) => Pos::Var(self.var(v)),
            TermPattern::BlankNode(b) => Pos::Var(self.named(&format!("_:{}", b.as_str()))),
            TermPattern::Triple(triple) => {
                let Triple { s, p, o } = self.triple(triple);
                if let (Pos::Const(s), Pos::Const(p), Pos::Const(o)) = (s, p, o) {
                    return Pos::Const(self.ctx.number_triple([s, p, o]));
                }
                let term = self.names.new_variable("_:triple");
                let parts = [s, p, o];
                self.unfolded.push(Unfolded { term, parts });
                Pos::Var(term)
            }
        }
    }

    /// Translates a position that allows only IRIs.
    pub fn name(&mut self, n: &NamedNodePattern) -> Pos {
        match n {
            NamedNodePattern::NamedNode(n) => Pos::Const(self.iri(n)),
            NamedNodePattern::Variable(v) => Pos::Var(self.var(v)),
        }
    }

    fn triple(&mut self, t: &TriplePattern) -> Triple {
        Triple {
            s: self.pos(&t.subject),
            p: self.name(&t.predicate),
            o: self.pos(&t.object),
        }
    }

    /// Returns a group of triple patterns with triple terms. Those that share variables are unfolded together, and their solutions are then
    /// joined with the other patterns.
    fn unfold_triples(&self, triples: &[Triple], mut unfolded: Vec<Unfolded>) -> Group {
        let mut group = Group::default();
        for triples in components(triples, true) {
            let mut known: Vec<Var> = triples.iter().flat_map(Triple::vars).collect();
            let mut here = Vec::new();
            for i in (0..unfolded.len()).rev() {
                if known.contains(&unfolded[i].term) {
                    let one = unfolded.remove(i);
                    known.extend(one.parts.iter().filter_map(|p| p.var()));
                    here.push(one);
                }
            }
            if here.is_empty() {
                group.triples.extend(triples);
                continue;
            }
            let inner = Node::Group(Group {
                triples,
                ..Group::default()
            });
            group.parts.push(self.unfold(inner, here.into_iter()));
        }
        group
    }

    /// Returns the solutions of a pattern in which variables are triple terms, with the variables within these terms; terms come before those
    /// within them. A part whose variable is bound already must be that term.
    fn unfold(&self, mut node: Node, terms: impl Iterator<Item = Unfolded>) -> Node {
        let optimise = self.ctx.options.optimise;
        for Unfolded { term, parts } in terms {
            let call = |f| Expr::Call(f, vec![Expr::Var(term)]);
            node = node.filtered(call(Function::IsTriple), optimise);
            let functions = [Function::Subject, Function::Predicate, Function::Object];
            for (part, f) in parts.into_iter().zip(functions) {
                let expected = match part {
                    Pos::Var(var) if !node.vars().contains(&var) => {
                        node = Node::Extend {
                            inner: Box::new(node),
                            var,
                            expr: call(f),
                        };
                        continue;
                    }
                    Pos::Var(var) => Expr::Var(var),
                    Pos::Const(id) => Expr::Const(id),
                };
                let same = Expr::SameTerm(Box::new(call(f)), Box::new(expected));
                node = node.filtered(same, optimise);
            }
        }
        node
    }

    /// Translates a graph pattern.
    pub fn node(&mut self, pattern: &GraphPattern) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::Unsupported(format!(
                "a query with more than {DEPTH_MAX} patterns within patterns"
            )));
        }
        let node = self.node_at(pattern);
        self.depth -= 1;
        node
    }

    fn node_at(&mut self, pattern: &GraphPattern) -> Result<Node> {
        Ok(match pattern {
            GraphPattern::Bgp { patterns } => {
                let triples = patterns.iter().map(|t| self.triple(t)).collect();
                let group = Group {
                    triples,
                    ..Group::default()
                };
                Node::Group(match std::mem::take(&mut self.unfolded) {
                    unfolded if unfolded.is_empty() => group,
                    unfolded => self.unfold_triples(&group.triples, unfolded),
                })
            }
            GraphPattern::Path {
                subject,
                path,
                object,
            } => {
                let (s, o) = (self.pos(subject), self.pos(object));
                let path = self.path(path);
                let unfolded = std::mem::take(&mut self.unfolded);
                let node = self.path_node(s, path, o);
                self.unfold(node, unfolded.into_iter().rev())
            }
            GraphPattern::Join { left, right } => {
                let mut group = Group::default();
                self.join_into(left, &mut group)?;
                self.join_into(right, &mut group)?;
                Node::Group(group)
            }
            GraphPattern::LeftJoin {
                left,
                right,
                expression,
            } => {
                let (left, right) = (Box::new(self.node(left)?), Box::new(self.node(right)?));
                let mut filters = Vec::new();
                if let Some(e) = expression {
                    self.expr(e)?.conjuncts(&mut filters);
                }
                Node::LeftJoin {
                    left,
                    right,
                    filters,
                }
            }
            GraphPattern::Filter { expr, inner } => {
                let inner = self.node(inner)?;
                let mut filters = Vec::new();
                self.expr(expr)?.conjuncts(&mut filters);
                let optimise = self.ctx.options.optimise;
                filters
                    .into_iter()
                    .fold(inner, |node, f| node.filtered(f, optimise))
            }
            GraphPattern::Union { .. } => {
                // A chain of unions becomes one node: its length is unlimited, the stack is not.
                let mut list = Vec::new();
                let mut rest = vec![pattern];
                while let Some(p) = rest.pop() {
                    if let GraphPattern::Union { left, right } = p {
                        rest.push(right);
                        rest.push(left);
                    } else {
                        list.push(self.node(p)?);
                    }
                }
                Node::Union(list)
            }
            GraphPattern::Graph { name, inner } => Node::Graph {
                name: self.name(name),
                inner: Box::new(self.node(inner)?),
            },
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                let inner = self.node(inner)?;
                let expr = self.expr(expression)?;
                // The label of a new blank node contains the solution's index, so the order must be fixed.
                let placed = self.ctx.is_view() && expr.is_volatile();
                Node::Extend {
                    inner: Box::new(if placed { inner.by_terms() } else { inner }),
                    var: self.var(variable),
                    expr,
                }
            }
            GraphPattern::Minus { left, right } => Node::Minus {
                left: Box::new(self.node(left)?),
                right: Box::new(self.node(right)?),
            },
            GraphPattern::Values {
                variables,
                bindings,
            } => Node::Values {
                vars: variables.iter().map(|v| self.var(v)).collect(),
                rows: bindings
                    .iter()
                    .map(|row| row.iter().map(|t| self.ground(t.as_ref())).collect())
                    .collect(),
            },
            GraphPattern::OrderBy { inner, expression } => {
                let inner = Box::new(self.node(inner)?);
                let mut by = Vec::new();
                for e in expression {
                    by.push(match e {
                        OrderExpression::Asc(e) => (self.expr(e)?, false),
                        OrderExpression::Desc(e) => (self.expr(e)?, true),
                    });
                }
                let ties = if self.ctx.is_view() {
                    inner.vars()
                } else {
                    Vec::new()
                };
                Node::OrderBy { inner, by, ties }
            }
            GraphPattern::Project { inner, variables } => {
                let vars: Vec<Var> = variables.iter().map(|v| self.var(v)).collect();
                let within = variables
                    .iter()
                    .zip(&vars)
                    .map(|(v, n)| (v.as_str().to_owned(), *n))
                    .collect();
                let outer = std::mem::replace(&mut self.scope, within);
                let inner = self.node(inner);
                self.scope = outer;
                let mut inner = inner?;
                if let Node::OrderBy { ties, .. } = &mut inner {
                    // Solutions that agree on all selected variables are equal.
                    ties.retain(|v| vars.contains(v));
                }
                Node::Project {
                    inner: Box::new(inner),
                    vars,
                }
            }
            GraphPattern::Distinct { inner } => Node::Distinct(Box::new(self.node(inner)?)),
            GraphPattern::Reduced { inner } => Node::Reduced(Box::new(self.node(inner)?)),
            GraphPattern::Slice {
                inner,
                start,
                length,
            } => Node::Slice {
                inner: Box::new(self.ordered(inner)?),
                start: *start,
                length: *length,
            },
            GraphPattern::Group {
                inner,
                variables,
                aggregates,
            } => {
                let pattern = inner;
                let mut inner = self.node(pattern)?;
                // Solutions have no blank nodes of the query's text (SPARQL 1.1 Query, section 18.3.1).
                if aggregates.iter().any(|(_, a)| {
                    matches!(a, AggregateExpression::CountSolutions { distinct: true })
                }) {
                    let mut vars = Vec::new();
                    pattern.on_in_scope_variable(|v| vars.push(self.var(v)));
                    inner = Node::Project {
                        inner: Box::new(inner),
                        vars,
                    };
                }
                let by: Vec<Var> = variables.iter().map(|v| self.var(v)).collect();
                let mut list = Vec::new();
                for (v, a) in aggregates {
                    list.push(self.aggregate(v, a)?);
                }
                // Concatenations, sums of floating-point numbers and samples depend on the order.
                if self.ctx.is_view()
                    && list
                        .iter()
                        .any(|a| !matches!(a.function, None | Some(AggregateFunction::Count)))
                {
                    inner = inner.by_terms();
                    if let Node::OrderBy { ties, .. } = &mut inner {
                        let used = |v: &Var| {
                            let mut exprs = list.iter().flat_map(|a| &a.expr);
                            by.contains(v) || exprs.any(|e| e.vars().contains(v))
                        };
                        ties.retain(used);
                    }
                }
                Node::Aggregate {
                    inner: Box::new(inner),
                    by,
                    aggregates: list,
                }
            }
            GraphPattern::Service {
                name,
                inner,
                silent,
            } => {
                if let Some(input_bindings) = self.input_bindings(name, inner) {
                    return Ok(input_bindings);
                }
                let mut names = Vec::new();
                inner.on_in_scope_variable(|v| names.push(v.clone()));
                let service = Service {
                    endpoint: self.name(name),
                    vars: names
                        .iter()
                        .map(|v| (v.as_str().to_owned(), self.var(v)))
                        .collect(),
                    inner: Arc::new(inner.as_ref().clone()),
                    silent: *silent,
                    bound: Vec::new(),
                };
                let all = &self.ctx.services;
                all.borrow_mut().push(Arc::new(service.clone()));
                Node::Service(Box::new(service))
            }
        })
    }

    /// Translates a pattern whose order of solutions is visible.
    fn ordered(&mut self, pattern: &GraphPattern) -> Result<Node> {
        let node = self.node(pattern)?;
        Ok(if self.ctx.is_view() {
            node.by_terms()
        } else {
            node
        })
    }

    /// Translates a reference to input bindings.
    fn input_bindings(&mut self, name: &NamedNodePattern, inner: &GraphPattern) -> Option<Node> {
        let input_bindings = self
            .ctx
            .options
            .input_bindings
            .get(crate::InputBindings::index_of(name)?)?;
        let mut known = HashMap::new();
        inner.on_in_scope_variable(|v| {
            known.insert(v.as_str().to_owned(), self.named(v.as_str()));
        });
        let vars = input_bindings
            .names
            .iter()
            .map(|n| {
                known
                    .get(n)
                    .copied()
                    .unwrap_or_else(|| self.names.new_variable(n))
            })
            .collect();
        Some(Node::Values {
            vars,
            rows: input_bindings.rows.clone(),
        })
    }

    /// Merges one side of a join into a group.
    fn join_into(&mut self, side: &GraphPattern, group: &mut Group) -> Result<()> {
        if let GraphPattern::Join { left, right } = side {
            self.join_into(left, group)?;
            return self.join_into(right, group);
        }
        match self.node(side)? {
            // Filters of a joined group see only the group's variables: they may be merged unless they mention others.
            Node::Group(g) if g.filters.is_empty() => {
                group.triples.extend(g.triples);
                group.parts.extend(g.parts);
            }
            other => group.parts.push(other),
        }
        Ok(())
    }

    fn ground(&self, term: Option<&GroundTerm>) -> Id {
        match term {
            None => UNBOUND,
            Some(GroundTerm::NamedNode(n)) => self.iri(n),
            Some(GroundTerm::Literal(l)) => self.literal(l),
            Some(term @ GroundTerm::Triple(_)) => self.ctx.number(&term.clone().into()),
        }
    }

    fn path(&mut self, path: &PropertyPathExpression) -> Path {
        use PropertyPathExpression as P;
        let mut sub = |p: &P| Box::new(self.path(p));
        match path {
            P::NamedNode(n) => Path::Link(self.iri(n)),
            P::Reverse(p) => Path::Reverse(sub(p)),
            P::Sequence(a, b) => Path::Sequence(sub(a), sub(b)),
            P::Alternative(a, b) => Path::Alternative(sub(a), sub(b)),
            P::ZeroOrMore(p) => Path::ZeroOrMore(sub(p)),
            P::OneOrMore(p) => Path::OneOrMore(sub(p)),
            P::ZeroOrOne(p) => Path::ZeroOrOne(sub(p)),
            P::NegatedPropertySet(list) => Path::Not(list.iter().map(|n| self.iri(n)).collect()),
        }
    }

    /// Translates a path: links, sequences and reversed links become triple patterns.
    fn path_node(&mut self, s: Pos, path: Path, o: Pos) -> Node {
        match path {
            Path::Link(p) => Node::Group(Group {
                triples: vec![Triple {
                    s,
                    p: Pos::Const(p),
                    o,
                }],
                ..Group::default()
            }),
            Path::Reverse(path) => self.path_node(o, *path, s),
            Path::Sequence(a, b) => {
                let middle = Pos::Var(self.names.new_variable("_:path"));
                let mut group = Group::default();
                for node in [self.path_node(s, *a, middle), self.path_node(middle, *b, o)] {
                    match node {
                        Node::Group(g) => {
                            group.triples.extend(g.triples);
                            group.parts.extend(g.parts);
                        }
                        other => group.parts.push(other),
                    }
                }
                Node::Group(group)
            }
            Path::Alternative(a, b) => {
                Node::Union(vec![self.path_node(s, *a, o), self.path_node(s, *b, o)])
            }
            path => Node::Path { s, path, o },
        }
    }

    fn aggregate(&mut self, v: &Variable, a: &AggregateExpression) -> Result<Aggregate> {
        Ok(match a {
            AggregateExpression::CountSolutions { distinct } => Aggregate {
                var: self.var(v),
                function: None,
                expr: None,
                distinct: *distinct,
            },
            AggregateExpression::FunctionCall {
                name,
                expr,
                distinct,
            } => Aggregate {
                var: self.var(v),
                function: Some(name.clone()),
                expr: Some(self.expr(expr)?),
                distinct: *distinct,
            },
        })
    }

    /// Translates an expression of the parser.
    pub fn expr(&mut self, e: &Expression) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::Unsupported(format!(
                "an expression with more than {DEPTH_MAX} expressions within expressions"
            )));
        }
        let expr = self.expr_at(e);
        self.depth -= 1;
        expr
    }

    fn expr_at(&mut self, e: &Expression) -> Result<Expr> {
        use Expression as E;
        Ok(match e {
            E::NamedNode(n) => Expr::Const(self.iri(n)),
            E::Literal(l) => Expr::Const(self.literal(l)),
            E::Variable(v) => Expr::Var(self.var(v)),
            E::Or(..) => Expr::Or(self.chain(e)?),
            E::And(..) => Expr::And(self.chain(e)?),
            E::Equal(a, b) => Expr::Equal(self.boxed(a)?, self.boxed(b)?),
            E::SameTerm(a, b) => Expr::SameTerm(self.boxed(a)?, self.boxed(b)?),
            E::Greater(a, b) => Expr::Compare(Comparison::Greater, self.boxed(a)?, self.boxed(b)?),
            E::GreaterOrEqual(a, b) => {
                Expr::Compare(Comparison::GreaterOrEqual, self.boxed(a)?, self.boxed(b)?)
            }
            E::Less(a, b) => Expr::Compare(Comparison::Less, self.boxed(a)?, self.boxed(b)?),
            E::LessOrEqual(a, b) => {
                Expr::Compare(Comparison::LessOrEqual, self.boxed(a)?, self.boxed(b)?)
            }
            E::In(a, list) => Expr::In(self.boxed(a)?, self.list(list)?),
            E::Add(a, b) => Expr::Arithmetic('+', self.boxed(a)?, self.boxed(b)?),
            E::Subtract(a, b) => Expr::Arithmetic('-', self.boxed(a)?, self.boxed(b)?),
            E::Multiply(a, b) => Expr::Arithmetic('*', self.boxed(a)?, self.boxed(b)?),
            E::Divide(a, b) => Expr::Arithmetic('/', self.boxed(a)?, self.boxed(b)?),
            E::UnaryPlus(a) => Expr::Sign('+', self.boxed(a)?),
            E::UnaryMinus(a) => Expr::Sign('-', self.boxed(a)?),
            E::Not(a) => Expr::Not(self.boxed(a)?),
            E::Exists(p) => Expr::Exists(Arc::new(self.node(p)?)),
            E::Bound(v) => Expr::Bound(self.var(v)),
            E::If(a, b, c) => Expr::If(self.boxed(a)?, self.boxed(b)?, self.boxed(c)?),
            E::Coalesce(list) => Expr::Coalesce(self.list(list)?),
            E::FunctionCall(f, list) => Expr::Call(f.clone(), self.list(list)?),
        })
    }

    /// Translates a chain of `||` or `&&` to one list of any length.
    fn chain(&mut self, e: &Expression) -> Result<Vec<Expr>> {
        let or = matches!(e, Expression::Or(..));
        let mut list = Vec::new();
        let mut rest = vec![e];
        while let Some(e) = rest.pop() {
            match e {
                Expression::Or(a, b) if or => rest.extend([&**b, &**a]),
                Expression::And(a, b) if !or => rest.extend([&**b, &**a]),
                e => list.push(self.expr(e)?),
            }
        }
        Ok(list)
    }

    fn boxed(&mut self, e: &Expression) -> Result<Box<Expr>> {
        Ok(Box::new(self.expr(e)?))
    }

    fn list(&mut self, list: &[Expression]) -> Result<Vec<Expr>> {
        list.iter().map(|e| self.expr(e)).collect()
    }
}
