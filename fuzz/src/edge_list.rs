//! Lists of edges, as text and in binary: a list is parsed or refused; a parsed list is written and parsed back.

// The command has no library target, so this file, which depends on no other file of the command, is included by its path.
#[path = "../../crates/bench/src/placement/edge_list.rs"]
mod reader;

use reader::{EdgeListError, binary, read_binary, read_text};

pub(crate) fn check(bytes: &[u8]) {
    match read_binary(bytes) {
        Ok(edges) => assert_eq!(encode(&edges), bytes),
        Err(EdgeListError::Byte(at, _)) => assert!(at < bytes.len() as u64),
        Err(error) => assert!(bytes.is_empty(), "{error}"),
    }
    match read_text(bytes) {
        Ok(edges) => {
            let lines = edges.iter().map(|(s, d)| format!("{s}\t{d}\n"));
            let text = lines.collect::<Vec<_>>().concat();
            assert_eq!(read_text(text.as_bytes()).ok(), Some(edges));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn encode(edges: &[(u32, u32)]) -> Vec<u8> {
    edges.iter().flat_map(|edge| binary(*edge)).collect()
}
