//! Tests of calls and replies between servers about names, as bytes.

use super::*;
use esker_model::key::{Measure, SpaceKey};
use esker_model::namespace::NamePath;

fn come_back(call: &NamesCall) {
    let bytes = call.encode();
    assert_eq!(&NamesCall::decode(&bytes).unwrap(), call);
    for end in 0..bytes.len() {
        assert!(NamesCall::decode(bytes.get(..end).unwrap()).is_err());
    }
}

fn comes_back(reply: &NamesReply) {
    let bytes = reply.encode();
    assert_eq!(&NamesReply::decode(&bytes).unwrap(), reply);
    for end in 0..bytes.len() {
        assert!(NamesReply::decode(bytes.get(..end).unwrap()).is_err());
    }
}

#[test]
fn questions_and_answers_come_back() {
    let id = VertexId([7; 16]);
    let counters = vec![(
        Counter::Space(SpaceKey::Directory(id), Measure::Bytes),
        -5_i64,
    )];
    come_back(&NamesCall::Rows {
        keys: vec![vec![1, 2], vec![]],
    });
    let path = NamePath::parse(b"/a/b").unwrap();
    comes_back(&NamesReply::Anew);
    come_back(&NamesCall::Change {
        call: CallId {
            incarnation: 1,
            number: 2,
            over: 3,
            to: 4,
        },
        asker: Some(Asker {
            uid: 3,
            gids: vec![4, 5],
        }),
        changes: vec![Change::Rmdir(path)],
        once: Some(vec![1, 2]),
        insist: true,
    });
    come_back(&NamesCall::Sums { of: vec![id; 2] });
    come_back(&NamesCall::Page {
        directory: id,
        from: (9, Some(1)),
        limit: 10,
    });
    come_back(&NamesCall::Children { of: vec![id] });
    come_back(&NamesCall::Last { id });
    come_back(&NamesCall::Count {
        directory: id,
        first: 1,
        last: 2,
    });
    comes_back(&NamesReply::Count(3));
    let known = KnownOfFiles { heard: 3, told: 1 };
    come_back(&NamesCall::Know(known));
    comes_back(&NamesReply::Known(known));
    come_back(&NamesCall::Promise { vertex: id });
    come_back(&NamesCall::Promised);
    comes_back(&NamesReply::Promised(5));
    for by in BY {
        come_back(&NamesCall::Space { by });
    }
    comes_back(&NamesReply::Rows(vec![None, Some(vec![3])]));
    let done = Done {
        id,
        version: Version(8),
    };
    comes_back(&NamesReply::Changed(
        vec![
            Ok(done),
            Err(Refusal::File(Errno::Loop.at("/x"))),
            Err(Refusal::Unavailable("a".into())),
            Err(Refusal::Other("b".into())),
        ],
        vec![(id, vec![1])],
    ));
    let sums = DirectorySums {
        sums: [-1, 2, 3, 4],
        changed: 5,
    };
    comes_back(&NamesReply::Sums(vec![sums]));
    comes_back(&NamesReply::Page {
        entries: vec![(vec![1], vec![2, 3])],
        next: Some((4, None)),
    });
    let name = Name::new(b"n").unwrap();
    comes_back(&NamesReply::Children(vec![vec![], vec![(id, name)]]));
    comes_back(&NamesReply::Space(counters.clone()));
    comes_back(&NamesReply::Moved(vec![(id, vec![1, 2])]));
    let part = NamesPart {
        epoch: Some(3),
        rows: vec![PlannedRow {
            key: vec![1],
            value: None,
            read: Some(4),
        }],
        counters,
        structure: true,
        empty: vec![id],
    };
    let mut bytes = Vec::new();
    part.put(&mut bytes);
    assert_eq!(NamesPart::take(&mut Reader::new(&bytes)).unwrap(), part);
}
