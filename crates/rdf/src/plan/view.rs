//! A plan as users see it: as lines of text and as JSON.

use std::fmt::Write as _;

/// An operator of a plan, with what the executor recorded if the query ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanNode {
    /// The operator and its arguments.
    pub label: String,
    /// Estimated number of solutions.
    pub estimate: Option<f64>,
    /// Whether the estimate is an upper bound.
    pub at_most: bool,
    /// Decisions that are made while the query runs.
    pub adaptive: Option<&'static str>,
    /// Decisions that were made, each with the number of runs.
    pub chosen: Vec<(String, u64)>,
    /// Counts of the runs; `None` if the query did not run, or counts would reveal what a view hides.
    pub run: Option<PlanRun>,
    /// The operator's inputs and steps.
    pub children: Vec<Self>,
}

/// Counts of an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanRun {
    /// Number of runs of the operator.
    pub runs: u64,
    /// Number of solutions that the operator read in all runs.
    pub rows_in: u64,
    /// Number of solutions that the operator returned in all runs.
    pub rows_out: u64,
    /// Time of all runs in nanoseconds. It includes the time of the inputs; the time of a step excludes that of later steps.
    pub nanos: u64,
}

impl PlanNode {
    /// Returns the plan as text, one operator a line, inputs indented.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.put_lines(0, &mut lines);
        lines
    }

    fn put_lines(&self, depth: usize, to: &mut Vec<String>) {
        let indent = "  ".repeat(depth);
        let mut line = format!("{indent}{}", self.label);
        if let Some(rows) = self.estimate {
            let word = if self.at_most { "at most ~" } else { "~" };
            let _ = write!(line, "  ({word}{rows:.0} rows)");
        }
        if let Some(run) = self.run {
            let _ = write!(line, "  [{}]", run.text());
        }
        to.push(line);
        if self.adaptive.is_some() || !self.chosen.is_empty() {
            let mut parts: Vec<String> = Vec::new();
            parts.extend(self.adaptive.map(|what| format!("adaptive: {what}")));
            let chosen = self.chosen.iter().map(|(what, runs)| match runs {
                1 => what.clone(),
                n => format!("{what} ({n} times)"),
            });
            let chosen: Vec<String> = chosen.collect();
            if !chosen.is_empty() {
                parts.push(format!("chosen: {}", chosen.join("; ")));
            }
            to.push(format!("{indent}    {}", parts.join("; ")));
        }
        for child in &self.children {
            child.put_lines(depth + 1, to);
        }
    }

    /// Returns the plan as JSON.
    pub fn json(&self) -> String {
        let mut out = String::new();
        self.put_json(&mut out);
        out
    }

    fn put_json(&self, out: &mut String) {
        out.push_str("{\"operator\":");
        put_text(&self.label, out);
        if let Some(rows) = self.estimate.filter(|rows| rows.is_finite()) {
            let _ = write!(out, ",\"estimate\":{rows:.0},\"at_most\":{}", self.at_most);
        }
        if let Some(what) = self.adaptive {
            out.push_str(",\"adaptive\":");
            put_text(what, out);
        }
        if !self.chosen.is_empty() {
            out.push_str(",\"chosen\":[");
            for (i, (what, runs)) in self.chosen.iter().enumerate() {
                out.push_str(if i == 0 {
                    "{\"choice\":"
                } else {
                    ",{\"choice\":"
                });
                put_text(what, out);
                let _ = write!(out, ",\"runs\":{runs}}}");
            }
            out.push(']');
        }
        if let Some(run) = self.run {
            let _ = write!(
                out,
                ",\"runs\":{},\"rows_in\":{},\"rows_out\":{},\"nanos\":{}",
                run.runs, run.rows_in, run.rows_out, run.nanos
            );
        }
        if !self.children.is_empty() {
            out.push_str(",\"inputs\":[");
            for (i, child) in self.children.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                child.put_json(out);
            }
            out.push(']');
        }
        out.push('}');
    }
}

impl PlanRun {
    fn text(self) -> String {
        if self.runs == 0 {
            return "not run".into();
        }
        let mut text = String::new();
        if self.runs > 1 {
            let _ = write!(text, "{} runs, ", self.runs);
        }
        if self.rows_in > 0 {
            let _ = write!(text, "{} in, ", self.rows_in);
        }
        let _ = write!(text, "{} out", self.rows_out);
        if self.nanos > 0 {
            let _ = write!(text, ", {:.3} ms", self.nanos as f64 / 1e6);
        }
        text
    }
}

/// Appends a text as a JSON string.
fn put_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
