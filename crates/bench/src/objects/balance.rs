//! The distribution of objects over 128 vnodes (Table III).

use super::ObjectsBench;
use super::shape::Names;
use crate::report::{Figure, Unit};
use esker_cluster::Vnodes;

/// Number of servers in SoMeta's evaluation.
const VNODES: u32 = 128;

pub(super) fn run(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let vnodes = Vnodes::new(VNODES)?;
    for names in bench.args.workloads.clone() {
        bench.check_interrupt()?;
        let mut counts = vec![0_u32; VNODES as usize];
        for number in 0..bench.args.objects {
            let place = names.identity(number).prefix().home_vertex();
            counts[vnodes.of(place).0 as usize] += 1;
        }
        let spread = CountStatistics::of(counts);
        let case = format!("objects of a vnode, {}", names.text());
        // The paper's figures for a million objects.
        let (least, quarter, median, three, most, deviation) = match names {
            Names::One => (7812.0, 7812.0, 7812.5, 7812.0, 7813.0, 0.50),
            Names::Four => (7692.0, 7782.25, 7812.5, 7842.75, 7933.0, 85.19),
            Names::Unique => (7575.0, 7740.0, 7817.0, 7882.5, 8087.0, 99.19),
        };
        for (what, figure, paper) in [
            ("least", spread.least, least),
            ("first quartile", spread.quarter, quarter),
            ("median", spread.median, median),
            ("third quartile", spread.three_quarters, three),
            ("most", spread.most, most),
            ("standard deviation", spread.deviation, deviation),
        ] {
            let figure = Figure::new(format!("{case}: {what}"), Unit::Count, figure);
            bench.report.add(figure.note(format!("SoMeta: {paper}")));
        }
    }
    Ok(())
}

/// Statistics of many counts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CountStatistics {
    least: f64,
    quarter: f64,
    median: f64,
    three_quarters: f64,
    most: f64,
    deviation: f64,
}

impl CountStatistics {
    fn of(mut counts: Vec<u32>) -> Self {
        counts.sort_unstable();
        let mean = counts.iter().copied().map(f64::from).sum::<f64>() / counts.len() as f64;
        let squares = counts.iter().map(|n| (f64::from(*n) - mean).powi(2));
        // Quantiles interpolate linearly between neighbours, as in most tools.
        let at = |part: f64| {
            let place = part * (counts.len() - 1) as f64;
            let count = |i: usize| f64::from(counts[i.min(counts.len() - 1)]);
            let below = place.floor() as usize;
            count(below) + (count(below + 1) - count(below)) * place.fract()
        };
        Self {
            least: at(0.0),
            quarter: at(0.25),
            median: at(0.5),
            three_quarters: at(0.75),
            most: at(1.0),
            deviation: (squares.sum::<f64>() / counts.len() as f64).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CountStatistics;

    #[test]
    fn quartiles_and_deviation() {
        let spread = CountStatistics::of(vec![4, 1, 3, 2]);
        assert!((spread.least - 1.0).abs() < 1e-9);
        assert!((spread.quarter - 1.75).abs() < 1e-9);
        assert!((spread.median - 2.5).abs() < 1e-9);
        assert!((spread.three_quarters - 3.25).abs() < 1e-9);
        assert!((spread.most - 4.0).abs() < 1e-9);
        assert!((spread.deviation - 1.25_f64.sqrt()).abs() < 1e-9);
    }
}
