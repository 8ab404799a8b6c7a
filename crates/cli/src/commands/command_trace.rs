//! The span of a command, if the environment names a collector of OpenTelemetry (RFC 0015).

use clap::Command;
use esker::rpc::trace::{TraceContext, set_parent, set_tracer};
use esker_server::ClientCalls;
use esker_telemetry::{Kind, Options, Span};
use esker_terminal::exit::{self, Outcome};
use std::ffi::OsString;
use std::time::SystemTime;

/// Variable with the context of the caller.
const TRACEPARENT: &str = "TRACEPARENT";
/// Commands that last until they are stopped, or run others: they have no span of their own.
const LASTING: [&str; 8] = [
    "serve", "cluster", "mount", "site", "console", "shell", "mcp", "run",
];

/// Span of the command in progress.
#[derive(Debug, Default)]
pub(super) struct CommandTrace(Option<Span>);

impl CommandTrace {
    /// Begins the span of a command. Without a collector, calls pass the context of the environment on. A wrong variable is no reason to
    /// refuse a command.
    pub(super) fn begin(definition: &Command, words: &[OsString]) -> Self {
        let began = SystemTime::now();
        let parent = std::env::var(TRACEPARENT).ok();
        let parent = parent.and_then(|text| TraceContext::parse(&text));
        let name = name_of(definition, words).filter(|name| !LASTING.contains(&name.as_str()));
        let endpoint = esker_telemetry::endpoint(None).unwrap_or_default();
        let (Some(name), Some(endpoint)) = (name, endpoint) else {
            if let Some(parent) = parent {
                set_parent(parent);
            }
            return Self(None);
        };
        let options = Options {
            endpoint,
            sample: 1.0,
            version: env!("CARGO_PKG_VERSION"),
        };
        if esker_telemetry::start(&options).is_err() {
            return Self(None);
        }
        let span = Span::entering(Kind::Internal, format!("esker {name}"), parent, began);
        if let Some(span) = &span {
            span.set("process.executable.name", "esker");
            esker_telemetry::set_root(span.clone());
            set_tracer(Box::new(ClientCalls));
        }
        Self(span)
    }

    /// Ends the span with the exit code of the command.
    pub(super) fn end(&self, done: &anyhow::Result<Outcome>) {
        let Some(span) = &self.0 else { return };
        let code = match done {
            Ok(outcome) => outcome.code(),
            Err(error) => exit::code_of(error),
        };
        span.set_number("process.exit.code", i64::from(code));
        if code > 1 {
            span.fail();
        }
        span.end();
    }
}

/// Name of the command in a command line.
fn name_of(definition: &Command, words: &[OsString]) -> Option<String> {
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    let is_command = |word: &&str| definition.get_subcommands().any(|c| c.get_name() == *word);
    words.find(is_command).map(str::to_owned)
}
