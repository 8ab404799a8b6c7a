//! Encoding of messages about objects: requests and responses are decoded unchanged, and invalid bytes are refused.

use esker_cluster::ServerId;
use esker_cluster::peer::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply};
use esker_model::filter::Expr;
use esker_model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, PlanStep, Principal, Share, TagChange,
    TagInfo, TagReport, TagWhere,
};
use esker_model::wire::{decode, encode};
use esker_model::{Properties, Value, Version};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn version() -> impl Strategy<Value = Version> {
    any::<u64>().prop_map(Version)
}

fn object() -> impl Strategy<Value = ObjectId> {
    (0..1_u64 << 63).prop_map(ObjectId)
}

fn principal() -> impl Strategy<Value = Principal> {
    (any::<i64>(), vec(any::<i64>(), 0..3)).prop_map(|(uid, gids)| Principal { uid, gids })
}

fn properties() -> impl Strategy<Value = Properties> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::I64),
        ".{0,6}".prop_map(Value::from),
    ];
    vec((".{1,6}", value), 0..3).prop_map(|pairs| {
        let with = |all: Properties, (name, value): (String, Value)| all.with(&name, value);
        pairs.into_iter().fold(Properties::new(), with)
    })
}

fn filter() -> impl Strategy<Value = Expr> {
    let texts = [
        "",
        "x = 1",
        "Name = 'VPIC' AND Conf = 1 AND step BETWEEN 10 AND 20 AND note LIKE 'run%'",
        "NOT (a > 2.5 OR b IN (1, 'x', true)) AND EXISTS c",
        "modified > 2026-03-01T00:00:00Z OR size >= 1GiB",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| Expr::parse(text, None).unwrap())
}

fn key() -> impl Strategy<Value = ObjectKey> {
    let identity = (".{1,6}", ".{0,6}", any::<i64>(), any::<i64>());
    prop_oneof![
        object().prop_map(ObjectKey::Id),
        identity.prop_map(|(name, app, owner, step)| {
            ObjectKey::Identity(Identity {
                name,
                app,
                owner,
                step,
            })
        }),
    ]
}

fn find_id() -> impl Strategy<Value = FindId> {
    any::<(u32, u64, u64)>().prop_map(|(server, incarnation, number)| FindId {
        server: ServerId(server),
        incarnation,
        number,
    })
}

fn find() -> impl Strategy<Value = Find> {
    let share = (1..9_u32)
        .prop_flat_map(|of| (0..of, Just(of)))
        .prop_map(|(rank, of)| Share { rank, of });
    let rest = (
        option::of(vec(".{0,5}", 0..3)),
        any::<Option<u64>>(),
        any::<(bool, bool)>(),
        option::of(principal()),
        option::of(share),
        option::of(object()),
    );
    (filter(), rest).prop_map(
        |(filter, (select, limit, (count, explain), principal, share, after))| Find {
            filter,
            select,
            limit,
            count,
            explain,
            principal,
            share,
            after,
        },
    )
}

fn tag_where() -> impl Strategy<Value = TagWhere> {
    let change = (properties(), any::<bool>(), vec(".{1,5}", 0..3));
    let change = change.prop_map(|(set, keep, remove)| TagChange { set, keep, remove });
    let marker = option::of(vec(any::<u8>(), 0..9));
    (
        filter(),
        change,
        option::of(principal()),
        any::<bool>(),
        marker,
    )
        .prop_map(
            |(filter, change, principal, dry_run, idempotency_key)| TagWhere {
                filter,
                change,
                principal,
                dry_run,
                idempotency_key,
            },
        )
}

fn call() -> impl Strategy<Value = ObjectCall> {
    prop_oneof![
        (vec(key(), 0..4), option::of(principal()), version()).prop_map(|(keys, principal, at)| {
            ObjectCall::Read {
                keys,
                principal,
                at,
            }
        }),
        (find_id(), find(), version()).prop_map(|(id, find, at)| ObjectCall::Find { id, find, at }),
        find_id().prop_map(|id| ObjectCall::Stop { id }),
        (option::of(principal()), version())
            .prop_map(|(principal, at)| ObjectCall::Tags { principal, at }),
        (tag_where(), version()).prop_map(|(change, at)| ObjectCall::Tag { change, at }),
        (".{0,6}", any::<bool>()).prop_map(|(name, on)| ObjectCall::Index { name, on }),
    ]
}

fn found() -> impl Strategy<Value = Found> {
    (object(), version(), version(), properties(), properties()).prop_map(
        |(id, created, modified, attributes, tags)| Found {
            id,
            created,
            modified,
            attributes,
            tags,
        },
    )
}

fn report() -> impl Strategy<Value = FindReport> {
    let step = (
        any::<(u32, u64, Option<u64>, Option<u64>)>(),
        ".{0,6}",
        ".{0,6}",
    )
        .prop_map(
            |((server, estimate, left, micros), term, access)| PlanStep {
                server,
                term,
                access,
                estimate,
                left,
                micros,
            },
        );
    let unknown = (".{0,6}", option::of((".{0,6}", any::<u64>())));
    (
        any::<(u64, bool)>(),
        vec(any::<u32>(), 0..3),
        vec(step, 0..3),
        vec(unknown, 0..3),
    )
        .prop_map(|((matches, complete), missing, plan, unknown)| FindReport {
            matches,
            complete,
            missing,
            plan,
            unknown,
        })
}

fn reply() -> impl Strategy<Value = ObjectReply> {
    let at = prop_oneof![
        Just(ObjectAt::Nowhere),
        found().prop_map(ObjectAt::Here),
        object().prop_map(ObjectAt::Elsewhere),
    ];
    let page = (vec(found(), 0..3), any::<bool>(), report());
    let tag = (
        ".{0,6}",
        any::<(bool, u64, Option<u64>)>(),
        any::<(bool, (u64, u64))>(),
    );
    let tag = tag.prop_map(
        |(name, (predefined, objects, distinct), (indexed, bytes))| TagInfo {
            name,
            predefined,
            objects,
            distinct,
            indexed,
            bytes,
        },
    );
    prop_oneof![
        vec(at, 0..4).prop_map(ObjectReply::Objects),
        page.prop_map(|(objects, more, report)| ObjectReply::Found(FindPage {
            objects,
            more,
            report
        })),
        Just(ObjectReply::Stopped),
        vec(tag, 0..3).prop_map(ObjectReply::Tags),
        any::<[u64; 4]>().prop_map(|n| ObjectReply::Tagged(TagReport {
            matches: n[0],
            changed: n[1],
            refused: n[2],
            version: Version(n[3]),
            applied: n[3] % 2 == 1,
        })),
        any::<bool>().prop_map(ObjectReply::Indexed),
    ]
}

proptest! {
    #[test]
    fn questions_come_back(call in call()) {
        prop_assert_eq!(decode::<ObjectCall>(&encode(&call)).unwrap(), call);
    }

    #[test]
    fn answers_come_back(reply in reply()) {
        prop_assert_eq!(decode::<ObjectReply>(&encode(&reply)).unwrap(), reply);
    }

    /// Truncated bytes are refused; changed bytes are refused or decode as something else.
    #[test]
    fn bytes_that_mean_nothing_are_refused(
        call in call(), reply in reply(), at: prop::sample::Index, byte: u8,
    ) {
        let mut bytes = encode(&call);
        let place = at.index(bytes.len());
        prop_assert!(decode::<ObjectCall>(&bytes[..place]).is_err());
        bytes[place] = byte;
        let _ = decode::<ObjectCall>(&bytes);
        let mut bytes = encode(&reply);
        let place = at.index(bytes.len());
        prop_assert!(decode::<ObjectReply>(&bytes[..place]).is_err());
        bytes[place] = byte;
        let _ = decode::<ObjectReply>(&bytes);
    }
}

#[test]
fn a_share_that_does_not_exist_is_refused() {
    let find = Find {
        share: Some(Share { rank: 3, of: 3 }),
        ..Find::all(Expr::All)
    };
    let id = FindId {
        server: ServerId(1),
        incarnation: 1,
        number: 1,
    };
    let at = Version(1);
    let bytes = encode(&ObjectCall::Find { id, find, at });
    let error = decode::<ObjectCall>(&bytes).unwrap_err();
    assert!(error.to_string().contains("a share below"), "{error}");
}
