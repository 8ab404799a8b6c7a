//! Distribution of the values of a tag: distinct values, frequencies and ranges.

use crate::value;
use esker_model::Value;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of distinct values that are counted individually.
const DISTINCT_MAX: usize = 1 << 16;
/// Maximum number of values in a histogram; of more, every second, fourth, and so on is sampled.
const NUMBERS_MAX: usize = 1 << 20;
/// Number of bins of a histogram.
const BINS: usize = 32;

/// Accumulates values of a tag.
#[derive(Debug, Default)]
pub struct DistributionBuilder {
    count: u64,
    kinds: BTreeMap<&'static str, u64>,
    values: HashMap<String, (Json, u64)>,
    /// Number of values not counted individually, after the limit of distinct values.
    uncounted: u64,
    numbers: Vec<f64>,
    /// Sampling interval of numbers.
    stride: u64,
    met: u64,
    range: Option<(f64, f64)>,
}

/// A value with its frequency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    /// The value as JSON.
    pub value: Json,
    /// Number of its occurrences.
    pub count: u64,
}

/// Frequencies of numbers in bins of equal width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// Smallest of the numbers.
    pub from: f64,
    /// Largest of the numbers.
    pub to: f64,
    /// Frequency of each bin; an estimate if sampled.
    pub bins: Vec<u64>,
    /// Whether no numbers were left out.
    pub exact: bool,
}

/// Distribution of a tag's values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// Total number of values.
    pub count: u64,
    /// Number of values by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Number of distinct values; a lower bound if `distinct_more`.
    pub distinct: u64,
    /// Whether there are more distinct values.
    pub distinct_more: bool,
    /// Most frequent values first.
    pub top: Vec<Counted>,
    /// Histogram of numbers, if there are several.
    pub histogram: Option<Histogram>,
}

impl DistributionBuilder {
    /// Adds a value to the distribution.
    pub fn add(&mut self, one: &Value) {
        self.count += 1;
        let kind = one.kind().map_or("null", esker_model::ValueKind::name);
        *self.kinds.entry(kind).or_default() += 1;
        let number = match one {
            Value::I64(n) => Some(*n as f64),
            Value::F64(x) if x.is_finite() => Some(*x),
            _ => None,
        };
        if let Some(number) = number {
            self.number(number);
        }
        let json = value::value(one);
        let key = format!("{kind}{json}");
        if let Some((_, count)) = self.values.get_mut(&key) {
            *count += 1;
        } else if self.values.len() < DISTINCT_MAX {
            self.values.insert(key, (json, 1));
        } else {
            self.uncounted += 1;
        }
    }

    fn number(&mut self, number: f64) {
        let (low, high) = self.range.unwrap_or((number, number));
        self.range = Some((low.min(number), high.max(number)));
        let stride = self.stride.max(1);
        if self.met.is_multiple_of(stride) {
            self.numbers.push(number);
        }
        self.met += 1;
        if self.numbers.len() >= NUMBERS_MAX {
            let mut n = 0_usize;
            self.numbers.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.stride = stride * 2;
        }
    }

    /// Returns the distribution with at most `limit` of the most frequent values.
    pub fn finish(self, limit: usize) -> Distribution {
        let distinct = self.values.len() as u64;
        let mut top: Vec<(String, (Json, u64))> = self.values.into_iter().collect();
        top.sort_by(|a, b| b.1.1.cmp(&a.1.1).then_with(|| a.0.cmp(&b.0)));
        top.truncate(limit);
        let histogram = self
            .range
            .filter(|(low, high)| low < high)
            .map(|(low, high)| {
                let mut bins = vec![0_u64; BINS];
                let stride = self.stride.max(1);
                for number in &self.numbers {
                    let at = (number - low) / (high - low) * BINS as f64;
                    bins[(at as usize).min(BINS - 1)] += stride;
                }
                Histogram {
                    from: low,
                    to: high,
                    bins,
                    exact: stride == 1,
                }
            });
        Distribution {
            count: self.count,
            kinds: self.kinds,
            distinct,
            distinct_more: self.uncounted > 0,
            top: top
                .into_iter()
                .map(|(_, (value, count))| Counted { value, count })
                .collect(),
            histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_kind() {
        let mut distribution = DistributionBuilder::default();
        for value in [
            Value::I64(1),
            Value::F64(1.0),
            Value::from("1"),
            Value::I64(1),
        ] {
            distribution.add(&value);
        }
        let out = distribution.finish(2);
        assert_eq!((out.count, out.distinct, out.distinct_more), (4, 3, false));
        assert_eq!(out.top.len(), 2);
        assert_eq!(out.top[0].value, Json::from(1));
        assert_eq!(out.top[0].count, 2);
        assert_eq!(out.kinds.values().sum::<u64>(), 4);
        assert_eq!(out.histogram, None, "all the same");
    }

    #[test]
    fn many_numbers_keep_their_shape() {
        let mut distribution = DistributionBuilder::default();
        let many = NUMBERS_MAX as i64 + 5;
        for n in 0..many {
            distribution.add(&Value::I64(n % 64));
        }
        let out = distribution.finish(3);
        let histogram = out.histogram.unwrap();
        assert_eq!((histogram.from, histogram.to), (0.0, 63.0));
        assert!(!histogram.exact);
        let total: u64 = histogram.bins.iter().sum();
        assert!(total.abs_diff(many as u64) < 10, "{total} of {many}");
        assert_eq!(out.distinct, 64);
    }
}
