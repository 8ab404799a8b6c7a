//! Spans, and the current one of a task.

use crate::limit::SPANS_PER_TRACE;
use crate::tracer::{Tracer, tracer};
use esker_rpc::trace::TraceContext;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

static ROOT: OnceLock<Span> = OnceLock::new();

tokio::task_local! {
    static CURRENT: Option<Span>;
}

/// Part of a span in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answers a request.
    Server,
    /// Sends a request.
    Client,
    /// Work inside a process.
    Internal,
}

/// A span in progress. Clones are the same span; it ends when [`Span::end`] is called or the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Span(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` after the end.
    span: Mutex<Option<opentelemetry_sdk::trace::Span>>,
    context: TraceContext,
    /// Spans of the trace in this process.
    spans: Arc<AtomicU64>,
}

fn remote(context: TraceContext) -> Context {
    let context = SpanContext::new(
        TraceId::from_bytes(context.trace),
        SpanId::from_bytes(context.span),
        TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    );
    Context::new().with_remote_span_context(context)
}

impl Span {
    fn begin(
        tracer: &Tracer,
        builder: SpanBuilder,
        parent: &Context,
        spans: Arc<AtomicU64>,
    ) -> Self {
        let span = tracer.maker.build_with_context(builder, parent);
        let own = span.span_context();
        let context = TraceContext {
            trace: own.trace_id().to_bytes(),
            span: own.span_id().to_bytes(),
            sampled: true,
        };
        Self(Arc::new(Inner {
            span: Mutex::new(Some(span)),
            context,
            spans,
        }))
    }

    /// Begins the span of something that came from outside of this process. The sender's context says whether it is recorded; without one the
    /// share of recorded traces does. `None` if it is not recorded.
    pub fn entering(
        kind: Kind,
        name: impl Into<Cow<'static, str>>,
        parent: Option<TraceContext>,
        began: SystemTime,
    ) -> Option<Self> {
        let tracer = tracer()?;
        let recorded = match parent {
            Some(parent) => parent.sampled,
            None => tracer.samples(),
        };
        if !recorded || !tracer.limit.admits() {
            return None;
        }
        let mut builder = SpanBuilder::from_name(name).with_kind(kind.into());
        builder.start_time = Some(began);
        let context = parent.map_or_else(Context::new, remote);
        let spans = Arc::new(AtomicU64::new(1));
        Some(Self::begin(tracer, builder, &context, spans))
    }

    /// Begins a span below this one. `None` after the end of this one, or if the trace has too many spans.
    pub fn child(&self, kind: Kind, name: impl Into<Cow<'static, str>>) -> Option<Self> {
        let open = self.0.span.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() || self.0.spans.fetch_add(1, Ordering::Relaxed) >= SPANS_PER_TRACE {
            return None;
        }
        drop(open);
        let builder = SpanBuilder::from_name(name).with_kind(kind.into());
        let spans = Arc::clone(&self.0.spans);
        Some(Self::begin(
            tracer()?,
            builder,
            &remote(self.0.context),
            spans,
        ))
    }

    /// Context for requests that belong to this span.
    pub fn context(&self) -> TraceContext {
        self.0.context
    }

    fn change(&self, change: impl FnOnce(&mut opentelemetry_sdk::trace::Span)) {
        let mut span = self.0.span.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(span) = span.as_mut() {
            change(span);
        }
    }

    /// Sets an attribute to a text that is part of this program, never one of a client.
    pub fn set(&self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        let value: Cow<'static, str> = value.into();
        self.change(|span| span.set_attribute(KeyValue::new(name, value.into_owned())));
    }

    /// Sets an attribute to a number.
    pub fn set_number(&self, name: &'static str, value: i64) {
        self.change(|span| span.set_attribute(KeyValue::new(name, value)));
    }

    /// Changes the name of the span.
    pub fn rename(&self, name: impl Into<Cow<'static, str>>) {
        let name = name.into();
        self.change(|span| span.update_name(name));
    }

    /// Marks the span as failed by this program.
    pub fn fail(&self) {
        self.change(|span| span.set_status(Status::error("")));
    }

    /// Ends the span. Later calls have no effect.
    pub fn end(&self) {
        let mut span = self.0.span.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut span) = span.take() {
            span.end();
        }
    }
}

impl From<Kind> for SpanKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Server => Self::Server,
            Kind::Client => Self::Client,
            Kind::Internal => Self::Internal,
        }
    }
}

/// Span of the current task or closure.
pub fn current() -> Option<Span> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Runs a future with a current span.
pub fn scope<F: Future>(span: Option<Span>, future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(span, future)
}

/// Runs a closure with a current span.
pub fn sync_scope<T>(span: Option<Span>, work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(span, work)
}

/// Makes a span the parent of calls that this process makes outside of any other span: that of the command.
pub fn set_root(span: Span) {
    let _ = ROOT.set(span);
}

/// Span of the command.
pub fn root() -> Option<Span> {
    ROOT.get().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_tracer_there_are_no_spans() {
        let parent = TraceContext {
            trace: [1; 16],
            span: [2; 8],
            sampled: true,
        };
        let span = Span::entering(Kind::Server, "x", Some(parent), SystemTime::now());
        assert!(span.is_none());
        assert!(current().is_none());
        assert!(sync_scope(None, current).is_none());
    }
}
