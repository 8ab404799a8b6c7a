//! Examples of the grammar, and the message of each error.

use super::*;
use crate::value::Properties;

/// 2026-03-31T12:00:00Z.
const NOW: i64 = 1_774_958_400_000_000_000;

#[track_caller]
fn canonical(text: &str) -> String {
    let expr = match Expr::parse(text, Some(NOW)) {
        Ok(expr) => expr,
        Err(e) => panic!("{}", e.render(text)),
    };
    let written = expr.to_string();
    assert_eq!(Expr::parse(&written, None).as_ref(), Ok(&expr), "{written}");
    written
}

#[track_caller]
fn rendered(text: &str) -> String {
    Expr::parse(text, None).unwrap_err().render(text)
}

#[test]
fn each_condition_has_one_canonical_form() {
    for (text, expected) in [
        ("", "true"),
        ("  \n", "true"),
        ("true", "true"),
        ("FALSE", "false"),
        ("Conf_0", "Conf_0"),
        ("EXISTS Conf_0", "Conf_0"),
        ("exists(\"a b\")", "\"a b\""),
        ("Conf_0 EXISTS", "Conf_0"),
        ("x NOT EXISTS", "NOT x"),
        ("a == 1", "a = 1"),
        ("a <> 1", "a != 1"),
        ("a NOT = 1", "a != 1"),
        ("NOT a = 1", "NOT a = 1"),
        ("!a", "NOT a"),
        ("! ! a", "a"),
        ("10 < size", "size > 10"),
        ("-1 >= x", "x <= -1"),
        ("'fast' IN modes", "modes CONTAINS 'fast'"),
        ("'fast' NOT IN modes", "modes NOT CONTAINS 'fast'"),
        ("a=1&&b=2||!c", "a = 1 AND b = 2 OR NOT c"),
        ("a or b and c", "a OR b AND c"),
        ("(a OR b) AND c", "(a OR b) AND c"),
        ("((a AND b) AND (c))", "a AND b AND c"),
        ("a OR (b OR c)", "a OR b OR c"),
        ("NOT (a AND b)", "NOT (a AND b)"),
        ("NOT (NOT a)", "a"),
        ("a AND true", "a"),
        ("a OR true", "a OR true"),
        (
            "step BETWEEN 10 AND 20 AND b",
            "step BETWEEN 10 AND 20 AND b",
        ),
        ("step not between 1 and 2", "step NOT BETWEEN 1 AND 2"),
        ("x in (1, 'a', null)", "x IN (1, 'a', null)"),
        ("x IN [1]", "x IN (1)"),
        ("x NOT IN (1)", "x NOT IN (1)"),
        ("x = [1, [2.5, true]]", "x = [1, [2.5, true]]"),
        ("x = \"text\"", "x = 'text'"),
        ("x = 'it''s'", "x = 'it''s'"),
        (r"x = 'it\'s \u{41}\n'", r"x = 'it''s A\n'"),
        ("\"x\" = 1", "x = 1"),
        ("`in` = 1", "\"in\" = 1"),
        ("\"say \"\"hi\"\"\" = 1", "\"say \"\"hi\"\"\" = 1"),
        ("größe > 1", "größe > 1"),
        ("run/a.b-c:d = 1", "run/a.b-c:d = 1"),
        ("x = x'00ff'", "x = x'00ff'"),
        ("x = 0x1F", "x = 31"),
        ("x = -9223372036854775808", "x = -9223372036854775808"),
        ("x = 1e3", "x = 1000.0"),
        ("x = 1_000", "x = 1000"),
        ("x > -inf", "x > -inf"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn patterns_have_their_own_backslashes() {
    for (text, expected) in [
        ("n LIKE 'run%'", "n LIKE 'run%'"),
        ("n like \"a_c\"", "n LIKE 'a_c'"),
        ("n NOT LIKE 'a%%b'", "n NOT LIKE 'a%b'"),
        ("n ILIKE 'VP%'", "n ILIKE 'vp%'"),
        (r"n LIKE '100\%'", r"n LIKE '100\%'"),
        (r"n LIKE 'a\'b'", "n LIKE 'a''b'"),
        ("n GLOB 'run*.h?'", r"n LIKE 'run%.h_'"),
        ("n GLOB '100%*'", r"n LIKE '100\%%'"),
        ("n STARTS WITH 'a%'", r"n LIKE 'a\%%'"),
        ("n ends with 'x'", "n LIKE '%x'"),
        ("n NOT STARTS WITH 'x'", "n NOT LIKE 'x%'"),
        (r"n ~ '^run\d+$'", r"n ~ '^run\d+$'"),
        (r"n MATCHES 'a\'b''c'", r"n ~ 'a\'b''c'"),
        ("n !~ 'x'", "n NOT ~ 'x'"),
        ("n =~ 'x'", "n ~ 'x'"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn units_and_times() {
    for (text, expected) in [
        ("size > 1GiB", "size > 1073741824"),
        ("size > 1 GiB AND x", "size > 1073741824 AND x"),
        ("size > 1.5gib", "size > 1610612736"),
        ("size > 1.1GiB", "size > 1181116006.4"),
        ("size > 4k", "size > 4000"),
        ("size < 10 MB", "size < 10000000"),
        ("t > 2h30m", "t > 9000"),
        ("t > 2 h 30 min", "t > 9000"),
        ("t < 500ms", "t < 0.5"),
        ("t > -2h", "t > -7200"),
        ("modified > 30d ago", "modified > t'2026-03-01T12:00:00Z'"),
        (
            "modified > 30 days ago AND x",
            "modified > t'2026-03-01T12:00:00Z' AND x",
        ),
        ("modified <= now", "modified <= t'2026-03-31T12:00:00Z'"),
        ("modified > now-2h", "modified > t'2026-03-31T10:00:00Z'"),
        (
            "modified > now - 1d + 1h",
            "modified > t'2026-03-30T13:00:00Z'",
        ),
        ("m > t'2026-03-01'", "m > t'2026-03-01T00:00:00Z'"),
        (
            "m = 2026-03-01",
            "m BETWEEN t'2026-03-01T00:00:00Z' AND t'2026-03-01T23:59:59.999999999Z'",
        ),
        (
            "m != 2026-03-01",
            "m NOT BETWEEN t'2026-03-01T00:00:00Z' AND t'2026-03-01T23:59:59.999999999Z'",
        ),
        ("m > 2026-03-01", "m > t'2026-03-01T23:59:59.999999999Z'"),
        ("m < 2026-03-01", "m < t'2026-03-01T00:00:00Z'"),
        ("m >= 2026-03-01-1d", "m >= t'2026-02-28T00:00:00Z'"),
        ("2026-03-01 > m", "m < t'2026-03-01T00:00:00Z'"),
        ("m >= 2026-03-01 12:00", "m >= t'2026-03-01T12:00:00Z'"),
        (
            "m >= 2026-03-01T12:00:00+01:00",
            "m >= t'2026-03-01T11:00:00Z'",
        ),
        ("m >= @1700000000", "m >= t'2023-11-14T22:13:20Z'"),
        ("m < 1960-01-01", "m < t'1960-01-01T00:00:00Z'"),
        (
            "m BETWEEN 2026-03-01 AND '2026-03-02'",
            "m BETWEEN t'2026-03-01T00:00:00Z' AND t'2026-03-02T23:59:59.999999999Z'",
        ),
        (
            "a AND m IN (2026-03-01, t'2026-03-09')",
            "a AND (m IN (t'2026-03-09T00:00:00Z') OR m BETWEEN t'2026-03-01T00:00:00Z' AND t'2026-03-01T23:59:59.999999999Z')",
        ),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn quoted_text_compared_with_a_timestamp_is_a_time() {
    let at =
        |text: &str| Properties::new().with("m", Value::Timestamp(time_bounds(text).unwrap().0));
    let holds = |text: &str, of: &Properties| {
        let expr = Expr::parse(text, None).unwrap();
        let answer = expr.matches(of);
        assert_eq!(Prepared::new(&expr).matches(of), answer, "{text}");
        answer
    };
    let noon = at("2026-03-01T12:00:00Z");
    assert!(holds("m = '2026-03-01'", &noon));
    assert!(!holds("m != '2026-03-01'", &noon));
    assert!(!holds("m > '2026-03-01'", &noon));
    assert!(holds("m >= '2026-03-01'", &noon));
    assert!(holds("m BETWEEN '2026-02-28' AND '2026-03-01'", &noon));
    assert!(holds("m IN ('vpic', '2026-03-01')", &noon));
    assert!(!holds("m = 'vpic'", &noon));
    assert!(holds("m != 'vpic'", &noon));
    let text = Properties::new().with("m", "2026-03-01");
    assert!(holds("m = '2026-03-01'", &text));
    assert!(!holds("m = 2026-03-01", &text));
}

#[test]
fn a_term_on_an_absent_name_is_false_and_not_turns_it() {
    let nothing = Properties::new();
    let null = Properties::new().with("x", Value::Null);
    for (text, of_nothing, of_null) in [
        ("x", false, true),
        ("x = null", false, true),
        ("x != 1", false, true),
        ("x = 1", false, false),
        ("NOT x = 1", true, true),
        ("x NOT IN (1)", false, true),
        ("x NOT LIKE '%'", false, true),
        ("NOT x LIKE '%'", true, true),
        ("NOT x", true, false),
        ("true", true, true),
        ("false", false, false),
    ] {
        let expr = Expr::parse(text, None).unwrap();
        assert_eq!(expr.matches(&nothing), of_nothing, "{text}");
        assert_eq!(expr.matches(&null), of_null, "{text}");
    }
}

/// Writes each text with its error message, without the first word of the message.
#[test]
fn errors_show_the_place_what_was_expected_and_what_may_have_been_meant() {
    let mut all = String::new();
    for text in [
        "Name = VPIC",
        "Name = AND x",
        "energy >",
        "energy > 3 AND",
        "energy > 3 b = 2",
        "step betwen 1 AND 5",
        "step BETWEEN 1",
        "step BETWEEN 1 AND 'a'",
        "größe => 1",
        "x = 'open",
        r"x = 'a\d'",
        "x ~ '('",
        "x ~ run",
        "x LIKE 5",
        "x IS NULL",
        "x < null",
        "x IN ()",
        "x IN modes",
        "(a OR b",
        "a)",
        "x = [1, 2",
        "size > 1gbi",
        "size > 1.5.2",
        "size > 12abc.def",
        "n = 99999999999999999999",
        "m > 30 ago",
        "m > 30d ago",
        "m > 2026-13-01",
        "m > t'2026'",
        "x CONTAINS 2026-03-01",
        "x = x'0'",
        "AND = 1",
        "a & b",
        "x = “text”",
        "日本 = 1 日本語",
        "EXISTS 5",
        "5 LIKE x",
        "a\n  AND b = c",
    ] {
        all.push_str(&rendered(text));
        all.push('\n');
    }
    let golden = include_str!("errors.txt");
    #[allow(clippy::disallowed_methods, reason = "as expect-test does")]
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = std::path::absolute("src/filter/errors.txt").unwrap();
        std::fs::write(path, &all).unwrap();
        return;
    }
    assert_eq!(all, golden, "compare with src/filter/errors.txt");
}

#[test]
fn an_unknown_name_is_shown_where_it_stands() {
    assert_eq!(
        render_unknown(
            "step > 3 AND varible = 'T' AND m > 30d ago",
            "varible",
            Some(("variable", 41_022)),
        )
        .unwrap(),
        "error: unknown tag 'varible'
  step > 3 AND varible = 'T' AND m > 30d ago
               ^^^^^^^
  did you mean 'variable' (41,022 objects)?"
    );
    assert_eq!(render_unknown("a = 1", "b", None), None);
}

#[test]
fn or_binds_loosest_and_not_tightest() {
    let of = |names: &str| {
        names
            .chars()
            .map(|c| (c.to_string(), Value::Null))
            .collect::<Properties>()
    };
    for (text, holds, fails) in [
        ("a OR b AND c", vec!["a", "bc"], vec!["b", "c"]),
        ("a AND b OR c", vec!["ab", "c"], vec!["a", "b"]),
        ("NOT a AND b", vec!["b"], vec!["ab", ""]),
        ("NOT a OR b", vec!["", "ab"], vec!["a"]),
        ("(a OR b) AND c", vec!["ac", "bc"], vec!["ab", "c"]),
        ("NOT (a OR b)", vec!["c"], vec!["a", "b"]),
    ] {
        let expr = Expr::parse(text, None).unwrap();
        for names in holds {
            assert!(expr.matches(&of(names)), "{text} of {names:?}");
        }
        for names in fails {
            assert!(!expr.matches(&of(names)), "{text} of {names:?}");
        }
    }
}

#[test]
fn ignoring_case_is_not_of_the_turkish_kind() {
    let matches = |pattern: &str, text: &str| Pattern::like(pattern).ignoring_case().matches(text);
    assert!(matches("vpic%", "VPIC-7"));
    assert!(matches("ÄÖ_", "äöü"));
    assert!(matches("%İ%", "aİb"));
    assert!(!matches("vpic", "vpi"));
}

#[test]
fn values_of_edges_and_vertices_have_names() {
    use crate::graph::Vertex;
    use crate::object::{Found, ObjectId};
    use crate::schema::Schema;
    use crate::version::Version;
    let schema = Schema::default();
    let id = ObjectId(77);
    let attributes = Properties::new().with("name", "energy").with("step", 7);
    let vertex = Vertex {
        id: id.vertex(),
        type_id: schema.vertex_type_id("Object").unwrap(),
        key: "77".into(),
        version: Version::new(1_774_958_400_000, 0),
        deleted: false,
        attributes: attributes.clone(),
        user: Vec::new(),
    };
    let found = Found {
        id,
        created: vertex.version,
        modified: vertex.version,
        attributes,
        tags: Properties::new(),
    };
    for text in [
        "id = 77",
        "key = '77'",
        "type = 'DataObject'",
        "type != 'File'",
        "Name = 'energy' AND STEP = 7",
        "modified = 2026-03-31",
        "modified > 1h ago",
        "version <= now",
        "NOT location",
    ] {
        let expr = Expr::parse(text, Some(NOW)).unwrap();
        let expr = expr.with_vertex_types(&schema).unwrap();
        let of_vertex = VertexFields::new(&vertex, &schema);
        assert!(expr.matches(&of_vertex), "{text}");
        assert!(Prepared::new(&expr).matches(&of_vertex), "{text}");
        assert!(expr.matches(&found), "{text}");
        for name in expr.names() {
            assert_eq!(of_vertex.field(name), found.field(name), "{name}");
        }
    }
    let unknown = Expr::parse("type = 'Fiel'", None).unwrap();
    let message = unknown.with_vertex_types(&schema).unwrap_err().to_string();
    assert!(message.contains("did you mean `File`"), "{message}");
}
