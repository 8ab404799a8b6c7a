//! Replaces output that differs between runs by placeholders: versions, durations, the test's folder.

/// Replaces the folder by `<DIR>`, versions near the current time by `<VERSION>`, object numbers by `<ID>`, durations
/// and rates by
/// `<TIME>` and `<RATE>`, and runs of spaces inside a line by two: column widths depend on the versions.
pub(crate) fn normalise(text: &str, directory: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.replace(directory, "<DIR>").split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let plain = replace_ids(&replace_measures(&replace_versions(body)));
        out.push_str(squeeze(&plain).trim_end());
        out.push_str(end);
    }
    out
}

/// The current year; versions chosen by cases are in the past.
fn this_year() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    // Precise enough except around New Year, when the cases' own years still differ.
    (1970 + now.as_secs() / 31_556_952).to_string()
}

/// Replaces `2031-11-21T21:47:00.123Z`, with an optional `~5`, if it is in this year and not a whole second.
fn replace_versions(line: &str) -> String {
    const SHAPE: &str = "0000-00-00T00:00:00.000Z";
    let year = this_year();
    let bytes = line.as_bytes();
    let (mut out, mut at) = (String::new(), 0);
    while at < line.len() {
        let is_version = line.is_char_boundary(at)
            && line[at..].starts_with(&year)
            && bytes.len() >= at + SHAPE.len()
            && SHAPE.bytes().zip(&bytes[at..]).all(|(s, b)| match s {
                b'0' => b.is_ascii_digit(),
                s => s == *b,
            });
        if is_version {
            at += SHAPE.len();
            if bytes.get(at) == Some(&b'~') {
                at += 1;
                while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                    at += 1;
                }
            }
            out.push_str("<VERSION>");
        } else {
            let c = line[at..].chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}

/// Replaces ` 0.42 s` and `(1,234 logs/s)`.
fn replace_measures(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut out = Vec::with_capacity(words.len());
    for (i, word) in words.iter().enumerate() {
        let next = words
            .get(i + 1)
            .map(|w| w.trim_end_matches([';', ',', ')', ':']));
        let number = word.trim_start_matches('(');
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number
                .chars()
                .all(|c| c.is_ascii_digit() || c == '.' || c == ',');
        match next {
            Some("s") if is_number => out.push(word.replace(number, "<TIME>")),
            Some("logs/s") if is_number => out.push(word.replace(number, "<RATE>")),
            _ => out.push((*word).to_owned()),
        }
    }
    out.join(" ")
}

/// Replaces object numbers: 15 digits or more, except the largest possible one.
fn replace_ids(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(at);
        out.push_str(before);
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let (number, after) = digits.split_at(end.unwrap_or(digits.len()));
        // After a point, digits are a fraction; digits 0 and 1 only are bits.
        let bits = number.bytes().all(|b| matches!(b, b'0' | b'1'));
        let is_id = (15..=19).contains(&number.len()) && !before.ends_with('.') && !bits;
        out.push_str(if is_id { "<ID>" } else { number });
        rest = after;
    }
    out + rest
}

/// Reduces runs of spaces after the first word to two.
fn squeeze(line: &str) -> String {
    let lead = line.len() - line.trim_start_matches(' ').len();
    let mut out = line[..lead].to_owned();
    let mut blanks = 0;
    for c in line[lead..].chars() {
        if c == ' ' {
            blanks += 1;
            continue;
        }
        out.push_str(match blanks {
            0 => "",
            1 => " ",
            _ => "  ",
        });
        blanks = 0;
        out.push(c);
    }
    out
}

#[test]
fn what_differs_is_named() {
    let year = this_year();
    let line = format!("{year}-11-21T21:47:00.123Z~7    x  2020-01-01T00:00:00.000Z");
    assert_eq!(
        normalise(&line, "/tmp/x"),
        "<VERSION>  x  2020-01-01T00:00:00.000Z"
    );
    assert_eq!(
        normalise("in 0.42 s (1,234 logs/s)", "/tmp/x"),
        "in <TIME> s (<RATE> logs/s)"
    );
    assert_eq!(normalise("  a   b\n", "/tmp/x"), "  a  b\n");
    assert_eq!(
        normalise(
            "object:2882586135896906080 1234 0.123456789012345678",
            "/tmp/x"
        ),
        "object:<ID> 1234 0.123456789012345678"
    );
}
