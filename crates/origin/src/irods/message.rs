//! Messages of iRODS: a length, a header, a body, as XML (the binary format differs between machines).

use super::xml::{self, Element, MessageError, escape};
use esker_site_cache::entry::{Attributes, Kind};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum size of a header in bytes; typical headers have 150.
const HEADER_MAX: usize = 4096;
/// Maximum size of a body in bytes; a page of rows has about 200 KiB.
const BODY_MAX: usize = 16 << 20;

/// Column numbers of the catalogue.
pub(crate) mod column {
    pub(crate) const DATA_NAME: u32 = 403;
    pub(crate) const DATA_SIZE: u32 = 407;
    pub(crate) const DATA_OWNER: u32 = 411;
    pub(crate) const DATA_STATUS: u32 = 413;
    pub(crate) const DATA_MODIFIED: u32 = 420;
    pub(crate) const COLLECTION: u32 = 501;
    pub(crate) const COLLECTION_PARENT: u32 = 502;
    pub(crate) const COLLECTION_OWNER: u32 = 503;
    pub(crate) const COLLECTION_MODIFIED: u32 = 509;
}

/// Call numbers of the protocol.
pub(crate) mod call {
    pub(crate) const OBJ_STAT: i32 = 633;
    pub(crate) const GEN_QUERY: i32 = 702;
    pub(crate) const AUTH_REQUEST: i32 = 703;
    pub(crate) const AUTH_RESPONSE: i32 = 704;
    pub(crate) const AUTHENTICATION: i32 = 110_000;
}

/// Maximum number of rows in one reply.
pub(crate) const ROWS: u32 = 500;

/// A message as received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Message {
    pub(crate) kind: Vec<u8>,
    /// The result of a call; an error if negative.
    pub(crate) info: i32,
    pub(crate) body: Vec<u8>,
    pub(crate) error: Vec<u8>,
}

/// Encodes a header with the lengths of body, error and bytes that follow.
pub(crate) fn pack_header(kind: &str, [body, error, bytes]: [usize; 3], info: i32) -> Vec<u8> {
    let header = format!(
        "<MsgHeader_PI><type>{kind}</type><msgLen>{body}</msgLen><errorLen>{error}</errorLen><bsLen>{bytes}</bsLen>\
         <intInfo>{info}</intInfo></MsgHeader_PI>"
    );
    let mut out = (header.len() as u32).to_be_bytes().to_vec();
    out.extend(header.as_bytes());
    out
}

/// Encodes a message with a body.
pub(crate) fn pack(kind: &str, info: i32, body: &[u8]) -> Vec<u8> {
    let mut out = pack_header(kind, [body.len(), 0, 0], info);
    out.extend(body);
    out
}

/// Reads the next message. The inner error is a protocol error.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Result<Message, MessageError>> {
    let length = from.read_u32().await? as usize;
    if length > HEADER_MAX {
        return Ok(Err("a message without a header of iRODS"));
    }
    let mut header = vec![0; length];
    from.read_exact(&mut header).await?;
    let (mut message, lengths) = match unpack(&header) {
        Ok(unpacked) => unpacked,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let [body, error, rest] = lengths;
    message.body.resize(body, 0);
    from.read_exact(&mut message.body).await?;
    message.error.resize(error, 0);
    from.read_exact(&mut message.error).await?;
    // Contents of files, which are never requested.
    let mut rest = vec![0; rest];
    from.read_exact(&mut rest).await?;
    Ok(Ok(message))
}

/// Parses a header; returns the message and the lengths of what follows.
fn unpack(header: &[u8]) -> Result<(Message, [usize; 3]), MessageError> {
    let header = xml::parse(header)?;
    let kind = header.string("type", false);
    let length = |name| match header.number::<usize>(name) {
        Some(length) if length <= BODY_MAX => Ok(length),
        Some(_) => Err("a message longer than 16 MiB"),
        None => Err("a header that lacks a length"),
    };
    let lengths = [length("msgLen")?, length("errorLen")?, length("bsLen")?];
    let message = Message {
        kind: kind.ok_or("a header that lacks a type")?,
        info: header
            .number("intInfo")
            .ok_or("a header that lacks intInfo")?,
        ..Message::default()
    };
    Ok((message, lengths))
}

/// Consecutive elements of a body.
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Creates an empty body.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends an element with a text.
    pub(crate) fn put(mut self, name: &str, text: &[u8]) -> Self {
        self.0.extend(format!("<{name}>").bytes());
        escape(text, &mut self.0);
        self.0.extend(format!("</{name}>").bytes());
        self
    }

    /// Appends an element with a number.
    pub(crate) fn number(self, name: &str, number: impl std::fmt::Display) -> Self {
        self.put(name, number.to_string().as_bytes())
    }

    /// Appends an element that contains the elements of `inner`.
    pub(crate) fn with(mut self, inner: Self, name: &str) -> Self {
        self.0.extend(inner.within(name));
        self
    }

    /// Encloses all elements in one element.
    pub(crate) fn within(self, name: &str) -> Vec<u8> {
        let mut out = format!("<{name}>").into_bytes();
        out.extend(self.0);
        out.extend(format!("</{name}>").bytes());
        out
    }
}

/// Requests the attributes of a path.
pub(crate) fn stat(path: &[u8]) -> Vec<u8> {
    let body = Body::new()
        .put("objPath", path)
        .number("createMode", 0)
        .number("openFlags", 0)
        .number("offset", 0)
        .number("dataSize", 0)
        .number("numThreads", 0)
        .number("oprType", 0)
        .with(Body::new().number("ssLen", 0), "KeyValPair_PI");
    pack(
        "RODS_API_REQ",
        call::OBJ_STAT,
        &body.within("DataObjInp_PI"),
    )
}

/// Queries columns of the rows that match a condition. `after` continues an earlier query; zero `rows` end it.
pub(crate) fn query(columns: &[u32], which: (u32, &[u8]), rows: u32, after: i32) -> Vec<u8> {
    let mut selected = Body::new().number("iiLen", columns.len());
    for column in columns {
        selected = selected.number("inx", column);
    }
    for _ in columns {
        selected = selected.number("ivalue", 1);
    }
    let condition = Body::new().number("isLen", 1).number("inx", which.0);
    let body = Body::new()
        .number("maxRows", rows)
        .number("continueInx", after)
        .number("partialStartIndex", 0)
        .number("options", 0)
        .with(Body::new().number("ssLen", 0), "KeyValPair_PI")
        .with(selected, "InxIvalPair_PI")
        .with(condition.put("svalue", &is(which.1)), "InxValPair_PI");
    pack(
        "RODS_API_REQ",
        call::GEN_QUERY,
        &body.within("GenQueryInp_PI"),
    )
}

/// Ends a query that has more rows.
pub(crate) fn end(query_number: i32) -> Vec<u8> {
    query(
        &[column::COLLECTION],
        (column::COLLECTION, b"/"),
        0,
        query_number,
    )
}

/// Builds the condition that a column equals a text. Old servers cannot express an apostrophe: a wildcard replaces it, and the
/// caller compares.
fn is(text: &[u8]) -> Vec<u8> {
    let quoted = |sign: &str, text: &[u8]| [sign.as_bytes(), b" '", text, b"'"].concat();
    if text.contains(&b'\'') {
        let text: Vec<u8> = text
            .iter()
            .map(|b| {
                if matches!(b, b'\'' | b'\\' | b'%') {
                    b'_'
                } else {
                    *b
                }
            })
            .collect();
        return quoted("like", &text);
    }
    quoted("=", text)
}

/// A page of rows, the reply to [`query`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    /// Column numbers with their values; all columns have the same length.
    pub(crate) columns: Vec<(u32, Vec<Vec<u8>>)>,
    pub(crate) count: usize,
    /// Continuation number; greater than zero if there are more rows.
    pub(crate) next: i32,
}

impl Rows {
    /// Returns a field of a row; empty if absent.
    pub(crate) fn field(&self, row: usize, column: u32) -> &[u8] {
        let column = self.columns.iter().find(|(number, _)| *number == column);
        column
            .and_then(|(_, values)| values.get(row))
            .map_or(&[], Vec::as_slice)
    }
}

/// Parses a reply to [`query`].
pub(crate) fn rows(body: &[u8], old: bool) -> Result<Rows, MessageError> {
    let root = xml::parse(body)?;
    let count: usize = root.number("rowCnt").ok_or("rows without their number")?;
    let mut rows = Rows {
        count,
        next: root.number("continueInx").unwrap_or(0),
        columns: Vec::new(),
    };
    let wanted = root.number("attriCnt").unwrap_or(usize::MAX);
    // Servers append empty columns that were not requested.
    for column in root.all("SqlResult_PI").take(wanted) {
        let number = column
            .number("attriInx")
            .ok_or("a column without its number")?;
        let values: Vec<Vec<u8>> = column.all("value").map(|v| v.text(old)).collect();
        if values.len() < count {
            return Err("fewer values than rows");
        }
        rows.columns.push((number, values));
    }
    if rows.columns.is_empty() && count > 0 {
        return Err("rows without columns");
    }
    Ok(rows)
}

/// Parses zero-padded seconds since 1970.
pub(crate) fn time(text: &[u8]) -> Option<i64> {
    let seconds: i64 = str::from_utf8(text).ok()?.trim().parse().ok()?;
    seconds.checked_mul(1_000_000_000)
}

fn more(pairs: &[(&str, Vec<u8>)]) -> Option<crate::unix::More> {
    let text = |bytes: &Vec<u8>| {
        String::from_utf8(bytes.clone())
            .ok()
            .filter(|t| !t.is_empty())
    };
    let pairs = pairs
        .iter()
        .filter_map(|(name, value)| Some(((*name).into(), text(value)?.into())));
    let pairs: Vec<(Box<str>, Box<str>)> = pairs.collect();
    (!pairs.is_empty()).then(|| pairs.into())
}

/// Parses a reply to [`stat`].
pub(crate) fn attributes(body: &[u8], old: bool) -> Result<Attributes, MessageError> {
    let root = xml::parse(body)?;
    let kind = match root.number("objType") {
        Some(1) => Kind::File,
        Some(2) => Kind::Directory,
        Some(_) => Kind::Other,
        None => return Err("attributes without a type"),
    };
    let text = |name| root.string(name, old).unwrap_or_default();
    let size = root
        .number::<i64>("objSize")
        .and_then(|n| u64::try_from(n).ok());
    Ok(Attributes {
        kind,
        size: size.filter(|_| kind == Kind::File),
        modified: time(&text("modifyTime")),
        mode: None,
        more: more(&[
            ("owner", text("ownerName")),
            ("zone", text("ownerZone")),
            ("checksum", text("chksum")),
        ]),
    })
}

/// Returns a data object's attributes from a row.
pub(crate) fn of_data(rows: &Rows, row: usize) -> Attributes {
    let size = str::from_utf8(rows.field(row, column::DATA_SIZE)).ok();
    Attributes {
        kind: Kind::File,
        size: size.and_then(|n| n.trim().parse().ok()),
        modified: time(rows.field(row, column::DATA_MODIFIED)),
        mode: None,
        more: more(&[("owner", rows.field(row, column::DATA_OWNER).to_vec())]),
    }
}

/// Returns a collection's attributes from a row.
pub(crate) fn of_collection(rows: &Rows, row: usize) -> Attributes {
    Attributes {
        kind: Kind::Directory,
        modified: time(rows.field(row, column::COLLECTION_MODIFIED)),
        more: more(&[("owner", rows.field(row, column::COLLECTION_OWNER).to_vec())]),
        ..Attributes::default()
    }
}

/// Returns the server's error message, if there is one.
pub(crate) fn error_text(error: &[u8]) -> Vec<u8> {
    let read = || -> Option<Vec<u8>> {
        let root = xml::parse(error).ok()?;
        let first: &Element<'_> = root.get("RErrMsg_PI")?;
        first.string("msg", false)
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROWS_MESSAGE: &str = "<GenQueryOut_PI>\n<rowCnt>2</rowCnt>\n<attriCnt>1</attriCnt>\n<continueInx>3</continueInx>\n\
        <totalRowCount>0</totalRowCount>\n<SqlResult_PI>\n<attriInx>403</attriInx>\n<reslen>9</reslen>\n<value>a</value>\n\
        <value>b&amp;</value>\n</SqlResult_PI>\n<SqlResult_PI>\n<attriInx>0</attriInx>\n<reslen>0</reslen>\n</SqlResult_PI>\n\
        </GenQueryOut_PI>\n";

    #[test]
    fn rows_are_read() {
        let rows = rows(ROWS_MESSAGE.as_bytes(), false).unwrap();
        assert_eq!((rows.count, rows.next), (2, 3));
        assert_eq!(rows.field(1, column::DATA_NAME), b"b&");
        assert_eq!(rows.field(2, column::DATA_NAME), b"");
        assert!(super::rows(b"<x><rowCnt>99999999999</rowCnt></x>", false).is_err());
        assert_eq!(is(b"/a"), b"= '/a'");
        assert_eq!(is(b"/it's 5%"), b"like '/it_s 5_'");
        assert_eq!(time(b"01700000000"), Some(1_700_000_000_000_000_000));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            junk in proptest::collection::vec(any::<u8>(), 0..200),
            to in 0..ROWS_MESSAGE.len(),
            byte: u8,
        ) {
            let mut changed = ROWS_MESSAGE.as_bytes().to_vec();
            changed[to] = byte;
            for bytes in [&junk, &changed] {
                let _ = (rows(bytes, false), attributes(bytes, true), error_text(bytes), unpack(bytes));
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let _ = runtime.block_on(read(&mut &bytes[..]));
            }
        }
    }
}
