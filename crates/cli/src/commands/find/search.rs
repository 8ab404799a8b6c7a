//! Functions of all searches: parsing of filters, and messages about answers.

use crate::times::now_nanos;
use esker_model::filter::Expr;
use esker_model::object::FindReport;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::units::counted;
use unicode_width::UnicodeWidthStr as _;

/// Fields of files that no object has.
const FILE_FIELDS: [&str; 8] = [
    "path",
    "depth",
    "kind",
    "links",
    "target",
    "btime",
    "blocks",
    "allocated",
];

/// Parses a filter; an empty one matches everything.
pub(crate) fn parse(text: &str) -> anyhow::Result<Expr> {
    Expr::parse(text, Some(now_nanos())).map_err(|e| usage(e.render(text)))
}

/// Refuses a filter with a name that no object has, because that is a typing mistake more often than not.
pub(crate) fn refuse_unknown(report: &FindReport, text: &str, lenient: bool) -> anyhow::Result<()> {
    if lenient || report.unknown.is_empty() {
        return Ok(());
    }
    let messages = report.unknown.iter().map(|(name, nearest)| {
        let hint = match nearest {
            Some((nearest, n)) => {
                format!(
                    ", did you mean `{nearest}` ({})?",
                    counted(*n, "object", "objects")
                )
            }
            None => ": no object has it".to_owned(),
        };
        format!(
            "unknown tag `{name}`{hint}{}",
            caret(text, name).unwrap_or_default()
        )
    });
    let mut messages: Vec<String> = messages.collect();
    let mut names = report.unknown.iter().map(|(name, _)| name.as_str());
    if let Some(name) = names.find(|name| FILE_FIELDS.contains(name)) {
        messages.push(format!(
            "`{name}` is a field of files: to search files, give the path to search below before the filter, such as /"
        ));
    }
    Err(usage(messages.join("\n")))
}

/// Returns the line of the filter with the name, and a caret under it.
fn caret(text: &str, name: &str) -> Option<String> {
    let at = position(text, name)?;
    let before = text.get(..at)?;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = text.get(start..)?.lines().next()?;
    let blanks = " ".repeat(text.get(start..at)?.width());
    let carets = "^".repeat(name.width().max(1));
    Some(format!("\n  {line}\n  {blanks}{carets}"))
}

/// Finds a name in a filter as a word of its own, outside quoted texts.
fn position(text: &str, name: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || "_-.:".contains(c);
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            None if c == '\'' => quote = Some(c),
            None => {
                let is_here = text.get(at..).is_some_and(|rest| rest.starts_with(name));
                let begins = text.get(..at)?.chars().next_back().is_none_or(|b| !part(b));
                let after = text
                    .get(at + name.len()..)
                    .and_then(|rest| rest.chars().next());
                if is_here && begins && after.is_none_or(|a| !part(a)) {
                    return Some(at);
                }
            }
            Some(_) => {}
        }
    }
    None
}

/// Warns about servers whose matches an answer lacks.
pub(crate) fn warn_missing_servers(report: &FindReport, context: &Context) -> Outcome {
    if report.missing.is_empty() {
        return Outcome::Done;
    }
    let names: Vec<String> = report.missing.iter().map(ToString::to_string).collect();
    let one = names.len() == 1;
    context.complain(&format!(
        "{} {} did not answer: {} objects are missing",
        if one { "server" } else { "servers" },
        names.join(", "),
        if one { "its" } else { "their" },
    ));
    Outcome::Partly
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_shown_where_it_stands() {
        let report = FindReport {
            unknown: vec![
                ("varible".into(), Some(("variable".into(), 41_022))),
                ("x".into(), None),
            ],
            ..FindReport::default()
        };
        let text = "note = 'varible x' AND max = 1\n  AND (ä = 1 OR varible = 2)";
        let error = refuse_unknown(&report, text, false)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "unknown tag `varible`, did you mean `variable` (41,022 objects)?\n    AND (ä = 1 OR varible = 2)\n  \
             \x20               ^^^^^^^\nunknown tag `x`: no object has it"
        );
        assert!(refuse_unknown(&report, text, true).is_ok());
        let report = FindReport {
            unknown: vec![("path".into(), None)],
            ..FindReport::default()
        };
        let error = refuse_unknown(&report, "path LIKE '%.h5'", false)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("before the filter, such as /"), "{error}");
    }
}
