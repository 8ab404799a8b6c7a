//! Resumption tokens: a list and a position in it, as text that needs no encoding in a URL.

use super::fault::Fault;
use super::list::{List, Position, Prefix, application, set_of};
use esker_model::object::ObjectId;

/// Version of the form of tokens.
const FORM: &str = "1";

fn number(value: Option<i64>) -> String {
    value.map(|n| n.to_string()).unwrap_or_default()
}

/// Formats the token for the page behind a list's position.
pub(crate) fn format(list: &List) -> String {
    let (phase, after) = match list.after {
        Position::Objects(after) => ("o", after),
        Position::Deleted(after) => ("d", after),
    };
    [
        FORM.to_owned(),
        list.prefix.name().to_owned(),
        number(list.from),
        number(list.until),
        list.set.as_deref().map(set_of).unwrap_or_default(),
        phase.to_owned(),
        after.map(|id| id.to_string()).unwrap_or_default(),
        list.done.to_string(),
    ]
    .join("!")
}

/// Error of a wrong token.
pub(crate) fn bad(text: &str) -> Fault {
    let message =
        format!("`{text}` is not a resumption token of this repository; begin the list anew");
    Fault::new("badResumptionToken", message)
}

/// Parses a token of a list of headers or of records.
pub(crate) fn parse(text: &str, headers: bool) -> Result<List, Fault> {
    let list = read(text, headers).ok_or_else(|| bad(text))?;
    // Each list has one token, so that no other text is accepted.
    if format(&list) == text {
        Ok(list)
    } else {
        Err(bad(text))
    }
}

fn read(text: &str, headers: bool) -> Option<List> {
    let parts: Vec<&str> = text.split('!').collect();
    let [form, prefix, from, until, set, phase, after, done] = *parts.as_slice() else {
        return None;
    };
    let second = |text: &str| match text {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let after = match after {
        "" => None,
        text => Some(ObjectId::of_key(text)?),
    };
    let list = List {
        headers,
        prefix: Prefix::parse(prefix).ok()?,
        from: second(from)?,
        until: second(until)?,
        set: match set {
            "" => None,
            set => Some(application(set).ok()?),
        },
        after: match phase {
            "o" => Position::Objects(after),
            "d" => Position::Deleted(after),
            _ => return None,
        },
        done: done.parse().ok()?,
    };
    (form == FORM).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lists() -> impl Strategy<Value = List> {
        let position = (any::<bool>(), proptest::option::of(1_u64..1 << 62));
        let seconds = || proptest::option::of(0_i64..4_000_000_000);
        let set = proptest::option::of("\\PC{1,9}");
        let rest = (any::<bool>(), any::<bool>(), any::<u32>());
        (rest, seconds(), seconds(), set, position).prop_map(
            |((headers, dublin, done), from, until, set, (live, after))| List {
                headers,
                prefix: Prefix::ALL[usize::from(dublin)],
                from,
                until,
                set,
                after: {
                    let after = after.map(ObjectId);
                    if live {
                        Position::Objects(after)
                    } else {
                        Position::Deleted(after)
                    }
                },
                done: done.into(),
            },
        )
    }

    proptest! {
        #[test]
        fn a_token_holds_the_list(list in lists()) {
            prop_assert_eq!(parse(&format(&list), list.headers).unwrap(), list);
        }

        #[test]
        fn other_texts_are_refused(text in "\\PC{0,40}") {
            if let Ok(list) = parse(&text, true) {
                prop_assert_eq!(format(&list), text);
            }
        }
    }
}
