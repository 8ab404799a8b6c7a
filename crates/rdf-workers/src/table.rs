//! Table providers of `DataFusion` for stars.

use crate::column::{Column, Kind, schema};
use crate::leaf::StarExec;
use crate::star::{Star, Variable};
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use esker_rdf::spargebra::algebra::QueryDataset;
use std::sync::Arc;

/// A star of a component as a table.
#[derive(Debug)]
pub(crate) struct StarTable {
    at: usize,
    star: Star,
    dataset: Option<QueryDataset>,
    distinct: bool,
    parts: usize,
    partitions: usize,
    columns: Vec<Column>,
}

impl StarTable {
    pub(crate) fn new(
        at: usize,
        star: Star,
        dataset: Option<QueryDataset>,
        distinct: bool,
        parts: usize,
        partitions: usize,
    ) -> Self {
        let columns = [Kind::Key, Kind::Text]
            .into_iter()
            .flat_map(|kind| {
                star.vars.iter().map(move |v| Column {
                    var: v.as_str().to_owned(),
                    kind,
                })
            })
            .collect();
        Self {
            at,
            star,
            dataset,
            distinct,
            parts,
            partitions,
            columns,
        }
    }
}

#[async_trait]
impl TableProvider for StarTable {
    fn schema(&self) -> SchemaRef {
        schema(self.at, &self.columns)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<Column> = match projection {
            Some(places) => places
                .iter()
                .filter_map(|i| self.columns.get(*i).cloned())
                .collect(),
            None => self.columns.clone(),
        };
        let mut vars: Vec<&str> = columns.iter().map(|c| c.var.as_str()).collect();
        vars.sort_unstable();
        vars.dedup();
        let vars: Vec<Variable> = if vars.is_empty() {
            // Only the number of rows matters, so any variable will do.
            self.star.vars.iter().take(1).cloned().collect()
        } else {
            vars.into_iter().map(Variable::new_unchecked).collect()
        };
        // Without columns each solution is a row to be counted, so duplicates must stay.
        let distinct = self.distinct && !columns.is_empty();
        let query = self
            .star
            .query(&vars, distinct, limit, self.dataset.as_ref());
        Ok(Arc::new(StarExec::new(
            self.at,
            query,
            columns,
            self.parts,
            self.partitions,
        )))
    }
}

/// A leaf operator as a table.
#[derive(Debug)]
pub(crate) struct LeafTable(Arc<StarExec>);

impl LeafTable {
    /// Returns the plan that scans all rows of a leaf.
    pub(crate) fn plan(leaf: StarExec) -> Result<LogicalPlan> {
        let table: Arc<dyn TableProvider> = Arc::new(Self(Arc::new(leaf)));
        LogicalPlanBuilder::scan("triples", provider_as_source(table), None)?.build()
    }
}

#[async_trait]
impl TableProvider for LeafTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = self.schema().fields().len();
        if projection.is_some_and(|p| p.len() != all) {
            return internal_err!("all columns of a fetch are wanted");
        }
        let leaf: Arc<dyn ExecutionPlan> = Arc::clone(&self.0) as _;
        Ok(leaf)
    }
}
