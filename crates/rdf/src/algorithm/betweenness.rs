//! Betweenness centrality by Brandes' algorithm, exact or from sampled source vertices.

use super::{Network, Stop, check};
use crate::error::{Error, Result};

/// Source vertices per partial sum. Fixed, so that the result does not depend on the number of threads.
const BLOCK: usize = 64;

/// State of the search from one source vertex.
struct BrandesState {
    distance: Vec<u32>,
    paths: Vec<f64>,
    part: Vec<f64>,
    order: Vec<u32>,
    sum: Vec<f64>,
}

impl BrandesState {
    fn new(n: usize) -> Self {
        Self {
            distance: vec![u32::MAX; n],
            paths: vec![0.0; n],
            part: vec![0.0; n],
            order: Vec::new(),
            sum: vec![0.0; n],
        }
    }

    fn from(&mut self, network: &Network, source: u32) {
        self.order.clear();
        self.order.push(source);
        self.distance[source as usize] = 0;
        self.paths[source as usize] = 1.0;
        let mut at = 0;
        while let Some(v) = self.order.get(at).copied() {
            at += 1;
            let (further, paths) = (self.distance[v as usize] + 1, self.paths[v as usize]);
            for w in network.out.of(v as usize) {
                let w = *w as usize;
                if self.distance[w] == u32::MAX {
                    self.distance[w] = further;
                    self.order.push(w as u32);
                }
                if self.distance[w] == further {
                    self.paths[w] += paths;
                }
            }
        }
        for v in self.order.iter().rev() {
            let v = *v as usize;
            let (further, mine) = (self.distance[v] + 1, self.paths[v]);
            let mut part = 0.0;
            for w in network.out.of(v) {
                let w = *w as usize;
                if self.distance[w] == further {
                    part += mine / self.paths[w] * (1.0 + self.part[w]);
                }
            }
            self.part[v] = part;
            if v != source as usize {
                self.sum[v] += part;
            }
        }
        for v in &self.order {
            self.distance[*v as usize] = u32::MAX;
            self.paths[*v as usize] = 0.0;
            self.part[*v as usize] = 0.0;
        }
    }
}

/// Returns the betweenness of each vertex, as a fraction of all pairs of other vertices. With `samples`, shortest paths start at that many
/// vertices chosen by `seed`, and the result is scaled.
pub fn betweenness(
    network: &Network,
    samples: Option<usize>,
    seed: u64,
    threads: usize,
    stop: Stop<'_>,
) -> Result<Vec<f64>> {
    let n = network.len();
    let mut sources: Vec<u32> = (0..n as u32).collect();
    if let Some(k) = samples
        && k < n
    {
        // First part of a Fisher-Yates shuffle.
        let mut state = seed;
        for i in 0..k {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let at = i + ((z ^ (z >> 31)) % (n - i) as u64) as usize;
            sources.swap(i, at);
        }
        sources.truncate(k);
    }
    let scale = if n > 2 && !sources.is_empty() {
        n as f64 / sources.len() as f64 / ((n - 1) as f64 * (n - 2) as f64)
    } else {
        0.0
    };
    let mut sum = vec![0.0; n];
    let threads = threads.max(1);
    let mut walks: Vec<BrandesState> = (0..threads).map(|_| BrandesState::new(n)).collect();
    for wave in sources.chunks(BLOCK * threads) {
        check(stop)?;
        let blocks: Vec<&[u32]> = wave.chunks(BLOCK).collect();
        let ended = std::thread::scope(|scope| {
            let running: Vec<_> = walks
                .iter_mut()
                .zip(&blocks)
                .map(|(walk, block)| {
                    scope.spawn(move || {
                        for source in *block {
                            if stop().is_some() {
                                return;
                            }
                            walk.from(network, *source);
                        }
                    })
                })
                .collect();
            running.into_iter().all(|thread| thread.join().is_ok())
        });
        if !ended {
            return Err(Error::Refused(
                "a thread of the computation has ended early; try again, and report it if it happens again".into(),
            ));
        }
        for walk in walks.iter_mut().take(blocks.len()) {
            for (all, part) in sum.iter_mut().zip(&mut walk.sum) {
                *all += std::mem::take(part);
            }
        }
    }
    check(stop)?;
    for x in &mut sum {
        *x *= scale;
    }
    Ok(sum)
}
