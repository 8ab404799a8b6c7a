//! The W3C tests of RDF syntaxes: N-Triples, N-Quads, Turtle, `TriG`, RDF/XML. Run together with those of SPARQL.

use crate::w3c::{MF, Outcome, RDF, Suite, all_quads, format_of, iri, node, same, text, value};
use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, RdfFormat, dump};
use oxrdf::{Dataset as Quads, Graph, NamedOrBlankNode, TermRef};

/// Runs one test; its kind is the part of its type after `Test`.
pub(crate) fn test(
    suite: &Suite,
    g: &Graph,
    test: &NamedOrBlankNode,
    kind: &str,
    action: &str,
) -> Outcome {
    let read = read(suite, g, action);
    if kind.ends_with("NegativeSyntax") || kind.ends_with("NegativeEval") {
        return match read {
            Ok(_) => Err("was accepted".into()),
            Err(_) => Ok(()),
        };
    }
    let ours = read?;
    let Some(TermRef::NamedNode(result)) = value(g, test.as_ref(), &iri(MF, "result")) else {
        return Ok(());
    };
    same(&ours, &crate::w3c_syntax::read(suite, g, result.as_str())?)?;
    if kind.ends_with("C14N") {
        return written(suite, action, result.as_str());
    }
    Ok(())
}

/// Compares a dump with the lines of the canonical form; blank node labels are ignored.
fn written(suite: &Suite, action: &str, result: &str) -> Outcome {
    let mut loader = Loader::new(Dataset::default(), "d", false);
    loader
        .read(
            action,
            &mut &*suite.bytes(action)?,
            format_of(action),
            None,
            None,
        )
        .map_err(text)?;
    let mut out = Vec::new();
    dump(&loader.finish().0, None, format_of(action), &mut out).map_err(text)?;
    let lines = |bytes: &[u8]| -> Vec<String> {
        let mut lines: Vec<String> = String::from_utf8_lossy(bytes)
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let (ours, theirs) = (lines(&out), lines(&suite.bytes(result)?));
    if ours == theirs || theirs.iter().any(|l| l.contains("_:")) {
        return Ok(());
    }
    Err(format!("{ours:?} instead of {theirs:?}"))
}

/// Reads a file with the base that its suite assumes, once with one thread and once with several.
fn read(suite: &Suite, g: &Graph, url: &str) -> Result<Quads, String> {
    let supposed = g
        .iter()
        .find(|t| t.predicate == iri(MF, "assumedTestBase").as_ref())
        .and_then(|t| node(t.object));
    let file = url.rsplit('/').next().unwrap_or_default();
    let base = match &supposed {
        Some(NamedOrBlankNode::NamedNode(n)) => {
            // Some suites have subfolders.
            let manifest = g
                .iter()
                .find(|t| {
                    t.predicate == iri(RDF, "type").as_ref()
                        && t.object == iri(MF, "Manifest").as_ref().into()
                })
                .map(|t| t.subject.to_string())
                .unwrap_or_default();
            let folder = manifest
                .trim_matches(['<', '>'])
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder)
                .to_owned();
            let inside = url
                .strip_prefix(&folder)
                .map_or(file, |f| f.trim_start_matches('/'));
            format!("{}{inside}", n.as_str())
        }
        _ => url.to_owned(),
    };
    let bytes = suite.bytes(url)?;
    let mut results = Vec::new();
    for threads in [0, 2] {
        let mut loader = Loader::new(Dataset::default(), "d", false);
        loader.on_threads(threads);
        let format: RdfFormat = format_of(url);
        loader
            .read(url, &mut &*bytes, format, None, Some(&base))
            .map_err(text)?;
        results.push(all_quads(&loader.finish().0));
    }
    same(&results[0], &results[1])?;
    Ok(results.swap_remove(0))
}
