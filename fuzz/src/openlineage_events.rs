//! `OpenLineage` events: they are parsed, or refused with a position and a reason; a parsed event has all data that the graph needs.

use esker_import::openlineage::{data_name, events, job_name};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (_, read) = match events(text) {
        Ok(read) => read,
        Err(e) => return assert!(!e.at.is_empty() && !e.what.is_empty()),
    };
    for event in read {
        match event {
            Err(e) => assert!(!e.at.is_empty() && !e.what.is_empty()),
            Ok(event) => {
                assert!(event.time >= 0);
                assert!(event.run.is_none() || event.job.is_some());
                if let Some(job) = &event.job {
                    assert!(!job_name(&job.namespace, &job.name).key.is_empty());
                }
                for used in event.inputs.iter().chain(&event.outputs) {
                    let name = data_name(&used.data.namespace, &used.data.name);
                    assert!(!name.key.is_empty() && name.key.len() <= 4096);
                }
            }
        }
    }
}
