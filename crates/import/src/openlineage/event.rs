//! Parser of `OpenLineage` events, with error messages.

use super::graph::{FILE, data_name};
use esker_model::namespace::check_path_key;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};

/// Limit of a namespace or name, in bytes: both together form a key of the graph.
const NAME_BYTES_MAX: usize = 2_000;
/// Limit of events in one request.
const EVENTS_MAX: usize = 100_000;

/// An error in an event, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{at}`: {what}")]
pub struct EventError {
    /// Path of the JSON key, as in `run.runId`.
    pub at: String,
    /// Description of the expected value.
    pub what: String,
}

fn wrong<T>(at: &str, what: impl Into<String>) -> Result<T, EventError> {
    Err(EventError {
        at: at.to_owned(),
        what: what.into(),
    })
}

/// State of a run reported by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// The run began.
    Start,
    /// The run is in progress.
    Running,
    /// The run succeeded.
    Complete,
    /// The run was aborted.
    Abort,
    /// The run failed.
    Fail,
    /// An event without a change of state.
    Other,
}

impl RunState {
    const ALL: [(&'static str, Self); 6] = [
        ("START", Self::Start),
        ("RUNNING", Self::Running),
        ("COMPLETE", Self::Complete),
        ("ABORT", Self::Abort),
        ("FAIL", Self::Fail),
        ("OTHER", Self::Other),
    ];

    /// Returns whether the run has ended.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Complete | Self::Abort | Self::Fail)
    }

    /// Returns the resulting state of the run in the terms of Slurm and Marquez; `None` if the event does not change it.
    pub const fn word(self) -> Option<&'static str> {
        Some(match self {
            Self::Start | Self::Running => "RUNNING",
            Self::Complete => "COMPLETED",
            Self::Abort => "ABORTED",
            Self::Fail => "FAILED",
            Self::Other => return None,
        })
    }
}

/// A job or a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOrDataset {
    /// Namespace of the name.
    pub namespace: String,
    /// Name within the namespace.
    pub name: String,
    /// Facets of the job or dataset.
    pub facets: Map<String, Json>,
}

/// A dataset that was read or written.
#[derive(Debug, Clone, PartialEq)]
pub struct DataUse {
    /// The dataset, with its own facets.
    pub data: JobOrDataset,
    /// Facets of the run's use of the dataset.
    pub facets: Map<String, Json>,
}

/// A run, as described by one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// UUID in lower case.
    pub id: String,
    /// Reported state of the run.
    pub state: RunState,
    /// Facets of the run.
    pub facets: Map<String, Json>,
}

/// An event. Its kind (run, job or dataset event) follows from the parts that are present.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Time in nanoseconds since 1970.
    pub time: i64,
    /// Producer of the event.
    pub producer: Option<String>,
    /// The run of a run event.
    pub run: Option<Run>,
    /// The job of a run or job event.
    pub job: Option<JobOrDataset>,
    /// The dataset of a dataset event.
    pub dataset: Option<JobOrDataset>,
    /// Datasets that were read.
    pub inputs: Vec<DataUse>,
    /// Datasets that were written.
    pub outputs: Vec<DataUse>,
}

/// An object of the event, with its path.
struct At<'a> {
    object: &'a Map<String, Json>,
    path: String,
}

impl<'a> At<'a> {
    fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn value(&self, key: &str) -> Option<&'a Json> {
        self.object.get(key).filter(|v| !v.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, EventError> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => wrong(
                &self.path(key),
                format!("expected a string; got {}", kind(other)),
            ),
        }
    }

    fn required(&self, key: &str) -> Result<&'a str, EventError> {
        match self.text(key)? {
            Some("") => wrong(&self.path(key), "it is empty"),
            Some(text) => Ok(text),
            None => wrong(&self.path(key), "it is missing"),
        }
    }

    fn object(&self, key: &str) -> Result<Option<Self>, EventError> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Object(object)) => Ok(Some(Self {
                object,
                path: self.path(key),
            })),
            Some(other) => wrong(
                &self.path(key),
                format!("expected an object; got {}", kind(other)),
            ),
        }
    }

    fn facets(&self, key: &str) -> Result<Map<String, Json>, EventError> {
        let mut out = Map::new();
        if let Some(facets) = self.object(key)? {
            for (name, facet) in facets.object {
                if !facet.is_object() {
                    let what = format!("a facet is an object; got {}", kind(facet));
                    return wrong(&facets.path(name), what);
                }
                if name.is_empty() || name.len() > 200 {
                    return wrong(
                        &facets.path,
                        "a facet's name has 1 to 200 bytes; one here is empty or longer",
                    );
                }
                out.insert(name.clone(), facet.clone());
            }
        }
        Ok(out)
    }

    fn named(&self) -> Result<JobOrDataset, EventError> {
        let part = |key| {
            let text = self.required(key)?;
            if text.len() > NAME_BYTES_MAX {
                let what = format!("it has {} bytes, of {NAME_BYTES_MAX} at most", text.len());
                return wrong(&self.path(key), what);
            }
            if text.contains('\0') {
                return wrong(&self.path(key), "it has a NUL in it");
            }
            Ok(text.to_owned())
        };
        Ok(JobOrDataset {
            namespace: part("namespace")?,
            name: part("name")?,
            facets: self.facets("facets")?,
        })
    }

    /// Parses a dataset. A file's name must be a normalized path: other spellings would be other files.
    fn data(&self) -> Result<JobOrDataset, EventError> {
        let named = self.named()?;
        let vertex = data_name(&named.namespace, &named.name);
        if vertex.type_name == FILE
            && let Err(why) = check_path_key(&vertex.key)
        {
            return wrong(&self.path("name"), why);
        }
        Ok(named)
    }

    fn uses(&self, key: &str, facets: &str) -> Result<Vec<DataUse>, EventError> {
        let items = match self.value(key) {
            None => return Ok(Vec::new()),
            Some(Json::Array(items)) => items,
            Some(other) => {
                return wrong(
                    &self.path(key),
                    format!("expected a list of datasets; got {}", kind(other)),
                );
            }
        };
        let mut out = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let path = format!("{}[{i}]", self.path(key));
            let Json::Object(object) = item else {
                return wrong(&path, format!("expected a dataset; got {}", kind(item)));
            };
            let at = At { object, path };
            out.push(DataUse {
                data: at.data()?,
                facets: at.facets(facets)?,
            });
        }
        Ok(out)
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// Parses an RFC 3339 time; one without a zone is in UTC.
fn time(at: &At<'_>, key: &str) -> Result<i64, EventError> {
    let text = at.required(key)?;
    let found = text.parse::<Timestamp>().ok().or_else(|| {
        let civil = text.parse::<DateTime>().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    });
    let nanos = found.and_then(|t| i64::try_from(t.as_nanosecond()).ok());
    match nanos.filter(|n| *n >= 0) {
        Some(nanos) => Ok(nanos),
        None => wrong(
            &at.path(key),
            format!("expected a time from 1970 on, as 2026-03-01T12:00:00Z; got `{text}`"),
        ),
    }
}

/// Returns a UUID in lower case; `None` if the text is not a UUID.
pub(super) fn uuid(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|p| p.len()).collect();
    let hex = |p: &&str| p.bytes().all(|b| b.is_ascii_hexdigit());
    (lengths == [8, 4, 4, 4, 12] && parts.iter().all(hex)).then(|| text.to_ascii_lowercase())
}

fn run(event: &At<'_>) -> Result<Option<Run>, EventError> {
    let Some(run) = event.object("run")? else {
        return Ok(None);
    };
    let text = run.required("runId")?;
    let Some(id) = uuid(text) else {
        let what =
            format!("expected a UUID, as 01912a4b-97a1-7000-8000-0123456789ab; got `{text}`");
        return wrong(&run.path("runId"), what);
    };
    let state = match event.text("eventType")? {
        None => RunState::Other,
        Some(word) => {
            let known = RunState::ALL
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(word));
            let Some((_, state)) = known else {
                let names = RunState::ALL.map(|(name, _)| name).join(", ");
                return wrong(
                    "eventType",
                    format!("expected one of {names}; got `{word}`"),
                );
            };
            *state
        }
    };
    Ok(Some(Run {
        id,
        state,
        facets: run.facets("facets")?,
    }))
}

/// Parses an event.
///
/// # Errors
/// Fails if the event is of none of the three kinds, or a required part is missing or has the wrong type.
pub fn event(json: &Json) -> Result<Event, EventError> {
    let Json::Object(object) = json else {
        return wrong("event", format!("expected an object; got {}", kind(json)));
    };
    let at = At {
        object,
        path: String::new(),
    };
    let time = time(&at, "eventTime")?;
    let producer = at.text("producer")?.map(str::to_owned);
    let (run, job) = (run(&at)?, at.object("job")?);
    if run.is_some() && job.is_none() {
        return wrong("job", "it is missing: a run is a run of a job");
    }
    let job = job.map(|job| job.named()).transpose()?;
    let dataset = at.object("dataset")?;
    if job.is_none() && dataset.is_none() {
        return wrong(
            "event",
            "expected a RunEvent (with `run` and `job`), a JobEvent (with `job`) or a DatasetEvent (with `dataset`)",
        );
    }
    let dataset = dataset.filter(|_| job.is_none());
    Ok(Event {
        time,
        producer,
        run,
        inputs: at.uses("inputs", "inputFacets")?,
        outputs: at.uses("outputs", "outputFacets")?,
        job,
        dataset: dataset.map(|dataset| dataset.data()).transpose()?,
    })
}

/// Parses one event or a list of events; each with its own result.
///
/// # Errors
/// Fails if the text is not JSON, or the list is too long.
pub fn events(text: &str) -> Result<(bool, Vec<Result<Event, EventError>>), EventError> {
    let json: Json = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(e) => return wrong("body", format!("it is not JSON: {e}")),
    };
    match &json {
        Json::Array(items) if items.len() > EVENTS_MAX => wrong(
            "body",
            format!(
                "a list of {} events; send {EVENTS_MAX} at most at once",
                items.len()
            ),
        ),
        Json::Array(items) => Ok((true, items.iter().map(event).collect())),
        one => Ok((false, vec![event(one)])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_named_by_its_plain_path() {
        let told = |namespace: &str, name: &str| {
            event(&json!({
                "eventTime": "2026-03-01T12:00:00Z",
                "job": {"namespace": "n", "name": "j"},
                "outputs": [{"namespace": namespace, "name": name}],
            }))
        };
        for bad in ["/a/../b", "/a/./b", "/a//b"] {
            let error = told("file", bad).unwrap_err();
            assert_eq!(error.at, "outputs[0].name");
            assert!(error.what.contains("plain form of a path"), "{error}");
        }
        for (namespace, name) in [
            ("file", "/a/b"),
            ("file://", "/a/b/"),
            ("s3://x", "/a/../b"),
        ] {
            assert!(told(namespace, name).is_ok(), "{namespace} {name}");
        }
        assert_eq!(data_name("file", "/a/b/").key, "/a/b");
    }
}
