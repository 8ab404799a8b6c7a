//! The W3C tests of JSON-LD to RDF, read from the folder in `ESKER_JSON_LD` (`tests` of a copy of github.com/w3c/json-ld-api):
//! `ESKER_JSON_LD=DIR cargo test -p esker-rdf --test it json_ld -- --ignored`.

use crate::w3c::{Outcome, all_quads, same, text};
use crate::w3c_misses::is_json_ld_miss;
use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, JsonLdProfileSet, RdfFormat};
use oxrdf::Dataset as Quads;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Options that a load does not support: older processing modes, blank nodes as predicates, contexts outside the file.
const OPTIONS: &[&str] = &[
    "processingMode",
    "produceGeneralizedRdf",
    "rdfDirection",
    "expandContext",
];

fn read(root: &Path, file: &str, format: RdfFormat, base: &str) -> Result<Quads, String> {
    let bytes = fs::read(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
    let mut loader = Loader::new(Dataset::default(), "d", false);
    loader
        .read(file, &mut &*bytes, format, None, Some(base))
        .map_err(text)?;
    Ok(all_quads(&loader.finish().0))
}

fn one(root: &Path, test: &Value, base: &str) -> Outcome {
    let input = test["input"].as_str().ok_or("no input")?;
    let base = match test["option"]["base"].as_str() {
        Some(base) => base.to_owned(),
        None => format!("{base}{input}"),
    };
    let format = RdfFormat::JsonLd {
        profile: JsonLdProfileSet::empty(),
    };
    let ours = read(root, input, format, &base);
    let kinds = test["@type"].to_string();
    if kinds.contains("NegativeEvaluationTest") {
        return match ours {
            Ok(_) => Err("was accepted".into()),
            Err(_) => Ok(()),
        };
    }
    let ours = ours?;
    match test["expect"].as_str() {
        Some(file) => same(&ours, &read(root, file, RdfFormat::NQuads, &base)?),
        None => Ok(()),
    }
}

#[test]
#[ignore = "needs a copy of github.com/w3c/json-ld-api"]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the suite lies outside the repository"
)]
fn json_ld_as_rdf() {
    let root = std::env::var("ESKER_JSON_LD").expect("ESKER_JSON_LD names the folder of the suite");
    let root = Path::new(&root);
    let manifest = fs::read(root.join("toRdf-manifest.jsonld")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let base = manifest["baseIri"].as_str().unwrap();
    let (mut passed, mut left_out, mut unexpected) = (0, 0, 0);
    let tests = manifest["sequence"].as_array().unwrap();
    for test in tests {
        let name = test["@id"].as_str().unwrap().trim_start_matches('#');
        let option = &test["option"];
        if option["specVersion"] == "json-ld-1.0" || OPTIONS.iter().any(|o| !option[*o].is_null()) {
            left_out += 1;
            continue;
        }
        let miss = is_json_ld_miss(name);
        match one(root, test, base) {
            Ok(()) => {
                passed += 1;
                if miss {
                    eprintln!("{name} passes and is listed as a miss");
                    unexpected += 1;
                }
            }
            Err(_) if miss => {}
            Err(e) => {
                eprintln!("FAILED {name} ({}): {e}", test["name"]);
                unexpected += 1;
            }
        }
    }
    eprintln!(
        "JSON-LD: {passed} of {}, {left_out} are of other options or versions",
        tests.len() - left_out
    );
    assert_eq!(unexpected, 0);
}
