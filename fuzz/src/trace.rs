//! Traces: a line is parsed, or refused with a message; a lenient reader skips malformed lines of a trace; parsed events are written and
//! parsed back.

use esker_site_cache::trace::{Format, Traces, check_line};

pub(crate) fn hdfs(bytes: &[u8]) {
    check(Format::Hdfs, bytes);
}

pub(crate) fn ndjson(bytes: &[u8]) {
    check(Format::Ndjson, bytes);
}

pub(crate) fn strace(bytes: &[u8]) {
    check(Format::Strace, bytes);
}

fn check(format: Format, bytes: &[u8]) {
    if let Err(message) = check_line(format, bytes) {
        assert!(!message.is_empty());
    }
    let mut traces = Traces::new();
    let read = traces.read(bytes, Some(format), true, Some(b"/work"));
    let Ok(Ok(trace)) = read else {
        panic!("a lenient reader skips malformed lines");
    };
    assert!(trace.events.is_sorted_by_key(|event| event.t));
    // Write the events as NDJSON and parse them again.
    let mut text = String::new();
    for event in &trace.events {
        traces.write(event, &mut text);
    }
    let again = Traces::new().read(text.as_bytes(), Some(Format::Ndjson), true, None);
    let Ok(Ok(again)) = again else {
        panic!("what is written is a trace");
    };
    // Bytes that are not UTF-8 take more space when written, so a name may exceed its maximum length.
    assert!(again.events.len() == trace.events.len() || text.len() > 4096);
}
