//! The table: means over the sampled vertices of a degree band, relative to edge-cut's; and a check of the claims about DIDO.

use super::walk::Sample;
use super::{Figures, StartSamples};
use esker_cluster::Kind;
use esker_terminal::args::RowFormat;
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::{count, counted};
use serde_json::json;
use std::io;

/// Number of figures of a sample, in the order of the table.
pub(super) const METRICS: usize = 4;
const SCAN_COMM: usize = 0;
const SCAN_READS: usize = 1;
const TRAVEL_COMM: usize = 2;
const TRAVEL_READS: usize = 3;

const COLUMNS: &[&str] = &[
    "degree",
    "samples",
    "placement",
    "scan_statcomm",
    "scan_comm_ratio",
    "scan_statreads",
    "scan_reads_ratio",
    "travel_statcomm",
    "travel_comm_ratio",
    "travel_statreads",
    "travel_reads_ratio",
];

/// Returns the figures of a sample.
pub(super) fn metrics(sample: &Sample) -> [u64; METRICS] {
    [
        sample.scan.comm,
        sample.scan.reads,
        sample.travel.comm,
        sample.travel.reads,
    ]
}

/// A degree band, above one power of two up to the next: 1, 2, 3 to 4, 5 to 8, …
#[derive(Debug, Clone, PartialEq)]
struct DegreeBand {
    low: u32,
    high: u32,
    samples: u64,
    /// Sums of the figures by placement.
    sums: Vec<[f64; METRICS]>,
}

/// All bands with samples, by degree.
pub(super) struct Bands {
    kinds: Vec<Kind>,
    bands: Vec<DegreeBand>,
}

impl DegreeBand {
    fn empty(degree: u32, kinds: usize) -> Self {
        let high = degree.next_power_of_two();
        Self {
            low: high / 2 + 1,
            high,
            samples: 0,
            sums: vec![[0.0; METRICS]; kinds],
        }
    }

    fn name(&self) -> String {
        if self.low >= self.high {
            self.high.to_string()
        } else {
            format!("{}-{}", self.low, self.high)
        }
    }

    /// Ratio of one placement's figure to another's.
    fn ratio(&self, of: usize, to: usize, metric: usize) -> Option<f64> {
        let (of, to) = (self.sums.get(of)?[metric], self.sums.get(to)?[metric]);
        (to > 0.0).then(|| of / to)
    }
}

impl Bands {
    pub(super) fn of(figures: &Figures) -> Self {
        let mut bands: Vec<DegreeBand> = Vec::new();
        for StartSamples { start, samples } in &figures.measured {
            if bands.last().is_none_or(|band| start.degree > band.high) {
                bands.push(DegreeBand::empty(start.degree, figures.kinds.len()));
            }
            let Some(band) = bands.last_mut() else {
                continue;
            };
            band.samples += 1;
            for (sum, sample) in band.sums.iter_mut().zip(samples) {
                for (sum, figure) in sum.iter_mut().zip(metrics(sample)) {
                    *sum += figure as f64;
                }
            }
        }
        Self {
            kinds: figures.kinds.clone(),
            bands,
        }
    }

    fn position(&self, kind: Kind) -> Option<usize> {
        self.kinds.iter().position(|k| *k == kind)
    }

    pub(super) fn print(&self, format: RowFormat, context: &mut Context) -> io::Result<()> {
        let mut rows = Rows::new(&mut context.out, format, context.style, COLUMNS);
        let edge_cut = self.position(Kind::EdgeCut);
        for band in &self.bands {
            for (i, kind) in self.kinds.iter().enumerate() {
                let mut cells = vec![
                    band.name().into(),
                    Cell::Count(band.samples),
                    kind.name().into(),
                ];
                for metric in 0..METRICS {
                    let mean = band.sums[i][metric] / band.samples as f64;
                    cells.push(Cell::Json(json!(mean), number(mean)));
                    cells.push(match edge_cut.and_then(|to| band.ratio(i, to, metric)) {
                        Some(ratio) => Cell::Json(json!(ratio), format!("{ratio:.2}")),
                        None => Cell::Empty,
                    });
                }
                rows.row(cells)?;
            }
        }
        rows.finish().map(|_| ())
    }

    /// Prints whether GraphMeta's claims about DIDO are true here, in the bands above the threshold.
    pub(super) fn print_claims(&self, figures: &Figures, context: &mut Context) -> io::Result<()> {
        let (Some(dido), true) = (self.position(Kind::Dido), self.kinds.len() > 1) else {
            return Ok(());
        };
        let split: Vec<&DegreeBand> = self
            .bands
            .iter()
            .filter(|band| u64::from(band.low) > figures.threshold)
            .collect();
        if split.is_empty() {
            return writeln!(
                context.out,
                "\nno band of degrees lies above the split threshold: nothing has split"
            );
        }
        writeln!(context.out)?;
        for (name, metric) in [("a scan", SCAN_COMM), ("3 steps", TRAVEL_COMM)] {
            let beaten = |band: &&&DegreeBand| {
                (0..self.kinds.len())
                    .any(|i| i != dido && band.ratio(dido, i, metric).is_some_and(|r| r >= 1.0))
            };
            let not: Vec<String> = split.iter().filter(beaten).map(|b| b.name()).collect();
            let verdict = if not.is_empty() {
                let bands = counted(split.len() as u64, "band", "bands");
                format!("yes, in {bands} above the threshold")
            } else {
                format!("not at degrees {}", not.join(", "))
            };
            writeln!(
                context.out,
                "dido has the lowest StatComm of the {} in {name}: {verdict}",
                self.kinds.len()
            )?;
        }
        let Some(vertex_cut) = self.position(Kind::VertexCut) else {
            return Ok(());
        };
        for (name, metric) in [("a scan", SCAN_READS), ("3 steps", TRAVEL_READS)] {
            let ratios: Vec<String> = split
                .iter()
                .filter_map(|band| {
                    let ratio = band.ratio(dido, vertex_cut, metric)?;
                    Some(format!("{ratio:.2} at {}", band.name()))
                })
                .collect();
            writeln!(
                context.out,
                "dido's StatReads in {name}, to vertex-cut's: {}",
                ratios.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Formats a mean, with a decimal if it is small.
fn number(mean: f64) -> String {
    if mean < 1000.0 {
        format!("{mean:.1}")
    } else {
        count(mean.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::graph::Start;
    use crate::placement::walk::Stats;

    fn sample(comm: u64) -> Sample {
        let stats = Stats { comm, reads: 1 };
        Sample {
            scan: stats,
            travel: stats,
        }
    }

    #[test]
    fn bands_end_at_powers_of_two() {
        let measured = [1, 2, 3, 4, 5, 129, 256].map(|degree| StartSamples {
            start: Start { degree, vertex: 0 },
            samples: vec![sample(degree.into()), sample(2 * u64::from(degree))],
        });
        let figures = Figures {
            kinds: vec![Kind::Dido, Kind::EdgeCut],
            measured: measured.into(),
            frequencies: Vec::new(),
            threshold: 128,
        };
        let bands = Bands::of(&figures);
        let names: Vec<String> = bands.bands.iter().map(DegreeBand::name).collect();
        assert_eq!(names, ["1", "2", "3-4", "5-8", "129-256"]);
        let last = bands.bands.last().unwrap();
        assert_eq!((last.samples, last.sums[1][SCAN_COMM]), (2, 770.0));
        assert_eq!(last.ratio(0, 1, TRAVEL_COMM), Some(0.5));
    }
}
