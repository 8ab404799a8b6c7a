//! PROV documents in any encoding: a text is parsed, or refused with a reason; a parsed document is written as PROV-JSON and parsed back.

use esker_import::prov::{Document, Encoding, read, write};

fn without_prefixes(mut document: Document) -> Document {
    document.prefixes.clear();
    document.left_out = 0;
    document
}

pub(crate) fn check(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let encoding = match first % 6 {
        0 => Encoding::Provn,
        1 => Encoding::Json,
        2 => Encoding::Xml,
        3 => Encoding::Turtle,
        4 => Encoding::NTriples,
        _ => Encoding::JsonLd,
    };
    match read(text, encoding) {
        Err(e) => assert!(!e.what.is_empty()),
        Ok(document) => {
            let document = without_prefixes(document);
            let json = write(&document, Encoding::Json).expect("PROV-JSON can say everything");
            let back = read(&json, Encoding::Json).map(without_prefixes);
            assert_eq!(back.as_ref(), Ok(&document), "{json}");
        }
    }
}
