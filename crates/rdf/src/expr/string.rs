//! Functions on strings. A string of a stored term is read in place, without a copy.

use super::regex::{CompiledPattern, fragments};
use super::value::Value;
use super::{Expr, Val, boolean};
use crate::dictionary::{Head, Parts, split_tag};
use crate::exec::{Context, Row};
use oxrdf::BaseDirection;
use spargebra::algebra::Function;
use std::fmt::Write as _;

/// A language tag, and the base direction if there is one.
type Tag<'a> = Option<(&'a str, Option<BaseDirection>)>;
/// A [`Tag`] that outlives its string.
type OwnedTag = Option<(String, Option<BaseDirection>)>;

/// Calls a function with the text and the tag of a string, and returns its result; `None` for other terms. The function must not number terms,
/// because the text may lie in the dictionary of computed terms.
fn with_string<T>(
    ctx: &Context<'_>,
    val: &Val,
    run: impl FnOnce(&str, Tag<'_>) -> Option<T>,
) -> Option<T> {
    match val {
        Val::Id(id) => ctx.with_parts(*id, |parts| match parts {
            Parts::Stored(Head::Plain, text) => run(text, None),
            Parts::Stored(Head::Lang(tag), text) => {
                let direction = |d| match d {
                    "ltr" => Some(BaseDirection::Ltr),
                    "rtl" => Some(BaseDirection::Rtl),
                    _ => None,
                };
                match split_tag(tag) {
                    (language, Some(d)) if direction(d).is_some() => {
                        run(text, Some((language, direction(d))))
                    }
                    _ => run(text, Some((tag, None))),
                }
            }
            _ => None,
        })?,
        Val::Value(Value::StringLiteral(text)) => run(text, None),
        Val::Value(Value::LangStringLiteral { value, language }) => {
            run(value, Some((language, None)))
        }
        Val::Value(Value::DirLangStringLiteral {
            value,
            language,
            direction,
        }) => run(value, Some((language, Some(*direction)))),
        Val::Value(_) => None,
    }
}

/// Calls a function with a string that has no language, as [`with_string`] does.
fn with_plain<T>(ctx: &Context<'_>, val: &Val, run: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    with_string(
        ctx,
        val,
        |text, tag| if tag.is_none() { run(text) } else { None },
    )
}

/// Calls a function with two compatible strings (SPARQL 1.1, section 17.4.3.1.2): the second has no language, or the tag of the first.
fn with_compatible<T>(
    ctx: &Context<'_>,
    (a, b): (&Val, &Val),
    run: impl FnOnce(&str, Tag<'_>, &str) -> Option<T>,
) -> Option<T> {
    with_string(ctx, a, |a, x| {
        with_string(ctx, b, |b, y| {
            if y.is_none() || x == y {
                run(a, x, b)
            } else {
                None
            }
        })
    })
}

/// Returns a string with a tag.
fn tagged(value: String, tag: Tag<'_>) -> Val {
    Val::Value(match tag {
        None => Value::StringLiteral(value),
        Some((language, None)) => Value::LangStringLiteral {
            value,
            language: language.to_owned(),
        },
        Some((language, Some(direction))) => Value::DirLangStringLiteral {
            value,
            language: language.to_owned(),
            direction,
        },
    })
}

/// Evaluates a function on strings; `None` is an error.
pub(super) fn call(ctx: &Context<'_>, row: Row<'_>, f: &Function, args: &[Expr]) -> Option<Val> {
    let arg = |i: usize| args.get(i)?.eval(ctx, row);
    match f {
        Function::StrLen => with_string(ctx, &arg(0)?, |text, _| {
            let length = i64::try_from(text.chars().count()).ok()?;
            Some(Val::Value(Value::IntegerLiteral(length.into())))
        }),
        Function::Contains | Function::StrStarts | Function::StrEnds => {
            with_compatible(ctx, (&arg(0)?, &arg(1)?), |a, _, b| {
                Some(boolean(match f {
                    Function::Contains => a.contains(b),
                    Function::StrStarts => a.starts_with(b),
                    _ => a.ends_with(b),
                }))
            })
        }
        Function::StrBefore | Function::StrAfter => {
            with_compatible(ctx, (&arg(0)?, &arg(1)?), |a, tag, b| {
                let Some(at) = a.find(b) else {
                    return Some(tagged(String::new(), None));
                };
                let part = match f {
                    Function::StrBefore => a.get(..at)?,
                    _ => a.get(at + b.len()..)?,
                };
                Some(tagged(part.to_owned(), tag))
            })
        }
        Function::UCase | Function::LCase => with_string(ctx, &arg(0)?, |text, tag| {
            let changed = match f {
                Function::UCase => text.to_uppercase(),
                _ => text.to_lowercase(),
            };
            Some(tagged(changed, tag))
        }),
        Function::EncodeForUri => {
            with_string(ctx, &arg(0)?, |text, _| Some(tagged(encoded(text), None)))
        }
        Function::Concat => concat(ctx, row, args),
        Function::SubStr => {
            let text = arg(0)?;
            let integer = |i: usize| match arg(i)?.value(ctx)? {
                Value::IntegerLiteral(n) => Some(i64::from(n)),
                _ => None,
            };
            let start = integer(1)?;
            let length = match args.len() {
                3.. => Some(integer(2)?),
                _ => None,
            };
            with_string(ctx, &text, |text, tag| {
                Some(tagged(substring(text, start, length)?.to_owned(), tag))
            })
        }
        Function::LangMatches => with_plain(ctx, &arg(0)?, |tag| {
            with_plain(ctx, &arg(1)?, |range| {
                Some(boolean(lang_matches(tag, range)))
            })
        }),
        Function::Regex => {
            let [text, pattern, flags] = [arg(0)?, arg(1)?, flags(ctx, row, args.get(2))?];
            with_string(ctx, &text, |text, _| {
                with_pattern(ctx, &pattern, &flags, |p| {
                    Some(boolean(p.regex.is_match(text)))
                })
            })
        }
        Function::Replace => {
            let ([text, pattern, with], flags) =
                ([arg(0)?, arg(1)?, arg(2)?], flags(ctx, row, args.get(3))?);
            let replaced = with_string(ctx, &text, |text, tag| {
                with_plain(ctx, &with, |with| {
                    with_pattern(ctx, &pattern, &flags, |p| {
                        Some(replaced(ctx, p, text, with)?.map(|done| tagged(done, tag)))
                    })
                })
            })?;
            Some(replaced.unwrap_or(text))
        }
        _ => None,
    }
}

/// Evaluates the flags of a regular expression; without them they are empty.
fn flags(ctx: &Context<'_>, row: Row<'_>, expr: Option<&Expr>) -> Option<Val> {
    match expr {
        Some(expr) => expr.eval(ctx, row),
        None => Some(tagged(String::new(), None)),
    }
}

/// Calls a function with a compiled regular expression.
fn with_pattern<T>(
    ctx: &Context<'_>,
    pattern: &Val,
    flags: &Val,
    run: impl FnOnce(&CompiledPattern) -> Option<T>,
) -> Option<T> {
    with_plain(ctx, pattern, |pattern| {
        with_plain(ctx, flags, |flags| ctx.regex(pattern, flags, run)?)
    })
}

/// `REPLACE`: replaces each match of a pattern by a text in which `$1` is a group of it; the inner `None` is a text without a match. The result
/// can grow without bound, so it is measured while it is built.
#[expect(
    clippy::option_option,
    reason = "an error is not a text without a match"
)]
fn replaced(
    ctx: &Context<'_>,
    pattern: &CompiledPattern,
    text: &str,
    with: &str,
) -> Option<Option<String>> {
    // An error by F&O 7.6.3.
    if pattern.matches_empty {
        return None;
    }
    let mut done = String::new();
    let mut from = 0;
    if with.contains(['$', '\\']) {
        let regex = &pattern.regex;
        let fragments = || fragments(with, regex.captures_len() - 1);
        if fragments().any(|p| p.is_none()) {
            return None;
        }
        for groups in regex.captures_iter(text) {
            // Each match reads the whole text, which may come to nothing.
            if with.len() > 4096 {
                ctx.or_fail(ctx.check())?;
            }
            let whole = groups.get(0)?;
            let before = text.get(from..whole.start())?;
            let texts = || fragments().flatten().map(|p| p.of(&groups));
            let bytes = before.len() + texts().map(str::len).sum::<usize>();
            ctx.fits_string(done.len() + bytes)?;
            ctx.reserve_text(bytes)?;
            done.push_str(before);
            done.extend(texts());
            from = whole.end();
        }
    } else {
        for found in pattern.regex.find_iter(text) {
            let before = text.get(from..found.start())?;
            let bytes = before.len() + with.len();
            ctx.fits_string(done.len() + bytes)?;
            ctx.reserve_text(bytes)?;
            done.push_str(before);
            done.push_str(with);
            from = found.end();
        }
    }
    // No match is empty, so the first one moved `from`.
    if from == 0 {
        return Some(None);
    }
    done.push_str(text.get(from..)?);
    Some(Some(done))
}

/// `CONCAT`: the result has the tag that all parts have.
fn concat(ctx: &Context<'_>, row: Row<'_>, args: &[Expr]) -> Option<Val> {
    let mut text = String::new();
    let mut tag: OwnedTag = None;
    for (i, arg) in args.iter().enumerate() {
        let part = arg.eval(ctx, row)?;
        with_string(ctx, &part, |part, other| {
            ctx.fits_string(text.len() + part.len())?;
            ctx.reserve_text(part.len())?;
            text.push_str(part);
            if i == 0 {
                tag = other.map(|(language, direction)| (language.to_owned(), direction));
            } else if borrowed(&tag) != other {
                tag = None;
            }
            Some(())
        })?;
    }
    Some(tagged(text, borrowed(&tag)))
}

fn borrowed(tag: &OwnedTag) -> Tag<'_> {
    tag.as_ref()
        .map(|(language, direction)| (language.as_str(), *direction))
}

/// Returns `length` characters of a text from the character `start`, which counts from 1; characters before the first one count too (F&O 7.4.3).
fn substring(text: &str, start: i64, length: Option<i64>) -> Option<&str> {
    let start = start.checked_sub(1)?;
    let end = match length {
        Some(length) => start.checked_add(length)?,
        None => i64::MAX,
    };
    let clamp = |n: i64| usize::try_from(n.max(0)).unwrap_or(usize::MAX);
    let (start, end) = (clamp(start), clamp(end));
    let byte = |characters: usize| {
        if text.is_ascii() {
            return characters.min(text.len());
        }
        let mut starts = text.char_indices().map(|(at, _)| at);
        starts.nth(characters).unwrap_or(text.len())
    };
    if start >= end {
        return Some("");
    }
    text.get(byte(start)..byte(end))
}

/// `ENCODE_FOR_URI`: all bytes but those of unreserved characters (RFC 3986) become `%` and two hexadecimal digits.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn lang_matches(tag: &str, range: &str) -> bool {
    if range == "*" {
        return !tag.is_empty();
    }
    let prefix = tag.as_bytes().get(..range.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(range.as_bytes()))
        && matches!(tag.as_bytes().get(range.len()), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use super::{encoded, lang_matches, substring};

    #[test]
    fn substrings_are_those_of_the_standard() {
        // Examples of F&O 7.4.3, and texts of several bytes a character.
        for (text, start, length, expected) in [
            ("motor car", 6, None, " car"),
            ("metadata", 4, Some(3), "ada"),
            ("12345", 0, Some(3), "12"),
            ("12345", 5, Some(-3), ""),
            ("12345", -3, Some(5), "1"),
            ("12345", 2, Some(i64::MAX), ""),
            ("héhé", 2, Some(2), "éh"),
            ("héhé", 4, None, "é"),
            ("héhé", 5, None, ""),
        ] {
            let found = substring(text, start, length).unwrap_or("");
            assert_eq!(found, expected, "{text} {start} {length:?}");
        }
    }

    #[test]
    fn uris_are_encoded_by_byte() {
        assert_eq!(encoded("a-b_c.d~e f/é"), "a-b_c.d~e%20f%2F%C3%A9");
    }

    #[test]
    fn a_range_matches_whole_parts_of_a_tag() {
        for (tag, range, matches) in [
            ("en", "EN", true),
            ("en-GB", "en", true),
            ("eng", "en", false),
            ("e", "en", false),
            ("", "*", false),
            ("en", "*", true),
            ("en", "", false),
        ] {
            assert_eq!(lang_matches(tag, range), matches, "{tag} {range}");
        }
    }
}
