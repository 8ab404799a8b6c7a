//! The types of SPARQL results that the library `spareval` names. `spareval` requires a crate `sparesults` of exactly this version; the
//! published one depends on an XML parser with known advisories, and this project parses no results with it.

use oxrdf::{Term, Variable, VariableRef};
use std::convert::Infallible;
use std::io::Read;
use std::marker::PhantomData;
use std::sync::Arc;

/// Values of variables in one solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuerySolution {
    variables: Arc<[Variable]>,
    values: Vec<Option<Term>>,
}

impl QuerySolution {
    /// Returns the value of a variable.
    pub fn get<'v>(&self, variable: impl Into<VariableRef<'v>>) -> Option<&Term> {
        let variable = variable.into();
        let at = self.variables.iter().position(|v| *v == variable)?;
        self.values.get(at)?.as_ref()
    }

    /// Iterates over the bound variables with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&Variable, &Term)> {
        let all = self.variables.iter().zip(&self.values);
        all.filter_map(|(variable, value)| Some((variable, value.as_ref()?)))
    }
}

impl<V: Into<Arc<[Variable]>>, S: Into<Vec<Option<Term>>>> From<(V, S)> for QuerySolution {
    fn from((variables, values): (V, S)) -> Self {
        Self {
            variables: variables.into(),
            values: values.into(),
        }
    }
}

impl<'s> IntoIterator for &'s QuerySolution {
    type Item = (&'s Variable, &'s Term);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 's>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// Results read from a stream. No function creates a value of this type.
#[derive(Debug)]
pub enum ReaderQueryResultsParserOutput<R: Read> {
    /// Solutions of a query.
    Solutions(ReaderSolutionsParser<R>),
    /// Boolean result of a query.
    Boolean(bool),
}

/// Solutions read from a stream. No function creates a value of this type.
#[derive(Debug)]
pub struct ReaderSolutionsParser<R: Read>(Infallible, PhantomData<R>);

impl<R: Read> ReaderSolutionsParser<R> {
    /// Returns the variables of the solutions.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        match self.0 {}
    }
}

impl<R: Read> Iterator for ReaderSolutionsParser<R> {
    type Item = Result<QuerySolution, std::io::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0 {}
    }
}

/// Results read from bytes. No function creates a value of this type.
#[derive(Debug)]
pub enum SliceQueryResultsParserOutput<'a> {
    /// Solutions of a query.
    Solutions(SliceSolutionsParser<'a>),
    /// Boolean result of a query.
    Boolean(bool),
}

/// Solutions read from bytes. No function creates a value of this type.
#[derive(Debug)]
pub struct SliceSolutionsParser<'a>(Infallible, PhantomData<&'a [u8]>);

impl SliceSolutionsParser<'_> {
    /// Returns the variables of the solutions.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        match self.0 {}
    }
}

impl Iterator for SliceSolutionsParser<'_> {
    type Item = Result<QuerySolution, std::io::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0 {}
    }
}
