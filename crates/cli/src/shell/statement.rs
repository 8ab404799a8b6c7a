//! Splitting of a line into words, as a shell does; but text between parentheses is not words, so that `travel v("file:/a b").e("read")`
//! needs no quotes around it.

/// One statement of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// A blank line or a comment.
    Nothing,
    /// A command and its arguments.
    Words(Vec<String>),
}

/// State of a scan at the end of the text.
#[derive(Debug, Default)]
struct Scan {
    words: Vec<String>,
    /// The current word, if one has begun (it may be empty, in quotes).
    word: Option<String>,
    depth: usize,
    quote: Option<char>,
    backslash_at_end: bool,
}

/// Splits a statement into words.
pub(super) fn parse(text: &str) -> Result<Statement, String> {
    let mut scan = scan(text);
    if let Some(quote) = scan.quote {
        return Err(format!("a quote {quote} is not closed"));
    }
    if scan.depth > 0 {
        return Err("a parenthesis is not closed".to_owned());
    }
    scan.words.extend(scan.word.take());
    join_chain(&mut scan.words);
    Ok(if scan.words.is_empty() {
        Statement::Nothing
    } else {
        Statement::Words(scan.words)
    })
}

/// Whether a statement may end here: no open quote or parenthesis, no trailing backslash, no trailing dot of a chain.
pub(super) fn is_complete(text: &str) -> bool {
    let scan = scan(text.trim_end_matches(['\n', '\r']));
    let chain_goes_on = text.trim_end().ends_with(").");
    scan.quote.is_none() && scan.depth == 0 && !scan.backslash_at_end && !chain_goes_on
}

fn scan(text: &str) -> Scan {
    let mut s = Scan::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let in_chain = s.depth > 0;
        match (s.quote, c) {
            // Inside parentheses, quotes and escapes belong to the chain and are kept.
            (Some(quote), c) if in_chain => {
                s.push(c);
                if c == '\\' {
                    if let Some(next) = chars.next() {
                        s.push(next);
                    }
                } else if c == quote {
                    s.quote = None;
                }
            }
            (Some(quote), c) if c == quote => s.quote = None,
            // In double quotes a backslash escapes only these two characters.
            (Some('"'), '\\') if chars.peek().is_some_and(|n| matches!(n, '"' | '\\')) => {
                s.word.get_or_insert_default().extend(chars.next());
            }
            (None, '"' | '\'') if in_chain => {
                s.push(c);
                s.quote = Some(c);
            }
            (None, '"' | '\'') => {
                s.word.get_or_insert_default();
                s.quote = Some(c);
            }
            (None, '(') => {
                s.push(c);
                s.depth += 1;
            }
            (None, ')') => {
                s.push(c);
                s.depth = s.depth.saturating_sub(1);
            }
            (None, '\\') if !in_chain => match chars.next() {
                // A backslash at the end continues the line.
                Some('\n') => {}
                Some(next) => s.push(next),
                None => s.backslash_at_end = true,
            },
            (None, '#') if !in_chain && s.word.is_none() => {
                while chars.peek().is_some_and(|n| *n != '\n') {
                    chars.next();
                }
            }
            (None, c) if !in_chain && c.is_whitespace() => s.words.extend(s.word.take()),
            (_, c) => s.push(c),
        }
    }
    s
}

impl Scan {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }
}

/// Joins `v("a")` and `.e("b")` into one chain, whatever blanks are between.
fn join_chain(words: &mut Vec<String>) {
    let mut joined: Vec<String> = Vec::with_capacity(words.len());
    for word in words.drain(..) {
        match joined.last_mut() {
            Some(last) if word.starts_with('.') && last.ends_with(')') => last.push_str(&word),
            Some(last) if last.ends_with(").") => last.push_str(&word),
            _ => joined.push(word),
        }
    }
    *words = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        match parse(text).unwrap() {
            Statement::Words(words) => words,
            Statement::Nothing => Vec::new(),
        }
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(split("get  file:/a\tuser:1"), ["get", "file:/a", "user:1"]);
        assert_eq!(
            split(r#"put 'file:/a b' name="x \"y\"" c\ d"#),
            ["put", "file:/a b", "name=x \"y\"", "c d"]
        );
        assert_eq!(split("set a b=''"), ["set", "a", "b="]);
        assert_eq!(split("stats # how much?"), ["stats"]);
        assert_eq!(split("get file:/a#b"), ["get", "file:/a#b"]);
        assert_eq!(split("  # nothing"), Vec::<String>::new());
        assert!(parse("get 'x").is_err());
        assert!(parse("travel v(").is_err());
    }

    #[test]
    fn a_chain_needs_no_quotes_and_may_go_over_lines() {
        assert_eq!(
            split("travel v(\"file:/a b\")\n  .e('read', \"x)\").v() --format json"),
            [
                "travel",
                "v(\"file:/a b\").e('read', \"x)\").v()",
                "--format",
                "json"
            ]
        );
        assert_eq!(
            split("travel 'v(\"file:/C\")'"),
            ["travel", "v(\"file:/C\")"]
        );
        assert_eq!(split(r#"travel v("a\"b")"#), ["travel", r#"v("a\"b")"#]);
    }

    #[test]
    fn a_statement_goes_on_while_something_is_open() {
        assert!(is_complete("stats\n"));
        assert!(!is_complete("travel v(\"a\"\n"));
        assert!(!is_complete("travel v(\"a\").\n"));
        assert!(!is_complete("put file:/a name='x\n"));
        assert!(!is_complete("get file:/a \\\n"));
        assert!(is_complete("get file:/a \\\n user:1\n"));
    }
}
