//! Vertex names and ids. Ids are a format: a change here orphans every database.

use esker_model::limits::VERTEX_KEY_BYTES_MAX;
use esker_model::namespace::{self, Kind, Name, hash_of, id_with_home, id_within};
use esker_model::{Schema, VertexId, VertexName};
use proptest::prelude::*;

#[test]
fn ids_are_a_format() {
    for (type_name, key, expected) in GOLDEN {
        assert_eq!(
            VertexId::of(type_name, key).to_string(),
            expected,
            "{type_name}:{key}"
        );
    }
}

/// The first 32 digits of `b3sum` of the lower-case type, a zero byte and the key. If the key is a path, the first four
/// digits are its home: the first four of the `b3sum` of each name, their bits reversed, added up, and reversed again.
const GOLDEN: [(&str, &str, &str); 5] = [
    ("file", "/scratch/a.h5", "cfafc99e80bcc23b61963db5ac44b935"),
    ("file", "scratch/a.h5", "2580c2230f9506a243870ca2d53cb42d"),
    ("directory", "/", "000054ad2769666a62e2f6315f9beee0"),
    ("user", "1001", "183b495aabce8359941f6ca3e204316e"),
    ("job", "4711", "519669a419b734ec97d8f6b5613733d0"),
];

#[test]
fn malformed_names_say_why() {
    let message = |text: &str| VertexName::parse(text).unwrap_err().to_string();
    let tail = "; expected TYPE:KEY, as in file:/scratch/a.h5 or user:1001";
    assert_eq!(
        message("/tmp/x"),
        format!("`/tmp/x` names no vertex: there is no colon{tail}")
    );
    assert_eq!(
        message(":x"),
        format!("`:x` names no vertex: the type before the colon is empty{tail}")
    );
    assert_eq!(
        message("file:"),
        format!("`file:` names no vertex: the key after the colon is empty{tail}")
    );
    assert!(message("file:a\0b").contains("NUL"));
    let longest = format!("file:{}", "k".repeat(VERTEX_KEY_BYTES_MAX));
    assert!(VertexName::parse(&longest).is_ok());
    assert!(message(&format!("{longest}k")).contains("longer than 4,096 bytes"));
}

#[test]
fn an_unknown_type_suggests_the_closest() {
    let schema = Schema::default();
    let error = VertexName::parse("flie:/a")
        .unwrap()
        .resolve(&schema)
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("unknown vertex type `flie`; did you mean `File`?"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn names_split_at_the_first_colon(type_name in "[A-Za-z]{1,8}", key in "[^\0]{1,40}") {
        let name = VertexName::parse(&format!("{type_name}:{key}")).unwrap();
        prop_assert_eq!(&name.type_name, &type_name);
        prop_assert_eq!(&name.key, &key);
        prop_assert_eq!(name.to_string(), format!("{}:{key}", type_name.to_ascii_lowercase()));
    }

    #[test]
    fn the_case_of_a_type_makes_no_difference(type_name in "[A-Za-z]{1,80}", key in "\\PC{0,20}") {
        let id = VertexId::of(&type_name, &key);
        prop_assert_eq!(VertexId::of(&type_name.to_ascii_lowercase(), &key), id);
        prop_assert_eq!(VertexId::of(&type_name.to_ascii_uppercase(), &key), id);
    }

    #[test]
    fn type_and_key_do_not_run_together(a in "[a-z]{1,5}", b in "[a-z]{1,5}", key in "[a-z]{1,5}") {
        let (whole, split) = (VertexId::of(&format!("{a}{b}"), &key), VertexId::of(&a, &format!("{b}{key}")));
        prop_assert_ne!(whole, split);
    }

    #[test]
    fn any_text_is_a_name_or_refused(text in "\\PC{0,30}") {
        if let Ok(name) = VertexName::parse(&text) {
            prop_assert_eq!(format!("{}:{}", name.type_name, name.key), text);
        }
    }
}

/// An entry of a directory with any number of partitions is on the server of its vertex, for any number of vnodes.
#[test]
fn entries_go_where_their_vertices_are() {
    let directory = VertexId::of("Directory", "/scratch/run7");
    for n in 0..200 {
        let name = Name::new(format!("out{n}.nc").as_bytes()).unwrap();
        let file = VertexId::of("file", &format!("/scratch/run7/out{n}.nc"));
        for bits in 0..=16 {
            let mask = (1_u32 << bits) - 1;
            let partition = hash_of(&name).reverse_bits() as u32;
            assert_eq!(
                u32::from(file.home_bits()) & mask,
                (u32::from(directory.home_bits()) + partition) & mask
            );
        }
        let moved = id_within(Kind::File, directory, &name, 7);
        assert_eq!(moved.home_bits(), file.home_bits());
        assert_ne!(moved, file);
        assert_eq!(
            id_with_home(
                Kind::File,
                format!("/scratch/run7/out{n}.nc").as_bytes(),
                file.home_bits()
            ),
            file
        );
    }
    assert_eq!(namespace::root().home_bits(), 0);
}
