//! Chart of the time that each server spent in each step, as stacked bars in SVG: Figure 9 of GraphMeta's paper. The label of a bar is
//! its server's number.

use crate::context::Context;
use esker_model::traversal::{ServerStep, TravelResult};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// The parts of a bar, from the bottom.
type Layer = (&'static str, RGBColor, fn(&ServerStep) -> u64);
const LAYERS: [Layer; 4] = [
    ("reading vertices", RGBColor(0x00, 0x72, 0xb2), |s| {
        s.vertices_micros
    }),
    ("reading edges", RGBColor(0xd5, 0x5e, 0x00), |s| {
        s.edges_micros
    }),
    ("reading ahead", RGBColor(0x00, 0x9e, 0x73), |s| {
        s.prefetch_micros
    }),
    ("waiting", RGBColor(0xcc, 0xcc, 0xcc), |s| s.wait_micros),
];
const BORDER: RGBColor = RGBColor(0x99, 0x99, 0x99);
/// Widths in pixels of a bar, of the gap between steps, and of the chart.
const BAR: usize = 26;
const GAP: usize = 1;
const WIDTH_MIN: usize = 420;
const WIDTH_MAX: usize = 8_000;
const HEIGHT: u32 = 420;

/// Returns the figures sorted by step, then by server.
pub fn by_step(result: &TravelResult) -> Vec<ServerStep> {
    let mut all = result.servers.clone();
    all.sort_by_key(|s| (s.step, s.server));
    all
}

/// Draws a result into a file.
pub fn draw(
    result: &TravelResult,
    chain: &str,
    file: &Path,
    context: &Context,
) -> anyhow::Result<()> {
    if result.servers.is_empty() {
        context.warn("the answer comes from a single database: there are no servers to draw");
        return Ok(());
    }
    write(result, &title(chain), file)?;
    context.note(&format!("drawn: {}", file.display()));
    Ok(())
}

/// Writes the chart of a distributed result.
pub fn write(result: &TravelResult, title: &str, file: &Path) -> anyhow::Result<()> {
    let svg = picture(&by_step(result), title)
        // An error of the drawing library is a bug and has no further cause.
        .map_err(|e| anyhow::anyhow!("drawing {}: {e}", file.display()))?;
    std::fs::write(file, svg)
        .map_err(|e| esker_model::Error::io(format!("writing {}", file.display()), e))?;
    Ok(())
}

/// Returns the chain on one line, shortened to fit.
fn title(chain: &str) -> String {
    const MOST: usize = 90;
    let line = chain.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST {
        return line;
    }
    let start: String = line.chars().take(MOST - 3).collect();
    format!("{start}...")
}

/// Returns the position of each bar, with a gap between steps.
fn positions(bars: &[ServerStep]) -> Vec<usize> {
    let mut place = 0;
    let mut step = bars.first().map(|b| b.step);
    let mut all = Vec::with_capacity(bars.len());
    for bar in bars {
        if step != Some(bar.step) {
            step = Some(bar.step);
            place += GAP;
        }
        all.push(place);
        place += 1;
    }
    all
}

fn total(bar: &ServerStep) -> u64 {
    LAYERS.iter().map(|(_, _, part)| part(bar)).sum()
}

fn picture(bars: &[ServerStep], title: &str) -> Result<String, Box<dyn std::error::Error>> {
    let positions = positions(bars);
    let end = positions.last().map_or(1, |p| p + 1) as f64;
    let width = (positions.len() * BAR + 140).clamp(WIDTH_MIN, WIDTH_MAX) as u32;
    let highest = bars.iter().map(total).max().unwrap_or(0).max(1) as f64 / 1e3;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..end, 0.0..highest * 1.25)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(0)
            .y_desc("milliseconds")
            .draw()?;
        for (layer, (name, colour, part)) in LAYERS.into_iter().enumerate() {
            let below = |bar: &ServerStep| -> u64 {
                LAYERS
                    .iter()
                    .take(layer)
                    .map(|(_, _, part)| part(bar))
                    .sum()
            };
            let drawn = bars.iter().zip(&positions).map(|(bar, place)| {
                let (x, low) = (*place as f64, below(bar));
                let high = low + part(bar);
                let corners = [(x + 0.1, low as f64 / 1e3), (x + 0.9, high as f64 / 1e3)];
                Rectangle::new(corners, colour.filled())
            });
            chart.draw_series(drawn)?.label(name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
            });
        }
        let small = ("sans-serif", 11).into_font();
        let middle = TextStyle::from(small).pos(Pos::new(HPos::Center, VPos::Top));
        let root = chart.plotting_area();
        let base = root.map_coordinate(&(0.0, 0.0)).1;
        for (bar, place) in bars.iter().zip(&positions) {
            let x = root.map_coordinate(&(*place as f64 + 0.5, 0.0)).0;
            area.draw_text(&bar.server.to_string(), &middle, (x, base + 6))?;
        }
        for step in bars.chunk_by(|a, b| a.step == b.step) {
            let Some(first) = step.first() else { continue };
            let from = bars.iter().position(|b| b.step == first.step).unwrap_or(0);
            let x = positions.get(from).copied().unwrap_or(0) as f64 + step.len() as f64 / 2.0;
            let x = root.map_coordinate(&(x, 0.0)).0;
            area.draw_text(&format!("step {}", first.step), &middle, (x, base + 24))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BORDER)
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_in_groups() {
        let bar = |step, server| ServerStep {
            step,
            server,
            edges_micros: 900,
            wait_micros: 100,
            ..ServerStep::default()
        };
        let bars = [bar(1, 0), bar(1, 1), bar(2, 0), bar(2, 1)];
        assert_eq!(positions(&bars), [0, 1, 3, 4]);
        assert_eq!(total(&bars[0]), 1_000);
        let svg = picture(&bars, &title("v(\"a:1\")\n  .e()")).unwrap();
        for text in ["step 2", "reading edges", "waiting", ".e()"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
