//! Random damage to data, queries, updates, images and records: `ESKER_RDF_SEEDS` rounds, 300 by default.

use crate::any;
use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, JsonLdProfileSet, RdfFormat};
use std::fmt::Write as _;

const LINES: &str = r#"<http://e/a> <http://e/p> "x\ty\u00e9"@en-GB <http://e/g> .
_:b1 <http://e/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> . # a comment
<http://e/a> <http://e/p> <http://e/%20b#c> .
<http://e/a> <http://e/p> "é€😀" _:g .
<http://e/a> <http://e/p> "0.10"^^<http://www.w3.org/2001/XMLSchema#decimal> .
VERSION "1.2"
_:r <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( _:b1 <http://e/p> <<( <http://e/a> <http://e/p> "x"@ar--rtl )>> )>> .
"#;
/// Documents, each with the number of its format in [`any::document`].
const DOCUMENTS: [(u8, &str); 6] = [
    (
        0,
        r#"@prefix e: <http://e/> . @base <http://b/> . e:a a e:C ; e:p 1, -2.5, 1e3, true, "x"@en, """long "" text"""^^e:t, [ e:q (1 [] "a") ] . <#x> e:p <../y>, e:a\,b ."#,
    ),
    (
        0,
        r#"VERSION "1.2" PREFIX e: <http://e/> e:a e:p <<( _:x e:p <<( e:a e:p "x"@ar--rtl )>> )>> ; e:q e:b ~ e:r {| e:p << e:a e:p 1 >> |} {| e:q 2 |} . << e:a e:p e:b ~ _:r >> e:q 1 ."#,
    ),
    (
        2,
        r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/" xmlns:its="http://www.w3.org/2005/11/its" rdf:version="1.2" its:version="2.0" its:dir="rtl" xml:lang="ar"><rdf:Description rdf:about="http://e/a" e:n="x"><e:p rdf:parseType="Triple"><rdf:Description rdf:nodeID="s"><e:p rdf:parseType="Triple"><e:C/></e:p></rdf:Description></e:p><e:q rdf:annotation="http://e/r">y</e:q><e:q rdf:annotationNodeID="r" its:dir="ltr">z</e:q></rdf:Description></rdf:RDF>"#,
    ),
    (
        1,
        "PREFIX e: <http://e/> e:g { e:a e:p _:b . _:b e:q 'x' } GRAPH <g> { [] e:p () } e:s e:p e:o .",
    ),
    (
        2,
        r#"<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY e "http://e/">]><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/" xml:base="http://b/"><rdf:Description rdf:about="&e;a" e:p="x"><e:q rdf:resource="c"/><e:l xml:lang="en">t</e:l><e:c rdf:parseType="Collection"><e:D/></e:c><e:x rdf:parseType="Literal"><b>y</b></e:x><rdf:li>1</rdf:li></rdf:Description></rdf:RDF>"#,
    ),
    (
        3,
        r#"{"@context": {"@vocab": "http://e/", "n": {"@id": "name", "@language": "en"}, "l": {"@container": "@list"}}, "@id": "a", "@type": "C", "n": "x", "l": [1, 2.5, true, {"@value": "y", "@type": "T"}], "k": {"@graph": [{"@id": "_:b", "p": {"@id": "c"}}]}, "@reverse": {"r": {"@id": "d"}}}"#,
    ),
];
const REQUESTS: &[&str] = &[
    "PREFIX e: <http://e/> SELECT DISTINCT ?a (COUNT(?b) AS ?n) WHERE { ?a e:p ?b OPTIONAL { ?b e:q ?c FILTER(?c > 1) } } GROUP BY ?a HAVING(COUNT(?b) > 0) ORDER BY DESC(?n) LIMIT 5 OFFSET 1",
    "PREFIX e: <http://e/> SELECT * { { ?a e:p ?b } UNION { ?b e:q ?a } MINUS { ?a e:p 1 } FILTER NOT EXISTS { ?a e:q ?z } }",
    "PREFIX e: <http://e/> SELECT * { ?a (e:p|^e:q)+/e:p* ?b . ?b !(e:p|^e:q) ?c }",
    "PREFIX e: <http://e/> SELECT * FROM NAMED e:g { GRAPH ?g { ?a e:p ?b } VALUES (?a ?x) { (e:a 1) (UNDEF 'y'@en) } BIND(IF(BOUND(?x), STRLEN(STR(?x)), 0) AS ?y) }",
    "SELECT ?a { ?a ?p ?b { SELECT ?b (MAX(?c) AS ?m) { ?b ?q ?c } GROUP BY ?b } FILTER(?m IN (1, 2.5, 'x') || !(?m = 3) && REGEX(STR(?b), '^h.*$', 'i')) }",
    "ASK { ?s ?p ?o . FILTER(DATATYPE(?o) = <http://www.w3.org/2001/XMLSchema#date> && YEAR(?o) >= 2020 && -?o < +1 * 2 / 3 - 4) }",
    "CONSTRUCT { ?s <a:b> [ <a:c> (?o 1) ] } WHERE { ?s ?p ?o }",
    "DESCRIBE ?s <http://e/a> { ?s ?p true }",
    "SELECT (GROUP_CONCAT(DISTINCT ?o ; SEPARATOR=', ') AS ?all) (AVG(?o) + SUM(?o) AS ?n) { ?s ?p ?o }",
    "SELECT (CONCAT(SUBSTR('abc', 2), UCASE('\\u00e9'), REPLACE('a.b', '[a-z-[b&&c]](\\\\i)|\\\\.', '$1\\\\$', 'x')) AS ?x) (COALESCE(1/0, STRDT('1', <a:t>), <http://www.w3.org/2001/XMLSchema#integer>('7')) AS ?y) {}",
    "PREFIX e: <http://e/> SELECT * { ?a e:p <<( ?b ?q <<( ?c e:p ?o )>> )>> . << ?b e:p ?c ~ ?r >> e:q ?x . ?s e:q ?o {| e:p ?y |} }",
    "SELECT (TRIPLE(?s, ?p, ?o) AS ?t) (OBJECT(?t) AS ?x) (STRLANGDIR('x', 'ar', 'rtl') AS ?y) { ?s ?p ?o FILTER(ISTRIPLE(?o) || <<( ?s ?p ?o )>> != SUBJECT(?o) || HASLANGDIR(?o) || LANGDIR(?o) = 'ltr') } ORDER BY ?o",
    "VERSION '1.2' CONSTRUCT { ?s <a:b> <<( ?s ?p _:x )>> ~ _:x {| <a:c> ?o |} } WHERE { ?s ?p ?o VALUES ?o { <<( <a:b> <a:c> 'x'@ar--rtl )>> } }",
    "INSERT DATA { <a:b> <a:c> <<( _:x <a:c> 1 )>> ~ _:x } ; DELETE DATA { <a:b> <a:c> <<( <a:b> <a:c> 1 )>> } ; DELETE { ?s ?p <<( ?s ?p ?o )>> } INSERT { << ?s ?p ?o >> <a:c> [] } WHERE { ?s ?p ?o }",
    "INSERT DATA { <a:b> <a:c> 1, \"\"\"x\ny\"\"\" . GRAPH <a:g> { <a:b> <a:c> _:x } } ; DELETE DATA { <a:b> <a:c> 1 }",
    "PREFIX e: <http://e/> WITH e:g DELETE { ?a e:p ?b } INSERT { ?b e:p [ e:q ?a ] } USING e:g WHERE { ?a e:p ?b }",
    "DELETE WHERE { ?s <http://e/p> ?o } ; COPY DEFAULT TO <a:g> ; MOVE SILENT <a:x> TO DEFAULT ; ADD <a:g> TO <a:h> ; CLEAR NAMED ; DROP SILENT GRAPH <a:g> ; CREATE GRAPH <a:n> ; LOAD SILENT <a:f> INTO GRAPH <a:n>",
];
/// Words inserted as damage.
const WORDS: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "<<",
    ">>",
    "<<(",
    ")>>",
    "{|",
    "|}",
    "~",
    "--rtl",
    "TRIPLE(?a, ?b, ?a)",
    "VERSION",
    "'",
    "\"",
    "\"\"\"",
    "\\",
    "\\u0028",
    "#",
    "!",
    "!=",
    "^",
    "|",
    "||",
    "&&",
    "*",
    "+",
    "?",
    "/",
    "-",
    ".",
    ";",
    ",",
    "@",
    "%",
    "?a",
    "?b",
    "$c",
    "e:p",
    "a",
    "1",
    "1e400",
    "-0.0",
    "99999999999999999999",
    "9223372036854775807",
    "true",
    "'x'@en",
    "NaN",
    "UNDEF",
    "OPTIONAL",
    "UNION",
    "MINUS",
    "FILTER",
    "EXISTS",
    "NOT",
    "IN",
    "BIND",
    "AS",
    "VALUES",
    "GRAPH",
    "SERVICE",
    "SELECT",
    "DISTINCT",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT 0",
    "LIMIT 18446744073709551615",
    "OFFSET 9",
    "COUNT(*)",
    "SUM(?b)",
    "xsd:date",
    "\u{0}",
    "\u{feff}",
    "\u{10ffff}",
    "\n",
    "\r",
    "\t",
    "_:b",
    "(1 2)",
    "{}",
    "[]",
];

struct Chance(u64);

impl Chance {
    fn less_than(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// Damages bytes: some changed, cut out, doubled, or replaced by a word or by a piece of another text.
    fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.less_than(4) {
            let from = self.less_than(bytes.len() + 1);
            let to = (from + self.less_than(12)).min(bytes.len());
            let piece = match self.less_than(6) {
                0 => Vec::new(),
                1 => vec![self.less_than(256) as u8; 1 + self.less_than(3)],
                2 => bytes[from..to].repeat(1 + self.less_than(4)),
                3 => {
                    let at = self.less_than(other.len());
                    other[at..(at + self.less_than(40)).min(other.len())].to_vec()
                }
                _ => WORDS[self.less_than(WORDS.len())].as_bytes().to_vec(),
            };
            bytes.splice(from..to, piece);
        }
    }
}

/// Runs rounds of damage on a thread with a server's stack size.
fn rounds(seed: u64, run: impl Fn(&mut Chance) + Send) {
    #[expect(clippy::disallowed_methods, reason = "who tests says how long")]
    let seeds = std::env::var("ESKER_RDF_SEEDS").ok();
    let rounds: u64 = seeds.and_then(|n| n.parse().ok()).unwrap_or(300);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 20);
        let all = move || (0..rounds).for_each(|i| run(&mut Chance(seed << 32 | i)));
        thread.spawn_scoped(scope, all).unwrap().join().unwrap();
    });
}

#[test]
fn damaged_lines() {
    rounds(1, |chance| {
        let mut bytes = LINES.as_bytes().to_vec();
        chance.damage(&mut bytes, DOCUMENTS[0].1.as_bytes());
        any::lines(&bytes);
    });
}

#[test]
fn damaged_documents() {
    rounds(2, |chance| {
        let (kind, text) = DOCUMENTS[chance.less_than(DOCUMENTS.len())];
        let mut bytes = text.as_bytes().to_vec();
        let (_, other) = DOCUMENTS[chance.0 as usize % DOCUMENTS.len()];
        chance.damage(&mut bytes, other.as_bytes());
        bytes.insert(0, kind);
        any::document(&bytes);
    });
}

#[test]
fn damaged_queries_and_updates() {
    rounds(3, |chance| {
        let mut bytes = REQUESTS[chance.less_than(REQUESTS.len())]
            .as_bytes()
            .to_vec();
        let other = REQUESTS[chance.less_than(REQUESTS.len())];
        chance.damage(&mut bytes, other.as_bytes());
        any::sparql(&String::from_utf8_lossy(&bytes));
    });
}

#[test]
fn damaged_images_and_records() {
    let (image, record) = any::stored();
    rounds(4, |chance| {
        let (mut a, mut b) = (image.clone(), record.clone());
        chance.damage(&mut a, &record);
        chance.damage(&mut b, &image);
        any::image(&a);
        any::record(&b);
    });
}

/// Regression cases found by random damage.
#[test]
fn what_damage_found() {
    // A label that no other format can express.
    for label in ["b:b", "b b", "-", "b.", "é!"] {
        any::document(format!("\u{3}{{\"@id\": \"_:{label}\", \"http://e/p\": 1}}").as_bytes());
    }
}

#[test]
fn a_context_elsewhere_is_not_fetched() {
    let format = RdfFormat::JsonLd {
        profile: JsonLdProfileSet::empty(),
    };
    let text = r#"{"@context": "http://e/context.jsonld", "@id": "http://e/a", "p": 1}"#;
    let mut loader = Loader::new(Dataset::default(), "t", false);
    let said = loader.read("x", &mut text.as_bytes(), format, None, None);
    assert!(
        said.unwrap_err()
            .to_string()
            .contains("write it into the file")
    );
}

/// Reads RDF/XML whose document type has these declarations, and a value with this text.
fn with_entities(declarations: &str, value: &str) -> Result<Dataset, String> {
    let text = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE rdf:RDF [\n{declarations}]>\n\
         <rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://e/\">\n\
         <rdf:Description rdf:about=\"http://e/a\"><e:p>{value}</e:p></rdf:Description></rdf:RDF>"
    );
    let mut loader = Loader::new(Dataset::default(), "t", false);
    let from = &mut text.as_bytes();
    match loader.read("x", from, RdfFormat::RdfXml, None, None) {
        Ok(()) => Ok(loader.finish().0),
        Err(e) => Err(e.to_string()),
    }
}

/// Entities that expand to 10^9 bytes and more are refused before memory is used.
#[test]
fn an_entity_bomb_is_refused() {
    let mut bomb = String::from("<!ENTITY e0 \"0123456789\">\n");
    for n in 1..12 {
        let before = format!("&e{};", n - 1).repeat(10);
        let _ = writeln!(bomb, "<!ENTITY e{n} \"{before}\">");
    }
    let said = with_entities(&bomb, "&e11;").unwrap_err();
    assert!(
        said.contains("entities of this document stand for"),
        "{said}"
    );
    // Entities with empty expansions still take time.
    let nothing = bomb.replace("0123456789", "");
    let said = with_entities(&nothing, "&e11;").unwrap_err();
    assert!(
        said.contains("entities of this document stand for"),
        "{said}"
    );
    // One long entity that is used many times.
    let long = format!("<!ENTITY long \"{}\">", "x".repeat(1 << 19));
    let said = with_entities(&long, &"&long;".repeat(1000)).unwrap_err();
    assert!(
        said.contains("entities of this document stand for"),
        "{said}"
    );
    let said = with_entities("<!ENTITY a \"&b;\"><!ENTITY b \"&a;\">", "&a;").unwrap_err();
    assert!(said.contains("contains itself"), "{said}");
    let said = with_entities("<!ENTITY a SYSTEM \"file:///etc/passwd\">", "&a;").unwrap_err();
    assert!(said.contains("nothing is fetched"), "{said}");
    let long = format!("<!ENTITY long \"{}\">", "x".repeat(2 << 20));
    let said = with_entities(&long, "").unwrap_err();
    assert!(said.contains("too many entities"), "{said}");
}

/// Ontologies define their namespaces by entities, also in namespace declarations.
#[test]
fn short_entities_are_read() {
    let declared =
        "<!ENTITY e \"http://e/\">\n<!ENTITY b '&e;b'>\n<!-- <!ENTITY x> -->\n<!ELEMENT a ANY>\n";
    let data = with_entities(declared, "&b; &amp; &#x41;").unwrap();
    let mut out = Vec::new();
    esker_rdf::dump(&data, None, RdfFormat::NQuads, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "<http://e/a> <http://e/p> \"http://e/b & A\" .\n"
    );
    let text = "<!DOCTYPE r [<!ENTITY rdf \"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><!ENTITY e \"http://e/\">]>\
        <r:RDF xmlns:r=\"&rdf;\" xmlns=\"&e;\"><C r:about=\"&e;a\"><p r:datatype=\"&e;t\">1</p></C></r:RDF>";
    let mut loader = Loader::new(Dataset::default(), "t", false);
    let from = &mut text.as_bytes();
    loader
        .read("x", from, RdfFormat::RdfXml, None, None)
        .unwrap();
    assert_eq!(loader.finish().0.len(), 2);
}
