//! Reader of PROV-N (W3C Recommendation of 2013-04-30), more lenient than the grammar: omitted arguments at the end of a statement are
//! accepted.

use super::lexer::{Lexer, Token};
use super::model::{
    Document, Kind, PROV, ProvError, Slot, Statement, Statements, Value, XSD, time,
};
use super::names::Scope;

/// Reads a document.
///
/// # Errors
/// Fails with line and column if the text is not PROV-N.
pub(super) fn read(text: &str) -> Result<Document, ProvError> {
    let mut reader = ProvnReader {
        lexer: Lexer::new(text),
        peeked: None,
    };
    reader.document().map(Document::normal)
}

struct ProvnReader<'a> {
    lexer: Lexer<'a>,
    peeked: Option<(usize, Token)>,
}

/// An argument of a statement: a word with its byte position; `None` if empty.
type Argument = Option<(usize, String)>;

impl ProvnReader<'_> {
    fn next(&mut self) -> Result<(usize, Token), ProvError> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.lexer.next(),
        }
    }

    fn peek(&mut self) -> Result<&Token, ProvError> {
        let token = self.next()?;
        Ok(&self.peeked.insert(token).1)
    }

    /// Consumes a mark if it comes next.
    fn took(&mut self, mark: char) -> Result<bool, ProvError> {
        let found = *self.peek()? == Token::Mark(mark);
        if found {
            self.peeked = None;
        }
        Ok(found)
    }

    fn expect(&mut self, mark: char) -> Result<(), ProvError> {
        match self.next()? {
            (_, Token::Mark(found)) if found == mark => Ok(()),
            (at, found) => Err(self.wrong(at, &format!("expected `{mark}`, found {found}"))),
        }
    }

    fn word(&mut self, what: &str) -> Result<(usize, String), ProvError> {
        match self.next()? {
            (at, Token::Word(word)) => Ok((at, word)),
            (at, found) => Err(self.wrong(at, &format!("expected {what}, found {found}"))),
        }
    }

    fn wrong(&self, at: usize, what: &str) -> ProvError {
        ProvError::at(self.lexer.text(), at, what)
    }

    fn document(&mut self) -> Result<Document, ProvError> {
        let (at, word) = self.word("`document`")?;
        if word != "document" {
            return Err(self.wrong(at, &format!("expected `document`, found `{word}`")));
        }
        let mut scope = Scope::default();
        self.declarations(&mut scope)?;
        let mut document = Document {
            prefixes: scope.declared(),
            ..Document::default()
        };
        loop {
            let (at, word) = self.word("a statement or `endDocument`")?;
            match word.as_str() {
                "endDocument" => break,
                "bundle" => {
                    let (at, id) = self.word("the bundle's name")?;
                    let mut inner = scope.clone();
                    self.declarations(&mut inner)?;
                    let id = self.name(&inner, at, &id)?;
                    let statements = document.bundles.entry(id).or_default();
                    loop {
                        let (at, word) = self.word("a statement or `endBundle`")?;
                        if word == "endBundle" {
                            break;
                        }
                        self.statement(at, &word, &inner, statements)?;
                    }
                }
                _ => self.statement(at, &word, &scope, &mut document.statements)?,
            }
        }
        match self.next()? {
            (_, Token::End) => Ok(document),
            (at, found) => Err(self.wrong(at, &format!("{found} follows `endDocument`"))),
        }
    }

    fn declarations(&mut self, scope: &mut Scope) -> Result<(), ProvError> {
        loop {
            let prefix = match self.peek()? {
                Token::Word(word) if word == "prefix" || word == "default" => word == "prefix",
                _ => return Ok(()),
            };
            self.peeked = None;
            let mut name = String::new();
            if prefix {
                name = self.word("a prefix")?.1;
            }
            match self.next()? {
                (_, Token::Iri(iri)) => scope.declare(&name, &iri),
                (at, found) => {
                    return Err(self.wrong(at, &format!("expected `<IRI>`, found {found}")));
                }
            }
        }
    }

    fn name(&self, scope: &Scope, at: usize, word: &str) -> Result<String, ProvError> {
        let expanded = match split(word) {
            (Some(prefix), local) => scope.expand(&format!("{prefix}:{}", plain(local))),
            // A single unescaped colon does not make a prefix.
            (None, local) => scope.expand("x").map_or_else(
                |_| scope.expand(word),
                |iri| Ok(iri.strip_suffix('x').unwrap_or_default().to_owned() + &plain(local)),
            ),
        };
        expanded.map_err(|e| self.wrong(at, &e))
    }

    fn statement(
        &mut self,
        at: usize,
        word: &str,
        scope: &Scope,
        to: &mut Statements,
    ) -> Result<(), ProvError> {
        let keyword = word.strip_prefix("prov:").unwrap_or(word);
        let Some(kind) = Kind::of(keyword) else {
            let what = format!(
                "`{word}` is not a statement of PROV: expected entity, activity, agent, used, wasGeneratedBy …"
            );
            return Err(self.wrong(at, &what));
        };
        let form = kind.form();
        self.expect('(')?;
        let mut arguments: Vec<Argument> = Vec::new();
        let mut id: Option<Argument> = None;
        let mut statement = Statement::new(kind, None);
        // An immediate `)` is a statement about nothing, which is refused below.
        let mut ended = self.took(')')?;
        while !ended {
            if self.took('[')? {
                self.attributes(scope, &mut statement)?;
                self.expect(')')?;
                break;
            }
            let (at, word) = self.word("a name, a time or `-`")?;
            let argument = (word != "-").then_some((at, word));
            match self.next()? {
                (_, Token::Mark(',')) => arguments.push(argument),
                (_, Token::Mark(')')) => {
                    arguments.push(argument);
                    ended = true;
                }
                (at, Token::Mark(';')) => {
                    if id.is_some() || !arguments.is_empty() || kind.is_element() {
                        return Err(
                            self.wrong(at, "`;` is allowed only after the name of a relation")
                        );
                    }
                    id = Some(argument);
                }
                (at, found) => {
                    return Err(self.wrong(at, &format!("expected `,` or `)`, found {found}")));
                }
            }
        }
        if kind.is_element() {
            let own = (!arguments.is_empty()).then(|| arguments.remove(0));
            id = own;
        }
        if let Some((at, word)) = id.flatten() {
            statement.id = Some(self.name(scope, at, &word)?);
        }
        if arguments.len() > form.arguments.len() {
            let what = format!(
                "{word} has {} places at most, not {}",
                form.arguments.len(),
                arguments.len()
            );
            return Err(self.wrong(at, &what));
        }
        for ((argument, slot), (_, takes)) in arguments
            .into_iter()
            .zip(&mut statement.arguments)
            .zip(form.arguments)
        {
            let Some((at, word)) = argument else { continue };
            *slot = Some(if *takes == Slot::Time {
                let stated = plain(&word);
                time(&stated).ok_or_else(|| self.wrong(at, &no_time(&stated)))?
            } else {
                self.name(scope, at, &word)?
            });
        }
        check(&statement).map_err(|e| self.wrong(at, &e))?;
        to.push(statement);
        Ok(())
    }

    fn attributes(&mut self, scope: &Scope, to: &mut Statement) -> Result<(), ProvError> {
        if self.took(']')? {
            return Ok(());
        }
        loop {
            let (at, word) = self.word("an attribute's name")?;
            let name = self.name(scope, at, &word)?;
            self.expect('=')?;
            let value = self.value(scope)?;
            to.attributes.push((name, value));
            match self.next()? {
                (_, Token::Mark(',')) => {}
                (_, Token::Mark(']')) => return Ok(()),
                (at, found) => {
                    return Err(self.wrong(at, &format!("expected `,` or `]`, found {found}")));
                }
            }
        }
    }

    fn value(&mut self, scope: &Scope) -> Result<Value, ProvError> {
        match self.next()? {
            (_, Token::Text(text, Some(language))) => Ok(Value::tagged(text, &language)),
            (_, Token::Text(text, None)) => {
                if *self.peek()? != Token::Type {
                    return Ok(Value::string(text));
                }
                self.peeked = None;
                let (at, word) = self.word("a datatype")?;
                let datatype = self.name(scope, at, &word)?;
                if is_name_type(&datatype) {
                    // A name that cannot be expanded is kept as text.
                    return Ok(match self.name(scope, at, &text) {
                        Ok(name) => Value::Name(name),
                        Err(_) => Value::typed(text, datatype),
                    });
                }
                Ok(Value::typed(text, datatype))
            }
            (at, Token::Quoted(word)) => Ok(Value::Name(self.name(scope, at, &word)?)),
            (at, Token::Word(word)) => match word.parse::<i64>() {
                Ok(number) => Ok(Value::integer(number)),
                Err(_) if word.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) => {
                    Ok(Value::xsd(word, "integer"))
                }
                Err(_) => Err(self.wrong(at, &format!("expected a value (\"text\", 'prefix:name' or a whole number), found `{word}`"))),
            },
            (at, found) => Err(self.wrong(at, &format!("expected a value, found {found}"))),
        }
    }
}

/// Returns whether values of a datatype are names.
pub(super) fn is_name_type(datatype: &str) -> bool {
    datatype.strip_prefix(PROV) == Some("QUALIFIED_NAME")
        || datatype.strip_prefix(XSD) == Some("QName")
}

pub(super) fn no_time(stated: &str) -> String {
    format!("expected a date and time such as 2026-11-23T12:00:00Z, found `{stated}`")
}

/// Checks the requirements of all encodings on a statement.
pub(super) fn check(statement: &Statement) -> Result<(), String> {
    let form = statement.kind.form();
    if statement.kind.is_element() {
        return match &statement.id {
            Some(_) => Ok(()),
            None => Err(format!("{} has no name", form.keyword)),
        };
    }
    // Unknown arguments may be omitted, but a statement about nothing is invalid.
    let mut stated = statement.arguments.iter().zip(form.arguments);
    if stated.any(|(argument, (_, slot))| {
        argument.is_some() && !matches!(slot, Slot::Time | Slot::Other)
    }) {
        return Ok(());
    }
    let names: Vec<&str> = form.arguments.iter().map(|(name, _)| *name).collect();
    Err(format!(
        "{} names neither of {}",
        form.keyword,
        names.join(", ")
    ))
}

/// Splits a word at its first unescaped colon.
fn split(word: &str) -> (Option<&str>, &str) {
    let mut escaped = false;
    for (at, c) in word.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            ':' if !escaped => {
                let (prefix, local) = (word.get(..at), word.get(at + 1..));
                return (prefix, local.unwrap_or_default());
            }
            _ => escaped = false,
        }
    }
    (None, word)
}

/// Removes the backslashes.
fn plain(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut escaped = false;
    for c in word.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            out.push(c);
        }
    }
    out
}
