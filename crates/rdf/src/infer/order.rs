//! Dependency order in which classes and properties are closed; those in a cycle are closed together.

use super::rules::{RuleNode, Rules};
use std::collections::HashMap;

/// Marker of unvisited nodes.
const NONE: usize = usize::MAX;

/// Returns the strongly connected components, each after its dependencies; the nodes of each ascend.
pub(super) fn components(rules: &Rules) -> Vec<Vec<RuleNode>> {
    let nodes = rules.nodes();
    let at: HashMap<RuleNode, usize> = nodes.iter().enumerate().map(|(i, n)| (*n, i)).collect();
    let needs: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            rules
                .giving(*node)
                .flat_map(super::rules::Rule::bodies)
                .filter_map(|body| at.get(&body).copied())
                .collect()
        })
        .collect();
    // Tarjan's algorithm, without recursion.
    let mut index = vec![NONE; nodes.len()];
    let mut low = vec![0; nodes.len()];
    let mut stacked = vec![false; nodes.len()];
    let mut stack = Vec::new();
    let mut next = 0;
    let mut found = Vec::new();
    for root in 0..nodes.len() {
        if index[root] != NONE {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((v, edge)) = calls.pop() {
            if edge == 0 {
                index[v] = next;
                low[v] = next;
                next += 1;
                stack.push(v);
                stacked[v] = true;
            } else if let Some(w) = needs[v].get(edge - 1) {
                low[v] = low[v].min(low[*w]);
            }
            let mut edge = edge;
            let mut deeper = None;
            while let Some(w) = needs[v].get(edge) {
                edge += 1;
                if index[*w] == NONE {
                    deeper = Some(*w);
                    break;
                }
                if stacked[*w] {
                    low[v] = low[v].min(index[*w]);
                }
            }
            if let Some(w) = deeper {
                calls.push((v, edge));
                calls.push((w, 0));
                continue;
            }
            if low[v] == index[v] {
                let mut component = Vec::new();
                while let Some(w) = stack.pop() {
                    stacked[w] = false;
                    component.push(nodes[w]);
                    if w == v {
                        break;
                    }
                }
                component.sort_unstable();
                found.push(component);
            }
        }
    }
    found
}
