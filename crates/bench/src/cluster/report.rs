//! The results of a cluster benchmark: rows with columns chosen by each workload, checked targets, and the machine.

use super::args::Shared;
use crate::machine;
use anyhow::Context as _;
use esker_terminal::args::RowFormat;
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::{counted, size};
use serde_json::{Value as Json, json};

/// A target for a figure.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) what: String,
    pub(super) measured: f64,
    pub(super) bound: Bound,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Wish {
    fn met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.measured <= most,
            Bound::AtLeast(least) => self.measured >= least,
        }
    }

    fn bound_text(&self) -> String {
        match self.bound {
            Bound::AtMost(most) => format!("at most {most:.2}"),
            Bound::AtLeast(least) => format!("at least {least:.2}"),
        }
    }
}

/// The results of a run.
pub(super) struct ClusterReport {
    workload: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) wishes: Vec<Wish>,
    /// Notes that are printed for people.
    pub(super) notes: Vec<String>,
    pub(super) settings: Json,
}

impl ClusterReport {
    pub(super) fn new(workload: &'static str) -> Self {
        Self {
            workload,
            columns: &[],
            rows: Vec::new(),
            wishes: Vec::new(),
            notes: Vec::new(),
            settings: Json::Null,
        }
    }

    pub(super) fn wish(&mut self, what: impl Into<String>, measured: f64, bound: Bound) {
        self.wishes.push(Wish {
            what: what.into(),
            measured,
            bound,
        });
    }

    pub(super) fn print(&self, shared: &Shared, context: &mut Context) -> anyhow::Result<()> {
        let json = self.json(shared);
        if let Some(path) = &shared.json {
            let text = serde_json::to_string_pretty(&json)? + "\n";
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let format = shared.format.format;
        if format == RowFormat::Json {
            writeln!(context.out, "{}", serde_json::to_string_pretty(&json)?)?;
            return Ok(());
        }
        if !self.rows.is_empty() {
            let mut rows = Rows::new(&mut context.out, format, context.style, self.columns);
            for row in &self.rows {
                rows.row(row.clone())?;
            }
            rows.finish()?;
        }
        if format != RowFormat::Table {
            return Ok(());
        }
        writeln!(context.out)?;
        for wish in &self.wishes {
            writeln!(
                context.out,
                "{}: {:.2}, {} ({})",
                wish.what,
                wish.measured,
                wish.bound_text(),
                if wish.met() { "yes" } else { "NO" }
            )?;
        }
        for note in &self.notes {
            writeln!(context.out, "{note}")?;
        }
        writeln!(
            context.out,
            "machine: {}, {} of memory; servers and clients share it",
            counted(machine::cores() as u64, "core", "cores"),
            size(machine::total_memory())
        )?;
        Ok(())
    }

    fn json(&self, shared: &Shared) -> Json {
        let rows = self.rows.iter().map(|row| {
            let pairs = self.columns.iter().zip(row);
            Json::Object(
                pairs
                    .map(|(name, cell)| ((*name).to_owned(), cell.json()))
                    .collect(),
            )
        });
        let wishes = self.wishes.iter().map(|wish| {
            json!({
                "wish": wish.what,
                "measured": wish.measured,
                "bound": wish.bound_text(),
                "met": wish.met(),
            })
        });
        json!({
            "workload": self.workload,
            "machine": { "cores": machine::cores(), "memory_bytes": machine::total_memory() },
            "settings": self.settings,
            "shared": {
                "vnodes": shared.vnodes,
                "server_memory_bytes": shared.server_memory,
                "property_bytes": shared.property_bytes,
                "rounds": shared.rounds,
            },
            "results": rows.collect::<Vec<_>>(),
            "wishes": wishes.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

/// A number with `digits` decimals for display, unrounded in JSON.
pub(super) fn number(value: f64, digits: usize) -> Cell {
    // 0/0, if a run was too short for the clocks.
    let json = if value.is_finite() {
        json!(value)
    } else {
        Json::Null
    };
    Cell::Json(json, format!("{value:.digits$}"))
}

/// A rate, rounded to a whole number.
pub(super) fn rate(value: f64) -> Cell {
    Cell::Count(value.round() as u64)
}

/// The ratio of two figures.
pub(super) fn ratio(value: f64, of: f64) -> Cell {
    number(value / of, 2)
}
