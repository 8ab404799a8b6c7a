//! Tests of the state machine with chosen inputs; `testkit` runs random histories.

use super::view::{Claim, Member};
use super::*;

const ME: &str = "a:1";
const LEASE: u64 = 7;

fn machine() -> Machine {
    let settings = MemberSettings {
        gather: 0,
        ..MemberSettings::for_lease(ME.into(), 2, 5_000)
    };
    Machine::new(settings)
}

fn view(
    revision: u64,
    others: &[(&str, u64)],
    claims: &[(u32, &str, u64)],
) -> std::sync::Arc<View> {
    let member = |lease, seen| Member {
        lease,
        since: 1,
        seen,
        ..Member::default()
    };
    let lease = |m: &str| if m == ME { LEASE } else { 8 };
    let claim = |m: &str, epoch| Claim {
        member: m.into(),
        lease: lease(m),
        epoch,
    };
    let mut members: std::collections::BTreeMap<_, _> = others
        .iter()
        .map(|(m, seen)| ((*m).to_owned(), member(8, *seen)))
        .collect();
    members.insert(ME.to_owned(), member(LEASE, revision));
    std::sync::Arc::new(View {
        revision,
        members,
        claims: claims.iter().map(|(s, m, e)| (*s, claim(m, *e))).collect(),
        epochs: claims.iter().map(|(s, _, e)| (*s, *e)).collect(),
        ..View::default()
    })
}

fn granted() -> Input {
    Input::Granted {
        lease: LEASE,
        sent: 100,
        lasts: 5_000,
        revision: 1,
    }
}

fn claimed(store: u32) -> Input {
    Input::Claimed {
        store,
        lease: LEASE,
        epoch: 1,
        revision: 4,
    }
}

/// A machine with both stores open.
fn serving() -> Machine {
    let mut machine = machine();
    machine.step(100, Input::Tick);
    machine.step(200, granted());
    machine.step(300, Input::See(view(2, &[], &[])));
    machine.step(400, claimed(0));
    machine.step(400, claimed(1));
    machine.step(500, Input::See(view(5, &[], &[(0, ME, 1), (1, ME, 1)])));
    for store in [0, 1] {
        machine.step(600, Input::Opened { store, epoch: 1 });
    }
    assert_eq!(machine.open().collect::<Vec<_>>(), [0, 1]);
    machine
}

#[test]
fn a_store_is_opened_once_everybody_heeds_its_claim() {
    let mut machine = machine();
    assert_eq!(machine.step(100, Input::Tick), [Output::Grant]);
    let until = 100 + 5_000 - 500;
    let serve = Output::Serve {
        lease: LEASE,
        until,
    };
    assert_eq!(machine.step(200, granted()), [serve]);
    // Another member has one store, so this one takes the free one.
    let out = machine.step(300, Input::See(view(2, &[("b:1", 2)], &[(1, "b:1", 3)])));
    let fence = Output::Fence([(1, 3)].into());
    let (confirm, claim) = (
        Output::Confirm {
            lease: LEASE,
            revision: 2,
        },
        Output::Claim {
            store: 0,
            lease: LEASE,
        },
    );
    assert_eq!(out, [fence, confirm, claim]);
    assert_eq!(machine.step(310, claimed(0)), []);
    let both = [(0, ME, 1), (1, "b:1", 3)];
    let out = machine.step(320, Input::See(view(4, &[("b:1", 2)], &both)));
    assert!(
        !out.iter().any(|o| matches!(o, Output::Open { .. })),
        "the other does not heed it: {out:?}"
    );
    let out = machine.step(330, Input::See(view(5, &[("b:1", 4)], &both)));
    let open = Output::Open {
        store: 0,
        epoch: 1,
        lease: LEASE,
    };
    assert_eq!(out, [open]);
}

#[test]
fn a_member_paused_beyond_its_lease_answers_nothing() {
    let mut machine = serving();
    // The member wakes long after its lease; the end comes before any other output.
    let kept = Input::Kept {
        lease: LEASE,
        sent: 1_000,
        lasts: 5_000,
    };
    let out = machine.step(20_000, kept);
    assert_eq!(out.first(), Some(&Output::End { lease: LEASE }));
    let closes = out
        .iter()
        .filter(|o| matches!(o, Output::Close { lost: true, .. }));
    assert_eq!(closes.count(), 2);
    assert!(out.contains(&Output::Grant));
}

#[test]
fn a_lease_lasts_as_long_as_it_is_prolonged() {
    let mut machine = serving();
    let out = machine.step(1_300, Input::Tick);
    assert_eq!(out, [Output::Keep { lease: LEASE }]);
    let kept = Input::Kept {
        lease: LEASE,
        sent: 1_300,
        lasts: 5_000,
    };
    let until = 1_300 + 4_500;
    let serve = Output::Serve {
        lease: LEASE,
        until,
    };
    assert_eq!(machine.step(1_400, kept), [serve]);
    assert!(
        !machine
            .step(until - 1, Input::Tick)
            .contains(&Output::End { lease: LEASE })
    );
    assert!(
        machine
            .step(until, Input::Tick)
            .contains(&Output::End { lease: LEASE })
    );
}

#[test]
fn what_another_is_to_have_is_closed_and_then_released() {
    let mut machine = serving();
    let both = [(0, ME, 1), (1, ME, 1)];
    let out = machine.step(700, Input::See(view(9, &[("b:1", 9)], &both)));
    let (store, epoch, lease) = (1, 1, LEASE);
    let close = Output::Close {
        store,
        epoch,
        lost: false,
    };
    assert_eq!(out, [close]);
    assert_eq!(machine.step(710, Input::Tick), []);
    let out = machine.step(720, Input::Closed { store, epoch });
    let release = Output::Release {
        store,
        epoch,
        lease,
    };
    assert_eq!(out, std::slice::from_ref(&release));
    let done = false;
    machine.step(730, Input::Released { store, epoch, done });
    assert!(machine.step(1_230, Input::Tick).contains(&release), "again");
    let done = true;
    machine.step(1_240, Input::Released { store, epoch, done });
    assert_eq!(machine.open().collect::<Vec<_>>(), [0]);
}

#[test]
fn a_claim_taken_away_by_hand_ends_the_service() {
    let mut machine = serving();
    let out = machine.step(700, Input::See(view(9, &[], &[(0, ME, 1), (1, "b:1", 2)])));
    let (store, epoch, lost) = (1, 1, true);
    let close = Output::Close { store, epoch, lost };
    let fence = out.iter().position(|o| matches!(o, Output::Fence(_)));
    let confirm = out.iter().position(|o| matches!(o, Output::Confirm { .. }));
    assert!(out.contains(&close) && fence < confirm, "{out:?}");
}

#[test]
fn a_leaving_member_releases_its_stores_first() {
    let mut machine = serving();
    let out = machine.step(700, Input::Leave);
    assert_eq!(out.first(), Some(&Output::Withdraw { lease: LEASE }));
    for store in [0, 1] {
        machine.step(710, Input::Closed { store, epoch: 1 });
        let done = true;
        let out = machine.step(
            720,
            Input::Released {
                store,
                epoch: 1,
                done,
            },
        );
        assert_eq!(out.last() == Some(&Output::Left), store == 1);
    }
}

/// A store that no longer accepts writes is closed, released, and claimed again after a while: its disk was full, and
/// has space now.
#[test]
fn a_store_that_has_failed_is_opened_anew() {
    let mut machine = serving();
    let failed = |store, epoch| Input::Failed { store, epoch };
    let outputs = machine.step(700, failed(1, 1));
    let closed = |o: &Output| {
        matches!(
            o,
            Output::Close {
                store: 1,
                epoch: 1,
                lost: false
            }
        )
    };
    assert!(outputs.iter().any(closed), "{outputs:?}");
    assert_eq!(machine.open().collect::<Vec<_>>(), [0]);
    // A repeated input, or one of an earlier epoch, changes nothing.
    for (store, epoch) in [(1, 1), (0, 0)] {
        let outputs = machine.step(710, failed(store, epoch));
        let any = outputs.iter().any(|o| matches!(o, Output::Close { .. }));
        assert!(!any, "{outputs:?}");
    }
    let outputs = machine.step(800, Input::Closed { store: 1, epoch: 1 });
    let released = |o: &Output| matches!(o, Output::Release { store: 1, .. });
    assert!(outputs.iter().any(released), "{outputs:?}");
}
