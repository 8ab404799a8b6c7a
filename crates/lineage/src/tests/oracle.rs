//! Lineage and impact by definition, over a list of events, compared with the implementation on random histories.

use super::recorded::{Recorded, at, lasting};
use crate::{Direction, LineageOptions, Provenance, impact, lineage};
use esker_model::{NeverCancel, Properties, Version};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One write or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Act {
    execution: u8,
    file: u8,
    writes: bool,
    /// Start in seconds; the version of its edge is its end.
    start: u64,
    end: u64,
    /// Whether the edge has `start` and `end`. Otherwise it is a point.
    timed: bool,
    /// Seconds by which it may have happened later than recorded.
    coarse: u64,
}

impl Act {
    /// Whether a regular register may return `w` to this read, given all writes of the file.
    fn may_see(&self, w: &Act, all: &[Act]) -> bool {
        let hides = |x: &Act| {
            let over = if x.execution == self.execution {
                x.end < self.start
            } else {
                x.end <= self.start
            };
            over && x.start >= w.end + w.coarse && x.end > w.end
        };
        w.execution != self.execution
            && w.start <= self.end.saturating_add(self.coarse)
            && !all
                .iter()
                .filter(|x| x.writes && x.file == w.file)
                .any(hides)
    }

    /// Whether a write depends on a read of the same execution.
    fn depends_on(&self, read: &Act) -> bool {
        !(self.timed && read.timed) || read.start <= self.end
    }
}

/// Returns all acts that the newest state of a file depends on.
fn lineage_by_definition(acts: &[Act], file: u8) -> BTreeSet<Act> {
    let last = Act {
        execution: u8::MAX,
        file,
        writes: false,
        start: u64::MAX,
        end: u64::MAX,
        timed: false,
        coarse: 0,
    };
    let mut found: BTreeSet<Act> = BTreeSet::new();
    loop {
        let new: BTreeSet<Act> = acts
            .iter()
            .filter(|a| !found.contains(a))
            .filter(|a| {
                if a.writes {
                    let seen_by = |r: &Act| r.file == a.file && r.may_see(a, acts);
                    seen_by(&last) || found.iter().any(|r| !r.writes && seen_by(r))
                } else {
                    found
                        .iter()
                        .any(|w| w.writes && w.execution == a.execution && w.depends_on(a))
                }
            })
            .copied()
            .collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

/// Returns all acts that depend on a file since a time.
fn impact_by_definition(acts: &[Act], file: u8, since: Option<u64>) -> BTreeSet<Act> {
    let mut found: BTreeSet<Act> = BTreeSet::new();
    loop {
        let new: BTreeSet<Act> = acts
            .iter()
            .filter(|a| !found.contains(a))
            .filter(|a| {
                if a.writes {
                    found
                        .iter()
                        .any(|r| !r.writes && r.execution == a.execution && a.depends_on(r))
                } else {
                    let of_target = a.file == file
                        && since.is_none_or(|s| {
                            let fresh = |w: &Act| {
                                w.writes && w.file == file && w.end >= s && a.may_see(w, acts)
                            };
                            a.end + a.coarse >= s || acts.iter().any(fresh)
                        });
                    of_target
                        || found
                            .iter()
                            .any(|w| w.writes && w.file == a.file && a.may_see(w, acts))
                }
            })
            .copied()
            .collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

fn recorded(acts: &[Act]) -> Recorded {
    let mut graph = Recorded::new();
    for file in 0..FILES {
        graph.put(&format!("file:{file}"), Version::ZERO, Properties::new());
    }
    for a in acts {
        let mut properties = if a.timed {
            lasting(a.start, a.end)
        } else {
            Properties::new()
        };
        if a.coarse > 0 {
            properties.set("time_resolution_ms", a.coarse as i64 * 1000);
        }
        let relation = if a.writes { "write" } else { "read" };
        graph.link(
            &format!("job:{}", a.execution),
            relation,
            &format!("file:{}", a.file),
            at(a.end),
            properties,
        );
    }
    graph
}

/// Returns the acts that the edges of a result represent.
fn acts_of(found: &Provenance, graph: &Recorded, acts: &[Act]) -> BTreeSet<Act> {
    let ids: Vec<_> = (0..EXECUTIONS)
        .map(|e| graph.id(&format!("job:{e}")))
        .collect();
    let files: Vec<_> = (0..FILES).map(|f| graph.id(&format!("file:{f}"))).collect();
    let place =
        |list: &[esker_model::VertexId], id| list.iter().position(|x| *x == id).map(|i| i as u8);
    found
        .edges
        .iter()
        .map(|e| {
            let (s, d) = (e.edge.key.source, e.edge.key.destination);
            let out_of_file = place(&files, s).is_some();
            let (execution, file) = if out_of_file {
                (place(&ids, d).unwrap(), place(&files, s).unwrap())
            } else {
                (place(&ids, s).unwrap(), place(&files, d).unwrap())
            };
            let writes = out_of_file == (found.direction == Direction::Lineage);
            *acts
                .iter()
                .find(|a| {
                    (a.execution, a.file, a.writes, at(a.end))
                        == (execution, file, writes, e.edge.version)
                })
                .expect("every edge of the answer was recorded")
        })
        .collect()
}

const EXECUTIONS: u8 = 5;
const FILES: u8 = 4;

/// Histories in which an execution does one thing to a file at one time at most once, as edges require.
fn history() -> impl Strategy<Value = Vec<Act>> {
    let act = (
        0..EXECUTIONS,
        0..FILES,
        any::<bool>(),
        1..20_u64,
        0..6_u64,
        0..3_u8,
    );
    prop::collection::vec(act, 1..30).prop_map(|acts| {
        let mut seen = BTreeSet::new();
        acts.into_iter()
            .map(|(execution, file, writes, start, length, timed)| {
                let coarse = if timed == 3 { 2 } else { 0 };
                let timed = timed > 0;
                let end = if timed { start + length } else { start };
                Act {
                    execution,
                    file,
                    writes,
                    start,
                    end,
                    timed,
                    coarse,
                }
            })
            .filter(|a| seen.insert((a.execution, a.file, a.writes, a.end)))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Lineage returns exactly the writes and reads of its definition.
    #[test]
    fn lineage_is_what_its_definition_says(acts in history(), file in 0..FILES, as_of in 0..30_u64) {
        let graph = recorded(&acts);
        let then: Vec<Act> = acts.iter().filter(|a| a.end <= as_of).copied().collect();
        let options = LineageOptions { as_of: at(as_of), ..LineageOptions::default() };
        let found = lineage(&graph, graph.id(&format!("file:{file}")), &options, &NeverCancel).unwrap();
        prop_assert!(found.complete);
        prop_assert_eq!(acts_of(&found, &graph, &acts), lineage_by_definition(&then, file));
    }

    /// Impact returns exactly the writes and reads of its definition.
    #[test]
    fn impact_is_what_its_definition_says(
        acts in history(),
        file in 0..FILES,
        as_of in 0..30_u64,
        since in prop::option::of(0..25_u64),
    ) {
        let graph = recorded(&acts);
        let then: Vec<Act> = acts.iter().filter(|a| a.end <= as_of).copied().collect();
        let options = LineageOptions { as_of: at(as_of), since: since.map(at), ..LineageOptions::default() };
        let found = impact(&graph, graph.id(&format!("file:{file}")), &options, &NeverCancel).unwrap();
        prop_assert!(found.complete);
        prop_assert_eq!(acts_of(&found, &graph, &acts), impact_by_definition(&then, file, since));
    }

    /// A limit never adds anything, and omissions are reported.
    #[test]
    fn a_bounded_walk_finds_a_part_and_says_so(
        acts in history(),
        file in 0..FILES,
        depth in prop::option::of(0..4_u32),
        vertices in prop::option::of(1..8_u64),
        edges in prop::option::of(0..20_u64),
        down in any::<bool>(),
    ) {
        let graph = recorded(&acts);
        let target = graph.id(&format!("file:{file}"));
        let walk = if down { impact } else { lineage };
        let whole = walk(&graph, target, &LineageOptions::default(), &NeverCancel).unwrap();
        let options = LineageOptions { depth, vertices, edges, ..LineageOptions::default() };
        let part = walk(&graph, target, &options, &NeverCancel).unwrap();
        let (all, some) = (acts_of(&whole, &graph, &acts), acts_of(&part, &graph, &acts));
        prop_assert!(some.is_subset(&all));
        prop_assert_eq!(part.complete, part.stopped.is_empty());
        if part.complete {
            prop_assert_eq!(some, all);
        }
        if let Some(most) = vertices {
            prop_assert!(part.vertices.len() as u64 <= most);
        }
        for stop in &part.stopped {
            prop_assert!(stop.vertices_left > 0 && !stop.vertices.is_empty());
        }
    }
}
