//! The rate of a growing directory, as SVG.

use anyhow::Context as _;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (720, 360);
const COLOUR: RGBColor = RGBColor(0x00, 0x72, 0xb2);

/// Draws files per second over the number of files.
pub(super) fn draw(points: &[(f64, f64)], file: &Path) -> anyhow::Result<()> {
    let mut svg = String::new();
    // A failed drawing is a bug; its error has no further details.
    picture(points, &mut svg)
        .map_err(|error| anyhow::anyhow!("drawing {}: {error}", file.display()))?;
    std::fs::write(file, svg).with_context(|| format!("writing {}", file.display()))
}

fn picture(points: &[(f64, f64)], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(1.0, f64::max);
    let (files, rate) = (
        most(&mut points.iter().map(|p| p.0)) / 1e6,
        most(&mut points.iter().map(|p| p.1)) / 1e3,
    );
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(
            "Creates in one directory, mean of ten seconds",
            ("sans-serif", 16),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..files, 0.0..rate * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("million files in it")
        .y_desc("thousand files a second")
        .light_line_style(WHITE)
        .draw()?;
    let line = points.iter().map(|(x, y)| (x / 1e6, y / 1e3));
    chart.draw_series(LineSeries::new(line, COLOUR.stroke_width(2)))?;
    area.present()?;
    Ok(())
}
