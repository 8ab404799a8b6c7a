//! A graph like SNAP's `amazon0302` ("customers who bought this also bought"): 262,111 vertices, 1,234,351 edges, at most
//! five from each vertex, most of them to vertices nearby, so that it takes many steps to get far. Along its edges, both
//! ways, eight steps reach some 230,000 others (there, Neo4j and others were timed on eight steps that reach 229,129).

use super::random::Random;

pub(crate) const VERTICES: u32 = 262_111;
pub(crate) const EDGES: u64 = 1_234_351;
const DEGREE: usize = 5;
/// Items are bought together with their neighbours on the shelf: how far that goes on either side.
const SHELF: i64 = 12;
/// How often with something else: what gets one from shelf to shelf.
const ELSEWHERE: f64 = 0.12;

/// The edges, in random order.
pub(crate) fn edges(seed: u64) -> Vec<(u32, u32)> {
    let mut random = Random::new(seed);
    let vertices = u64::from(VERTICES);
    // Five edges for each vertex are 76,204 too many; so many vertices, in random order, have one or two fewer.
    let mut degrees = vec![DEGREE; VERTICES as usize];
    for _ in 0..(vertices * DEGREE as u64 - EDGES) {
        loop {
            if let Some(degree) = degrees.get_mut(random.below(vertices) as usize)
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
                random.below(vertices) as u32
            } else {
                let offset = random.below(2 * SHELF as u64 + 1) as i64 - SHELF;
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
