//! Application of a rule to whole columns.

use super::bulk::{ClosureBuilder, RuleOutput};
use super::rules::{FactView, Rule, RuleNode, after};
use crate::id::Id;
use crate::quads::{Pairs, pack, seek, sort, unpack};

impl ClosureBuilder<'_> {
    /// Appends everything that a rule derives from the current facts.
    pub(super) fn apply_rule(&self, rule: &Rule, output: &mut Option<RuleOutput>) {
        match rule.head(&self.vocabulary) {
            RuleNode::Class(_) => {
                let output = output.get_or_insert_with(|| RuleOutput::Ids(Vec::new()));
                if let RuleOutput::Ids(out) = output {
                    self.apply_class_rule(rule, out);
                }
            }
            RuleNode::Property(_) => {
                let output = output.get_or_insert_with(|| RuleOutput::Pairs(Vec::new()));
                if let RuleOutput::Pairs(out) = output {
                    self.apply_property_rule(rule, out);
                }
            }
        }
    }

    fn apply_class_rule(&self, rule: &Rule, out: &mut Vec<Id>) {
        match rule {
            Rule::Class { from, .. } => {
                out.extend_from_slice(self.base_members(*from));
                out.extend_from_slice(self.new_members(*from));
            }
            Rule::Domain { p, .. } => {
                if let Some(x) = self.base(*p) {
                    out.extend_from_slice(x.so.keys());
                }
                if let Some(n) = self.new_of(*p) {
                    keys(&n.so, out);
                }
            }
            Rule::Range { p, .. } => {
                let mut list = Vec::new();
                if let Some(x) = self.base(*p) {
                    list.extend_from_slice(x.os.keys());
                }
                if let Some(n) = self.new_of(*p) {
                    keys(n.os(), &mut list);
                }
                list.retain(|y| !self.is_literal(*y));
                out.extend(list);
            }
            Rule::And { parts, .. } => {
                let mut parts: Vec<Id> = parts.clone();
                parts.sort_by_key(|c| self.base_members(*c).len() + self.new_members(*c).len());
                if let Some((first, others)) = parts.split_first() {
                    let mut list = self.all_members(*first);
                    for class in others {
                        let other = self.all_members(*class);
                        let mut at = 0;
                        list.retain(|x| {
                            at = seek(&other, *x, at);
                            other.get(at) == Some(x)
                        });
                    }
                    out.extend(list);
                }
            }
            Rule::Some { p, of, .. } => {
                let members = self.all_members(*of);
                let mut list = Vec::new();
                if let Some(x) = self.base(*p) {
                    join(&members, &x.os, &mut list);
                }
                if let Some(n) = self.new_of(*p) {
                    join_packed(&members, n.os(), &mut list);
                }
                out.extend(list);
            }
            Rule::All { class, p, .. } => {
                let members = self.all_members(*class);
                let mut list = Vec::new();
                if let Some(x) = self.base(*p) {
                    join(&members, &x.so, &mut list);
                }
                if let Some(n) = self.new_of(*p) {
                    join_packed(&members, &n.so, &mut list);
                }
                list.sort_unstable();
                list.dedup();
                list.retain(|y| !self.is_literal(*y));
                out.extend(list);
            }
            Rule::Has { p, value, .. } => self.subjects(*p, *value, out),
            _ => {}
        }
    }

    fn apply_property_rule(&self, rule: &Rule, out: &mut Vec<u64>) {
        match rule {
            Rule::Property { from, .. } => out.extend(self.packed(*from)),
            Rule::Inverse { from, .. } => {
                let (mut last, mut literal) = (0, false);
                let mut put = |o: Id, s: Id| {
                    if o != last {
                        last = o;
                        literal = self.is_literal(o);
                    }
                    if !literal {
                        out.push(pack(o, s));
                    }
                };
                if let Some(x) = self.base(*from) {
                    x.os.iter().for_each(|(o, s)| put(o, s));
                }
                if let Some(n) = self.new_of(*from) {
                    n.os()
                        .iter()
                        .map(|p| unpack(*p))
                        .for_each(|(o, s)| put(o, s));
                }
            }
            Rule::Chain { parts, .. } => {
                let Some((first, others)) = parts.split_first() else {
                    return;
                };
                let (mut last, mut ends) = (0, Vec::new());
                let mut by_middle: Vec<u64> = self
                    .packed(*first)
                    .into_iter()
                    .map(|p| p.rotate_left(32))
                    .collect();
                sort(&mut by_middle);
                for (middle, s) in by_middle.into_iter().map(unpack) {
                    if middle != last {
                        last = middle;
                        ends = after(self, others, middle);
                    }
                    out.extend(ends.iter().map(|o| pack(s, *o)));
                }
            }
            Rule::Gives { class, value, .. } => {
                out.extend(
                    self.all_members(*class)
                        .into_iter()
                        .map(|x| pack(x, *value)),
                );
            }
            Rule::Functional { p } => {
                let pairs = self.packed(*p);
                self.all_the_same(&pairs, out);
            }
            Rule::InverseFunctional { p } => {
                let mut pairs: Vec<u64> = self
                    .packed(*p)
                    .into_iter()
                    .map(|p| p.rotate_left(32))
                    .collect();
                sort(&mut pairs);
                self.all_the_same(&pairs, out);
            }
            Rule::Mutual { p, .. } => {
                out.extend(self.packed(*p).into_iter().filter(|pair| {
                    let (s, o) = unpack(*pair);
                    self.has(o, *p, s)
                }));
            }
            _ => {}
        }
    }

    /// Relates the first value of each key to its other values; the remaining equalities follow from these.
    fn all_the_same(&self, pairs: &[u64], out: &mut Vec<u64>) {
        for group in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
            if group.len() < 2 {
                continue;
            }
            let mut values = group
                .iter()
                .map(|p| unpack(*p).1)
                .filter(|v| !self.is_literal(*v));
            if let Some(first) = values.next() {
                for other in values {
                    out.push(pack(first, other));
                    out.push(pack(other, first));
                }
            }
        }
    }
}

/// Appends the distinct keys of ascending packed pairs.
fn keys(pairs: &[u64], to: &mut Vec<Id>) {
    let mut last = None;
    for pair in pairs {
        let key = unpack(*pair).0;
        if last != Some(key) {
            to.push(key);
            last = Some(key);
        }
    }
}

/// Appends the values of all keys in a list.
fn join(list: &[Id], pairs: &Pairs, to: &mut Vec<Id>) {
    if list.len() < pairs.keys().len() {
        let mut near = 0;
        for x in list {
            to.extend_from_slice(pairs.get_near(*x, &mut near));
        }
    } else {
        let (mut at, mut near) = (0, 0);
        for key in pairs.keys() {
            at = seek(list, *key, at);
            if list.get(at) == Some(key) {
                to.extend_from_slice(pairs.get_near(*key, &mut near));
            }
        }
    }
}

fn join_packed(list: &[Id], pairs: &[u64], to: &mut Vec<Id>) {
    let mut at = 0;
    for pair in pairs {
        let (key, value) = unpack(*pair);
        at = seek(list, key, at);
        if list.get(at) == Some(&key) {
            to.push(value);
        }
    }
}
