//! A query with its basic graph patterns taken out: workers solve these together, what is left is asked of their solutions.

use crate::expression::{conjuncts, mentioned, replace};
use crate::star::{self, Basic, Star, Variable, blank, components};
use crate::walk::{Seen, each, pattern_of};
use esker_rdf::spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, GraphPattern, OrderExpression,
};
use esker_rdf::spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};
use esker_rdf::{Given, Query};
use std::collections::{BTreeSet, HashMap};

/// Stars that joins solve, and what is wanted of their solutions.
#[derive(Debug, Clone)]
pub(crate) struct Component {
    pub(crate) stars: Vec<Star>,
    pub(crate) out: Out,
    /// Solutions may be given once each.
    pub(crate) distinct: bool,
    pub(crate) limit: Option<usize>,
}

/// What a component gives.
#[derive(Debug, Clone)]
pub(crate) enum Out {
    /// These variables.
    Variables(Vec<Variable>),
    /// Counts for each combination of some variables.
    Counts(Vec<Variable>, Vec<Count>),
}

/// A count: under which name, of which variable's values (none: of solutions), of different ones only.
#[derive(Debug, Clone)]
pub(crate) struct Count {
    pub(crate) name: Variable,
    pub(crate) of: Option<Variable>,
    pub(crate) distinct: bool,
}

impl Component {
    /// Names of the variables that it binds.
    pub(crate) fn names(&self) -> Vec<String> {
        let text = |v: &Variable| v.as_str().to_owned();
        match &self.out {
            Out::Variables(vars) => vars.iter().map(text).collect(),
            Out::Counts(by, counts) => by
                .iter()
                .map(text)
                .chain(counts.iter().map(|c| text(&c.name)))
                .collect(),
        }
    }
}

/// A query without basic graph patterns, and these.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) query: Query,
    pub(crate) components: Vec<Component>,
}

/// What is wanted of a pattern's solutions.
#[derive(Debug, Clone)]
struct Want<'a> {
    vars: BTreeSet<Variable>,
    distinct: bool,
    limit: Option<usize>,
    graph: Option<&'a NamedNodePattern>,
}

impl Want<'_> {
    fn with(&self, vars: impl IntoIterator<Item = Variable>) -> Self {
        let mut want = Self {
            limit: None,
            ..self.clone()
        };
        want.vars.extend(vars);
        want
    }
}

/// Takes a query apart; none if it has what is not done so: paths, descriptions, some patterns within `GRAPH ?g`.
pub(crate) fn rewrite(query: &Query) -> Option<Rewritten> {
    let mut walk = Walk::default();
    if !blanks_are_local(pattern_of(query)) {
        return None;
    }
    let query = match query {
        Query::Select {
            dataset,
            pattern,
            base_iri,
        } => Query::Select {
            dataset: dataset.clone(),
            pattern: walk.pattern(pattern, &want(scope(pattern), false, None))?,
            base_iri: base_iri.clone(),
        },
        Query::Ask {
            dataset,
            pattern,
            base_iri,
        } => Query::Ask {
            dataset: dataset.clone(),
            pattern: walk.pattern(pattern, &want(BTreeSet::new(), true, Some(1)))?,
            base_iri: base_iri.clone(),
        },
        Query::Construct {
            template,
            dataset,
            pattern,
            base_iri,
        } => Query::Construct {
            template: template.clone(),
            dataset: dataset.clone(),
            pattern: walk.pattern(
                pattern,
                &want(
                    template.iter().flat_map(star::variables).collect(),
                    false,
                    None,
                ),
            )?,
            base_iri: base_iri.clone(),
        },
        Query::Describe { .. } => return None,
    };
    Some(Rewritten {
        query,
        components: walk.components,
    })
}

fn want<'a>(vars: BTreeSet<Variable>, distinct: bool, limit: Option<usize>) -> Want<'a> {
    Want {
        vars,
        distinct,
        limit,
        graph: None,
    }
}

/// The variables that a pattern's solutions may bind.
fn scope(pattern: &GraphPattern) -> BTreeSet<Variable> {
    let mut vars = BTreeSet::new();
    pattern.on_in_scope_variable(|v| {
        vars.insert(v.clone());
    });
    vars
}

#[derive(Debug, Default)]
struct Walk {
    components: Vec<Component>,
}

impl Walk {
    fn pattern<'a>(&mut self, pattern: &'a GraphPattern, want: &Want<'a>) -> Option<GraphPattern> {
        if let Some(basic) = basic(pattern, want.graph) {
            return self.basic(&basic, want);
        }
        let boxed = |p: Option<GraphPattern>| p.map(Box::new);
        Some(match pattern {
            GraphPattern::Bgp { .. } if want.graph.is_none() => pattern.clone(),
            GraphPattern::Bgp { .. } | GraphPattern::Path { .. } => return None,
            GraphPattern::Join { left, right } => GraphPattern::Join {
                left: boxed(self.pattern(left, &want.with(scope(right))))?,
                right: boxed(self.pattern(right, &want.with(scope(left))))?,
            },
            GraphPattern::LeftJoin {
                left,
                right,
                expression,
            } => {
                let mut also = BTreeSet::new();
                if let Some(e) = expression {
                    mentioned(e, &mut also);
                }
                let on_left = want.with(scope(right).union(&also).cloned());
                let on_right = want.with(scope(left).union(&also).cloned());
                GraphPattern::LeftJoin {
                    left: boxed(self.pattern(left, &on_left))?,
                    right: boxed(self.pattern(right, &on_right))?,
                    expression: match expression {
                        Some(e) => Some(self.expression(e, want)?),
                        None => None,
                    },
                }
            }
            GraphPattern::Minus { left, right } => {
                if in_any_graph(want) {
                    return None;
                }
                let on_right = Want {
                    vars: scope(left),
                    distinct: true,
                    limit: None,
                    graph: want.graph,
                };
                GraphPattern::Minus {
                    left: boxed(self.pattern(left, &want.with(scope(right))))?,
                    right: boxed(self.pattern(right, &on_right))?,
                }
            }
            GraphPattern::Union { left, right } => GraphPattern::Union {
                left: boxed(self.pattern(left, &want.with([])))?,
                right: boxed(self.pattern(right, &want.with([])))?,
            },
            GraphPattern::Filter { expr, inner } => {
                let mut also = BTreeSet::new();
                mentioned(expr, &mut also);
                GraphPattern::Filter {
                    expr: self.expression(expr, want)?,
                    inner: boxed(self.pattern(inner, &want.with(also)))?,
                }
            }
            // The outer graph need not have what the inner one has, but it must be there.
            GraphPattern::Graph { .. }
            | GraphPattern::Values { .. }
            | GraphPattern::Service { .. }
                if want.graph.is_some() =>
            {
                return None;
            }
            GraphPattern::Graph { name, inner } => {
                let mut want = want.with([]);
                if let NamedNodePattern::Variable(v) = name {
                    want.vars.insert(v.clone());
                }
                want.graph = Some(name);
                return self.pattern(inner, &want);
            }
            _ if in_any_graph(want) => return None,
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                let mut also = BTreeSet::new();
                mentioned(expression, &mut also);
                let mut below = want.with(also);
                below.distinct = false;
                GraphPattern::Extend {
                    expression: self.expression(expression, want)?,
                    inner: boxed(self.pattern(inner, &below))?,
                    variable: variable.clone(),
                }
            }
            GraphPattern::Values { .. } | GraphPattern::Service { .. } => pattern.clone(),
            GraphPattern::OrderBy { inner, expression } => {
                let mut also = BTreeSet::new();
                let mut by = Vec::new();
                for e in expression {
                    let (OrderExpression::Asc(e) | OrderExpression::Desc(e)) = e;
                    mentioned(e, &mut also);
                }
                for e in expression {
                    by.push(match e {
                        OrderExpression::Asc(e) => OrderExpression::Asc(self.expression(e, want)?),
                        OrderExpression::Desc(e) => {
                            OrderExpression::Desc(self.expression(e, want)?)
                        }
                    });
                }
                GraphPattern::OrderBy {
                    inner: boxed(self.pattern(inner, &want.with(also)))?,
                    expression: by,
                }
            }
            GraphPattern::Project { inner, variables } => {
                let below = Want {
                    vars: variables.iter().cloned().collect(),
                    ..want.clone()
                };
                GraphPattern::Project {
                    inner: boxed(self.pattern(inner, &below))?,
                    variables: variables.clone(),
                }
            }
            GraphPattern::Distinct { inner } => GraphPattern::Distinct {
                inner: boxed(self.pattern(inner, &once(want)))?,
            },
            GraphPattern::Reduced { inner } => GraphPattern::Reduced {
                inner: boxed(self.pattern(inner, &once(want)))?,
            },
            GraphPattern::Slice {
                inner,
                start,
                length,
            } => {
                let below = Want {
                    distinct: false,
                    limit: length.and_then(|n| n.checked_add(*start)),
                    ..want.clone()
                };
                GraphPattern::Slice {
                    inner: boxed(self.pattern(inner, &below))?,
                    start: *start,
                    length: *length,
                }
            }
            GraphPattern::Group {
                inner,
                variables,
                aggregates,
            } => {
                if let Some(given) = self.counts(inner, variables, aggregates, want.graph) {
                    return Some(given);
                }
                let mut vars: BTreeSet<Variable> = variables.iter().cloned().collect();
                let mut list = Vec::new();
                for (name, aggregate) in aggregates {
                    list.push((
                        name.clone(),
                        match aggregate {
                            AggregateExpression::CountSolutions { distinct } => {
                                if *distinct {
                                    vars.extend(scope(inner));
                                }
                                AggregateExpression::CountSolutions {
                                    distinct: *distinct,
                                }
                            }
                            AggregateExpression::FunctionCall {
                                name,
                                expr,
                                distinct,
                            } => {
                                mentioned(expr, &mut vars);
                                AggregateExpression::FunctionCall {
                                    name: name.clone(),
                                    expr: self.expression(expr, want)?,
                                    distinct: *distinct,
                                }
                            }
                        },
                    ));
                }
                let below = Want {
                    vars,
                    distinct: false,
                    limit: None,
                    graph: want.graph,
                };
                GraphPattern::Group {
                    inner: boxed(self.pattern(inner, &below))?,
                    variables: variables.clone(),
                    aggregates: list,
                }
            }
        })
    }

    /// Counts of one component's solutions need no solution to travel.
    fn counts(
        &mut self,
        inner: &GraphPattern,
        by: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: Option<&NamedNodePattern>,
    ) -> Option<GraphPattern> {
        let basic = basic(inner, graph)?;
        let (mut list, left) = components(&basic);
        let stars = list.pop()?;
        if !left.is_empty() || !list.is_empty() || aggregates.is_empty() {
            return None;
        }
        let known = |v: &Variable| stars.iter().any(|s| s.vars.contains(v));
        if !by.iter().all(known) {
            return None;
        }
        let counts = aggregates
            .iter()
            .map(|(name, aggregate)| match aggregate {
                AggregateExpression::CountSolutions { distinct: false } => Some(Count {
                    name: name.clone(),
                    of: None,
                    distinct: false,
                }),
                AggregateExpression::FunctionCall {
                    name: AggregateFunction::Count,
                    expr: Expression::Variable(v),
                    distinct,
                } if known(v) => Some(Count {
                    name: name.clone(),
                    of: Some(v.clone()),
                    distinct: *distinct,
                }),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()?;
        Some(self.give(Component {
            stars,
            out: Out::Counts(by.to_vec(), counts),
            distinct: false,
            limit: None,
        }))
    }

    fn basic(&mut self, basic: &Basic<'_>, want: &Want<'_>) -> Option<GraphPattern> {
        let (list, left) = components(basic);
        let mut vars = want.vars.clone();
        for filter in &left {
            if in_any_graph(want) {
                return None;
            }
            mentioned(filter, &mut vars);
        }
        let limit = want.limit.filter(|_| left.is_empty() && list.len() == 1);
        let mut all: Option<GraphPattern> = None;
        for stars in list {
            let known: BTreeSet<&Variable> = stars.iter().flat_map(|s| &s.vars).collect();
            let mut out: Vec<Variable> = known
                .iter()
                .filter(|v| vars.contains(**v))
                .map(|v| (*v).clone())
                .collect();
            let (mut distinct, mut limit) = (want.distinct, limit);
            if out.is_empty() {
                // Whether there is a solution, or how many: any variable says it.
                out.extend(known.iter().next().map(|v| (*v).clone()));
                if distinct {
                    (distinct, limit) = (false, Some(1));
                }
            }
            let given = self.give(Component {
                stars,
                out: Out::Variables(out),
                distinct,
                limit,
            });
            all = Some(match all {
                None => given,
                Some(before) => GraphPattern::Join {
                    left: Box::new(before),
                    right: Box::new(given),
                },
            });
        }
        let mut pattern = all?;
        for filter in left {
            pattern = GraphPattern::Filter {
                expr: self.expression(filter, want)?,
                inner: Box::new(pattern),
            };
        }
        Some(pattern)
    }

    fn give(&mut self, component: Component) -> GraphPattern {
        let pattern = Given::pattern(self.components.len(), &component.names());
        self.components.push(component);
        pattern
    }

    /// An expression whose patterns are taken out.
    fn expression(&mut self, e: &Expression, want: &Want<'_>) -> Option<Expression> {
        let mut found = true;
        let changed = replace(e, &mut |pattern| {
            let below = Want {
                vars: scope(pattern).union(&want.vars).cloned().collect(),
                distinct: true,
                limit: None,
                graph: None,
            };
            let inner = if want.graph.is_some() {
                None
            } else {
                // The patterns of an expression are walked by themselves, since they outlive this call.
                let mut inner = Walk {
                    components: std::mem::take(&mut self.components),
                };
                let changed = inner.pattern(pattern, &below);
                self.components = inner.components;
                changed
            };
            inner.unwrap_or_else(|| {
                found = false;
                pattern.clone()
            })
        });
        found.then_some(changed)
    }
}

fn once<'a>(want: &Want<'a>) -> Want<'a> {
    Want {
        distinct: true,
        ..want.clone()
    }
}

/// Whether a pattern is asked of each named graph.
fn in_any_graph(want: &Want<'_>) -> bool {
    matches!(want.graph, Some(NamedNodePattern::Variable(_)))
}

/// A basic graph pattern, with conditions right around it, in one graph.
fn basic<'a>(pattern: &'a GraphPattern, graph: Option<&'a NamedNodePattern>) -> Option<Basic<'a>> {
    match pattern {
        GraphPattern::Bgp { patterns } if !patterns.is_empty() => Some(Basic {
            patterns,
            filters: Vec::new(),
            graph,
        }),
        GraphPattern::Filter { expr, inner } => {
            let mut basic = basic(inner, graph)?;
            // Within GRAPH ?g a condition does not see ?g.
            if let Some(NamedNodePattern::Variable(g)) = basic.graph {
                let mut vars = BTreeSet::new();
                mentioned(expr, &mut vars);
                if vars.contains(g) && graph.is_some() {
                    return None;
                }
            }
            conjuncts(expr, &mut basic.filters);
            Some(basic)
        }
        GraphPattern::Graph { name, inner }
            if graph.is_none() && matches!(**inner, GraphPattern::Bgp { .. }) =>
        {
            basic(inner, Some(name))
        }
        _ => None,
    }
}

/// Whether no label of a blank node stands in two basic patterns (paths are written so).
fn blanks_are_local(pattern: &GraphPattern) -> bool {
    let mut seen: HashMap<Variable, usize> = HashMap::new();
    let (mut n, mut fine) = (0, true);
    each(pattern, false, &mut |part| {
        n += 1;
        let Seen::Basic(patterns, _) = part else {
            return;
        };
        for TriplePattern {
            subject, object, ..
        } in patterns
        {
            for term in [subject, object] {
                if let TermPattern::BlankNode(b) = term {
                    fine &= *seen.entry(blank(b.as_str())).or_insert(n) == n;
                }
            }
        }
    });
    fine
}
