//! Fuzz targets: functions that take arbitrary bytes and panic if a parser breaks one of its properties. `README.md` lists the property of
//! each target.
//!
//! All targets are in one library, so that libFuzzer drives them from one program and a plain test runs each target on its seeds.

mod access;
mod checkpoint_file;
mod darshan_log;
mod edge_list;
mod filter;
mod ftp_listing;
mod ftp_reply;
mod key_decode;
mod multipart_form;
mod openlineage_events;
mod owner_request;
mod peer_message;
mod prov_document;
mod rdf;
mod record_decode;
mod rpc_answer;
mod rpc_request;
mod schema_decode;
mod split_state;
mod spool_file;
mod tier_frame;
mod trace;
mod traversal_parse;
mod worker_frame;

#[path = "../../crates/rdf/tests/it/any.rs"]
mod rdf_invariants;

/// Function of a fuzz target: takes arbitrary bytes and panics if the target's property does not hold.
pub type Check = fn(&[u8]);

/// All targets as pairs of name and function, in the order of their names.
pub const TARGETS: [(&str, Check); 33] = [
    ("access_tokens", access::access_tokens),
    ("authorized_keys", access::authorized_keys),
    ("checkpoint_file", checkpoint_file::check),
    ("darshan_log", darshan_log::check),
    ("edge_list", edge_list::check),
    ("filter", filter::check),
    ("ftp_listing", ftp_listing::check),
    ("ftp_reply", ftp_reply::check),
    ("key_decode", key_decode::check),
    ("key_proof", access::key_proof),
    ("known_hosts", access::known_hosts),
    ("multipart_form", multipart_form::check),
    ("openlineage_events", openlineage_events::check),
    ("owner_request", owner_request::check),
    ("peer_message", peer_message::check),
    ("prov_document", prov_document::check),
    ("rdf_document", rdf::document),
    ("rdf_image", rdf::image),
    ("rdf_lines", rdf::lines),
    ("rdf_record", rdf::record),
    ("record_decode", record_decode::check),
    ("rpc_answer", rpc_answer::check),
    ("rpc_request", rpc_request::check),
    ("schema_decode", schema_decode::check),
    ("sparql", rdf::sparql),
    ("split_state", split_state::check),
    ("spool_file", spool_file::check),
    ("tier_frame", tier_frame::check),
    ("trace_hdfs", trace::hdfs),
    ("trace_ndjson", trace::ndjson),
    ("trace_strace", trace::strace),
    ("traversal_parse", traversal_parse::check),
    ("worker_frame", worker_frame::check),
];

/// Returns the function of the target called `name`, or `None` if there is no such target.
pub fn find(name: &str) -> Option<Check> {
    let found = TARGETS.iter().find(|(own, _)| *own == name);
    found.map(|(_, check)| *check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn folder(name: &str) -> PathBuf {
        std::path::absolute(".").unwrap().join(name)
    }

    fn file_names(path: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(path).expect("a folder");
        let name = |e: std::io::Result<fs::DirEntry>| e.expect("an entry").file_name();
        let text = |name: std::ffi::OsString| name.into_string().expect("a name");
        entries.map(|e| text(name(e))).collect()
    }

    #[test]
    fn every_seed_satisfies_its_target() {
        let seeds = folder("seeds");
        for (target, check) in TARGETS {
            for seed in file_names(&seeds.join(target)) {
                let bytes = fs::read(seeds.join(target).join(&seed)).expect("a seed");
                // A panic message contains the name of its thread.
                let thread = std::thread::Builder::new().name(format!("{target} {seed}"));
                let running = thread.spawn(move || check(&bytes)).expect("a thread");
                running.join().expect("what must hold holds");
            }
            check(b"");
        }
    }

    #[test]
    fn each_target_has_seeds_and_a_row_in_the_readme() {
        let all: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(file_names(&folder("seeds")), all);
        let readme = fs::read_to_string(folder("README.md")).expect("README.md");
        let rows = readme.lines().filter(|line| line.starts_with("| `"));
        let documented: BTreeSet<String> = rows
            .filter_map(|row| row.split('|').nth(1))
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .map(str::to_owned)
            .collect();
        assert_eq!(documented, all);
        for dictionary in file_names(&folder("dictionaries")) {
            let target = dictionary.strip_suffix(".dict").unwrap_or_default();
            assert!(all.contains(target), "{dictionary}");
        }
    }
}
