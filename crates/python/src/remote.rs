//! Calls over HTTP to the process that has the database: the server of an address, or the owner of the folder.

use crate::cancel::work;
use crate::database::Core;
use crate::error::invalid;
use esker::Database;
use esker::rpc::Address;
use esker::rpc::http::{Endpoint, RequestBody};
use esker_model::{Cancel as _, Error, Result};
use pyo3::prelude::*;

/// Maximum size of a response, in bytes.
const ANSWER_MAX: usize = 2 << 30;

/// Returns the endpoint of that process; `None` if it is this process.
fn endpoint(database: &Database, target: &str) -> Result<Option<Endpoint>> {
    if Address::is_address(target) {
        return Ok(Some(Endpoint::from(&Address::parse(target)?)));
    }
    Ok(database.http_endpoint())
}

/// Sends a request; returns the content type and the text of the response. `None` if this process has the database itself.
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
        let Some(endpoint) = endpoint(&database, &target)? else {
            return Ok(None);
        };
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let stop = || signals.cancelled();
        let sent = if body.is_empty() {
            RequestBody::Nothing
        } else {
            RequestBody::Bytes(&body)
        };
        let mut answer = endpoint.request(&method, &path, &headers, sent, &stop, None)?;
        let kind = answer.header("content-type").to_owned();
        let text = answer
            .text(ANSWER_MAX)
            .map_err(|e| Error::io(format!("the answer of {endpoint}"), e))?;
        match answer.status {
            200..300 => Ok(Some((kind, text))),
            429 => Err(Error::Busy(text)),
            503 => Err(Error::Unavailable(text)),
            _ => Err(invalid(text)),
        }
    })
}
