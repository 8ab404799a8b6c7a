//! The table of calls: for each its number, name, message, access and threads.

use crate::access::needs::{ADMIN, Needs, READ, SERVER, SHARE, WRITE};
use esker_model::graph_read::GraphCall;
use esker_rpc::frame::{call_number, graph_call_code};
use esker_rpc::proto;
use esker_rpc::proto::request::Call as Message;

/// One kind of call.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the columns of a table, of which most are empty"
)]
pub(crate) struct CallKind {
    /// Name in logs and metrics; that of the gRPC method in lower case.
    pub(crate) name: &'static str,
    /// Access that the call needs.
    pub(crate) needs: Needs,
    /// Whether the call runs on the threads for long calls.
    pub(crate) long: bool,
    /// Whether the call moves or repairs all data. Such calls have no time limit by default.
    pub(crate) moves_all: bool,
    /// Whether the call reads the graph, so that `As` may contain it.
    pub(crate) reads_graph: bool,
    /// Whether only `Exchange` has the call: there is no gRPC method for it.
    pub(crate) by_exchange: bool,
}

impl CallKind {
    const fn new(name: &'static str, needs: Needs) -> Self {
        Self {
            name,
            needs,
            long: false,
            moves_all: false,
            reads_graph: false,
            by_exchange: false,
        }
    }

    const fn long(self) -> Self {
        Self { long: true, ..self }
    }

    const fn moves_all(self) -> Self {
        Self {
            moves_all: true,
            ..self
        }
    }

    const fn reads_graph(self) -> Self {
        Self {
            reads_graph: true,
            ..self
        }
    }

    const fn by_exchange(self) -> Self {
        Self {
            by_exchange: true,
            ..self
        }
    }
}

/// Makes the table. A line has the number of the call's field in `Request`, the name, the field's variant, the access, and marks.
macro_rules! calls {
    ($($number:literal $name:literal $($variant:ident)?: $needs:ident $($mark:ident)*;)*) => {
        /// All calls by their numbers. Number 0 is an unknown call.
        pub(crate) const CALLS: [CallKind; [$($number),*].len()] =
            [$(CallKind::new($name, $needs)$(.$mark())*),*];

        /// Number of a decoded call.
        pub(crate) fn number_of_message(call: &Message) -> usize {
            match call {
                $($(Message::$variant(_) => $number,)?)*
                Message::Graph(call) => number_of_graph_call(call.first().copied()),
                Message::GraphAs(_) => AS,
            }
        }

        #[cfg(test)]
        const NUMBERS: [usize; CALLS.len()] = [$($number),*];
    };
}

calls! {
    0 "unknown": ADMIN by_exchange;
    1 "ping" Ping: READ;
    2 "schema" Schema: READ;
    3 "define" Define: WRITE;
    4 "read_vertices" ReadVertices: READ reads_graph;
    5 "read_edges" ReadEdges: READ reads_graph;
    6 "scan_edges" ScanEdges: READ reads_graph long;
    7 "scan_vertices" ScanVertices: READ reads_graph long moves_all;
    8 "vertex_history" VertexHistory: READ reads_graph long;
    9 "edge_history" EdgeHistory: READ reads_graph long;
    10 "degrees" Degrees: READ reads_graph;
    11 "top_degrees" TopDegrees: READ reads_graph long;
    12 "counts" Counts: READ reads_graph;
    13 "diff" Diff: READ reads_graph long;
    14 "travel" Travel: READ reads_graph long;
    15 "applied" Applied: READ;
    16 "apply" Apply: WRITE;
    17 "stats" Stats: READ;
    18 "check" Check: READ long moves_all;
    19 "compact" Compact: ADMIN long moves_all;
    20 "persist" Persist: WRITE moves_all;
    21 "backup" Backup: ADMIN long moves_all;
    22 "peer" Peer: SERVER by_exchange;
    23 "cluster" Cluster: READ;
    24 "placement" Placement: READ;
    25 "read_objects" ReadObjects: READ;
    26 "find" Find: READ long;
    27 "tags" Tags: READ long;
    28 "tag_where" TagWhere: WRITE long;
    29 "set_index" SetIndex: WRITE long;
    30 "window" Window: WRITE moves_all by_exchange;
    // Number of a failed answer.
    31 "none": ADMIN by_exchange;
    32 "stat_file" StatFile: READ;
    33 "list_files" ListFiles: READ long;
    34 "walk_files" WalkFiles: READ long moves_all;
    35 "change_files" ChangeFiles: WRITE;
    36 "usage" Usage: READ long;
    37 "usages" Usages: READ long;
    38 "space" Space: READ long;
    39 "partitions" Partitions: READ;
    40 "file_ids" FileIds: READ;
    // On behalf of a principal.
    41 "as" As: READ long;
    42 "left_out" LeftOut: READ reads_graph long;
    43 "look_file" LookFile: READ;
    44 "watch_files" WatchFiles: READ moves_all;
    45 "shutdown" Shutdown: ADMIN;
    // A read of the graph that has no gRPC method.
    46 "graph": READ long by_exchange;
    // Its field in `Request` has number 48, because 47 is `graph_as`.
    47 "share" Share: SHARE long;
}

const GRAPH: usize = number_named("graph");
const AS: usize = number_named("as");
const SHARE_CALL: usize = number_named("share");

/// Number of the call with a name, for constants: an unknown name fails the build.
pub(crate) const fn number_named(name: &str) -> usize {
    let mut number = 0;
    while number < CALLS.len() {
        if same(CALLS[number].name.as_bytes(), name.as_bytes()) {
            return number;
        }
        number += 1;
    }
    panic!("no call has this name")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Number of the call that reads the graph with that code, in logs, metrics and limits.
fn number_of_graph_call(code: Option<u8>) -> usize {
    let name = code.and_then(|code| GraphCall::NAMES.get(usize::from(code)));
    name.and_then(|name| CALLS.iter().position(|call| call.name == *name))
        .unwrap_or(GRAPH)
}

/// Whether a request reads the graph and can be one on behalf of a principal. Other calls name their principal themselves.
pub(crate) fn reads_graph(request: &proto::Request) -> bool {
    match &request.call {
        // These carry their principal in the call itself.
        None | Some(Message::Graph(_) | Message::GraphAs(_)) => false,
        Some(call) => CALLS
            .get(number_of_message(call))
            .is_some_and(|call| call.reads_graph),
    }
}

/// Number of the call in an encoded request; 0 for an unknown call.
pub(crate) fn number_of(request: &[u8]) -> usize {
    match call_number(request) {
        Some(46) => number_of_graph_call(graph_call_code(request)),
        Some(47) => AS,
        Some(48) => SHARE_CALL,
        Some(number) if (number as usize) < GRAPH => number as usize,
        _ => 0,
    }
}

/// Converts `read_vertices` to `ReadVertices`.
pub(crate) fn camel(name: &str) -> String {
    let mut out = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        out.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::wire;
    use prost::Message as _;

    #[test]
    fn lines_are_in_the_order_of_their_numbers() {
        assert!(NUMBERS.iter().copied().eq(0..CALLS.len()));
    }

    #[test]
    fn reads_of_the_graph_count_as_the_calls_of_their_names() {
        let request = |call| proto::Request { call: Some(call) };
        for (call, name) in [
            (GraphCall::Counts, "counts"),
            (GraphCall::Degrees(Vec::new()), "degrees"),
            (GraphCall::Applied(vec![1]), "applied"),
        ] {
            let message = Message::Graph(wire::encode(&call));
            assert_eq!(number_of_message(&message), number_named(name));
            let bytes = request(message).encode_to_vec();
            assert_eq!(number_of(&bytes), number_named(name));
        }
        let message = Message::GraphAs(wire::encode(&GraphCall::Counts));
        assert_eq!(number_of(&request(message).encode_to_vec()), AS);
        let message = Message::Share(proto::ShareRequest::default());
        assert_eq!(number_of_message(&message), SHARE_CALL);
        assert_eq!(number_of(&request(message).encode_to_vec()), SHARE_CALL);
        for code in [vec![], vec![200]] {
            let bytes = request(Message::Graph(code)).encode_to_vec();
            assert_eq!(number_of(&bytes), GRAPH);
        }
        assert_eq!(number_of(&[0xff]), 0);
    }
}
