//! The results of a benchmark: one row per figure, as a table or as JSON with the same keys.

use super::machine;
use anyhow::Context as _;
use esker_terminal::args::RowFormat;
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::size;
use serde_json::{Value as Json, json};
use std::path::Path;

/// The unit of a figure. Higher rates are better, lower times are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    EdgesPerSecond,
    ObjectsPerSecond,
    FilesPerSecond,
    CallsPerSecond,
    /// Per second of one core's processor time, independent of other load.
    EdgesPerCpuSecond,
    Seconds,
    CpuSeconds,
    Millis,
    /// Processor time of one query, in milliseconds.
    CpuMillis,
    /// Wall time of one operation, in microseconds.
    Micros,
    /// Processor time of one edge, in microseconds.
    CpuMicros,
    /// Processor time of one object, in microseconds.
    CpuMicrosPerObject,
    /// Processor time of one file, in microseconds.
    CpuMicrosPerFile,
    Bytes,
    BytesPerObject,
    BytesPerFile,
    BytesPerQuad,
    /// A number of items named by the case.
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::EdgesPerSecond => "edges/s",
            Self::ObjectsPerSecond => "objects/s",
            Self::FilesPerSecond => "files/s",
            Self::CallsPerSecond => "calls/s",
            Self::EdgesPerCpuSecond => "edges/CPU s",
            Self::Seconds => "s",
            Self::CpuSeconds => "CPU s",
            Self::Millis => "ms",
            Self::CpuMillis => "CPU ms",
            Self::BytesPerQuad => "bytes/quad",
            Self::Micros => "us",
            Self::CpuMicros => "CPU us/edge",
            Self::CpuMicrosPerObject => "CPU us/object",
            Self::CpuMicrosPerFile => "CPU us/file",
            Self::BytesPerFile => "bytes/file",
            Self::Bytes => "bytes",
            Self::BytesPerObject => "bytes/object",
            Self::Count => "",
        }
    }

    fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::EdgesPerSecond
                | Self::ObjectsPerSecond
                | Self::FilesPerSecond
                | Self::CallsPerSecond
                | Self::EdgesPerCpuSecond
        )
    }

    fn text(self, figure: f64) -> String {
        match self {
            Self::EdgesPerSecond
            | Self::ObjectsPerSecond
            | Self::FilesPerSecond
            | Self::CallsPerSecond
            | Self::EdgesPerCpuSecond
            | Self::BytesPerObject
            | Self::BytesPerFile
            | Self::Count => esker_terminal::units::count(figure.round() as u64),
            Self::Bytes => size(figure as u64),
            Self::Seconds | Self::CpuSeconds | Self::CpuMillis => format!("{figure:.3}"),
            Self::BytesPerQuad => format!("{figure:.1}"),
            Self::Millis
            | Self::Micros
            | Self::CpuMicros
            | Self::CpuMicrosPerObject
            | Self::CpuMicrosPerFile => {
                format!("{figure:.2}")
            }
        }
    }
}

/// The target of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FigureTarget {
    /// Minimum speed of Esker relative to the other side.
    Ratio(f64),
    /// Minimum rate of Esker.
    AtLeast(f64),
    /// Maximum time or size of Esker.
    AtMost(f64),
}

/// One row of the report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) case: String,
    pub(crate) unit: Unit,
    pub(crate) esker: f64,
    /// The figure for the same keys and values without Esker: of the key-value store, or as the case says.
    pub(crate) raw: Option<f64>,
    pub(crate) target: Option<FigureTarget>,
    pub(crate) note: String,
}

impl Figure {
    pub(crate) fn new(case: impl Into<String>, unit: Unit, esker: f64) -> Self {
        Self {
            case: case.into(),
            unit,
            esker,
            raw: None,
            target: None,
            note: String::new(),
        }
    }

    pub(crate) fn raw(mut self, raw: f64) -> Self {
        self.raw = Some(raw);
        self
    }

    pub(crate) fn target(mut self, target: FigureTarget) -> Self {
        self.target = Some(target);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Esker's speed relative to the other side.
    fn ratio(&self) -> Option<f64> {
        let raw = self.raw?;
        Some(if self.unit.more_is_better() {
            self.esker / raw
        } else {
            raw / self.esker
        })
    }

    fn met(&self) -> Option<bool> {
        Some(match self.target? {
            FigureTarget::Ratio(least) => self.ratio()? >= least,
            FigureTarget::AtLeast(least) => self.esker >= least,
            FigureTarget::AtMost(most) => self.esker <= most,
        })
    }

    fn target_text(&self) -> String {
        match self.target {
            None => String::new(),
            Some(FigureTarget::Ratio(least)) => format!("ratio >= {least}"),
            Some(FigureTarget::AtLeast(least)) => format!(">= {}", self.unit.text(least)),
            Some(FigureTarget::AtMost(most)) => format!("<= {}", self.unit.text(most)),
        }
    }

    fn json(&self, workload: &str) -> Json {
        json!({
            "workload": workload,
            "case": self.case,
            "unit": self.unit.name(),
            "esker": self.esker,
            "raw": self.raw,
            "ratio": self.ratio(),
            "target": self.target.map(|_| self.target_text()),
            "met": self.met(),
            "note": self.note,
        })
    }
}

const COLUMNS: &[&str] = &[
    "workload", "case", "unit", "esker", "raw", "ratio", "target", "met", "note",
];

/// All figures of a run.
#[derive(Debug)]
pub(crate) struct Report {
    workload: &'static str,
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(workload: &'static str) -> Self {
        Self {
            workload,
            figures: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Prints the report; `settings` are added to the JSON, which is also written to a file if one is named.
    pub(crate) fn print(
        &self,
        settings: &Json,
        (format, file): (RowFormat, Option<&Path>),
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let json = self.json(settings);
        if let Some(path) = file {
            let text = serde_json::to_string_pretty(&json)? + "\n";
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        if format == RowFormat::Json {
            writeln!(context.out, "{}", serde_json::to_string_pretty(&json)?)?;
            return Ok(());
        }
        let mut rows = Rows::new(&mut context.out, format, context.style, COLUMNS);
        for figure in &self.figures {
            let number = |value: Option<f64>, text: &dyn Fn(f64) -> String| match value {
                Some(value) => Cell::Json(json!(value), text(value)),
                None => Cell::Empty,
            };
            let in_unit = |value| number(value, &|v| figure.unit.text(v));
            let met = match figure.met() {
                Some(met) => Cell::Json(met.into(), if met { "yes" } else { "no" }.to_owned()),
                None => Cell::Empty,
            };
            rows.row(vec![
                self.workload.into(),
                figure.case.as_str().into(),
                figure.unit.name().into(),
                in_unit(Some(figure.esker)),
                in_unit(figure.raw),
                number(figure.ratio(), &|v| format!("{v:.2}")),
                figure.target_text().into(),
                met,
                figure.note.as_str().into(),
            ])?;
        }
        rows.finish()?;
        Ok(())
    }

    fn json(&self, settings: &Json) -> Json {
        json!({
            "machine": { "cores": machine::cores(), "memory_bytes": machine::total_memory() },
            "settings": settings,
            "results": self.figures.iter().map(|f| f.json(self.workload)).collect::<Vec<_>>(),
        })
    }
}

/// Returns the median: the mean of the middle two for an even number, zero for an empty list.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    match (figures.get(half.wrapping_sub(1)), figures.get(half)) {
        (Some(below), Some(above)) if figures.len().is_multiple_of(2) => {
            f64::midpoint(*below, *above)
        }
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(vec![]).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_is_a_part_of_the_other_sides_speed() {
        let rate = Figure::new("x", Unit::EdgesPerSecond, 60.0)
            .raw(100.0)
            .target(FigureTarget::Ratio(0.6));
        assert_eq!(rate.met(), Some(true));
        let time = Figure::new("x", Unit::Micros, 30.0)
            .raw(10.0)
            .target(FigureTarget::Ratio(0.5));
        assert_eq!(time.met(), Some(false));
        let own = Figure::new("x", Unit::Seconds, 0.2).target(FigureTarget::AtMost(0.3));
        assert_eq!(own.met(), Some(true));
        assert_eq!(own.ratio(), None);
    }
}
