//! Figures 12 to 15 of GraphMeta's paper, as SVG: a metric over the degree, one line per placement, with the number
//! of vertices of
//! each degree in the background.

use super::bands::{METRICS, metrics};
use super::{Figures, StartSamples};
use anyhow::Context as _;
use plotters::prelude::*;
use plotters::style::ShapeStyle;
use std::path::{Path, PathBuf};

/// Maximum number of points per line; close points are drawn as their mean.
const POINTS_MAX: usize = 160;
const SIZE: (u32, u32) = (860, 480);

/// Figures in the order of [`metrics`]: number in the paper, file name, title.
const PICTURES: [(u32, &str, &str); METRICS] = [
    (12, "scan-statcomm", "StatComm of scan/scatter"),
    (13, "scan-statreads", "StatReads of scan/scatter"),
    (14, "travel-statcomm", "StatComm of 3-step traversal"),
    (15, "travel-statreads", "StatReads of 3-step traversal"),
];

const COLOURS: [RGBColor; 4] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
];
const BEHIND: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// Draws all four figures to an existing folder; returns the files.
pub(super) fn draw(figures: &Figures, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Some(last) = figures.measured.last() else {
        return Ok(Vec::new());
    };
    let degree_max = f64::from(last.start.degree);
    let mut files = Vec::new();
    for (metric, (number, name, title)) in PICTURES.into_iter().enumerate() {
        let lines: Vec<Vec<(f64, f64)>> = (0..figures.kinds.len())
            .map(|placement| {
                let points = figures.measured.iter().map(|m| point(m, placement, metric));
                thinned(points, degree_max)
            })
            .collect();
        let picture = DegreePlot {
            title: format!("Figure {number}. {title}"),
            metric: title.split(' ').next().unwrap_or(title),
            degree_max,
            lines,
        };
        let file = folder.join(format!("figure-{number}-{name}.svg"));
        let svg = picture
            .svg(figures)
            .with_context(|| format!("drawing {}", file.display()))?;
        std::fs::write(&file, svg).map_err(super::writing(&file))?;
        files.push(file);
    }
    Ok(files)
}

fn point(measured: &StartSamples, placement: usize, metric: usize) -> (f64, f64) {
    let figure = measured.samples.get(placement).map(metrics);
    let figure = figure.and_then(|figures| figures.get(metric).copied());
    (
        f64::from(measured.start.degree),
        figure.unwrap_or_default() as f64,
    )
}

/// Returns the points in ascending order, with those of one interval of the axis replaced by their mean.
fn thinned(points: impl Iterator<Item = (f64, f64)>, x_max: f64) -> Vec<(f64, f64)> {
    let stretch = x_max / POINTS_MAX as f64;
    let mut thin: Vec<(f64, f64, f64)> = Vec::new();
    let mut open = f64::NEG_INFINITY;
    for (x, y) in points {
        let at = (x / stretch).floor();
        match thin.last_mut().filter(|_| at <= open) {
            Some((xs, ys, n)) => (*xs, *ys, *n) = (*xs + x, *ys + y, *n + 1.0),
            None => thin.push((x, y, 1.0)),
        }
        open = at;
    }
    thin.into_iter()
        .map(|(xs, ys, n)| (xs / n, ys / n))
        .collect()
}

/// One figure.
struct DegreePlot<'a> {
    title: String,
    metric: &'a str,
    degree_max: f64,
    /// The lines by placement.
    lines: Vec<Vec<(f64, f64)>>,
}

impl DegreePlot<'_> {
    fn svg(&self, figures: &Figures) -> anyhow::Result<String> {
        let mut svg = String::new();
        // A failed drawing is a bug; its error has no further details.
        self.draw(figures, &mut svg)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(svg)
    }

    fn draw(&self, figures: &Figures, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let highest = self
            .lines
            .iter()
            .flatten()
            .fold(1.0_f64, |most, (_, y)| most.max(*y));
        let most = figures.frequencies.iter().map(|(_, n)| *n).max();
        let vertices_max = f64::from(most.unwrap_or(1).max(10)) * 1.5;

        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(78)
            .right_y_label_area_size(64)
            .build_cartesian_2d(0.0..self.degree_max * 1.02, 0.0..highest * 1.05)?
            .set_secondary_coord(0.0..self.degree_max * 1.02, (0.8..vertices_max).log_scale());
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("out-degree of the vertex")
            .y_desc(self.metric)
            .y_label_formatter(&|y| short(*y))
            .x_label_formatter(&|x| short(*x))
            .draw()?;
        chart
            .configure_secondary_axes()
            .y_desc("vertices of that degree")
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        let behind = figures
            .frequencies
            .iter()
            .map(|(degree, n)| (f64::from(*degree), f64::from(*n)));
        chart
            .draw_secondary_series(LineSeries::new(thinned(behind, self.degree_max), BEHIND))?
            .label("vertices (right)")
            .legend(|(x, y)| legend(x, y, BEHIND));
        // The first placement is drawn last, above lines that coincide with it.
        let lines = figures.kinds.iter().zip(&self.lines).zip(COLOURS);
        for ((kind, line), colour) in lines.rev() {
            let style = ShapeStyle::from(colour).stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.iter().copied(), style))?
                .label(kind.name())
                .legend(move |(x, y)| legend(x, y, colour));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(BEHIND)
            .draw()?;
        area.present()?;
        Ok(())
    }
}

fn legend(x: i32, y: i32, colour: RGBColor) -> PathElement<(i32, i32)> {
    PathElement::new(
        [(x, y), (x + 18, y)],
        ShapeStyle::from(colour).stroke_width(2),
    )
}

/// Formats a number as `850`, `12k`, `3.4M`.
fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 1e9 => (number / 1e9, "G"),
        n if n >= 1e6 => (number / 1e6, "M"),
        n if n >= 1e4 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let digits = usize::from(!unit.is_empty() && scaled < 10.0 && scaled.fract() != 0.0);
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_one_stretch_become_their_mean() {
        let points = [(1.0, 10.0), (2.0, 20.0), (320.0, 5.0)];
        assert_eq!(
            thinned(points.into_iter(), 320.0),
            [(1.0, 10.0), (2.0, 20.0), (320.0, 5.0)]
        );
        let points = [(1.0, 10.0), (1.5, 20.0), (320.0, 5.0)];
        assert_eq!(
            thinned(points.into_iter(), 320.0),
            [(1.25, 15.0), (320.0, 5.0)]
        );
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 850.0, 12_000.0, 3_400_000.0, 2e9].map(short);
        assert_eq!(labels, ["0", "850", "12k", "3.4M", "2G"]);
    }
}
