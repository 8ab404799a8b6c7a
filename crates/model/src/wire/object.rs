//! Encodings of the object types.

use super::Wire;
use crate::codec::{DecodeError, Reader};
use crate::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, PlanStep, Principal, Share, TagChange,
    TagInfo, TagReport, TagWhere,
};
use crate::wire_struct;

/// Numbers of objects are below 2^63.
impl Wire for ObjectId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = u64::take(r)?;
        if number >> 63 != 0 {
            return Err(r.error("an object's number, below 2^63"));
        }
        Ok(Self(number))
    }
}
wire_struct!(Identity {
    name,
    app,
    owner,
    step
});
/// A number that no object can have is valid here: it names no object.
impl Wire for ObjectKey {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Id(id) => {
                out.push(0);
                id.0.put(out);
            }
            Self::Identity(identity) => {
                out.push(1);
                identity.put(out);
            }
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match r.u8("a kind of key (0 or 1)")? {
            0 => Self::Id(ObjectId(u64::take(r)?)),
            1 => Self::Identity(Wire::take(r)?),
            _ => return Err(r.error("a kind of key (0 or 1)")),
        })
    }
}
wire_struct!(Principal { uid, gids });
impl Wire for Share {
    fn put(&self, out: &mut Vec<u8>) {
        (self.rank, self.of).put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (rank, of) = Wire::take(r)?;
        if rank >= of {
            return Err(r.error("a share below the number of shares"));
        }
        Ok(Self { rank, of })
    }
}
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
    use crate::filter::Expr;
    use crate::wire::decode;
    use crate::{Properties, Value, Version};
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
