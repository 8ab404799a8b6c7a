//! Completion while a user types a traversal, a filter or a query.

use esker_model::Schema;
use serde::Serialize;

/// Maximum number of items of one completion.
const ITEMS_MAX: usize = 40;

/// Languages that can be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Traversals: `v("job:1").e("read")`.
    Travel,
    /// Filters: `size > 1GiB AND note LIKE 'a%'`.
    Filter,
    /// SPARQL queries.
    Sparql,
}

/// One suggestion of a completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Text shown in the list.
    pub label: String,
    /// One of `call`, `edge`, `type`, `attribute`, `tag`, `operator`, `keyword`, `vertex`, `predicate`, `prefix`, `variable`.
    pub kind: &'static str,
    /// Short description for display.
    pub detail: String,
    /// Text that is inserted.
    pub apply: String,
}

/// Suggestions at a position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Completion {
    /// Byte offset from which the text is replaced.
    pub from: usize,
    /// Suggestions, the best first.
    pub items: Vec<Item>,
}

/// Names that can be suggested.
pub struct KnownNames<'a> {
    /// Schema with the types.
    pub schema: &'a Schema,
    /// Names of tags, and how many vertices have them.
    pub tags: &'a [(String, u64)],
    /// Looks up vertices whose names contain a text; returns name and detail.
    pub vertices: &'a dyn Fn(&str) -> Vec<(String, String)>,
}

const CALLS: [(&str, &str, &str); 14] = [
    ("e", "e(\"", "follow edges of these types"),
    ("v", "v()", "arrive at the vertices on the other side"),
    ("va", "va(\"", "keep vertices that match a condition"),
    ("ea", "ea(\"", "keep edges that match a condition"),
    ("rtn", "rtn()", "return this working set"),
    ("return_fp", "return_fp()", "return whole paths"),
    (
        "repeat",
        "repeat()",
        "go through the hops again until nothing new is reached",
    ),
    (
        "repeat(max=N)",
        "repeat(max=",
        "repeat the hops at most this often",
    ),
    ("as_of", "as_of(\"", "see the graph as it was then"),
    (
        "versions",
        "versions(\"",
        "each edge that existed in the range",
    ),
    (
        "limit",
        "limit(",
        "stop when the last working set has this many vertices",
    ),
    ("v(\"…\")", "v(\"", "start from vertices"),
    (
        "v(type=…)",
        "v(type=\"",
        "start from all vertices of a type",
    ),
    ("v(\"user:…\")", "v(\"user:", "start from a user"),
];
/// Number of entries of `CALLS` that begin a traversal.
const BEGINNINGS: usize = 3;

const OPERATORS: [(&str, &str); 15] = [
    ("=", "equals"),
    ("!=", "has it, and another value"),
    ("<", "below"),
    ("<=", "at most"),
    (">", "above"),
    (">=", "at least"),
    ("BETWEEN", "from … to …, both inside"),
    ("IN", "one of a list"),
    ("LIKE", "text of that form: % is any text"),
    ("ILIKE", "the same in any case"),
    ("GLOB", "text of that form: * is any text"),
    ("STARTS WITH", "text that begins so"),
    ("CONTAINS", "a list with it, or text with it"),
    ("~", "a regular expression is found"),
    ("EXISTS", "has it"),
];
const JOINS: [(&str, &str); 2] = [("AND", "both hold"), ("OR", "one of them holds")];
const KEYWORDS: [&str; 36] = [
    "SELECT",
    "DISTINCT",
    "WHERE",
    "FILTER",
    "OPTIONAL",
    "UNION",
    "MINUS",
    "BIND",
    "VALUES",
    "GRAPH",
    "SERVICE",
    "ORDER BY",
    "GROUP BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "PREFIX",
    "BASE",
    "ASK",
    "CONSTRUCT",
    "DESCRIBE",
    "FROM",
    "NOT EXISTS",
    "EXISTS",
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "REGEX",
    "STR",
    "LANG",
    "DATATYPE",
    "BOUND",
    "INSERT DATA",
    "DELETE WHERE",
];
const PREFIXES: [(&str, &str); 6] = [
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("owl", "http://www.w3.org/2002/07/owl#"),
    ("prov", "http://www.w3.org/ns/prov#"),
    ("dct", "http://purl.org/dc/terms/"),
];

fn item(label: &str, kind: &'static str, detail: &str, apply: &str) -> Item {
    Item {
        label: label.to_owned(),
        kind,
        detail: detail.to_owned(),
        apply: apply.to_owned(),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the offset at which the word at the end of a text begins.
fn word_start(text: &str) -> usize {
    text.trim_end_matches(is_word).len()
}

/// Returns the suggestions after the first `at` bytes of a text.
pub fn complete(language: Language, text: &str, at: usize, known: &KnownNames<'_>) -> Completion {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let mut found = match language {
        Language::Travel => travel(before, known),
        Language::Filter => filter(before, 0, known),
        Language::Sparql => sparql(before, known),
    };
    let typed = before[found.from..].to_lowercase();
    let fits = |item: &Item| {
        let label = item.label.to_lowercase();
        (
            !label.starts_with(&typed),
            !item.apply.to_lowercase().contains(&typed),
        )
    };
    found
        .items
        .retain(|item| item.kind == "vertex" || fits(item) != (true, true));
    found.items.sort_by_key(fits);
    found.items.truncate(ITEMS_MAX);
    found
}

/// Returns the offset of an unclosed string at the end of a traversal, and the call that contains it.
fn open_string(before: &str) -> Option<(usize, &str)> {
    let (mut open, mut escaped) = (None, false);
    for (i, c) in before.char_indices() {
        match c {
            '\\' if open.is_some() && !escaped => {
                escaped = true;
                continue;
            }
            '"' if !escaped => open = if open.is_some() { None } else { Some(i + 1) },
            _ => {}
        }
        escaped = false;
    }
    let start: usize = open?;
    // The call is the word before the last open parenthesis.
    let head = &before[..start - 1];
    let call = head.rfind('(').map_or("", |at| {
        let name = &head[..at];
        &name[word_start(name)..]
    });
    Some((start, call))
}

fn edges(known: &KnownNames<'_>) -> Vec<Item> {
    let types = known.schema.edge_types().map(|(_, t)| {
        let name = |id| {
            known
                .schema
                .vertex_type(id)
                .map_or("?", |t| t.name.as_str())
        };
        let detail = format!("{} to {}", name(t.source), name(t.destination));
        item(&t.name, "edge", &detail, &t.name)
    });
    types.collect()
}

fn types(known: &KnownNames<'_>) -> Vec<Item> {
    let types = known.schema.vertex_types().map(|(_, t)| {
        let parent = t.parent.and_then(|p| known.schema.vertex_type(p));
        let detail = parent.map_or(String::new(), |p| format!("a {}", p.name));
        item(&t.name, "type", &detail, &t.name)
    });
    types.collect()
}

fn travel(before: &str, known: &KnownNames<'_>) -> Completion {
    if let Some((start, call)) = open_string(before) {
        let inside = &before[start..];
        return match call {
            "e" => Completion {
                from: start,
                items: edges(known),
            },
            "v" if before[..start - 1].trim_end().ends_with('=') => Completion {
                from: start,
                items: types(known),
            },
            "v" => {
                let vertices = (known.vertices)(inside);
                let found = vertices
                    .into_iter()
                    .map(|(name, detail)| item(&name, "vertex", &detail, &name));
                let mut items: Vec<Item> = found.collect();
                if !inside.contains(':') {
                    let prefixes = known.schema.vertex_types().map(|(id, t)| {
                        let prefix = format!("{}:", known.schema.prefix(id));
                        item(&prefix, "type", &t.name, &prefix)
                    });
                    items.extend(prefixes.filter(|i| i.apply.starts_with(inside)));
                }
                Completion { from: start, items }
            }
            "va" | "ea" => filter(inside, start, known),
            _ => Completion {
                from: start,
                items: Vec::new(),
            },
        };
    }
    let from = word_start(before);
    let head = before[..from].trim_end();
    let calls = if head.is_empty() {
        &CALLS[CALLS.len() - BEGINNINGS..]
    } else if head.ends_with('.') {
        &CALLS[..CALLS.len() - BEGINNINGS]
    } else {
        &[]
    };
    let items = calls
        .iter()
        .map(|(label, apply, detail)| item(label, "call", detail, apply));
    Completion {
        from,
        items: items.collect(),
    }
}

/// Quotes a name for a filter, if necessary.
fn quoted(name: &str) -> String {
    let plain = name
        .chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| is_word(c) || "-.:/".contains(c))
        && !name.ends_with(['-', '.', ':', '/']);
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Completes a filter. `before` is the typed part of the filter, which begins at offset `start` of the text.
fn filter(before: &str, start: usize, known: &KnownNames<'_>) -> Completion {
    let quotes = |q: char| before.matches(q).count() % 2 == 1;
    if quotes('\'') {
        return Completion {
            from: start + before.len(),
            items: Vec::new(),
        };
    }
    let from = word_start(before);
    let head = before[..from].trim_end();
    let last = &head[word_start(head)..];
    let upper = last.to_uppercase();
    let begins = head.is_empty()
        || head.ends_with('(')
        || matches!(upper.as_str(), "AND" | "OR" | "NOT" | "EXISTS");
    let behind_operator = head.ends_with(['=', '<', '>', '~', ','])
        || matches!(
            upper.as_str(),
            "BETWEEN" | "IN" | "LIKE" | "ILIKE" | "GLOB" | "WITH" | "CONTAINS" | "MATCHES"
        );
    let mut items = Vec::new();
    if begins {
        for (name, count) in known.tags {
            items.push(item(
                name,
                "tag",
                &format!("{count} objects"),
                &quoted(name),
            ));
        }
        for (_, t) in known.schema.vertex_types() {
            for attribute in &t.attributes {
                if !items.iter().any(|i: &Item| i.label == attribute.name) {
                    let detail = format!("{} of {}", attribute.kind.name(), t.name);
                    let apply = quoted(&attribute.name);
                    items.push(item(&attribute.name, "attribute", &detail, &apply));
                }
            }
        }
        if upper != "NOT" {
            items.push(item("NOT", "operator", "does not hold", "NOT "));
        }
    } else if !behind_operator {
        let is_value = head.ends_with(['\'', ')', '"'])
            || last.chars().next().is_some_and(|c| c.is_ascii_digit())
            || ["TRUE", "FALSE", "NULL"].contains(&upper.as_str());
        let words: &[(&str, &str)] = if is_value { &JOINS } else { &OPERATORS };
        for (word, detail) in words
            .iter()
            .chain(if is_value { &[][..] } else { &JOINS[..] })
        {
            items.push(item(word, "operator", detail, &format!("{word} ")));
        }
    }
    Completion {
        from: start + from,
        items,
    }
}

fn sparql(before: &str, known: &KnownNames<'_>) -> Completion {
    let from = word_start(before);
    let head = before[..from].trim_end();
    let last = head[word_start(head)..].to_uppercase();
    let mut items = Vec::new();
    if last == "PREFIX" {
        for (name, iri) in PREFIXES {
            items.push(item(name, "prefix", iri, &format!("{name}: <{iri}>")));
        }
    } else if head.ends_with(['?', '$']) {
        // Variables that the query already has.
        let mut seen: Vec<&str> = Vec::new();
        for part in before[..from].split(['?', '$']).skip(1) {
            let end = part.find(|c| !is_word(c)).unwrap_or(part.len());
            let name = &part[..end];
            if !name.is_empty() && !seen.contains(&name) {
                seen.push(name);
            }
        }
        items.extend(seen.iter().map(|name| item(name, "variable", "", name)));
    } else {
        items.extend(
            KEYWORDS
                .iter()
                .map(|k| item(k, "keyword", "", &format!("{k} "))),
        );
        let declared = before.to_lowercase();
        for (name, iri) in PREFIXES {
            if declared.contains(&format!("prefix {name}:")) {
                items.push(item(
                    &format!("{name}:"),
                    "prefix",
                    iri,
                    &format!("{name}:"),
                ));
            }
        }
        // Predicates are found like tags: among the existing names.
        for (name, count) in known.tags {
            if name.starts_with("http://") || name.starts_with("https://") {
                items.push(item(
                    name,
                    "predicate",
                    &format!("{count} times"),
                    &format!("<{name}>"),
                ));
            }
        }
    }
    Completion { from, items }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(language: Language, text: &str) -> (usize, Vec<String>) {
        let schema = Schema::default();
        let known = KnownNames {
            schema: &schema,
            tags: &[("note".into(), 3), ("my tag".into(), 1)],
            vertices: &|text| vec![(format!("user:{text}7"), "Ada".into())],
        };
        let done = complete(language, text, text.len(), &known);
        let labels = done.items.into_iter().map(|i| i.apply).collect();
        (done.from, labels)
    }

    #[test]
    fn chains_begin_with_vertices_and_go_on_by_edges() {
        let (from, items) = labels(Language::Travel, "");
        assert_eq!((from, items[0].as_str()), (0, "v(\""));
        let (from, items) = labels(Language::Travel, "v(\"job:1\").e(\"wasR");
        assert_eq!(from, 14);
        assert_eq!(items, ["wasRunBy", "wasReadBy"]);
        let (_, items) = labels(Language::Travel, "v(type=\"Fi");
        assert_eq!(items, ["File"]);
        let (_, items) = labels(Language::Travel, "v(\"job:1\").re");
        assert_eq!(items, ["return_fp()", "repeat()", "repeat(max="]);
        let (_, items) = labels(Language::Travel, "v(\"100");
        assert_eq!(items, ["user:1007"]);
        let (from, items) = labels(Language::Travel, "v(\"job:1\").e().va(\"siz");
        assert_eq!((from, items), (19, vec!["size".to_owned()]));
    }

    #[test]
    fn filters_have_names_operators_and_joins_in_turn() {
        let (_, items) = labels(Language::Filter, "no");
        assert_eq!(&items[..2], ["note", "NOT "]);
        let (_, items) = labels(Language::Filter, "my");
        assert_eq!(items, ["\"my tag\""]);
        let (_, items) = labels(Language::Filter, "note ");
        assert!(items.contains(&"LIKE ".to_owned()), "{items:?}");
        let (_, items) = labels(Language::Filter, "note = ");
        assert!(items.is_empty(), "{items:?}");
        let (_, items) = labels(Language::Filter, "note = 'a' ");
        assert_eq!(items, ["AND ", "OR "]);
        let (_, items) = labels(Language::Filter, "note = 'a AND ");
        assert!(items.is_empty(), "within a text: {items:?}");
    }

    #[test]
    fn queries_know_their_variables() {
        let (_, items) = labels(Language::Sparql, "SELECT ?name WHERE { ?name ?p ?n");
        assert_eq!(items, ["name"]);
        let (_, items) = labels(Language::Sparql, "SEL");
        assert_eq!(items, ["SELECT "]);
        let (_, items) = labels(Language::Sparql, "PREFIX pr");
        assert_eq!(items, ["prov: <http://www.w3.org/ns/prov#>"]);
    }

    #[test]
    fn no_text_breaks_it() {
        for text in ["é", "v(\"é", "\"\\", "va(\"'", "?", "'\"'"] {
            for at in 0..=text.len() + 1 {
                for language in [Language::Travel, Language::Filter, Language::Sparql] {
                    let schema = Schema::default();
                    let known = KnownNames {
                        schema: &schema,
                        tags: &[],
                        vertices: &|_| Vec::new(),
                    };
                    let done = complete(language, text, at, &known);
                    assert!(text.is_char_boundary(done.from), "{text} {at}");
                }
            }
        }
    }
}
