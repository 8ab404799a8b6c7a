//! A database as what stands behind the files.

use esker::Database;
use esker_model::Result;
use esker_model::namespace::Namespace;
use esker_mount::Target;

/// An open database.
pub(crate) struct Behind(pub(crate) Database);

impl Target for Behind {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        self.0.persist()
    }
}
