//! The error rate of the duplicate check: Esker keeps 64 bits of each identity's hash.
//!
//! SoMeta queries Bloom filters and scans a list if they answer "maybe"; a false positive costs a scan. In Esker, a
//! false positive is
//! an absent identity whose 64 bits equal those of an existing one.

use super::ObjectsBench;
use super::shape::Names;
use crate::report::{Figure, Unit};
use esker_terminal::units::count;
use std::time::Instant;

pub(super) fn run(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    for objects in bench.args.hashed.clone() {
        for names in bench.args.workloads.clone() {
            bench.check_interrupt()?;
            bench.say(&format!(
                "hashing {} identities, {}",
                count(u64::from(objects)),
                names.text()
            ));
            let began = Instant::now();
            let hash = |number| half(names, number);
            let mut hashes: Vec<u64> = (0..objects).map(hash).collect();
            let hashing = began.elapsed().as_secs_f64();
            hashes.sort_unstable();
            let alike = hashes.array_windows().filter(|[a, b]| a == b).count();
            // An equal number of absent identities.
            let absent = objects..objects.saturating_mul(2);
            let mut asked: Vec<u64> = absent.map(hash).collect();
            asked.sort_unstable();
            let wrong = common(&hashes, &asked);
            let n = f64::from(objects);
            let case = format!("{} objects, {}", count(u64::from(objects)), names.text());
            let expected = n * n / 2_f64.powi(65);
            let note = format!("expected {expected:.1e}: n squared / 2^65");
            let figure = Figure::new(
                format!("{case}: pairs of one hash"),
                Unit::Count,
                alike as f64,
            );
            bench.report.add(figure.note(note));
            let note = format!(
                "of {} that are not there; a Bloom filter of 10 bits an object: {:.0}; a hash takes {:.0} ns",
                count(asked.len() as u64),
                bloom(10.0, 7.0) * asked.len() as f64,
                hashing * 1e9 / n
            );
            let figure = Figure::new(
                format!("{case}: false positives"),
                Unit::Count,
                wrong as f64,
            );
            bench.report.add(figure.note(note));
        }
    }
    Ok(())
}

/// Returns the 64 bits of an identity's hash that are kept.
fn half(names: Names, number: u32) -> u64 {
    let hash = names.identity(number).hash();
    hash.first_chunk()
        .map_or(0, |head| u64::from_be_bytes(*head))
}

/// Counts the elements of `asked` that are in `there`; both are sorted.
fn common(there: &[u64], asked: &[u64]) -> usize {
    let mut rest = there.iter().peekable();
    let found = asked.iter().filter(|hash| {
        while rest.next_if(|other| other < hash).is_some() {}
        rest.peek() == Some(hash)
    });
    found.count()
}

/// False positive rate of a Bloom filter (the paper's section II-G) with `bits` per entry and `functions` hash functions.
fn bloom(bits: f64, functions: f64) -> f64 {
    (1.0 - (-functions / bits).exp()).powf(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_found() {
        assert_eq!(common(&[1, 3, 5, 7], &[0, 3, 4, 7, 9]), 2);
        assert_eq!(common(&[], &[1]), 0);
        assert_eq!(common(&[1, 1, 2], &[1, 2, 2]), 3);
    }

    #[test]
    fn a_bloom_filter_of_ten_bits_errs_in_one_of_a_hundred() {
        assert!((bloom(10.0, 7.0) - 0.0082).abs() < 1e-4);
    }
}
