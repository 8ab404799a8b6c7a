//! Logical plan of a component: joins its stars, the most selective first.

use crate::column::{Kind, name};
use crate::rewrite::{Component, Out};
use crate::star::Variable;
use crate::table::StarTable;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result, internal_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::functions_aggregate::expr_fn::{count, count_distinct};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, lit};
use esker_rdf::spargebra::algebra::QueryDataset;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans a component over `parts` parts.
pub(crate) fn plan(
    component: &Component,
    dataset: Option<&QueryDataset>,
    parts: usize,
    partitions: usize,
) -> Result<LogicalPlan> {
    // The first star with each variable; the variable's columns are taken from that star.
    let mut met: HashMap<&Variable, usize> = HashMap::new();
    let mut plan: Option<LogicalPlanBuilder> = None;
    for (at, star) in component.stars.iter().enumerate() {
        let table: Arc<dyn TableProvider> = Arc::new(StarTable::new(
            at,
            star.clone(),
            dataset.cloned(),
            component.distinct,
            parts,
            partitions,
        ));
        let scan = LogicalPlanBuilder::scan(format!("star{at}"), provider_as_source(table), None)?;
        plan = Some(match plan {
            None => scan,
            Some(before) => {
                let shared: Vec<&Variable> =
                    star.vars.iter().filter(|v| met.contains_key(v)).collect();
                let keys = |of: &dyn Fn(&Variable) -> usize| -> Vec<Column> {
                    shared.iter().map(|v| column(of(v), Kind::Key, v)).collect()
                };
                let left = keys(&|v| met.get(v).copied().unwrap_or_default());
                let right = keys(&|_| at);
                before.join(scan.build()?, JoinType::Inner, (left, right), None)?
            }
        });
        for v in &star.vars {
            met.entry(v).or_insert(at);
        }
    }
    let plan = plan.ok_or_else(|| internal_datafusion_err!("a component without stars"))?;
    let of = |kind: Kind, v: &Variable| -> Expr {
        Expr::Column(column(met.get(v).copied().unwrap_or_default(), kind, v))
    };
    let mut plan = match &component.out {
        Out::Variables(vars) => plan.project(vars.iter().map(|v| of(Kind::Text, v)))?,
        Out::Counts(by, counts) => {
            let groups: Vec<Expr> = by.iter().map(|v| of(Kind::Text, v)).collect();
            let aggregates: Vec<Expr> = counts
                .iter()
                .enumerate()
                .map(|(i, c)| {
                    let counted = match &c.of {
                        Some(v) if c.distinct => count_distinct(of(Kind::Key, v)),
                        _ => count(lit(1_i64)),
                    };
                    counted.alias(format!("n{i}"))
                })
                .collect();
            plan.aggregate(groups, aggregates)?
        }
    };
    if component.distinct {
        plan = plan.distinct()?;
    }
    if let Some(limit) = component.limit {
        plan = plan.limit(0, Some(limit))?;
    }
    plan.build()
}

fn column(star: usize, kind: Kind, v: &Variable) -> Column {
    Column::new(Some(format!("star{star}")), name(star, kind, v.as_str()))
}
