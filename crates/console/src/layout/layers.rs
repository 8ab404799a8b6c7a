//! Assignment of boxes to columns.

/// Column of each box, and whether each line was reversed.
#[derive(Debug, Clone)]
pub(super) struct Layered {
    pub(super) layer: Vec<usize>,
    pub(super) back: Vec<bool>,
}

/// Assigns columns such that each line that is not reversed leads to the right.
pub(super) fn layers(boxes: usize, lines: &[(usize, usize)]) -> Layered {
    let back = reversed_lines(boxes, lines);
    let mut out = vec![Vec::new(); boxes];
    let mut into = vec![0_usize; boxes];
    for ((from, to), back) in lines.iter().zip(&back) {
        if from != to {
            let (from, to) = if *back { (*to, *from) } else { (*from, *to) };
            out[from].push(to);
            into[to] += 1;
        }
    }
    // Topological order.
    let mut order: Vec<usize> = (0..boxes).filter(|n| into[*n] == 0).collect();
    let (mut left, mut next) = (into.clone(), 0);
    while let Some(from) = order.get(next).copied() {
        next += 1;
        for to in &out[from] {
            left[*to] -= 1;
            if left[*to] == 0 {
                order.push(*to);
            }
        }
    }
    let mut layer = vec![0; boxes];
    for from in &order {
        for to in &out[*from] {
            layer[*to] = layer[*to].max(layer[*from] + 1);
        }
    }
    // Boxes with fewer incoming than outgoing lines move next to their successors: their lines are short then.
    for from in order.iter().rev() {
        let nearest = out[*from].iter().map(|to| layer[*to] - 1).min();
        if let Some(nearest) = nearest
            && into[*from] < out[*from].len()
        {
            layer[*from] = layer[*from].max(nearest);
        }
    }
    let first = layer.iter().min().copied().unwrap_or(0);
    for layer in &mut layer {
        *layer -= first;
    }
    Layered { layer, back }
}

/// Determines the lines that close a cycle in a depth-first search from the sources.
fn reversed_lines(boxes: usize, lines: &[(usize, usize)]) -> Vec<bool> {
    let mut out = vec![Vec::new(); boxes];
    let mut into = vec![0_usize; boxes];
    for (number, (from, to)) in lines.iter().enumerate() {
        if from != to {
            out[*from].push(number);
            into[*to] += 1;
        }
    }
    let mut back = vec![false; lines.len()];
    // State of a box: 0 unvisited, 1 on the current path, 2 done.
    let mut state = vec![0_u8; boxes];
    let mut starts: Vec<usize> = (0..boxes).collect();
    starts.sort_by_key(|n| into[*n] > 0);
    for start in starts {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut way = vec![(start, 0_usize)];
        while let Some((at, place)) = way.last_mut() {
            let Some(line) = out[*at].get(*place).copied() else {
                state[*at] = 2;
                way.pop();
                continue;
            };
            *place += 1;
            let to = lines[line].1;
            match state[to] {
                0 => {
                    state[to] = 1;
                    way.push((to, 0));
                }
                1 => back[line] = true,
                _ => {}
            }
        }
    }
    back
}
