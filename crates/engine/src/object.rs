//! Stubs.

use crate::Engine;
use esker_model::object::{
    Asker, Find, FindReport, Found, ObjectKey, ObjectRead, ObjectWrite, TagInfo, TagReport, TagWhere,
};
use esker_model::{Cancel, Error, Flow, Result};

fn stub<T>() -> Result<T> {
    Err(Error::Unavailable("objects are not built yet".into()))
}

impl ObjectRead for Engine {
    fn read_objects(&self, _: &[ObjectKey], _: Option<&Asker>) -> Result<Vec<Option<Found>>> {
        stub()
    }

    fn find(
        &self,
        _: &Find,
        _: &dyn Cancel,
        _: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        stub()
    }

    fn tags(&self, _: Option<&Asker>) -> Result<Vec<TagInfo>> {
        stub()
    }
}

impl ObjectWrite for Engine {
    fn tag_where(&self, _: &TagWhere, _: &dyn Cancel) -> Result<TagReport> {
        stub()
    }

    fn set_index(&self, _: &str, _: bool) -> Result<bool> {
        stub()
    }
}
