//! Traces of calls: the W3C trace context, and the interface by which a program makes spans of its calls.
//!
//! This crate makes no spans itself. A program that traces its calls gives a [`CallTracer`]; one that does not passes the context of its
//! parent on ([`set_parent`]).

use crate::proto;
use std::sync::OnceLock;

/// Bytes of a context in a message.
pub const BYTES: usize = 25;
/// Flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// W3C trace context (<https://www.w3.org/TR/trace-context/>): the trace and the span to which something belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace; not all zeros.
    pub trace: [u8; 16],
    /// Id of the span; not all zeros.
    pub span: [u8; 8],
    /// Whether the caller records the trace.
    pub sampled: bool,
}

/// Decodes `N` bytes from lower-case hexadecimal digits.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

impl TraceContext {
    fn new(trace: [u8; 16], span: [u8; 8], flags: u8) -> Option<Self> {
        let valid = trace != [0; 16] && span != [0; 8];
        valid.then_some(Self {
            trace,
            span,
            sampled: flags & SAMPLED != 0,
        })
    }

    /// Parses the header `traceparent`. A later version of the format is read by the fields of version 00.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let head = bytes.get(..55)?;
        let dashes = [2, 35, 52].iter().all(|at| head.get(*at) == Some(&b'-'));
        let [version] = hex::<1>(head.get(..2)?)?;
        let rest = match (version, bytes.get(55)) {
            (0xff, _) => false,
            (0, more) => more.is_none(),
            (_, more) => more.is_none_or(|byte| *byte == b'-'),
        };
        if !dashes || !rest {
            return None;
        }
        let [flags] = hex::<1>(head.get(53..55)?)?;
        Self::new(hex(head.get(3..35)?)?, hex(head.get(36..52)?)?, flags)
    }

    /// Encodes the context for a message.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let (trace, rest) = out.split_at_mut(16);
        let (span, flags) = rest.split_at_mut(8);
        trace.copy_from_slice(&self.trace);
        span.copy_from_slice(&self.span);
        flags.copy_from_slice(&[u8::from(self.sampled)]);
        out
    }

    /// Decodes the context of a message; `None` without a valid one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace, rest) = bytes.split_first_chunk::<16>()?;
        let (span, flags) = rest.split_first_chunk::<8>()?;
        let [flags] = flags else { return None };
        Self::new(*trace, *span, *flags)
    }
}

/// Span of a call in progress; dropping it ends the span.
pub trait CallSpan: Send + Sync + std::fmt::Debug {
    /// Context that the call carries.
    fn context(&self) -> TraceContext;
}

/// Makes spans of the calls of this process.
pub trait CallTracer: Send + Sync + std::fmt::Debug {
    /// Begins the span of a call; `None` if the call is not traced.
    fn begin(&self, request: &proto::Request) -> Option<Box<dyn CallSpan>>;
}

static TRACER: OnceLock<Box<dyn CallTracer>> = OnceLock::new();
static PARENT: OnceLock<TraceContext> = OnceLock::new();

/// Traces the calls of this process from now on. Only the first tracer counts.
pub fn set_tracer(tracer: Box<dyn CallTracer>) {
    let _ = TRACER.set(tracer);
}

/// Passes a context on in all calls that have no span of their own. Only the first one counts.
pub fn set_parent(parent: TraceContext) {
    let _ = PARENT.set(parent);
}

/// Begins the span of a call.
pub(crate) fn begin(request: &proto::Request) -> Option<Box<dyn CallSpan>> {
    TRACER.get()?.begin(request)
}

/// Context that a call carries.
pub(crate) fn context_of(span: Option<&dyn CallSpan>) -> Option<TraceContext> {
    span.map(CallSpan::context)
        .or_else(|| PARENT.get().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn valid_headers_are_read_and_fit_messages() {
        let context = TraceContext::parse(VALID).unwrap();
        assert!(context.sampled);
        assert_eq!(
            context.span,
            [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]
        );
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()), Some(context));
        let later = VALID.replacen("00", "01", 1) + "-more";
        assert_eq!(TraceContext::parse(&later), Some(context));
        let unsampled = TraceContext::parse(&VALID.replace("-01", "-00")).unwrap();
        assert!(!unsampled.sampled);
    }

    #[test]
    fn invalid_headers_are_ignored() {
        for text in [
            "",
            &VALID[..54],
            &format!("{VALID}-more"),
            &VALID.replacen("00", "ff", 1),
            &VALID.to_uppercase(),
            &VALID.replace('-', "_"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
        for length in [0, 1, 24, 26] {
            assert_eq!(TraceContext::from_bytes(&vec![1; length]), None);
        }
        assert_eq!(TraceContext::from_bytes(&[0; BYTES]), None);
    }
}
