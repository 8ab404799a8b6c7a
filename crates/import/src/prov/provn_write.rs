//! Writer of PROV-N.

use super::model::{Document, PROV, Slot, Statement, Statements, Value, XSD};
use super::names::{ESCAPED, Prefixes, is_plain};
use std::fmt::Write as _;

/// Writes a document as PROV-N.
pub(super) fn write(document: &Document) -> String {
    let names = Prefixes::of(document);
    let mut out = String::from("document\n");
    for (prefix, iri) in names.declared() {
        let _ = writeln!(out, "  prefix {prefix} <{iri}>");
    }
    statements(&document.statements, &names, "  ", &mut out);
    for (id, inner) in &document.bundles {
        out.push_str("  bundle ");
        name(&names, id, &mut out);
        out.push('\n');
        statements(inner, &names, "    ", &mut out);
        out.push_str("  endBundle\n");
    }
    out.push_str("endDocument\n");
    out
}

fn statements(all: &Statements, names: &Prefixes, indent: &str, out: &mut String) {
    for statement in all.iter() {
        out.push_str(indent);
        one(statement, names, out);
        out.push('\n');
    }
}

fn one(statement: &Statement, names: &Prefixes, out: &mut String) {
    let form = statement.kind.form();
    out.push_str(match form.keyword {
        "mentionOf" => "prov:mentionOf",
        keyword => keyword,
    });
    out.push('(');
    let mut first = true;
    if let Some(id) = &statement.id {
        name(names, id, out);
        if statement.kind.is_element() {
            first = false;
        } else {
            out.push_str("; ");
        }
    }
    // Trailing empty arguments are omitted, if the statement is an element.
    let stated = statement.arguments.iter().any(Option::is_some) || !statement.kind.is_element();
    for (argument, (_, slot)) in statement
        .arguments
        .iter()
        .zip(form.arguments)
        .filter(|_| stated)
    {
        if !first {
            out.push_str(", ");
        }
        first = false;
        match argument {
            None => out.push('-'),
            Some(time) if *slot == Slot::Time => out.push_str(time),
            Some(iri) => name(names, iri, out),
        }
    }
    if !statement.attributes.is_empty() {
        out.push_str(", [");
        for (i, (attribute, stated)) in statement.attributes.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            name(names, attribute, out);
            out.push('=');
            value(names, stated, out);
        }
        out.push(']');
    }
    out.push(')');
}

fn name(names: &Prefixes, iri: &str, out: &mut String) {
    let (prefix, local) = names.parts(iri);
    out.push_str(prefix);
    out.push(':');
    let last = local.chars().count().saturating_sub(1);
    for (i, c) in local.chars().enumerate() {
        // A dot must not be last, and neither a dot nor `-` may be first.
        let edge = c == '.' && (i == 0 || i == last) || c == '-' && i == 0;
        if !edge && is_plain(c) {
            out.push(c);
        } else if ESCAPED.contains(c) {
            out.push('\\');
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

fn value(names: &Prefixes, stated: &Value, out: &mut String) {
    match stated {
        Value::Name(iri) => {
            out.push('\'');
            name(names, iri, out);
            out.push('\'');
        }
        Value::Literal {
            text,
            datatype,
            language,
        } => {
            quoted(text, out);
            if !language.is_empty() {
                let _ = write!(out, "@{language}");
            } else if !datatype.is_empty() {
                out.push_str(" %% ");
                match datatype.strip_prefix(XSD) {
                    Some(local) => {
                        let _ = write!(out, "xsd:{local}");
                    }
                    None if datatype.strip_prefix(PROV) == Some("InternationalizedString") => {
                        out.push_str("prov:InternationalizedString");
                    }
                    None => name(names, datatype, out),
                }
            }
        }
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c => out.push(c),
        }
    }
    out.push('"');
}
