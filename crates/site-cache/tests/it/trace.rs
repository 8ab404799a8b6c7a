//! Reading, writing and corrupting traces.

use esker_site_cache::Error;
use esker_site_cache::trace::{Format, Op, Trace, Traces, check_line, yahoo};
use proptest::prelude::*;

fn read(text: &str, lenient: bool) -> (Traces, Result<Trace, Error>) {
    let mut traces = Traces::new();
    let trace = traces
        .read(text.as_bytes(), None, lenient, Some(b"/"))
        .unwrap();
    (traces, trace)
}

#[test]
fn ndjson_comes_back_as_it_was() {
    let text = r#"{"t":0.000000,"client":"a","op":"list","path":"/x"}
{"t":1.250000,"client":"b","op":"rename","path":"/x/y","to":"/x/\"z\""}
{"t":1.250000,"client":"a","op":"stat","path":"/x/y","found":false}
{"t":2.000001,"client":"a","op":"create","path":"/x/ü","kind":"directory"}
"#;
    let (traces, trace) = read(text, false);
    let trace = trace.unwrap();
    assert_eq!(trace.events.len(), 4);
    assert_eq!(trace.events[1].op, Op::Rename);
    let mut again = String::new();
    for event in &trace.events {
        traces.write(event, &mut again);
    }
    assert_eq!(again, text);
}

#[test]
fn broken_lines_are_named_or_passed_over() {
    let text = "{\"t\":1,\"op\":\"list\",\"path\":\"/x\"}\n\n{\"t\":-1,\"op\":\"list\",\"path\":\"/x\"}\nrubbish\n\
        {\"t\":2,\"op\":\"stat\",\"path\":\"/y\"}\n";
    let (_, trace) = read(text, false);
    let error = trace.unwrap_err();
    assert!(
        matches!(&error, Error::Trace { line: 3, .. }) && error.to_string().contains("\"t\""),
        "{error}"
    );
    let (_, trace) = read(text, true);
    let trace = trace.unwrap();
    assert_eq!((trace.events.len(), trace.skipped), (2, 2));
    for (line, expected) in [
        (r#"{"op":"list","path":"/x"}"#, "\"t\""),
        (r#"{"t":1,"op":"fly","path":"/x"}"#, "fly"),
        (r#"{"t":1,"op":"list"}"#, "\"path\""),
        (r#"{"t":1,"op":"list","path":"x"}"#, "begin with /"),
        (r#"{"t":1,"op":"list","path":7}"#, "is not text"),
        (r#"{"t":1,"op":"rename","path":"/x"}"#, "\"to\""),
        (r#"{"t":1e300,"op":"list","path":"/x"}"#, "\"t\""),
        (r"[1]", "object"),
    ] {
        let mut traces = Traces::new();
        let format = Some(Format::Ndjson);
        let trace = traces.read(line.as_bytes(), format, false, None).unwrap();
        let error = trace.unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.starts_with("line 1"),
            "{line}: {error}"
        );
    }
    let long = format!(
        "{{\"t\":1,\"op\":\"list\",\"path\":\"/{}\"}}",
        "x".repeat(2 << 20)
    );
    let (_, trace) = read(&long, false);
    assert!(trace.unwrap_err().to_string().contains("1 MiB"));
}

#[test]
fn the_first_line_tells_the_format() {
    let strace = r#"7 1.5 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a>"#;
    let (traces, trace) = read(strace, false);
    let event = trace.unwrap().events[0];
    assert_eq!(
        (event.op, traces.paths.text(event.path)),
        (Op::Open, "/w/a".into())
    );
    let hdfs = "2010-03-01 00:00:01,250 INFO x.audit: ugi=a ip=/1 cmd=listStatus src=/d dst=null perm=null";
    let (_, trace) = read(hdfs, false);
    assert_eq!(trace.unwrap().events[0].op, Op::List);
}

#[test]
fn the_synthetic_trace_follows_from_its_seed() {
    let make = |seed, day| {
        let mut traces = Traces::new();
        let settings = yahoo::GeneratorSettings {
            seed,
            day,
            ..yahoo::GeneratorSettings::of(5_000)
        };
        let events = yahoo::make(&mut traces, settings).unwrap();
        let reads = events.iter().filter(|e| e.op.reads()).count();
        assert_eq!(reads, 5_000);
        assert!(events.is_sorted_by_key(|e| e.t));
        let mut text = String::new();
        for event in &events {
            traces.write(event, &mut text);
        }
        text
    };
    assert_eq!(make(1, 0), make(1, 0));
    assert_ne!(make(1, 0), make(2, 0));
    assert_ne!(make(1, 0), make(1, 1));
    let bad = yahoo::GeneratorSettings {
        cold: 0.9,
        repeated: 0.9,
        ..yahoo::GeneratorSettings::of(10)
    };
    assert!(yahoo::make(&mut Traces::new(), bad).is_err());
}

proptest! {
    #[test]
    fn no_line_makes_a_parser_panic(line in "[ -~\\\\\"<>(){}=,]{0,120}") {
        for format in [Format::Ndjson, Format::Hdfs, Format::Strace] {
            let _ = check_line(format, line.as_bytes());
        }
    }

    #[test]
    fn mutated_lines_neither(at in 0_usize..200, byte in any::<u8>(), which in 0_usize..3) {
        let (format, line) = [
            (Format::Ndjson, r#"{"t":1.25,"client":"b","op":"rename","path":"/x/y","to":"/x/z"}"#),
            (Format::Hdfs, "2010-03-01 00:00:01,250 INFO a.audit: allowed=true\tugi=a\tip=/1\tcmd=open\tsrc=/d\tdst=null"),
            (Format::Strace, r#"17 1700000000.250000 renameat(AT_FDCWD</home/a>, "l\303\244", 4</x\40y>, "z") = -1 ENOENT (No)"#),
        ][which];
        let mut line = line.as_bytes().to_vec();
        let at = at % line.len();
        line[at] = byte;
        let _ = check_line(format, &line);
        line.truncate(at);
        let _ = check_line(format, &line);
    }
}
