//! Line charts over numbers of servers, thresholds or steps, as SVG. Values on the x axis double from point to point.

use super::ClusterBench;
use anyhow::Context as _;
use plotters::coord::ranged1d::{IntoSegmentedCoord as _, SegmentValue};
use plotters::prelude::*;
use plotters::style::ShapeStyle;
use std::path::{Path, PathBuf};

const SIZE: (u32, u32) = (720, 420);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];
const BORDER: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// One line of a chart.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One chart with its lines.
pub(crate) struct Picture<'a> {
    pub(crate) title: &'a str,
    pub(crate) across: &'a str,
    pub(crate) up: &'a str,
    pub(crate) lines: Vec<Line>,
}

impl Picture<'_> {
    /// Draws the chart to a file in the folder of `--plots`, if given.
    pub(super) fn write(&self, bench: &ClusterBench<'_>, name: &str) -> anyhow::Result<()> {
        let Some(folder) = &bench.shared.plots else {
            return Ok(());
        };
        if let Some(file) = self.save(folder, name)? {
            bench.say(&format!("wrote {}", file.display()));
        }
        Ok(())
    }

    /// Draws the chart to a file, if there are points.
    pub(crate) fn save(&self, folder: &Path, name: &str) -> anyhow::Result<Option<PathBuf>> {
        if self.lines.iter().all(|line| line.points.is_empty()) {
            return Ok(None);
        }
        let file = folder.join(name);
        let mut svg = String::new();
        // A failed drawing is a bug; its error has no further details.
        self.draw(&mut svg)
            .map_err(|error| anyhow::anyhow!("drawing {}: {error}", file.display()))?;
        std::fs::write(&file, svg).with_context(|| format!("writing {}", file.display()))?;
        Ok(Some(file))
    }

    /// Returns the x values, distinct and ascending.
    fn x_values(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self
            .lines
            .iter()
            .flat_map(|line| line.points.iter().map(|(x, _)| *x))
            .collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let x_values = self.x_values();
        let place = |x: f64| {
            x_values
                .iter()
                .position(|p| p.total_cmp(&x).is_eq())
                .unwrap_or(0)
        };
        let highest = self
            .lines
            .iter()
            .flat_map(|line| &line.points)
            .fold(f64::MIN_POSITIVE, |most, (_, y)| most.max(*y));
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(74)
            // Margin for the legend.
            .build_cartesian_2d((0..x_values.len()).into_segmented(), 0.0..highest * 1.25)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.across)
            .y_desc(self.up)
            .x_label_formatter(&|at| match at {
                SegmentValue::CenterOf(at) => {
                    x_values.get(*at).map_or(String::new(), f64::to_string)
                }
                SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
            })
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.into_iter().cycle()) {
            let style = ShapeStyle::from(colour).stroke_width(2);
            let points = line
                .points
                .iter()
                .map(|(x, y)| (SegmentValue::CenterOf(place(*x)), *y));
            chart
                .draw_series(LineSeries::new(points.clone(), style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BORDER)
            .draw()?;
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_names() {
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let picture = Picture {
            title: "Rates",
            across: "servers",
            up: "edges",
            lines: vec![
                line("dido", &[(1.0, 10.0), (4.0, 8.0)]),
                line("edge-cut", &[(2.0, 5.0)]),
            ],
        };
        assert_eq!(picture.x_values(), [1.0, 2.0, 4.0]);
        let mut svg = String::new();
        picture.draw(&mut svg).unwrap();
        for text in ["Rates", "servers", "edge-cut", "dido"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
