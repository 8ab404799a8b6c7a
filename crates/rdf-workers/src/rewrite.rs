//! Rewriting of queries: basic graph patterns are extracted into components, which the workers solve, and replaced by input bindings.

use crate::expression::{conjuncts, mentioned, replace};
use crate::star::{self, Basic, Star, Variable, components};
use crate::visit::{PatternPart, pattern_of, visit_parts};
use esker_rdf::spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, GraphPattern, OrderExpression,
};
use esker_rdf::spargebra::term::NamedNodePattern;
use esker_rdf::{InputBindings, Query};
use std::collections::{BTreeSet, HashMap};

/// Stars that are joined, and the requirements on their result.
#[derive(Debug, Clone)]
pub(crate) struct Component {
    pub(crate) stars: Vec<Star>,
    pub(crate) out: Out,
    /// Whether duplicate solutions may be dropped.
    pub(crate) distinct: bool,
    pub(crate) limit: Option<usize>,
}

/// Output of a component.
#[derive(Debug, Clone)]
pub(crate) enum Out {
    /// Bindings of these variables.
    Variables(Vec<Variable>),
    /// Counts, grouped by variables.
    Counts(Vec<Variable>, Vec<Count>),
}

/// A COUNT: its output variable, the counted variable (`None` counts solutions), and whether it counts distinct values.
#[derive(Debug, Clone)]
pub(crate) struct Count {
    pub(crate) name: Variable,
    pub(crate) of: Option<Variable>,
    pub(crate) distinct: bool,
}

impl Component {
    /// Returns the names of the output variables.
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

/// A query without basic graph patterns, and the components that replace these.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) query: Query,
    pub(crate) components: Vec<Component>,
}

/// Requirements on a pattern's solutions.
#[derive(Debug, Clone)]
struct Required<'a> {
    vars: BTreeSet<Variable>,
    distinct: bool,
    limit: Option<usize>,
    graph: Option<&'a NamedNodePattern>,
}

impl Required<'_> {
    fn with(&self, vars: impl IntoIterator<Item = Variable>) -> Self {
        let mut required = Self {
            limit: None,
            ..self.clone()
        };
        required.vars.extend(vars);
        required
    }
}

/// Rewrites a query. Returns `None` if it contains something that is not distributed: property paths, DESCRIBE, some patterns
/// within `GRAPH ?g`.
pub(crate) fn rewrite(query: &Query) -> Option<Rewritten> {
    let mut rewriter = Rewriter::default();
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
            pattern: rewriter.pattern(pattern, &required(scope(pattern), false, None))?,
            base_iri: base_iri.clone(),
        },
        Query::Ask {
            dataset,
            pattern,
            base_iri,
        } => Query::Ask {
            dataset: dataset.clone(),
            pattern: rewriter.pattern(pattern, &required(BTreeSet::new(), true, Some(1)))?,
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
            pattern: rewriter.pattern(
                pattern,
                &required(
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
        components: rewriter.components,
    })
}

fn required<'a>(vars: BTreeSet<Variable>, distinct: bool, limit: Option<usize>) -> Required<'a> {
    Required {
        vars,
        distinct,
        limit,
        graph: None,
    }
}

/// Returns the variables that a pattern's solutions may bind.
fn scope(pattern: &GraphPattern) -> BTreeSet<Variable> {
    let mut vars = BTreeSet::new();
    pattern.on_in_scope_variable(|v| {
        vars.insert(v.clone());
    });
    vars
}

#[derive(Debug, Default)]
struct Rewriter {
    components: Vec<Component>,
}

impl Rewriter {
    fn pattern<'a>(
        &mut self,
        pattern: &'a GraphPattern,
        required: &Required<'a>,
    ) -> Option<GraphPattern> {
        if let Some(basic) = basic(pattern, required.graph) {
            return self.basic(&basic, required);
        }
        let boxed = |p: Option<GraphPattern>| p.map(Box::new);
        Some(match pattern {
            GraphPattern::Bgp { .. } if required.graph.is_none() => pattern.clone(),
            GraphPattern::Bgp { .. } | GraphPattern::Path { .. } => return None,
            GraphPattern::Join { left, right } => GraphPattern::Join {
                left: boxed(self.pattern(left, &required.with(scope(right))))?,
                right: boxed(self.pattern(right, &required.with(scope(left))))?,
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
                let on_left = required.with(scope(right).union(&also).cloned());
                let on_right = required.with(scope(left).union(&also).cloned());
                GraphPattern::LeftJoin {
                    left: boxed(self.pattern(left, &on_left))?,
                    right: boxed(self.pattern(right, &on_right))?,
                    expression: match expression {
                        Some(e) => Some(self.expression(e, required)?),
                        None => None,
                    },
                }
            }
            GraphPattern::Minus { left, right } => {
                if in_any_graph(required) {
                    return None;
                }
                let on_right = Required {
                    vars: scope(left),
                    distinct: true,
                    limit: None,
                    graph: required.graph,
                };
                GraphPattern::Minus {
                    left: boxed(self.pattern(left, &required.with(scope(right))))?,
                    right: boxed(self.pattern(right, &on_right))?,
                }
            }
            GraphPattern::Union { left, right } => GraphPattern::Union {
                left: boxed(self.pattern(left, &required.with([])))?,
                right: boxed(self.pattern(right, &required.with([])))?,
            },
            GraphPattern::Filter { expr, inner } => {
                let mut also = BTreeSet::new();
                mentioned(expr, &mut also);
                GraphPattern::Filter {
                    expr: self.expression(expr, required)?,
                    inner: boxed(self.pattern(inner, &required.with(also)))?,
                }
            }
            // The outer graph must exist, but need not contain what the inner graph matches.
            GraphPattern::Graph { .. }
            | GraphPattern::Values { .. }
            | GraphPattern::Service { .. }
                if required.graph.is_some() =>
            {
                return None;
            }
            GraphPattern::Graph { name, inner } => {
                let mut required = required.with([]);
                if let NamedNodePattern::Variable(v) = name {
                    required.vars.insert(v.clone());
                }
                required.graph = Some(name);
                return self.pattern(inner, &required);
            }
            _ if in_any_graph(required) => return None,
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                let mut also = BTreeSet::new();
                mentioned(expression, &mut also);
                let mut below = required.with(also);
                below.distinct = false;
                GraphPattern::Extend {
                    expression: self.expression(expression, required)?,
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
                        OrderExpression::Asc(e) => {
                            OrderExpression::Asc(self.expression(e, required)?)
                        }
                        OrderExpression::Desc(e) => {
                            OrderExpression::Desc(self.expression(e, required)?)
                        }
                    });
                }
                GraphPattern::OrderBy {
                    inner: boxed(self.pattern(inner, &required.with(also)))?,
                    expression: by,
                }
            }
            GraphPattern::Project { inner, variables } => {
                let below = Required {
                    vars: variables.iter().cloned().collect(),
                    ..required.clone()
                };
                GraphPattern::Project {
                    inner: boxed(self.pattern(inner, &below))?,
                    variables: variables.clone(),
                }
            }
            GraphPattern::Distinct { inner } => GraphPattern::Distinct {
                inner: boxed(self.pattern(inner, &deduplicated(required)))?,
            },
            GraphPattern::Reduced { inner } => GraphPattern::Reduced {
                inner: boxed(self.pattern(inner, &deduplicated(required)))?,
            },
            GraphPattern::Slice {
                inner,
                start,
                length,
            } => {
                let below = Required {
                    distinct: false,
                    limit: length.and_then(|n| n.checked_add(*start)),
                    ..required.clone()
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
                if let Some(given) = self.counts(inner, variables, aggregates, required.graph) {
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
                                    expr: self.expression(expr, required)?,
                                    distinct: *distinct,
                                }
                            }
                        },
                    ));
                }
                let below = Required {
                    vars,
                    distinct: false,
                    limit: None,
                    graph: required.graph,
                };
                GraphPattern::Group {
                    inner: boxed(self.pattern(inner, &below))?,
                    variables: variables.clone(),
                    aggregates: list,
                }
            }
        })
    }

    /// Counts of one component are computed by the workers, so that no solutions are transferred.
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
        Some(self.add_component(Component {
            stars,
            out: Out::Counts(by.to_vec(), counts),
            distinct: false,
            limit: None,
        }))
    }

    fn basic(&mut self, basic: &Basic<'_>, required: &Required<'_>) -> Option<GraphPattern> {
        let (list, left) = components(basic);
        let mut vars = required.vars.clone();
        for filter in &left {
            if in_any_graph(required) {
                return None;
            }
            mentioned(filter, &mut vars);
        }
        let limit = required
            .limit
            .filter(|_| left.is_empty() && list.len() == 1);
        let mut all: Option<GraphPattern> = None;
        for stars in list {
            let known: BTreeSet<&Variable> = stars.iter().flat_map(|s| &s.vars).collect();
            let mut out: Vec<Variable> = known
                .iter()
                .filter(|v| vars.contains(**v))
                .map(|v| (*v).clone())
                .collect();
            let (mut distinct, mut limit) = (required.distinct, limit);
            if out.is_empty() {
                // Any variable preserves whether there is a solution, or how many.
                out.extend(known.iter().next().map(|v| (*v).clone()));
                if distinct {
                    (distinct, limit) = (false, Some(1));
                }
            }
            let given = self.add_component(Component {
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
                expr: self.expression(filter, required)?,
                inner: Box::new(pattern),
            };
        }
        Some(pattern)
    }

    fn add_component(&mut self, component: Component) -> GraphPattern {
        let pattern = InputBindings::pattern(self.components.len(), &component.names());
        self.components.push(component);
        pattern
    }

    /// Rewrites the patterns inside an expression.
    fn expression(&mut self, e: &Expression, required: &Required<'_>) -> Option<Expression> {
        let mut found = true;
        let changed = replace(e, &mut |pattern| {
            let below = Required {
                vars: scope(pattern).union(&required.vars).cloned().collect(),
                distinct: true,
                limit: None,
                graph: None,
            };
            let inner = if required.graph.is_some() {
                None
            } else {
                // The patterns of an expression have a shorter lifetime than this walker's, hence a separate one.
                let mut inner = Rewriter {
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

fn deduplicated<'a>(required: &Required<'a>) -> Required<'a> {
    Required {
        distinct: true,
        ..required.clone()
    }
}

/// Returns whether a pattern is evaluated on each named graph.
fn in_any_graph(required: &Required<'_>) -> bool {
    matches!(required.graph, Some(NamedNodePattern::Variable(_)))
}

/// Returns a basic graph pattern with the filters directly around it, in one graph.
fn basic<'a>(pattern: &'a GraphPattern, graph: Option<&'a NamedNodePattern>) -> Option<Basic<'a>> {
    match pattern {
        GraphPattern::Bgp { patterns } if !patterns.is_empty() => Some(Basic {
            patterns,
            filters: Vec::new(),
            graph,
        }),
        GraphPattern::Filter { expr, inner } => {
            let mut basic = basic(inner, graph)?;
            // A filter within GRAPH ?g does not see ?g.
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

/// Returns whether no blank node label is in two basic graph patterns (the parser writes paths that way).
fn blanks_are_local(pattern: &GraphPattern) -> bool {
    let mut seen: HashMap<Variable, usize> = HashMap::new();
    let (mut n, mut fine) = (0, true);
    visit_parts(pattern, false, &mut |part| {
        n += 1;
        let PatternPart::Basic(patterns, _) = part else {
            return;
        };
        for blank in patterns.iter().flat_map(star::blanks) {
            fine &= *seen.entry(blank).or_insert(n) == n;
        }
    });
    fine
}
