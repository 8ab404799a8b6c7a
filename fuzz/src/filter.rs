//! Filters: a text is parsed, or refused at a position inside the text; a parsed filter is written and parsed back, and matches the same
//! properties by every kind of evaluation.

use esker_model::filter::{Expr, Prepared};
use esker_model::{Properties, Value};

const NOW: i64 = 1_774_958_400_000_000_000;

pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Expr::parse(&text, Some(NOW)) {
        Ok(expr) => {
            let written = expr.to_string();
            let again = match Expr::parse_canonical(&written) {
                Ok(again) => again,
                Err(error) => panic!("{}", error.render(&written)),
            };
            // NaN is not equal to itself, so this compares the texts.
            assert_eq!(again.to_string(), written);
            let mut fields = Properties::new();
            let values = [
                Value::Null,
                Value::I64(1),
                Value::from("run"),
                Value::Timestamp(NOW),
                Value::List(vec![Value::from("run")]),
            ];
            for (name, value) in expr.names().into_iter().zip(values.into_iter().cycle()) {
                fields.set(name, value);
            }
            let matched = expr.matches(&fields);
            assert_eq!(Prepared::new(&expr).matches(&fields), matched, "{written}");
            assert_eq!(again.matches(&fields), matched, "{written}");
            assert_eq!(expr.negated().matches(&fields), !matched, "{written}");
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.at) && error.at + error.len <= text.len());
            assert_eq!(error.render(&text).lines().count(), 4);
            assert!(!error.to_string().contains('\n'));
        }
    }
}
