//! Assignment of stores to members: a function of etcd's state, so that all members compute the same result and none
//! needs to be elected.
//!
//! A store stays where it is as far as balance allows; free stores go to the members with the fewest. Afterwards no
//! member has two stores more than another, with the fewest moves.

use super::view::{MemberId, View};
use std::collections::BTreeMap;

/// Computes the assignment of stores. A store that is missing in the result has no member to take it for now.
pub fn plan(view: &View, stores: u32, even: bool) -> BTreeMap<u32, MemberId> {
    let mut takers: Vec<&MemberId> = view.takers().collect();
    if takers.is_empty() {
        // All members are drained: they keep what they have rather than drop it.
        takers = view.staying().collect();
    }
    let mut kept: BTreeMap<&MemberId, Vec<u32>> = takers.iter().map(|m| (*m, Vec::new())).collect();
    let mut free = Vec::new();
    for store in 0..stores {
        match view.holder(store).and_then(|m| kept.get_mut(m)) {
            Some(has) => has.push(store),
            None => free.push(store),
        }
    }
    if even {
        release_surplus(&mut kept, &mut free, stores as usize);
    }
    free.sort_unstable();
    for store in free {
        let least = kept
            .iter_mut()
            .min_by_key(|(member, has)| (has.len(), *member));
        if let Some((_, has)) = least {
            has.push(store);
        }
    }
    let all = kept.into_iter();
    all.flat_map(|(member, has)| has.into_iter().map(move |store| (store, member.clone())))
        .collect()
}

/// Takes stores from members that have more than their share. The members with most stores keep the larger shares.
fn release_surplus(kept: &mut BTreeMap<&MemberId, Vec<u32>>, free: &mut Vec<u32>, stores: usize) {
    if kept.is_empty() {
        return;
    }
    let (share, larger) = (stores / kept.len(), stores % kept.len());
    let mut by_count: Vec<_> = kept.iter_mut().collect();
    by_count.sort_by_key(|(member, has)| (std::cmp::Reverse(has.len()), **member));
    for (rank, (_, has)) in by_count.into_iter().enumerate() {
        let quota = share + usize::from(rank < larger);
        if has.len() > quota {
            free.extend(has.drain(quota..));
        }
    }
}

/// Counts the stores that a plan moves away from members that have them now.
pub fn moves(view: &View, plan: &BTreeMap<u32, MemberId>) -> usize {
    let moved =
        |(store, to): &(&u32, &MemberId)| view.holder(**store).is_some_and(|holder| holder != *to);
    plan.iter().filter(moved).count()
}

#[cfg(test)]
mod tests {
    use super::super::view::{Claim, Member};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn id(n: u32) -> MemberId {
        format!("10.0.0.{n}:7400")
    }

    fn view(members: u32, drained: &[u32], claims: &[(u32, u32)]) -> View {
        let member = |n: u32| Member {
            lease: u64::from(n) + 1,
            ..Member::default()
        };
        let claim = |n: u32| Claim {
            member: id(n),
            lease: u64::from(n) + 1,
            epoch: 1,
        };
        View {
            members: (0..members).map(|n| (id(n), member(n))).collect(),
            drained: drained.iter().map(|n| id(*n)).collect(),
            claims: claims.iter().map(|(s, n)| (*s, claim(*n))).collect(),
            ..View::default()
        }
    }

    fn counts(plan: &BTreeMap<u32, MemberId>) -> BTreeMap<&MemberId, usize> {
        let mut counts = BTreeMap::new();
        for member in plan.values() {
            *counts.entry(member).or_default() += 1;
        }
        counts
    }

    #[test]
    fn stores_of_a_dead_member_are_distributed_and_the_rest_stays() {
        let claims: Vec<_> = (0..12).map(|s| (s, s % 4)).collect();
        // Member 3 is gone, so its claims count as free.
        let view = view(3, &[], &claims);
        let plan = plan(&view, 12, true);
        assert!(claims.iter().all(|(s, n)| *n == 3 || plan[s] == id(*n)));
        assert_eq!(counts(&plan).into_values().collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(moves(&view, &plan), 0);
    }

    #[test]
    fn a_new_member_gets_its_share_in_fewest_moves_or_waits_to_be_told() {
        let claims: Vec<_> = (0..12).map(|s| (s, s % 3)).collect();
        let view = view(4, &[], &claims);
        assert_eq!(moves(&view, &plan(&view, 12, true)), 3);
        assert_eq!(moves(&view, &plan(&view, 12, false)), 0);
    }

    #[test]
    fn a_drained_member_keeps_nothing_unless_there_is_nobody_else() {
        let claims: Vec<_> = (0..6).map(|s| (s, s % 2)).collect();
        let alone = view(2, &[0], &claims);
        assert!(plan(&alone, 6, true).values().all(|m| *m == id(1)));
        let nobody = view(2, &[0, 1], &claims);
        assert_eq!(moves(&nobody, &plan(&nobody, 6, true)), 0);
    }

    proptest! {
        /// Each store is assigned once, balanced within one, with no more moves than balance needs.
        #[test]
        fn plans_are_whole_balanced_and_lazy(
            stores in 1_u32..65,
            members in 1_u32..9,
            drained in prop::collection::vec(0_u32..9, 0..3),
            held in prop::collection::vec(prop::option::of(0_u32..12), 64),
        ) {
            let claims: Vec<_> = (0..stores)
                .filter_map(|s| Some((s, held[s as usize]?)))
                .collect();
            let view = view(members, &drained, &claims);
            let planned = plan(&view, stores, true);
            prop_assert_eq!(planned.len(), stores as usize);
            let takers: BTreeSet<_> = view.takers().cloned().collect();
            if takers.is_empty() {
                return Ok(());
            }
            prop_assert!(planned.values().all(|m| takers.contains(m)));
            let counts = counts(&planned);
            let of = |m: &MemberId| counts.get(m).copied().unwrap_or(0);
            let most = takers.iter().map(of).max().unwrap();
            let least = takers.iter().map(of).min().unwrap();
            prop_assert!(most - least <= 1);
            // The moves are the stores that takers have beyond their shares, and all stores of others.
            let mut now: Vec<usize> = takers
                .iter()
                .map(|m| (0..stores).filter(|s| view.holder(*s) == Some(m)).count())
                .collect();
            now.sort_unstable_by(|a, b| b.cmp(a));
            let (share, larger) = (stores as usize / now.len(), stores as usize % now.len());
            let beyond: usize = now
                .iter()
                .enumerate()
                .map(|(i, n)| n.saturating_sub(share + usize::from(i < larger)))
                .sum();
            let leaving = (0..stores)
                .filter(|s| view.holder(*s).is_some_and(|m| !takers.contains(m)))
                .count();
            prop_assert_eq!(moves(&view, &planned), beyond + leaving);
            // A balanced assignment stays as it is.
            let mut after = view.clone();
            for (store, member) in &planned {
                let lease = view.members[member].lease;
                let claim = Claim { member: member.clone(), lease, epoch: 2 };
                after.claims.insert(*store, claim);
            }
            prop_assert_eq!(&plan(&after, stores, true), &planned);
        }
    }
}
