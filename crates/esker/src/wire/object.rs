//! Encodings of the object types.

#![deny(clippy::indexing_slicing)]

use super::encoding::{wire_enum, wire_newtype, wire_struct};
use esker_model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, PlanStep, Principal, Share, TagChange,
    TagInfo, TagReport, TagWhere,
};

wire_newtype!(ObjectId);
wire_struct!(Identity {
    name,
    app,
    owner,
    step
});
wire_enum!(ObjectKey {
    0 Id(id),
    1 Identity(identity),
});
wire_struct!(Principal { uid, gids });
wire_struct!(Share { rank, of });
wire_struct!(Find {
    filter,
    select,
    limit,
    count,
    explain,
    principal,
    share,
    after
});
wire_struct!(Found {
    id,
    created,
    modified,
    attributes,
    tags
});
wire_struct!(PlanStep {
    server,
    term,
    access,
    estimate,
    left,
    micros
});
wire_struct!(FindReport {
    matches,
    complete,
    missing,
    plan,
    unknown
});
wire_struct!(TagInfo {
    name,
    predefined,
    objects,
    distinct,
    indexed,
    bytes
});
wire_struct!(TagChange { set, keep, remove });
wire_struct!(TagWhere {
    filter,
    change,
    principal,
    dry_run,
    idempotency_key
});
wire_struct!(TagReport {
    matches,
    changed,
    refused,
    version,
    applied
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encoding::{Wire, decode};
    use esker_model::filter::Expr;
    use esker_model::{Properties, Value, Version};
    use std::fmt::Debug;

    fn comes_back<T: Wire + PartialEq + Debug>(value: &T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        assert_eq!(&decode::<T>(&bytes).unwrap(), value);
        // Any truncated encoding is refused, and nothing panics.
        for end in 0..bytes.len() {
            assert!(
                decode::<T>(bytes.get(..end).unwrap()).is_err(),
                "{value:?} cut at {end}"
            );
        }
    }

    #[test]
    fn what_is_asked_and_found_comes_back() {
        let identity = Identity {
            name: "energy".into(),
            app: String::new(),
            owner: -1,
            step: i64::MAX,
        };
        comes_back(&ObjectKey::Identity(identity));
        comes_back(&ObjectKey::Id(ObjectId(7)));
        let principal = Principal {
            uid: 1001,
            gids: vec![7, -8],
        };
        let filter = Expr::parse("Conf = 1 AND note LIKE 'run%'", None).unwrap();
        comes_back(&Find {
            filter: filter.clone(),
            select: Some(vec!["Conf".into()]),
            limit: Some(3),
            count: true,
            explain: false,
            principal: Some(principal.clone()),
            share: Some(Share { rank: 1, of: 4 }),
            after: Some(ObjectId(9)),
        });
        comes_back(&Find::all(Expr::All));
        let tags = Properties::new().with("Conf_0", Value::Null).with("e", 2.5);
        comes_back(&Found {
            id: ObjectId(7),
            created: Version(8),
            modified: Version(9),
            attributes: Properties::new().with("name", "energy"),
            tags: tags.clone(),
        });
        comes_back(&FindReport {
            matches: 3,
            complete: true,
            missing: vec![2],
            plan: vec![PlanStep {
                server: 1,
                term: "Conf = 1".into(),
                access: "index".into(),
                estimate: 9,
                left: Some(3),
                micros: None,
            }],
            unknown: vec![
                ("varible".into(), Some(("variable".into(), 41_022))),
                ("x".into(), None),
            ],
        });
        comes_back(&TagWhere {
            filter,
            change: TagChange {
                set: tags,
                keep: true,
                remove: vec!["old".into()],
            },
            principal: Some(principal),
            dry_run: true,
            idempotency_key: Some(vec![1, 2]),
        });
        comes_back(&TagReport {
            matches: 1,
            changed: 2,
            refused: 3,
            version: Version(4),
            applied: true,
        });
        comes_back(&TagInfo {
            name: "Conf".into(),
            predefined: false,
            objects: 5,
            distinct: Some(2),
            indexed: true,
            bytes: (6, 7),
        });
    }
}
