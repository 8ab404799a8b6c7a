//! Names of variables, by number.

use crate::exec::Var;

/// Names of variables, by number.
#[derive(Debug, Default)]
pub struct VariableNames {
    names: Vec<String>,
}

impl VariableNames {
    /// Returns the name of a variable, with its question mark.
    pub fn show(&self, var: Var) -> String {
        self.names
            .get(var as usize)
            .map_or_else(|| format!("?_{var}"), |n| format!("?{n}"))
    }

    pub(crate) fn new_variable(&mut self, name: &str) -> Var {
        self.names.push(name.to_owned());
        self.names.len() as Var - 1
    }
}
