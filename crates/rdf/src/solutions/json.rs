//! SPARQL 1.1 Query Results JSON.

use super::{SolutionsBuilder, check_depth, term, triple_term};
use json_event_parser::{JsonEvent, ReaderJsonParser};
use oxrdf::Term;
use std::io::Read;

struct Json<R: Read>(ReaderJsonParser<R>);

/// A parser event with owned contents.
enum Token {
    Text(String),
    Key(String),
    Truth(bool),
    Other,
    Begin,
    BeginArray,
    End,
    Eof,
}

impl<R: Read> Json<R> {
    fn next(&mut self) -> Result<Token, String> {
        let event = self.0.parse_next().map_err(|e| e.to_string())?;
        Ok(match event {
            JsonEvent::String(text) => Token::Text(text.into_owned()),
            JsonEvent::ObjectKey(key) => Token::Key(key.into_owned()),
            JsonEvent::Boolean(truth) => Token::Truth(truth),
            JsonEvent::Number(_) | JsonEvent::Null => Token::Other,
            JsonEvent::StartObject => Token::Begin,
            JsonEvent::StartArray => Token::BeginArray,
            JsonEvent::EndObject | JsonEvent::EndArray => Token::End,
            JsonEvent::Eof => Token::Eof,
        })
    }

    fn begin(&mut self, what: &str) -> Result<(), String> {
        match self.next()? {
            Token::Begin => Ok(()),
            _ => Err(format!("expected an object as {what}")),
        }
    }

    fn begin_array(&mut self, what: &str) -> Result<(), String> {
        match self.next()? {
            Token::BeginArray => Ok(()),
            _ => Err(format!("expected an array as {what}")),
        }
    }

    /// Returns the next key of an object; `None` at its end.
    fn key(&mut self) -> Result<Option<String>, String> {
        match self.next()? {
            Token::Key(key) => Ok(Some(key)),
            Token::End => Ok(None),
            _ => Err("expected a key or the end of an object".into()),
        }
    }

    /// Skips a value of any type.
    fn skip(&mut self) -> Result<(), String> {
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                Token::Begin | Token::BeginArray => depth += 1,
                Token::End => depth = depth.saturating_sub(1),
                Token::Eof => return Err("the answer ends within a value".into()),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn head(&mut self, table: &mut SolutionsBuilder) -> Result<(), String> {
        self.begin("`head`")?;
        while let Some(key) = self.key()? {
            if key != "vars" {
                self.skip()?;
                continue;
            }
            self.begin_array("`vars`")?;
            table.named.get_or_insert_default();
            loop {
                match self.next()? {
                    Token::Text(name) => table.name(name)?,
                    Token::End => break,
                    _ => return Err("expected a name of a variable".into()),
                }
            }
        }
        Ok(())
    }

    fn results(&mut self, table: &mut SolutionsBuilder) -> Result<(), String> {
        self.begin("`results`")?;
        while let Some(key) = self.key()? {
            if key != "bindings" {
                self.skip()?;
                continue;
            }
            self.begin_array("`bindings`")?;
            loop {
                match self.next()? {
                    Token::Begin => {
                        table.row()?;
                        while let Some(name) = self.key()? {
                            self.begin("a term")?;
                            table.value(&name, self.term(0)?)?;
                        }
                    }
                    Token::End => break,
                    _ => return Err("expected an object as a solution".into()),
                }
            }
        }
        Ok(())
    }

    /// Reads a term whose object has begun, within `depth` triple terms.
    fn term(&mut self, depth: usize) -> Result<Term, String> {
        check_depth(depth)?;
        let (mut kind, mut value, mut language) = (None, None, None);
        let (mut datatype, mut direction, mut triple) = (None, None, None);
        while let Some(key) = self.key()? {
            let slot = match key.as_str() {
                "type" => &mut kind,
                "value" => &mut value,
                "xml:lang" => &mut language,
                "its:dir" => &mut direction,
                "datatype" => &mut datatype,
                _ => {
                    self.skip()?;
                    continue;
                }
            };
            match self.next()? {
                Token::Text(text) => *slot = Some(text),
                Token::Begin if key == "value" => triple = Some(self.triple(depth + 1)?),
                _ => return Err(format!("expected text as `{key}`")),
            }
        }
        let kind = kind.ok_or("a term has no `type`")?;
        match (kind.as_str(), triple, value) {
            ("triple", Some(triple), None) => Ok(triple),
            (kind, None, Some(value)) => {
                let (language, direction) = (language.as_deref(), direction.as_deref());
                term(kind, value, language, direction, datatype)
            }
            (_, None, None) => Err("a term has no `value`".into()),
            _ => Err(format!("the `value` of a term is not that of a `{kind}`")),
        }
    }

    /// Reads the parts of a triple term whose object has begun.
    fn triple(&mut self, depth: usize) -> Result<Term, String> {
        let mut parts = [None, None, None];
        while let Some(key) = self.key()? {
            let slot = match key.as_str() {
                "subject" => &mut parts[0],
                "predicate" => &mut parts[1],
                "object" => &mut parts[2],
                _ => {
                    self.skip()?;
                    continue;
                }
            };
            self.begin("a term")?;
            *slot = Some(self.term(depth)?);
        }
        triple_term(parts)
    }
}

/// Reads solutions into a table, or returns a boolean.
pub(super) fn read(from: impl Read, table: &mut SolutionsBuilder) -> Result<Option<bool>, String> {
    let mut json = Json(ReaderJsonParser::new(from));
    json.begin("the answer")?;
    let (mut truth, mut solutions) = (None, false);
    while let Some(key) = json.key()? {
        match key.as_str() {
            "head" => json.head(table)?,
            "results" => {
                solutions = true;
                json.results(table)?;
            }
            "boolean" => match json.next()? {
                Token::Truth(told) => truth = Some(told),
                _ => return Err("expected true or false as `boolean`".into()),
            },
            _ => json.skip()?,
        }
    }
    if truth.is_none() && !solutions {
        return Err("expected `results` or `boolean` in the answer".into());
    }
    Ok(truth)
}
