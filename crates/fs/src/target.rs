//! Adapter that makes a database a mount target.

use esker::Database;
use esker_model::Result;
use esker_model::namespace::Namespace;
use esker_mount::Target;

/// An open database as a target.
pub(crate) struct DatabaseTarget(pub(crate) Database);

impl Target for DatabaseTarget {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        self.0.persist()
    }
}
