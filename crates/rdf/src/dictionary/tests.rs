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
        assert_eq!(dictionary.term(*id).unwrap(), key(k).to_term());
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
        assert_eq!(dictionary.term(id).unwrap(), key(k).to_term());
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
