//! Algorithms compared with their definitions on random graphs.

use super::*;
use std::collections::BTreeSet;

const NEVER: Stop<'static> = &|| None;

/// Returns a random graph, and its edges by vertex numbers.
fn random(seed: u64, undirected: bool) -> (Network, BTreeSet<(usize, usize)>) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % n
    };
    let n = 2 + below(12);
    let ends: Vec<(Id, Id)> = (0..=below(3 * n))
        .map(|_| (below(n) as Id * 7 + 3, below(n) as Id * 7 + 3))
        .collect();
    let network = Network::new(&ends, undirected);
    let mut edges = BTreeSet::new();
    for (a, b) in ends {
        let (a, b) = (network.number_of(a).unwrap(), network.number_of(b).unwrap());
        edges.insert((a, b));
        if undirected {
            edges.insert((b, a));
        }
    }
    (network, edges)
}

/// Returns the distance of each vertex, and the number of shortest paths to each.
fn distances(n: usize, edges: &BTreeSet<(usize, usize)>, from: usize) -> Vec<(usize, f64)> {
    let mut all = vec![(usize::MAX, 0.0); n];
    all[from] = (0, 1.0);
    for step in 1..=n {
        let before = all.clone();
        for (a, b) in edges {
            if before[*a].0 == step - 1 && all[*b].0 >= step {
                all[*b].0 = step;
                all[*b].1 += before[*a].1;
            }
        }
    }
    all
}

#[test]
fn betweenness_is_what_all_shortest_paths_say() {
    for seed in 0..200 {
        let (network, edges) = random(seed, seed % 2 == 0);
        let n = network.len();
        let from: Vec<_> = (0..n).map(|v| distances(n, &edges, v)).collect();
        let ours = betweenness(&network, None, 0, 3, NEVER).unwrap();
        assert_eq!(
            ours,
            betweenness(&network, Some(n), 9, 1, NEVER).unwrap(),
            "all of them as samples, on one thread"
        );
        for v in 0..n {
            let mut sum = 0.0;
            for s in 0..n {
                for t in 0..n {
                    let (whole, first, second) = (from[s][t], from[s][v], from[v][t]);
                    let on = s != v && t != v && s != t && whole.0 < usize::MAX;
                    if on
                        && first.0 < whole.0
                        && second.0 < whole.0
                        && first.0 + second.0 == whole.0
                    {
                        sum += first.1 * second.1 / whole.1;
                    }
                }
            }
            let right = if n > 2 {
                sum / ((n - 1) * (n - 2)) as f64
            } else {
                0.0
            };
            assert!(
                (ours[v] - right).abs() < 1e-9,
                "seed {seed}: {} {right}",
                ours[v]
            );
        }
    }
}

#[test]
fn components_are_mutually_reachable_vertices() {
    for seed in 0..200 {
        let (network, edges) = random(seed, false);
        let n = network.len();
        let mut both = edges.clone();
        both.extend(edges.iter().map(|(a, b)| (*b, *a)));
        let reaches = |edges| -> Vec<Vec<bool>> {
            (0..n)
                .map(|v| {
                    distances(n, edges, v)
                        .iter()
                        .map(|d| d.0 < usize::MAX)
                        .collect()
                })
                .collect()
        };
        let (there, whole) = (reaches(&edges), reaches(&both));
        let (s, w) = (
            strong(&network, NEVER).unwrap(),
            weak(&network, NEVER).unwrap(),
        );
        for a in 0..n {
            for b in 0..n {
                assert_eq!(s[a] == s[b], there[a][b] && there[b][a], "seed {seed}");
                assert_eq!(w[a] == w[b], whole[a][b], "seed {seed}");
            }
        }
        for found in [s, w] {
            let mut sizes = vec![0; n];
            found.iter().for_each(|c| sizes[*c as usize] += 1);
            assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        }
    }
}

#[test]
fn ranks_are_a_fixed_point() {
    for seed in 0..100 {
        let (network, edges) = random(seed, seed % 2 == 0);
        let n = network.len();
        let (ours, _) = pagerank(&network, Rank::default(), NEVER).unwrap();
        assert!((ours.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let degree = |v: usize| edges.iter().filter(|e| e.0 == v).count();
        for (v, mine) in ours.iter().enumerate() {
            let mut sum = 0.0;
            for (w, rank) in ours.iter().enumerate() {
                sum += match degree(w) {
                    0 => rank / n as f64,
                    d if edges.contains(&(w, v)) => rank / d as f64,
                    _ => 0.0,
                };
            }
            let right = 0.15 / n as f64 + 0.85 * sum;
            assert!((mine - right).abs() < 1e-8, "seed {seed}");
        }
    }
    let (network, _) = random(5, false);
    let soon = Rank {
        rounds: 1,
        tolerance: 0.0,
        ..Rank::default()
    };
    assert!(pagerank(&network, soon, NEVER).is_err());
}

#[test]
fn triangles_are_three_edges() {
    for seed in 0..200 {
        let (network, mut edges) = random(seed, false);
        let n = network.len();
        let turned: Vec<_> = edges.iter().map(|(a, b)| (*b, *a)).collect();
        edges.extend(turned);
        let mut right = vec![0; n];
        for a in 0..n {
            for b in a + 1..n {
                for c in b + 1..n {
                    if [(a, b), (b, c), (a, c)].iter().all(|e| edges.contains(e)) {
                        for v in [a, b, c] {
                            right[v] += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(triangles(&network, NEVER).unwrap(), right, "seed {seed}");
    }
}

#[test]
fn paths_are_all_that_are_short() {
    for seed in 0..200 {
        let (network, edges) = random(seed, seed % 3 == 0);
        let n = network.len();
        for from in 0..n {
            let right = distances(n, &edges, from);
            for (to, (length, count)) in right.iter().enumerate() {
                let found = shortest(&network, from, to, usize::MAX, NEVER).unwrap();
                assert_eq!(found.count, *count as u64, "seed {seed} {from} {to}");
                assert_eq!(found.list.len(), *count as usize);
                let different: BTreeSet<_> = found.list.iter().collect();
                assert_eq!(different.len(), found.list.len());
                for path in &found.list {
                    assert_eq!(path.len(), length + 1);
                    assert_eq!((path[0] as usize, path[*length] as usize), (from, to));
                    assert!(
                        path.windows(2)
                            .all(|w| edges.contains(&(w[0] as usize, w[1] as usize)))
                    );
                }
                let few = shortest(&network, from, to, 1, NEVER).unwrap();
                assert_eq!(few.list.as_slice(), &found.list[..found.list.len().min(1)]);
            }
        }
    }
}

#[test]
fn communities_are_dense_and_their_worth_is_as_defined() {
    for seed in 0..200 {
        let (network, mut edges) = random(seed, false);
        let turned: Vec<_> = edges.iter().map(|(a, b)| (*b, *a)).collect();
        edges.extend(turned);
        edges.retain(|(a, b)| a != b);
        let found = communities(&network, NEVER).unwrap();
        let total = edges.len() as f64;
        let degree = |v: usize| edges.iter().filter(|e| e.0 == v).count() as f64;
        let mut right = 0.0;
        for a in 0..network.len() {
            for b in 0..network.len() {
                if found.of[a] == found.of[b] && total > 0.0 {
                    let edge = f64::from(u8::from(edges.contains(&(a, b))));
                    right += (edge - degree(a) * degree(b) / total) / total;
                }
            }
        }
        assert!((found.modularity - right).abs() < 1e-9, "seed {seed}");
        assert!(found.modularity > -1e-9);
    }
    // Two cliques with one edge between them.
    let clique = |from: Id| (0..5).flat_map(move |a| (0..a).map(move |b| (from + a, from + b)));
    let mut ends: Vec<(Id, Id)> = clique(1).chain(clique(11)).collect();
    ends.push((1, 11));
    let found = communities(&Network::new(&ends, false), NEVER).unwrap();
    assert_eq!(found.of, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
}

#[test]
fn a_host_may_stop_each_of_them() {
    let ends: Vec<(Id, Id)> = (1..70_000).map(|v| (v, v + 1)).collect();
    let network = Network::new(&ends, false);
    let stop: Stop<'_> = &|| Some("enough");
    assert!(pagerank(&network, Rank::default(), stop).is_err());
    assert!(weak(&network, stop).is_err());
    assert!(strong(&network, stop).is_err());
    assert!(triangles(&network, stop).is_err());
    assert!(communities(&network, stop).is_err());
    assert!(betweenness(&network, None, 0, 2, stop).is_err());
    assert!(shortest(&network, 0, 69_999, 1, stop).is_err());
}
