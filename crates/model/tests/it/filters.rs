//! The filter language: formatting and parsing are inverse, no text makes the parser panic, and evaluation agrees with
//! a simpler implementation of the rules.

use crate::plain_filter::{plain_test, plainly};
use crate::strategies::{text, value};
use esker_model::filter::{
    Comparison, Expr, FilterParseError, Pattern, PatternKind, Prepared, PreparedTest, Regex, Test,
    ValueRef, time_bounds,
};
use esker_model::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX};
use esker_model::{Properties, Value};
use proptest::prelude::*;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Eq,
    Comparison::Ne,
    Comparison::Lt,
    Comparison::Le,
    Comparison::Gt,
    Comparison::Ge,
];

/// Times of every form, days and instants.
const TIMES: [&str; 6] = [
    "2026-03-01",
    "2026-03-02",
    "2026-03-01T12:00:00Z",
    "2026-03-01 12:00:00",
    "@1772323200.5",
    "1969-12-31",
];

fn name() -> impl Strategy<Value = String> {
    let odd = text().prop_map(|text| {
        let name: String = text
            .chars()
            .filter(|c| !c.is_control() && *c != '=')
            .collect();
        if name.is_empty() {
            "n".to_owned()
        } else {
            name
        }
    });
    let words = [
        "and", "now", "now-2h", "ago", "t", "x", "TRUE", "a-b", "a-", "1a",
    ];
    prop_oneof![
        odd,
        prop::sample::select(words.to_vec()).prop_map(str::to_owned)
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let like = prop_oneof![text(), "[ab%_\\\\']{0,8}", "[AbßΣ%]{0,5}"];
    (like, 0..4).prop_map(|(text, form)| match form {
        0 => Pattern::glob(&text),
        1 => Pattern::like(&text).ignoring_case(),
        2 => Pattern::prefix(&text),
        _ => Pattern::like(&text),
    })
}

fn regex() -> impl Strategy<Value = Regex> {
    let texts = prop_oneof![
        "[ab.*'\\\\]{0,6}",
        prop::sample::select(&["^run\\d+$", "a|b", "it's \\' '' x", "(?i)É+", ""])
            .prop_map(str::to_owned),
    ];
    texts.prop_filter_map("a regular expression", |text| Regex::new(&text).ok())
}

/// Tests of every kind over those values; with `odd`, also tests that nothing can match.
fn test(odd: bool, value: BoxedStrategy<Value>) -> impl Strategy<Value = Test> {
    let comparison = prop::sample::select(&COMPARISONS);
    let leaf = prop_oneof![
        Just(Test::Exists),
        (comparison, value.clone()).prop_map(move |(c, x)| match c {
            Comparison::Eq | Comparison::Ne => Test::Compare(c, x),
            _ if x == Value::Null && !odd => Test::Compare(Comparison::Eq, x),
            _ => Test::Compare(c, x),
        }),
        (value.clone(), value.clone()).prop_map(move |(a, b)| {
            let null = a == Value::Null || b == Value::Null;
            match a.compare(&b) {
                _ if odd => Test::Between(a, b),
                Some(_) if !null => Test::Between(a, b),
                _ => Test::In(vec![a, b]),
            }
        }),
        prop::collection::vec(value.clone(), usize::from(!odd)..12).prop_map(Test::In),
        pattern().prop_map(Test::Like),
        regex().prop_map(Test::Matches),
        value.prop_map(Test::Contains),
    ];
    let not = |test: Test| Test::Not(Box::new(test));
    (leaf, 0..8).prop_map(move |(test, form)| match form {
        0 | 1 => not(test),
        2 => not(not(test)),
        _ => test,
    })
}

fn tree(term: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![10 => term, 1 => Just(Expr::All)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            parts().prop_map(Expr::And),
            parts().prop_map(Expr::Or),
            inner.prop_map(|e| Expr::Not(Box::new(e))),
        ]
    })
}

/// Conditions that users may write, in the parser's form.
pub(crate) fn expr() -> impl Strategy<Value = Expr> {
    let term = (name(), test(false, value(false).boxed()));
    tree(term.prop_map(|(name, test)| Expr::term(name, test)).boxed()).prop_map(Expr::normal)
}

/// Conditions that programs may build.
fn any_expr() -> impl Strategy<Value = Expr> {
    let term = (name(), test(true, value(false).boxed()));
    tree(term.prop_map(|(name, test)| Expr::term(name, test)).boxed())
}

/// A small set of values, so that equal ones are frequent.
fn small_value() -> BoxedStrategy<Value> {
    let texts = [
        "",
        "a",
        "b",
        "ab",
        "AB",
        "run 1",
        "2026-03-01",
        "2026-03-01T12:00:00Z",
        "@5",
        "1969-12-31",
    ];
    let day = time_bounds("2026-03-01").unwrap();
    let time_bounds = vec![
        0,
        5_000_000_000,
        5_000_999_999,
        5_001_000_000,
        -1,
        i64::MIN,
        i64::MAX,
    ];
    let edges = vec![
        day.0 - 1,
        day.0,
        day.1,
        day.1 + 1,
        day.0 + 43_200_000_000_000,
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-2_i64..4).prop_map(Value::I64),
        prop::sample::select(&[-0.0, 1.0, 1.5, f64::INFINITY, f64::NAN]).prop_map(Value::F64),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        prop::collection::vec(0_u8..2, 0..3).prop_map(Value::Bytes),
        prop::sample::select(time_bounds).prop_map(Value::Timestamp),
        prop::sample::select(edges).prop_map(Value::Timestamp),
    ];
    let list = prop::collection::vec(leaf.clone(), 0..3).prop_map(Value::List);
    prop_oneof![6 => leaf, 1 => list].boxed()
}

fn small_expr() -> impl Strategy<Value = Expr> {
    let names = prop::sample::select(&["x", "y"]);
    let term = (names, test(true, small_value()));
    tree(term.prop_map(|(name, test)| Expr::term(name, test)).boxed())
}

fn small_fields() -> impl Strategy<Value = Properties> {
    let one = || prop::option::weighted(0.8, small_value());
    (one(), one()).prop_map(|(x, y)| {
        let pairs = [("x", x), ("y", y)];
        let there = pairs
            .into_iter()
            .filter_map(|(n, v)| Some((n.to_owned(), v?)));
        there.collect()
    })
}

/// Checks the properties of every error.
#[track_caller]
fn check_error(text: &str, error: &FilterParseError) {
    assert!(text.is_char_boundary(error.at), "{text:?} {error:?}");
    assert!(error.at + error.len <= text.len(), "{text:?} {error:?}");
    assert!(!error.message.is_empty() && !error.expected.is_empty());
    let line = error.to_string();
    assert!(!line.contains(['\n', '\u{1b}']), "{line:?}");
    let shown = error.render(text);
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(shown.contains('^'), "{shown}");
}

#[track_caller]
fn read(text: &str) {
    match Expr::parse(text, Some(1_774_958_400_000_000_000)) {
        // NaN equals nothing, itself included, so the formatted texts are compared.
        Ok(expr) => {
            let written = expr.to_string();
            let again =
                Expr::parse(&written, None).unwrap_or_else(|e| panic!("{}", e.render(&written)));
            assert_eq!(again.to_string(), written, "{text:?}");
        }
        Err(error) => check_error(text, &error),
    }
}

const PIECES: [&str; 52] = [
    "a",
    "b.c",
    "\"q r\"",
    "`in`",
    "1",
    "2.5",
    "-",
    "+",
    "10 MB",
    "1GiB",
    "30d",
    "ago",
    "now",
    "now-2h",
    "2026-03-01",
    "2026-03-01 12:00",
    "@17",
    "'text'",
    "'it''s'",
    "'\\d'",
    "t'2026-03-01'",
    "x'00'",
    "true",
    "false",
    "null",
    "inf",
    "nan",
    "=",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "~",
    "!~",
    "!",
    "&&",
    "||",
    "(",
    ")",
    "[",
    "]",
    ",",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "IN",
    "LIKE",
    "EXISTS",
];

proptest! {
    #[test]
    fn what_is_written_is_read_back(expr in expr()) {
        let written = expr.to_string();
        prop_assert!(!written.contains('\n'));
        let read = Expr::parse(&written, None);
        prop_assert_eq!(read.map_err(|e| e.render(&written)), Ok(expr));
    }

    #[test]
    fn what_programs_build_goes_over_a_wire(expr in any_expr()) {
        let written = expr.to_string();
        let read = Expr::parse_canonical(&written);
        prop_assert_eq!(read.map_err(|e| e.render(&written)), Ok(expr.normal()));
    }

    #[test]
    fn no_text_makes_it_panic(text in text()) {
        read(&text);
    }

    #[test]
    fn no_row_of_pieces_makes_it_panic(
        pieces in prop::collection::vec(prop::sample::select(&PIECES), 0..12),
        blanks in any::<bool>(),
    ) {
        read(&pieces.join(if blanks { " " } else { "" }));
    }

    #[test]
    fn what_holds_is_what_the_rules_say(expr in small_expr(), fields in small_fields()) {
        let expected = plainly(&expr, &fields);
        prop_assert_eq!(expr.matches(&fields), expected);
        prop_assert_eq!(Prepared::new(&expr).matches(&fields), expected);
        let normal = expr.normal();
        prop_assert_eq!(normal.matches(&fields), expected, "{}", normal);
    }

    #[test]
    fn a_pattern_matches_what_trying_everything_matches(form in "[ab%_]{0,7}", text in "[ab]{0,9}") {
        let expected = plain_test(&Test::Like(Pattern::like(&form)), &Value::from(text.as_str()));
        prop_assert_eq!(Pattern::like(&form).matches(&text), expected);
    }

    #[test]
    fn text_compared_with_a_timestamp_is_a_whole_range(
        comparison in prop::sample::select(&COMPARISONS),
        time in prop::sample::select(&TIMES),
        other in prop::sample::select(&TIMES),
        edge in 0_usize..5,
        form in 0..3,
    ) {
        let (first, last) = time_bounds(time).unwrap();
        let t = [first - 1, first, first + (last - first) / 2, last, last + 1][edge];
        let test = match form {
            0 => Test::Between(Value::from(time), Value::from(other)),
            1 => Test::In(vec![Value::from(other), Value::from(time)]),
            _ => Test::Compare(comparison, Value::from(time)),
        };
        let expected = plain_test(&test, &Value::Timestamp(t));
        prop_assert_eq!(test.matches(&Value::Timestamp(t)), expected);
        prop_assert_eq!(PreparedTest::new(&test).matches(ValueRef::Timestamp(t)), expected);
        // Without quotes the parser computes the range itself.
        let text = match test {
            Test::Compare(..) => format!("x {} {time}", comparison.sign()),
            Test::In(_) => format!("x IN ({other}, {time})"),
            _ => format!("x BETWEEN {time} AND {other}"),
        };
        let fields = Properties::new().with("x", Value::Timestamp(t));
        prop_assert_eq!(Expr::parse(&text, None).unwrap().matches(&fields), expected, "{}", text);
    }

    #[test]
    fn long_lists_are_searched_as_short_ones(
        numbers in prop::collection::vec(-3_i64..40, 0..20),
        asked in -4_i64..41,
        kind in 0..4,
    ) {
        let value = |n: i64| match kind {
            0 => Value::I64(n),
            1 => Value::from(n.to_string()),
            2 => Value::F64(n as f64),
            _ if n % 2 == 0 => Value::I64(n),
            _ => Value::F64(n as f64),
        };
        let test = Test::In(numbers.iter().copied().map(value).collect());
        let expected = numbers.contains(&asked);
        let asked = value(asked);
        prop_assert_eq!(test.matches(&asked), expected);
        prop_assert_eq!(PreparedTest::new(&test).matches(ValueRef::from(&asked)), expected);
        if let Value::I64(n) = asked {
            prop_assert_eq!(PreparedTest::new(&test).matches(ValueRef::F64(n as f64)), expected);
        }
    }

    #[test]
    fn times_of_a_test_are_those_that_fulfil_it(test in test(true, small_value()), value in small_value()) {
        let times = test.times();
        prop_assert!(times.iter().all(|(first, last)| first <= last));
        prop_assert!(times.windows(2).all(|w| w[0].1 < w[1].0 - 1), "{:?}", times);
        let expected = plain_test(&test, &value);
        prop_assert_eq!(test.matches(&value), expected);
        prop_assert_eq!(PreparedTest::new(&test).matches(ValueRef::from(&value)), expected);
        if let Value::Timestamp(t) = value {
            prop_assert_eq!(times.iter().any(|(first, last)| *first <= t && t <= *last), expected);
        }
    }

    #[test]
    fn a_pattern_is_of_the_form_that_it_says(pattern in pattern(), text in "[abAB]{0,6}") {
        let holds = pattern.matches(&text);
        match pattern.kind() {
            PatternKind::Exact(x) => prop_assert_eq!(holds, text == x),
            PatternKind::Prefix(x) => prop_assert_eq!(holds, text.starts_with(x)),
            PatternKind::Suffix(x) => prop_assert_eq!(holds, text.ends_with(x)),
            PatternKind::Infix(x) => prop_assert_eq!(holds, text.contains(x)),
            PatternKind::General => {}
        }
        prop_assert!(!holds || text.contains(pattern.longest_literal()));
        prop_assert_eq!(Pattern::like(&pattern.to_string()), if pattern.ignores_case() {
            return Ok(());
        } else {
            pattern
        });
    }
}

#[test]
fn limits_are_errors_and_no_overflow() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expr::parse(&nested(FILTER_DEPTH_MAX), None).is_ok());
    for text in [
        nested(FILTER_DEPTH_MAX + 1),
        nested(100_000),
        "(".repeat(100_000),
        "NOT ".repeat(100_000),
        "!".repeat(100_000),
        format!("x = {}", "[".repeat(100_000)),
        vec!["a ~ 'x'"; 65].join(" OR "),
        format!("a{}", " NOT".repeat(100_001)),
        format!("x = 1{}", " + 1d".repeat(10_000)),
        "é".repeat(FILTER_TEXT_BYTES_MAX),
    ] {
        check_error(&text, &Expr::parse(&text, None).unwrap_err());
    }
    let long = vec!["x = 1"; 50_000].join(" AND ");
    assert_eq!(Expr::parse(&long, None).unwrap().names(), ["x"]);
    let days = vec!["2026-03-01"; 1_000].join(", ");
    let expr = Expr::parse(&format!("x IN ({days})"), None).unwrap();
    assert!(expr.to_string().len() > 50_000);
}

#[test]
fn a_pattern_takes_no_more_than_linear_time() {
    // Backtracking over every `%` would take practically forever.
    let text = "a".repeat(20_000);
    let pattern = Pattern::like(&format!("{}b", "%a".repeat(2_000)));
    assert!(!pattern.matches(&text));
    assert!(Pattern::like(&"%a".repeat(2_000)).matches(&text));
}

fn book() -> String {
    let path = std::path::absolute("../../docs/book/filters.md").unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_examples_of_the_book_are_read_as_it_says() {
    // 2026-03-31T12:00:00Z, as in the book.
    const NOW: i64 = 1_774_958_400_000_000_000;
    let mut seen = 0;
    let book = book();
    for block in book.split("```filter\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            let (text, canonical) = line.split_once("=> ").unwrap();
            let expr =
                Expr::parse(text, Some(NOW)).unwrap_or_else(|e| panic!("{}", e.render(text)));
            assert_eq!(expr.to_string(), canonical);
            assert_eq!(Expr::parse(canonical, None), Ok(expr));
            seen += 1;
        }
    }
    assert!(seen >= 24, "{seen} examples");
}

#[test]
fn the_table_of_the_book_holds() {
    let book = book();
    let mut rows = book
        .lines()
        .skip_while(|line| !line.starts_with("| filter | no x |"));
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let fields: Vec<Properties> = cells(rows.next().unwrap())[1..]
        .iter()
        .map(|head| match head.strip_prefix("x = ") {
            None => Properties::new(),
            Some(value) => {
                Properties::new().with("x", esker_model::traversal::parse_value(value).unwrap())
            }
        })
        .collect();
    let rows: Vec<&str> = rows
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 16, "{rows:?}");
    for row in rows {
        let cells = cells(row);
        let text = cells[0].trim_matches('`');
        let expr = Expr::parse(text, None).unwrap_or_else(|e| panic!("{}", e.render(text)));
        assert_eq!(cells.len() - 1, fields.len(), "{row}");
        for (cell, of) in cells[1..].iter().zip(&fields) {
            let expected = if expr.matches(of) { "yes" } else { "no" };
            assert_eq!(cell, expected, "{text} of {of:?}");
        }
    }
}
