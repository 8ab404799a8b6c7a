//! Tests of the binary encoding of namespace requests and responses.

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
    comes_back(&NamesReply::Restarted);
    come_back(&NamesCall::Change {
        call: CallId {
            incarnation: 1,
            number: 2,
            over: 3,
            receiver_incarnation: 4,
        },
        principal: Some(Principal {
            uid: 3,
            gids: vec![4, 5],
        }),
        changes: vec![Change::Rmdir(path)],
        idempotency_key: Some(vec![1, 2]),
        apply_remote: true,
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
    let known = ClusterFlags {
        known: 3,
        known_by_all: 1,
    };
    come_back(&NamesCall::ExchangeFlags(known));
    comes_back(&NamesReply::Flags(known));
    come_back(&NamesCall::LeaseVertex { vertex: id });
    come_back(&NamesCall::DirectoryLeases);
    comes_back(&NamesReply::LeaseMillis(5));
    for by in BY {
        come_back(&NamesCall::Space { by });
    }
    comes_back(&NamesReply::Rows(vec![None, Some(vec![3])]));
    let done = AppliedChange {
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
