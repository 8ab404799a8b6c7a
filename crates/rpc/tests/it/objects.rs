//! Tests of the conversion of object requests and results in both directions.

use crate::convert::{FORMS, properties, sent, version};
use esker_model::Error;
use esker_model::filter::Expr;
use esker_model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, PlanStep, Principal, Share, TagChange,
    TagInfo, TagReport, TagWhere,
};
use esker_rpc::convert;
use esker_rpc::proto;
use proptest::collection::vec;
use proptest::option::of as maybe;
use proptest::prelude::*;

pub(crate) fn object_id() -> impl Strategy<Value = ObjectId> {
    (0..1_u64 << 63).prop_map(ObjectId)
}

pub(crate) fn identity() -> impl Strategy<Value = Identity> {
    (".{0,8}", ".{0,8}", any::<i64>(), any::<i64>()).prop_map(|(name, app, owner, step)| Identity {
        name,
        app,
        owner,
        step,
    })
}

fn principal() -> impl Strategy<Value = Principal> {
    (any::<i64>(), vec(any::<i64>(), 0..3)).prop_map(|(uid, gids)| Principal { uid, gids })
}

fn filter() -> impl Strategy<Value = Expr> {
    const TEXTS: [&str; 3] = [
        "",
        "name = 'VPIC' AND Conf = 1 AND step BETWEEN 10 AND 20 AND note LIKE 'run%'",
        "NOT (energy > 2.5 OR size >= 1GiB) AND EXISTS Conf_0",
    ];
    proptest::sample::select(&TEXTS[..]).prop_map(|text| Expr::parse(text, None).unwrap())
}

fn find() -> impl Strategy<Value = Find> {
    let share = (0..7_u32).prop_map(|rank| Share { rank, of: 7 });
    (
        filter(),
        maybe(vec(".{0,6}", 0..3)),
        maybe(any::<u64>()),
        any::<(bool, bool)>(),
        maybe(principal()),
        maybe(share),
        maybe(object_id()),
    )
        .prop_map(
            |(filter, select, limit, (count, explain), principal, share, after)| Find {
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

fn report() -> impl Strategy<Value = FindReport> {
    let step = (any::<(u32, u64)>(), ".{0,6}", maybe(any::<u64>())).prop_map(
        |((server, estimate), term, left)| PlanStep {
            server,
            term,
            access: "index".into(),
            estimate,
            left,
            micros: left.map(|n| n / 2),
        },
    );
    let unknown = (".{0,6}", maybe((".{0,6}", any::<u64>())));
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

proptest! {
    #[test]
    fn searches_come_back(find in find(), report in report()) {
        let back = convert::find_in(sent(&convert::find_out(&find)), None).unwrap();
        prop_assert_eq!(back, find);
        let back = convert::report_in(sent(&convert::report_out(report.clone())));
        prop_assert_eq!(back, report);
    }

    #[test]
    fn objects_come_back(
        id in object_id(),
        identity in identity(),
        versions in (version(), version()),
        attributes in properties(),
        tags in properties(),
    ) {
        let found = Found { id, created: versions.0, modified: versions.1, attributes, tags };
        for form in FORMS {
            let back = convert::found_in(sent(&convert::found_out(&found, form))).unwrap();
            prop_assert_eq!(&back, &found);
        }
        for key in [ObjectKey::Id(id), ObjectKey::Identity(identity)] {
            let back = convert::object_key_in(sent(&convert::object_key_out(&key))).unwrap();
            prop_assert_eq!(back, key);
        }
    }

    #[test]
    fn tagging_comes_back(
        filter in filter(),
        set in properties(),
        flags in any::<(bool, bool, bool)>(),
        remove in vec(".{0,6}", 0..3),
        principal in maybe(principal()),
        idempotency_key in maybe(vec(any::<u8>(), 1..9)),
        counts in any::<(u64, u64, u64)>(),
        version in version(),
    ) {
        let change = TagWhere {
            filter,
            change: TagChange { set, keep: flags.0, remove },
            principal,
            dry_run: flags.1,
            idempotency_key,
        };
        let message = sent(&convert::tag_where_out(&change, flags.2));
        prop_assert_eq!(convert::tag_where_in(message, None).unwrap(), (change, flags.2));
        let report = TagReport { matches: counts.0, changed: counts.1, refused: counts.2, version, applied: flags.0 };
        prop_assert_eq!(convert::tag_report_in(sent(&convert::tag_report_out(report))), report);
        let info = TagInfo {
            name: "x".into(),
            predefined: flags.0,
            objects: counts.0,
            distinct: flags.1.then_some(counts.1),
            indexed: flags.2,
            bytes: (counts.1, counts.2),
        };
        prop_assert_eq!(convert::tag_info_in(sent(&convert::tag_info_out(&info))).unwrap(), info);
    }
}

#[test]
fn what_is_no_search_is_refused_by_name() {
    let find = |change: &dyn Fn(&mut proto::FindRequest)| {
        let mut request = proto::FindRequest::default();
        change(&mut request);
        Error::from(convert::find_in(request, None).unwrap_err()).to_string()
    };
    assert_eq!(
        find(&|r| r.share = Some(proto::Share { rank: 2, of: 2 })),
        "malformed message: `share.rank`: expected a number from 0 below 2; got 2"
    );
    assert_eq!(
        find(&|r| r.after = Some(u64::MAX)),
        "malformed message: `after`: expected the number of an object, below 2^63; got 18446744073709551615"
    );
    let key = convert::object_key_in(proto::ObjectKey::default()).unwrap_err();
    assert_eq!(
        Error::from(key).to_string(),
        "malformed message: `key`: expected one of its fields to be set"
    );
    // An invalid filter is reported with the error of the filter language, not as a malformed message.
    let message = find(&|r| r.filter = "energy >".into());
    assert!(!message.starts_with("malformed message"), "{message}");
}
