//! What another process does over HTTP: the server of an address, or the one that has the folder open.

use crate::cancel::work;
use crate::database::Core;
use crate::error::invalid;
use esker::Database;
use esker::rpc::Address;
use esker::rpc::http::{Place, Sent};
use esker_model::{Cancel as _, Error, Result};
use pyo3::prelude::*;

/// Bytes of an answer.
const ANSWER_MAX: usize = 2 << 30;

/// Where to ask, if not in this process.
fn place(database: &Database, target: &str) -> Result<Option<Place>> {
    if Address::is_address(target) {
        return Ok(Some(Place::from(&Address::parse(target)?)));
    }
    Ok(database.http_place())
}

/// Asks: the content type of the answer, and its text. Nothing where this process has the data itself.
#[pyfunction]
pub(crate) fn ask(
    py: Python<'_>,
    core: &Core,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
) -> PyResult<Option<(String, String)>> {
    let database = core.database(py)?;
    let target = core.target().to_owned();
    work(py, |signals| {
        let Some(place) = place(&database, &target)? else {
            return Ok(None);
        };
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let stop = || signals.cancelled();
        let sent = if body.is_empty() {
            Sent::Nothing
        } else {
            Sent::Bytes(&body)
        };
        let mut answer = place.ask(&method, &path, &headers, sent, &stop, None)?;
        let kind = answer.header("content-type").to_owned();
        let text = answer
            .text(ANSWER_MAX)
            .map_err(|e| Error::io(format!("the answer of {place}"), e))?;
        match answer.status {
            200..300 => Ok(Some((kind, text))),
            429 | 503 => Err(Error::Unavailable(text)),
            _ => Err(invalid(text)),
        }
    })
}
