//! A graph like SNAP's `amazon0302` ("customers who bought this also bought"): 262,111 vertices, 1,234,351 edges, at most five
//! per vertex, most of them to vertices nearby, so that distant vertices take many steps. Along its edges in both
//! directions, eight
//! steps reach about 230,000 others (published timings of Neo4j and others on amazon0302 use eight steps that reach 229,129).

use super::random::Random;

pub(crate) const VERTICES: u32 = 262_111;
pub(crate) const EDGES: u64 = 1_234_351;
const DEGREE: usize = 5;
/// Maximum distance to items that are bought together, on either side of an item.
const SHELF: i64 = 12;
/// Probability of an edge to a random item, which makes the graph connected.
const ELSEWHERE: f64 = 0.12;

/// Returns the edges in random order.
pub(crate) fn edges(seed: u64) -> Vec<(u32, u32)> {
    let mut random = Random::new(seed);
    let vertices = u64::from(VERTICES);
    // Five edges per vertex are 76,204 too many; this number of random vertices have one or two fewer.
    let mut degrees = vec![DEGREE; VERTICES as usize];
    for _ in 0..(vertices * DEGREE as u64 - EDGES) {
        loop {
            if let Some(degree) = degrees.get_mut(random.next_below(vertices) as usize)
                && *degree > 0
            {
                *degree -= 1;
                break;
            }
        }
    }
    let mut edges = Vec::with_capacity(EDGES as usize);
    for (source, degree) in (0..VERTICES).zip(degrees) {
        let mut targets = Vec::with_capacity(degree);
        while targets.len() < degree {
            let target = if random.unit() < ELSEWHERE {
                random.next_below(vertices) as u32
            } else {
                let offset = random.next_below(2 * SHELF as u64 + 1) as i64 - SHELF;
                (i64::from(source) + offset).rem_euclid(i64::from(VERTICES)) as u32
            };
            if target != source && !targets.contains(&target) {
                targets.push(target);
            }
        }
        edges.extend(targets.into_iter().map(|target| (source, target)));
    }
    random.shuffle(&mut edges);
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_large_as_it_says() {
        let edges = edges(1);
        assert_eq!(edges.len() as u64, EDGES);
        let mut degrees = vec![0_usize; VERTICES as usize];
        edges.iter().for_each(|(s, _)| degrees[*s as usize] += 1);
        assert_eq!(degrees.iter().max(), Some(&DEGREE));
    }
}
