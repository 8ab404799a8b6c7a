//! Invariants of the dictionary: equal terms have equal ids, and an id gives its term.

use super::*;

fn keys() -> Vec<(String, String, u8)> {
    let mut all = Vec::new();
    for i in 0..3000 {
        all.push((
            format!("http://example.org/d{}/x{i}", i % 7),
            String::new(),
            0,
        ));
        all.push((format!("x{i}"), String::new(), 1));
        all.push((format!("x{i}"), String::new(), 2));
        all.push((format!("x{i}"), "en".to_owned(), 3));
        all.push((format!("x{i}"), format!("http://example.org/t{}", i % 3), 4));
    }
    all.push((String::new(), String::new(), 0));
    all.push((String::new(), String::new(), 2));
    all.push(("ä€😀".into(), String::new(), 2));
    all
}

fn key((a, b, kind): &(String, String, u8)) -> Key<'_> {
    match kind {
        0 => Key::Iri(a),
        1 => Key::Blank(a),
        2 => Key::Plain(a),
        3 => Key::Lang(a, b),
        _ => Key::Typed(a, b),
    }
}

#[test]
fn a_term_has_one_number_and_comes_back() {
    let mut dictionary = Dictionary::default();
    let all = keys();
    let ids: Vec<Id> = all
        .iter()
        .map(|k| dictionary.intern(&key(k)).unwrap())
        .collect();
    assert_eq!(dictionary.len(), all.len());
    for (k, id) in all.iter().zip(&ids) {
        assert_eq!(dictionary.intern(&key(k)).unwrap(), *id);
        assert_eq!(dictionary.find(&key(k)), Some(*id));
        assert_eq!(dictionary.term(*id).unwrap(), key(k).to_term().unwrap());
    }
    assert_eq!(
        dictionary.find(&Key::Iri("http://example.org/d0/none")),
        None
    );
}

#[test]
fn a_copy_does_not_see_what_is_added_later() {
    let mut dictionary = Dictionary::default();
    let all = keys();
    for k in all.iter().take(5000) {
        dictionary.intern(&key(k)).unwrap();
    }
    let copy = dictionary.clone();
    for k in &all {
        dictionary.intern(&key(k)).unwrap();
    }
    assert_eq!(copy.len(), 5000);
    assert_eq!(copy.find(&key(&all[6000])), None);
    for k in &all {
        let id = dictionary.find(&key(k)).unwrap();
        assert_eq!(dictionary.term(id).unwrap(), key(k).to_term().unwrap());
    }
}

#[test]
fn the_image_of_a_dictionary_is_the_dictionary() {
    let mut dictionary = Dictionary::default();
    let all = keys();
    for k in &all {
        dictionary.intern(&key(k)).unwrap();
    }
    let mut bytes = Vec::new();
    dictionary.encode(&mut bytes);
    let back = Dictionary::decode(&mut crate::codec::Reader::new(&bytes)).unwrap();
    for k in &all {
        assert_eq!(back.find(&key(k)), dictionary.find(&key(k)));
    }
    for cut in (0..bytes.len()).step_by(977) {
        let short = bytes.get(..cut).unwrap();
        assert!(Dictionary::decode(&mut crate::codec::Reader::new(short)).is_err());
    }
}

#[test]
fn triple_terms_come_back_and_wrong_ones_are_found() {
    let mut dictionary = Dictionary::default();
    let plain = Key::Triple("4:<a:s4:<a:p5:\"text");
    let nested = Key::Triple("2:_b4:<a:p20:(4:<a:s4:<a:p5:\"text");
    assert_eq!(dictionary.find(&nested), None);
    let ids = [&plain, &nested].map(|key| dictionary.intern(key).unwrap());
    // The inner term is the plain one; four further terms are parts.
    assert_eq!(dictionary.len(), 6);
    assert_eq!(dictionary.find(&plain), Some(ids[0]));
    assert_eq!(
        dictionary.triple(ids[1]).map(|parts| parts[2]),
        Some(ids[0])
    );
    let text = "<<( _:b <a:p> <<( <a:s> <a:p> \"text\" )>> )>>";
    assert_eq!(dictionary.term(ids[1]).unwrap().to_string(), text);
    let image = |dictionary: &Dictionary| {
        let mut bytes = Vec::new();
        dictionary.encode(&mut bytes);
        Dictionary::decode(&mut crate::codec::Reader::new(&bytes))
    };
    assert_eq!(image(&dictionary).unwrap().find(&nested), Some(ids[1]));
    let (iri, text) = (
        dictionary.find(&Key::Iri("a:s")).unwrap(),
        dictionary.find(&Key::Plain("text")).unwrap(),
    );
    let own = dictionary.len() as Id + 1;
    for parts in [
        [text, iri, iri],
        [ids[0], iri, iri],
        [iri, text, iri],
        [iri, iri, own],
        [iri, iri, 0],
        [iri, iri, Id::MAX],
        [iri, iri, LOCAL],
    ] {
        let mut wrong = dictionary.clone();
        wrong.intern(&Key::TripleIds(&triple::tail(parts))).unwrap();
        let error = image(&wrong).unwrap_err().to_string();
        assert!(error.contains(&format!("triple term {own}")), "{error}");
    }
    let mut deep = dictionary.clone();
    let mut last = iri;
    for _ in 0..triple::NESTED_MAX {
        last = deep.intern_triple([iri, iri, last]).unwrap();
    }
    assert!(image(&deep).is_ok());
    assert!(matches!(
        deep.intern_triple([iri, iri, last]),
        Err(Error::Nested(_))
    ));
    last = deep
        .intern(&Key::TripleIds(&triple::tail([iri, iri, last])))
        .unwrap();
    assert!(
        image(&deep)
            .unwrap_err()
            .to_string()
            .contains(&format!("triple term {last}"))
    );
}

#[test]
fn a_term_is_the_same_after_its_way() {
    let keys = [
        Key::Iri("http://example.org/a"),
        Key::Iri(""),
        Key::Blank("b0"),
        Key::Plain(""),
        Key::Plain("a>b \"c\"\n"),
        Key::Lang("x>y", "de-AT"),
        Key::Typed("12", "http://www.w3.org/2001/XMLSchema#integer"),
        Key::Typed(">", "http://example.org/t"),
        Key::Lang("x", "ar--rtl"),
        Key::Triple("4:<a:b4:<c:d3:\"ef"),
        Key::Triple("3:_b04:<c:d18:(4:<a:b4:<c:d3:\"ef"),
    ];
    let mut dictionary = Dictionary::default();
    for key in keys {
        let mut text = String::new();
        key.put(&mut text);
        assert_eq!(Key::take(&text), Some(key), "{text}");
        let id = dictionary.intern(&key).unwrap();
        let mut again = String::new();
        assert!(dictionary.put(id, &mut again));
        assert_eq!(again, text);
    }
}

#[test]
fn other_texts_are_no_terms() {
    for text in [
        "",
        "x",
        "@de",
        "^http://example.org/t",
        "é",
        "(",
        "(1:<1:<",
        "(1:<1:<1:<1:<",
        "(1:\"1:<1:<",
        "(1:<1:_1:<",
        "(9:<1:<1:<",
    ] {
        assert_eq!(Key::take(text), None, "{text}");
    }
}
