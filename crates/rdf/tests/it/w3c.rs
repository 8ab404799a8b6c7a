//! The W3C test suites, read from the folder in `ESKER_W3C` (a copy of github.com/w3c/rdf-tests): `ESKER_W3C=DIR cargo test -p esker-rdf
//! --test it w3c -- --ignored`. `ESKER_W3C_ONLY` is a part of the name of the tests to run.

use crate::options;
use crate::plan::explained_as_run;
use crate::w3c_misses::{LEFT_OUT, is_miss};
use esker_rdf::infer::{Inference, Limits};
use esker_rdf::parse::Loader;
use esker_rdf::{
    Answer, Dataset, Format, Found, Quads as RdfQuads, RdfFormat, Results, Solutions, log, query,
    read_results, syntax, update,
};
use oxrdf::dataset::CanonicalizationAlgorithm;
use oxrdf::{
    BlankNode, Dataset as Quads, Graph, GraphName, Literal, NamedNode, NamedNodeRef,
    NamedOrBlankNode, NamedOrBlankNodeRef, Quad, Term, TermRef, Triple,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const BASE: &str = "http://w3c.test/";
pub(crate) const MF: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#";
const QT: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#";
const UT: &str = "http://www.w3.org/2009/sparql/tests/test-update#";
const RS: &str = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#";
pub(crate) const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";

pub(crate) type Outcome = Result<(), String>;

pub(crate) struct Suite {
    root: PathBuf,
}

pub(crate) fn text<E: std::fmt::Display>(e: E) -> String {
    e.to_string()
}

pub(crate) fn iri(ns: &str, name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("{ns}{name}"))
}

pub(crate) fn value<'a>(
    g: &'a Graph,
    s: impl Into<NamedOrBlankNodeRef<'a>>,
    p: &NamedNode,
) -> Option<TermRef<'a>> {
    let p: NamedNodeRef<'_> = p.as_ref();
    g.iter()
        .filter({
            let s = s.into();
            move |t| t.subject == s && t.predicate == p
        })
        .map(|t| t.object)
        .next()
}

fn values(g: &Graph, s: &NamedOrBlankNode, p: &NamedNode) -> Vec<Term> {
    g.iter()
        .filter(|t| t.subject == s.as_ref() && t.predicate == p.as_ref())
        .map(|t| t.object.into_owned())
        .collect()
}

pub(crate) fn node(t: TermRef<'_>) -> Option<NamedOrBlankNode> {
    match t {
        TermRef::NamedNode(n) => Some(n.into_owned().into()),
        TermRef::BlankNode(n) => Some(n.into_owned().into()),
        TermRef::Literal(_) | TermRef::Triple(_) => None,
    }
}

fn list(g: &Graph, head: TermRef<'_>) -> Vec<Term> {
    let mut all = Vec::new();
    let mut at = node(head);
    while let Some(n) = at {
        let Some(first) = value(g, n.as_ref(), &iri(RDF, "first")) else {
            break;
        };
        all.push(first.into_owned());
        at = value(g, n.as_ref(), &iri(RDF, "rest")).and_then(node);
    }
    all
}

impl Suite {
    fn path(&self, url: &str) -> PathBuf {
        self.root.join(url.strip_prefix(BASE).unwrap_or(url))
    }

    pub(crate) fn bytes(&self, url: &str) -> Result<Vec<u8>, String> {
        let path = self.path(url);
        fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn string(&self, url: &str) -> Result<String, String> {
        String::from_utf8(self.bytes(url)?).map_err(text)
    }

    fn graph(&self, url: &str) -> Result<Graph, String> {
        let bytes = self.bytes(url)?;
        let mut g = Graph::new();
        for quad in RdfQuads::of(&*bytes, format_of(url), Some(url))? {
            let quad = quad.map_err(|e| format!("{url}: {e}"))?;
            g.insert(&Triple::from(quad));
        }
        Ok(g)
    }

    fn manifest(&self, url: &str, to: &mut Vec<(String, Outcome)>, only: &str) {
        let g = self.graph(url).unwrap();
        // Newer manifests are not named by their own address.
        let manifest = Term::from(iri(MF, "Manifest"));
        let Some(me) = g
            .iter()
            .find(|t| t.predicate == iri(RDF, "type").as_ref() && t.object == manifest.as_ref())
            .map(|t| t.subject.into_owned())
        else {
            panic!("{url} is not a manifest")
        };
        if let Some(head) = value(&g, me.as_ref(), &iri(MF, "include")) {
            for part in list(&g, head) {
                if let Term::NamedNode(n) = part {
                    self.manifest(n.as_str(), to, only);
                }
            }
        }
        let Some(head) = value(&g, me.as_ref(), &iri(MF, "entries")) else {
            return;
        };
        for entry in list(&g, head) {
            let Some(test) = node(entry.as_ref()) else {
                continue;
            };
            let name = format!(
                "{}{}",
                url.trim_start_matches(BASE)
                    .trim_end_matches("manifest.ttl"),
                test.to_string()
                    .rsplit('#')
                    .next()
                    .unwrap()
                    .trim_end_matches('>')
            );
            // Suites of 1.2 include those of 1.1.
            let again = to.iter().any(|(known, _)| *known == name);
            if again || !name.contains(only) || LEFT_OUT.iter().any(|(f, _)| name.contains(f)) {
                continue;
            }
            to.push((name, self.test(&g, &test)));
        }
    }

    fn test(&self, g: &Graph, test: &NamedOrBlankNode) -> Outcome {
        let kind = value(g, test.as_ref(), &iri(RDF, "type"))
            .map(|t| t.to_string())
            .unwrap_or_default();
        let kind = kind.rsplit('#').next().unwrap().trim_end_matches('>');
        let action = value(g, test.as_ref(), &iri(MF, "action")).ok_or("no action")?;
        let url = |t: TermRef<'_>| match t {
            TermRef::NamedNode(n) => n.as_str().to_owned(),
            other => other.to_string(),
        };
        match kind {
            "PositiveSyntaxTest11" | "PositiveSyntaxTest" => {
                let url = url(action);
                syntax::query(&self.string(&url)?, Some(&url))
                    .map(drop)
                    .map_err(text)
            }
            "NegativeSyntaxTest11" | "NegativeSyntaxTest" => {
                let url = url(action);
                match syntax::query(&self.string(&url)?, Some(&url)) {
                    Ok(_) => Err("was accepted".into()),
                    Err(_) => Ok(()),
                }
            }
            "PositiveUpdateSyntaxTest11" | "PositiveUpdateSyntaxTest" => {
                let url = url(action);
                syntax::update(&self.string(&url)?, Some(&url))
                    .map(drop)
                    .map_err(text)
            }
            "NegativeUpdateSyntaxTest11" | "NegativeUpdateSyntaxTest" => {
                let url = url(action);
                match syntax::update(&self.string(&url)?, Some(&url)) {
                    Ok(_) => Err("was accepted".into()),
                    Err(_) => Ok(()),
                }
            }
            "QueryEvaluationTest" | "CSVResultFormatTest" => self.query(g, test, action),
            "UpdateEvaluationTest" => self.update(g, test, action),
            other => match other.strip_prefix("Test") {
                Some(kind) => crate::w3c_syntax::test(self, g, test, kind, &url(action)),
                None => Err(format!("no kind of test is {other}")),
            },
        }
    }

    fn load(&self, loader: &mut Loader<'_>, url: &str, graph: Option<&str>) -> Outcome {
        let bytes = self.bytes(url)?;
        loader
            .read(url, &mut &*bytes, format_of(url), graph, Some(url))
            .map_err(text)
    }

    fn query(&self, g: &Graph, test: &NamedOrBlankNode, action: TermRef<'_>) -> Outcome {
        let mut loader = Loader::new(Dataset::default(), "d", false);
        let file = match node(action).ok_or("no action")? {
            NamedOrBlankNode::NamedNode(n) => n.as_str().to_owned(),
            action @ NamedOrBlankNode::BlankNode(_) => {
                for data in values(g, &action, &iri(QT, "data")) {
                    if let Term::NamedNode(n) = data {
                        self.load(&mut loader, n.as_str(), None)?;
                    }
                }
                for data in values(g, &action, &iri(QT, "graphData")) {
                    let name = match &data {
                        Term::NamedNode(n) => n.as_str().to_owned(),
                        other => match value(
                            g,
                            node(other.as_ref()).as_ref().ok_or("graph")?.as_ref(),
                            &iri(QT, "graph"),
                        ) {
                            Some(TermRef::NamedNode(n)) => n.as_str().to_owned(),
                            _ => return Err("no graph".into()),
                        },
                    };
                    self.load(&mut loader, &name, Some(&name))?;
                }
                match value(g, action.as_ref(), &iri(QT, "query")) {
                    Some(TermRef::NamedNode(n)) => n.as_str().to_owned(),
                    _ => return Err("no query".into()),
                }
            }
        };
        let text_of = self.string(&file)?;
        let parsed = syntax::query(&text_of, Some(&file)).map_err(text)?;
        // Graphs named by FROM are loaded under that name.
        if let Some(d) = parsed.dataset() {
            for n in d.default.iter().chain(d.named.iter().flatten()) {
                self.load(&mut loader, n.as_str(), Some(n.as_str()))?;
            }
        }
        let mut data = loader.finish().0;
        let limits = Limits {
            memory: 1 << 30,
            stop: &|| None,
        };
        data.infer(Self::rules(g, action), limits).map_err(text)?;
        let expected = match value(g, test.as_ref(), &iri(MF, "result")) {
            Some(TermRef::NamedNode(n)) => n.as_str().to_owned(),
            _ => return Err("no result".into()),
        };
        let plain = options();
        let mut naive = options();
        naive.optimise = false;
        for options in [&plain, &naive] {
            let answer = query(&data, &text_of, Some(&file), None, false, options).map_err(text)?;
            self.compare(&answer, &expected)
                .map_err(|e| format!("optimise={}: {e}", options.optimise))?;
            explained_as_run(&data, &text_of, Some(&file), options)?;
        }
        Ok(())
    }

    /// Returns the smallest rule set that a test's list of entailment regimes allows.
    fn rules(g: &Graph, action: TermRef<'_>) -> Option<Inference> {
        let regime = iri(
            "http://www.w3.org/ns/sparql-service-description#",
            "entailmentRegime",
        );
        let binding = node(action)?;
        let one = value(g, binding.as_ref(), &regime)?;
        let mut all = list(g, one);
        all.push(one.into_owned());
        let has = |name: &str| all.contains(&iri("http://www.w3.org/ns/entailment/", name).into());
        if has("RDF") || has("RDFS") || has("D") {
            Some(Inference::Rdfs)
        } else {
            Some(Inference::OwlRl)
        }
    }

    fn compare(&self, answer: &Answer<'_>, expected: &str) -> Outcome {
        let bytes = self.bytes(expected)?;
        let extension = expected.rsplit('.').next().unwrap();
        if let Found::Triples(triples) = &answer.found {
            let mut ours = Graph::new();
            for t in triples {
                ours.insert(&answer.triple(*t).ok_or("a triple is none")?);
            }
            return same(&as_quads(&ours), &as_quads(&self.graph(expected)?));
        }
        if extension == "csv" {
            let mut out = Vec::new();
            answer.write(Format::Csv, &mut out).unwrap();
            let lines = |b: &[u8]| {
                let mut lines: Vec<String> = String::from_utf8_lossy(b)
                    .lines()
                    .map(str::to_owned)
                    .collect();
                lines.sort();
                lines
            };
            let (ours, theirs) = (lines(&out), lines(&bytes));
            let blank = theirs.iter().any(|l| l.contains("_:"));
            return if ours == theirs || (blank && ours.len() == theirs.len()) {
                Ok(())
            } else {
                Err(format!("{ours:?} instead of {theirs:?}"))
            };
        }
        let theirs = match extension {
            "srx" => parse_results(&bytes, Format::Xml)?,
            "srj" => parse_results(&bytes, Format::Json)?,
            "tsv" => parse_results(&bytes, Format::Tsv)?,
            _ => result_graph(&self.graph(expected)?),
        };
        for format in [Format::Json, Format::Xml, Format::Tsv] {
            let mut out = Vec::new();
            answer.write(format, &mut out).unwrap();
            let ours = parse_results(&out, format)?;
            same(&ours, &theirs).map_err(|e| format!("{format:?}: {e}"))?;
        }
        Ok(())
    }

    fn dataset(&self, g: &Graph, at: &NamedOrBlankNode) -> Result<Dataset, String> {
        let mut loader = Loader::new(Dataset::default(), "d", false);
        for data in values(g, at, &iri(UT, "data")) {
            if let Term::NamedNode(n) = data {
                self.load(&mut loader, n.as_str(), None)?;
            }
        }
        for data in values(g, at, &iri(UT, "graphData")) {
            let data = node(data.as_ref()).ok_or("graphData")?;
            let file = value(g, data.as_ref(), &iri(UT, "graph"));
            let name = value(g, data.as_ref(), &iri(RDFS, "label"));
            if let (Some(TermRef::NamedNode(file)), Some(TermRef::Literal(name))) = (file, name) {
                self.load(&mut loader, file.as_str(), Some(name.value()))?;
            }
        }
        Ok(loader.finish().0)
    }

    fn update(&self, g: &Graph, test: &NamedOrBlankNode, action: TermRef<'_>) -> Outcome {
        let action = node(action).ok_or("no action")?;
        let data = self.dataset(g, &action)?;
        let file = match value(g, action.as_ref(), &iri(UT, "request")) {
            Some(TermRef::NamedNode(n)) => n.as_str().to_owned(),
            _ => return Err("no request".into()),
        };
        let expected = value(g, test.as_ref(), &iri(MF, "result"))
            .and_then(node)
            .ok_or("no result")?;
        let expected = all_quads(&self.dataset(g, &expected)?);
        let options = options();
        let done = update(
            &data,
            &self.string(&file)?,
            Some(&file),
            None,
            &mut |load| Err(format!("{} is not there", load.iri)),
            &options,
        )
        .map_err(text)?;
        same(&all_quads(&done.data), &expected)?;
        // Replaying the log gives the same data.
        let mut again = data.clone();
        log::replay(&mut again, &log::encode(&done.data, &done.changes)).map_err(text)?;
        same(&all_quads(&again), &expected).map_err(|e| format!("replayed: {e}"))
    }
}

pub(crate) fn format_of(url: &str) -> RdfFormat {
    let extension = url.rsplit('.').next().unwrap_or_default();
    RdfFormat::from_extension(extension).unwrap_or(RdfFormat::Turtle)
}

fn as_quads(g: &Graph) -> Quads {
    g.iter()
        .map(|t| t.in_graph(oxrdf::GraphNameRef::DefaultGraph))
        .map(oxrdf::QuadRef::into_owned)
        .collect()
}

pub(crate) fn all_quads(data: &Dataset) -> Quads {
    let term = |id| data.dictionary.term(id);
    data.quads()
        .map(|q| {
            let Some(Term::NamedNode(p)) = term(q.p) else {
                panic!("a predicate is not an IRI")
            };
            let g = match term(q.g) {
                None => GraphName::DefaultGraph,
                Some(Term::NamedNode(n)) => n.into(),
                Some(Term::BlankNode(n)) => n.into(),
                Some(other) => panic!("a graph is {other}"),
            };
            Quad::new(
                node(term(q.s).unwrap().as_ref()).unwrap(),
                p,
                term(q.o).unwrap(),
                g,
            )
        })
        .collect()
}

pub(crate) fn same(ours: &Quads, theirs: &Quads) -> Outcome {
    let (mut a, mut b) = (normal(ours), normal(theirs));
    a.canonicalize(CanonicalizationAlgorithm::Unstable);
    b.canonicalize(CanonicalizationAlgorithm::Unstable);
    if a == b {
        return Ok(());
    }
    let show = |q: &Quads| {
        q.iter()
            .map(|q| q.to_string())
            .collect::<Vec<_>>()
            .join("\n    ")
    };
    Err(format!(
        "\n    {}\n  instead of\n    {}",
        show(&a),
        show(&b)
    ))
}

/// Normalizes the lexical forms of numbers. SPARQL 1.1 defines none for computed numbers, and the suites expect several for one value:
/// `cast-double` has `1`, `1.0`, `1E0` and `1.0E0`, `agg-min-02` has `2.0E-1` for the term `2E-1` of its data.
fn normal(quads: &Quads) -> Quads {
    quads
        .iter()
        .map(|q| {
            let mut q = q.into_owned();
            if let Term::Literal(l) = &q.object {
                let local = l
                    .datatype()
                    .as_str()
                    .strip_prefix("http://www.w3.org/2001/XMLSchema#");
                let value = match local {
                    Some("decimal") => l
                        .value()
                        .parse::<oxsdatatypes::Decimal>()
                        .map(|d| d.to_string())
                        .ok(),
                    Some("double" | "float") => {
                        l.value().parse::<f64>().map(|d| d.to_string()).ok()
                    }
                    _ => None,
                };
                if let Some(value) = value {
                    q.object = Literal::new_typed_literal(value, l.datatype()).into();
                }
            }
            q
        })
        .collect()
}

/// Converts solutions to quads: a row is a blank node, a value its property.
fn parse_results(bytes: &[u8], format: Format) -> Result<Quads, String> {
    let mut out = Quads::new();
    let results = match format {
        Format::Tsv => tsv(bytes)?,
        Format::Xml => read_results("application/sparql-results+xml", bytes, usize::MAX)?,
        _ => read_results("application/sparql-results+json", bytes, usize::MAX)?,
    };
    let mut say = |property: &str, value: Literal| {
        let property = iri(RS, property);
        let graph = GraphName::DefaultGraph;
        out.insert(&Quad::new(iri(RS, "x"), property, value, graph));
    };
    match results {
        Results::Truth(b) => say("boolean", Literal::from(b)),
        Results::Solutions(Solutions { names, rows }) => {
            for name in &names {
                say("variable", Literal::from(name.as_str()));
            }
            for (i, row) in rows.into_iter().enumerate() {
                let row: Vec<(String, Term)> = names
                    .iter()
                    .zip(row)
                    .filter_map(|(name, value)| Some((name.clone(), value?)))
                    .collect();
                row_quads(i, &row, &mut out);
            }
        }
    }
    Ok(out)
}

/// Parses tab-separated results: each value is a Turtle term.
fn tsv(bytes: &[u8]) -> Result<Results, String> {
    let text = std::str::from_utf8(bytes).map_err(text)?;
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    if matches!(head.trim(), "true" | "false") {
        return Ok(Results::Truth(head.trim() == "true"));
    }
    let names = head
        .split('\t')
        .filter_map(|n| n.strip_prefix('?'))
        .map(str::to_owned)
        .collect();
    let term = |cell: &str| -> Result<Option<Term>, String> {
        if cell.is_empty() {
            return Ok(None);
        }
        let document = format!("<urn:s> <urn:p> {cell} .");
        let mut triples = oxttl::TurtleParser::new().for_slice(&document);
        let triple = triples.next().ok_or("no term")?.map_err(self::text)?;
        Ok(Some(triple.object))
    };
    let rows = lines.map(|line| line.split('\t').map(term).collect());
    Ok(Results::Solutions(Solutions {
        names,
        rows: rows.collect::<Result<_, String>>()?,
    }))
}

fn row_quads(i: usize, row: &[(String, Term)], out: &mut Quads) {
    let me = BlankNode::new_unchecked(format!("row{i}"));
    out.insert(&Quad::new(
        me.clone(),
        iri(RDF, "type"),
        iri(RS, "Row"),
        GraphName::DefaultGraph,
    ));
    for (v, t) in row {
        out.insert(&Quad::new(
            me.clone(),
            iri("http://var/", v),
            t.clone(),
            GraphName::DefaultGraph,
        ));
    }
}

/// Reads a result set written in RDF.
fn result_graph(g: &Graph) -> Quads {
    let mut out = Quads::new();
    let set = g
        .iter()
        .find(|t| {
            t.predicate == iri(RDF, "type").as_ref()
                && t.object == iri(RS, "ResultSet").as_ref().into()
        })
        .map(|t| t.subject.into_owned());
    let Some(set) = set else {
        return out;
    };
    if let Some(TermRef::Literal(b)) = value(g, set.as_ref(), &iri(RS, "boolean")) {
        let b = b.value() == "true";
        out.insert(&Quad::new(
            iri(RS, "x"),
            iri(RS, "boolean"),
            Literal::from(b),
            GraphName::DefaultGraph,
        ));
        return out;
    }
    for v in values(g, &set, &iri(RS, "resultVariable")) {
        out.insert(&Quad::new(
            iri(RS, "x"),
            iri(RS, "variable"),
            v,
            GraphName::DefaultGraph,
        ));
    }
    for (i, solution) in values(g, &set, &iri(RS, "solution"))
        .into_iter()
        .enumerate()
    {
        let solution = node(solution.as_ref()).unwrap();
        let mut row = Vec::new();
        for binding in values(g, &solution, &iri(RS, "binding")) {
            let binding = node(binding.as_ref()).unwrap();
            let name = value(g, binding.as_ref(), &iri(RS, "variable")).unwrap();
            let TermRef::Literal(name) = name else {
                panic!("a variable is {name}")
            };
            let v = value(g, binding.as_ref(), &iri(RS, "value")).unwrap();
            row.push((name.value().to_owned(), v.into_owned()));
        }
        row_quads(i, &row, &mut out);
    }
    out
}

#[test]
#[ignore = "needs a copy of github.com/w3c/rdf-tests"]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the suite lies outside the repository"
)]
fn the_suites_of_the_w3c() {
    let root = std::env::var("ESKER_W3C").expect("ESKER_W3C names the folder of the suites");
    let only = std::env::var("ESKER_W3C_ONLY").unwrap_or_default();
    let suite = Suite {
        root: Path::new(&root).to_path_buf(),
    };
    let mut outcomes = Vec::new();
    for manifest in [
        "sparql/sparql11/manifest-all.ttl",
        "sparql/sparql10/manifest-evaluation.ttl",
        "sparql/sparql10/manifest-syntax.ttl",
        "rdf/rdf11/rdf-n-triples/manifest.ttl",
        "rdf/rdf11/rdf-n-quads/manifest.ttl",
        "rdf/rdf11/rdf-turtle/manifest.ttl",
        "rdf/rdf11/rdf-trig/manifest.ttl",
        "rdf/rdf11/rdf-xml/manifest.ttl",
        "sparql/sparql12/manifest.ttl",
        "rdf/rdf12/rdf-n-triples/manifest.ttl",
        "rdf/rdf12/rdf-n-quads/manifest.ttl",
        "rdf/rdf12/rdf-turtle/manifest.ttl",
        "rdf/rdf12/rdf-trig/manifest.ttl",
        "rdf/rdf12/rdf-xml/manifest.ttl",
    ] {
        suite.manifest(&format!("{BASE}{manifest}"), &mut outcomes, &only);
    }
    let mut folders: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut unexpected = 0;
    for (name, outcome) in &outcomes {
        let depth = if name.starts_with("rdf/") || name.contains("12/") {
            3
        } else {
            2
        };
        let folder: Vec<&str> = name.split('/').take(depth).skip(1).collect();
        let folder = folder.join("/");
        let counts = folders.entry(folder).or_default();
        counts.1 += 1;
        let miss = is_miss(name);
        match outcome {
            Ok(()) => {
                counts.0 += 1;
                if miss {
                    eprintln!("{name} passes and is listed as a miss");
                    unexpected += 1;
                }
            }
            Err(_) if miss => {}
            Err(e) => {
                eprintln!("FAILED {name}: {e}");
                unexpected += 1;
            }
        }
    }
    for (folder, (passed, all)) in folders {
        eprintln!("{folder}: {passed} of {all}");
    }
    assert_eq!(unexpected, 0, "of {}", outcomes.len());
}
