//! Serialization of answers: JSON, CSV, TSV and XML directly from the dictionary, graphs by the libraries.

use crate::dictionary::{Head, Parts, split_tag};
use crate::exec::Context;
use crate::exec::parallel::portions;
use crate::format::{DocumentWriter, RdfFormat};
use crate::id::{Id, UNBOUND, XSD};
use crate::quads::{Dataset, Quad};
use crate::query::{Answer, Found};
use crate::xml::escape;
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

/// Result format of solutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// SPARQL 1.1 Query Results JSON.
    Json,
    /// SPARQL Query Results XML.
    Xml,
    /// Comma-separated values, only lexical forms.
    Csv,
    /// Tab-separated values with terms as in Turtle.
    Tsv,
}

/// Bytes that are buffered before a write.
const BUFFER: usize = 1 << 16;
/// Rows that a thread writes at a time.
const PORTION: usize = 4096;
/// Rows between two checks of the buffer.
const SMALL: usize = 128;

/// Beginning of a SPARQL Query Results XML document.
const XML_BEGIN: &str =
    "<?xml version=\"1.0\"?><sparql xmlns=\"http://www.w3.org/2005/sparql-results#\">";

impl Answer<'_> {
    /// Writes solutions or a boolean. A graph is written as N-Triples.
    pub fn write(&self, format: Format, to: &mut dyn Write) -> io::Result<()> {
        match &self.found {
            Found::Triples(_) => self.write_graph(RdfFormat::NTriples, to),
            Found::Boolean(b) => match format {
                Format::Json => write!(to, "{{\"head\":{{}},\"boolean\":{b}}}"),
                Format::Csv | Format::Tsv => write!(to, "{b}"),
                Format::Xml => write!(
                    to,
                    "{XML_BEGIN}<head></head><boolean>{b}</boolean></sparql>"
                ),
            },
            Found::Solutions(vars, table) => match format {
                Format::Json => json(self.ctx(), vars, table, to),
                Format::Csv => separated(self.ctx(), vars, table, to, false),
                Format::Tsv => separated(self.ctx(), vars, table, to, true),
                Format::Xml => xml(self.ctx(), vars, table, to),
            },
        }
    }

    /// Writes the triples of a graph result.
    pub fn write_graph(&self, format: RdfFormat, to: &mut dyn Write) -> io::Result<()> {
        let mut writer = DocumentWriter::new(to, format);
        if let Found::Triples(list) = &self.found {
            for triple in list.iter().filter_map(|t| self.triple(*t)) {
                writer.triple(&triple)?;
            }
        }
        writer.finish()?;
        Ok(())
    }
}

fn json(
    ctx: &Context<'_>,
    vars: &[String],
    table: &crate::exec::Table,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut out = Vec::with_capacity(BUFFER + 4096);
    out.extend_from_slice(b"{\"head\":{\"vars\":[");
    for (i, var) in vars.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json_text(&[var], &mut out);
    }
    out.extend_from_slice(b"]},\"results\":{\"bindings\":[");
    let names: Vec<Vec<u8>> = vars
        .iter()
        .map(|var| {
            let mut name = Vec::new();
            json_text(&[var], &mut name);
            name.push(b':');
            name
        })
        .collect();
    let rows = |ctx: &Context<'_>, range: Range<usize>, out: &mut Vec<u8>| {
        for r in range {
            if r > 0 {
                out.push(b',');
            }
            out.push(b'{');
            let mut first = true;
            for (name, column) in names.iter().zip(table.columns()) {
                if column[r] == UNBOUND {
                    continue;
                }
                if !first {
                    out.push(b',');
                }
                first = false;
                out.extend_from_slice(name);
                json_term(ctx, column[r], out);
            }
            out.push(b'}');
        }
    };
    in_order(ctx, table.len(), &mut out, to, &rows)?;
    out.extend_from_slice(b"]}}");
    to.write_all(&out)
}

/// Names of a triple term's parts in JSON and XML.
const PARTS: [&str; 3] = ["subject", "predicate", "object"];

fn json_term(ctx: &Context<'_>, id: Id, out: &mut Vec<u8>) {
    ctx.with_parts(id, |parts| match parts {
        Parts::Inline(v) => {
            out.extend_from_slice(b"{\"type\":\"literal\",\"value\":\"");
            out.extend_from_slice(v.text().as_bytes());
            out.extend_from_slice(b"\",\"datatype\":\"");
            out.extend_from_slice(XSD.as_bytes());
            out.extend_from_slice(v.datatype().as_bytes());
            out.extend_from_slice(b"\"}");
        }
        Parts::Stored(head, tail) => {
            match head {
                Head::Iri(prefix) => {
                    out.extend_from_slice(b"{\"type\":\"uri\",\"value\":");
                    json_text(&[prefix, tail], out);
                }
                Head::Blank => {
                    out.extend_from_slice(b"{\"type\":\"bnode\",\"value\":");
                    json_text(&[tail], out);
                }
                Head::Plain | Head::Lang(_) | Head::Typed(_) => {
                    out.extend_from_slice(b"{\"type\":\"literal\",\"value\":");
                    json_text(&[tail], out);
                }
                Head::Triple => {
                    out.extend_from_slice(b"{\"type\":\"triple\",\"value\":");
                    let mut begin = b'{';
                    for (name, part) in PARTS.into_iter().zip(parts.triple().unwrap_or_default()) {
                        out.push(begin);
                        begin = b',';
                        json_text(&[name], out);
                        out.push(b':');
                        json_term(ctx, part, out);
                    }
                    out.push(b'}');
                }
            }
            match head {
                Head::Lang(tag) => {
                    let (lang, direction) = split_tag(tag);
                    out.extend_from_slice(b",\"xml:lang\":");
                    json_text(&[lang], out);
                    if let Some(direction) = direction {
                        out.extend_from_slice(b",\"its:dir\":");
                        json_text(&[direction], out);
                    }
                }
                Head::Typed(datatype) => {
                    out.extend_from_slice(b",\"datatype\":");
                    json_text(&[datatype], out);
                }
                _ => {}
            }
            out.push(b'}');
        }
    });
}

/// Appends a JSON string.
fn json_text(pieces: &[&str], out: &mut Vec<u8>) {
    out.push(b'"');
    for piece in pieces {
        let bytes = piece.as_bytes();
        // Most texts need no escapes, which is tested for many bytes at a time.
        let odd = bytes
            .iter()
            .map(|b| u8::from(*b < 0x20) | u8::from(*b == b'"') | u8::from(*b == b'\\'))
            .fold(0, |odd, b| odd | b)
            != 0;
        if odd {
            json_escaped(bytes, out);
        } else {
            out.extend_from_slice(bytes);
        }
    }
    out.push(b'"');
}

fn json_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for b in bytes {
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            b => out.push(*b),
        }
    }
}

/// Writes solutions as XML.
fn xml(
    ctx: &Context<'_>,
    vars: &[String],
    table: &crate::exec::Table,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut head = format!("{XML_BEGIN}<head>");
    for var in vars {
        head.push_str("<variable name=\"");
        // Variable names contain no characters that are invalid in XML.
        let _ = escape(var, true, &mut head);
        head.push_str("\"/>");
    }
    head.push_str("</head><results>");
    let mut out = head.into_bytes();
    out.reserve(BUFFER);
    let bindings: Vec<String> = vars
        .iter()
        .map(|var| {
            let mut begin = "<binding name=\"".to_owned();
            let _ = escape(var, true, &mut begin);
            begin.push_str("\">");
            begin
        })
        .collect();
    let rows = |ctx: &Context<'_>, range: Range<usize>, out: &mut Vec<u8>| {
        for r in range {
            out.extend_from_slice(b"<result>");
            for (begin, column) in bindings.iter().zip(table.columns()) {
                if column[r] == UNBOUND {
                    continue;
                }
                out.extend_from_slice(begin.as_bytes());
                xml_term(ctx, column[r], out);
                out.extend_from_slice(b"</binding>");
            }
            out.extend_from_slice(b"</result>");
        }
    };
    in_order(ctx, table.len(), &mut out, to, &rows)?;
    out.extend_from_slice(b"</results></sparql>");
    to.write_all(&out)
}

fn xml_term(ctx: &Context<'_>, id: Id, out: &mut Vec<u8>) {
    let mut text = String::new();
    ctx.with_parts(id, |parts| match parts {
        Parts::Inline(v) => {
            let (value, kind) = (v.text(), v.datatype());
            text = format!("<literal datatype=\"{XSD}{kind}\">{value}</literal>");
        }
        Parts::Stored(head, tail) => {
            let (prefix, end): (&str, &str) = match head {
                Head::Triple => {
                    out.extend_from_slice(b"<triple>");
                    for (name, part) in PARTS.into_iter().zip(parts.triple().unwrap_or_default()) {
                        out.extend_from_slice(format!("<{name}>").as_bytes());
                        xml_term(ctx, part, out);
                        out.extend_from_slice(format!("</{name}>").as_bytes());
                    }
                    out.extend_from_slice(b"</triple>");
                    return;
                }
                Head::Iri(prefix) => {
                    text.push_str("<uri>");
                    (prefix, "</uri>")
                }
                Head::Blank => {
                    text.push_str("<bnode>");
                    ("", "</bnode>")
                }
                Head::Plain => {
                    text.push_str("<literal>");
                    ("", "</literal>")
                }
                Head::Lang(tag) => {
                    let (lang, direction) = split_tag(tag);
                    text.push_str("<literal xml:lang=\"");
                    xml_text(lang, true, &mut text);
                    if let Some(direction) = direction {
                        text.push_str("\" xmlns:its=\"http://www.w3.org/2005/11/its\" its:version=\"2.0\" its:dir=\"");
                        text.push_str(direction);
                    }
                    text.push_str("\">");
                    ("", "</literal>")
                }
                Head::Typed(datatype) => {
                    text.push_str("<literal datatype=\"");
                    xml_text(datatype, true, &mut text);
                    text.push_str("\">");
                    ("", "</literal>")
                }
            };
            xml_text(prefix, false, &mut text);
            xml_text(tail, false, &mut text);
            text.push_str(end);
        }
    });
    out.extend_from_slice(text.as_bytes());
}

/// Appends text as XML. A character that XML cannot represent becomes U+FFFD; other formats keep it.
fn xml_text(text: &str, attribute: bool, out: &mut String) {
    let begin = out.len();
    if escape(text, attribute, out).is_err() {
        out.truncate(begin);
        let text = text.replace(crate::xml::is_lacking, "\u{FFFD}");
        let _ = escape(&text, attribute, out);
    }
}

fn separated(
    ctx: &Context<'_>,
    vars: &[String],
    table: &crate::exec::Table,
    to: &mut dyn Write,
    tabs: bool,
) -> io::Result<()> {
    let (between, end): (u8, &[u8]) = if tabs {
        (b'\t', b"\n")
    } else {
        (b',', b"\r\n")
    };
    let mut out = Vec::with_capacity(BUFFER + 4096);
    for (i, var) in vars.iter().enumerate() {
        if i > 0 {
            out.push(between);
        }
        if tabs {
            out.push(b'?');
        }
        out.extend_from_slice(var.as_bytes());
    }
    out.extend_from_slice(end);
    let rows = |ctx: &Context<'_>, range: Range<usize>, out: &mut Vec<u8>| {
        for r in range {
            for (i, column) in table.columns().iter().enumerate() {
                if i > 0 {
                    out.push(between);
                }
                if column[r] != UNBOUND {
                    ctx.with_parts(column[r], |parts| {
                        if tabs {
                            turtle(ctx, parts, out);
                        } else {
                            bare(ctx, parts, out);
                        }
                    });
                }
            }
            out.extend_from_slice(end);
        }
    };
    in_order(ctx, table.len(), &mut out, to, &rows)?;
    to.write_all(&out)
}

/// Writes rows in portions, with several threads if there are many rows; the finished but unwritten output is bounded. The last bytes stay
/// in `out`.
fn in_order(
    ctx: &Context<'_>,
    len: usize,
    out: &mut Vec<u8>,
    to: &mut dyn Write,
    rows: &(dyn Fn(&Context<'_>, Range<usize>, &mut Vec<u8>) + Sync),
) -> io::Result<()> {
    let threads = ctx.options.threads;
    let mut from = 0;
    while from < len {
        let each = if threads > 1 && len - from >= ctx.options.parallel_rows {
            PORTION
        } else {
            SMALL
        };
        if each == SMALL {
            let end = (from + SMALL).min(len);
            rows(ctx, from..end, out);
            from = end;
        } else {
            let window = (len - from).min(PORTION * threads * 2);
            let parts = portions(
                ctx,
                window,
                PORTION,
                || (),
                |ctx, (), range| {
                    let mut part = Vec::new();
                    rows(ctx, from + range.start..from + range.end, &mut part);
                    Ok(part)
                },
            )
            .map_err(io::Error::other)?;
            to.write_all(out)?;
            out.clear();
            for part in &parts {
                to.write_all(part)?;
            }
            from += window;
        }
        if out.len() > BUFFER {
            to.write_all(out)?;
            out.clear();
        }
    }
    Ok(())
}

/// Writes all quads, or those of one graph (0: the default graph).
pub fn dump(
    data: &Dataset,
    graph: Option<Id>,
    format: RdfFormat,
    to: &mut dyn Write,
) -> io::Result<()> {
    use oxrdf::{GraphName, NamedOrBlankNode, Term};
    let mut writer = DocumentWriter::new(to, format);
    let node = |term: Term| match term {
        Term::NamedNode(n) => Some(NamedOrBlankNode::NamedNode(n)),
        Term::BlankNode(n) => Some(NamedOrBlankNode::BlankNode(n)),
        Term::Literal(_) | Term::Triple(_) => None,
    };
    let term = |id: Id| data.dictionary.term(id);
    let quads = data.quads().filter(|q| graph.is_none_or(|g| q.g == g));
    let quads: Box<dyn Iterator<Item = Quad>> = if data.is_view() {
        Box::new(by_terms(data, quads.collect()).into_iter())
    } else {
        Box::new(quads)
    };
    for q in quads {
        let parts = (term(q.s).and_then(node), term(q.p), term(q.o));
        let (Some(s), Some(Term::NamedNode(p)), Some(o)) = parts else {
            return Err(io::Error::other(
                "a term of a quad is not in the dictionary",
            ));
        };
        // A single graph is written as the default graph.
        let g = match term(q.g).and_then(node) {
            Some(g) if graph.is_none() => GraphName::from(g),
            _ => GraphName::DefaultGraph,
        };
        writer.quad(&oxrdf::Quad::new(s, p, o, g))?;
    }
    writer.finish()?;
    Ok(())
}

/// Sorts quads by their terms: graphs, then subjects, then predicates, then objects.
fn by_terms(data: &Dataset, mut quads: Vec<Quad>) -> Vec<Quad> {
    let mut terms: Vec<Id> = quads.iter().flat_map(|q| [q.g, q.s, q.p, q.o]).collect();
    terms.sort_unstable();
    terms.dedup();
    terms.sort_by(|a, b| data.dictionary.order(*a, *b));
    let ranks: HashMap<Id, u32> = terms.into_iter().zip(0..).collect();
    let rank = |id: Id| ranks.get(&id).copied().unwrap_or_default();
    quads.sort_by_cached_key(|q| (rank(q.g), rank(q.s), rank(q.p), rank(q.o)));
    quads
}

/// Appends a term as in Turtle, on one line.
fn turtle(ctx: &Context<'_>, parts: Parts<'_>, out: &mut Vec<u8>) {
    match parts {
        Parts::Inline(v) if v.datatype() != "date" => out.extend_from_slice(v.text().as_bytes()),
        parts => {
            if let Some(term) = parts.to_term(&|part| ctx.term(part)) {
                out.extend_from_slice(term.to_string().replace('\t', "\\t").as_bytes());
            }
        }
    }
}

/// Appends a term's lexical form, quoted if CSV requires it.
fn bare(ctx: &Context<'_>, parts: Parts<'_>, out: &mut Vec<u8>) {
    match parts {
        Parts::Inline(v) => out.extend_from_slice(v.text().as_bytes()),
        Parts::Stored(Head::Triple, _) => {
            // Quoted as a whole, with the quotes of its literals doubled.
            if let Some(term) = parts.to_term(&|part| ctx.term(part)) {
                let text = term.to_string().replace('"', "\"\"");
                out.extend_from_slice(format!("\"{text}\"").as_bytes());
            }
        }
        Parts::Stored(head, tail) => {
            let prefix: &str = match head {
                Head::Iri(prefix) => prefix,
                Head::Blank => "_:",
                _ => "",
            };
            let quote = [prefix, tail]
                .iter()
                .any(|t| t.contains(['"', ',', '\n', '\r']));
            if quote {
                out.push(b'"');
                for b in prefix.bytes().chain(tail.bytes()) {
                    if b == b'"' {
                        out.push(b'"');
                    }
                    out.push(b);
                }
                out.push(b'"');
            } else {
                out.extend_from_slice(prefix.as_bytes());
                out.extend_from_slice(tail.as_bytes());
            }
        }
    }
}
