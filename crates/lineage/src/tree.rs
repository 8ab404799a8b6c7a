//! Rendering as a tree for terminals.
//!
//! Each version and each execution is written out once; at repetitions the line says `above`. An
//! execution reached again through a write that admits more of its reads shows only the additional ones there.

use super::Direction;
use super::event::Span;
use super::json::{edge_type_name, timestamp, write_json_value};
use super::result::{Child, Provenance, Stopped, bytes_of, names_of_stopped};
use esker_model::{Schema, Value, Version};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Options of the tree.
#[derive(Debug, Clone, Copy, Default)]
pub struct TreeStyle {
    /// Width in columns; notes of longer lines continue on the next line, and names are cut in the middle. `None` does neither.
    pub width: Option<usize>,
    /// Whether to draw with `|`, `+` and `-` for terminals and files without Unicode.
    pub ascii: bool,
    /// Whether to show every attribute of each execution, not only its command.
    pub attributes: bool,
    /// Formats of times in the tree.
    pub times: TimeFormat,
}

/// Formats of times in a tree.
#[derive(Debug, Clone, Copy)]
pub struct TimeFormat {
    /// Formats nanoseconds since 1970.
    pub time: fn(i64) -> String,
    /// Formats a version as a time.
    pub version: fn(Version) -> String,
}

impl Default for TimeFormat {
    fn default() -> Self {
        Self {
            time: timestamp,
            version: |version| version.to_string(),
        }
    }
}

/// Levels drawn as lines; deeper ones are drawn as a number and the last of them.
const LEVELS_DRAWN: usize = 20;
/// Maximum number of lines of a job's script.
const SCRIPT_LINES: usize = 10;
/// Maximum number of names in a message about a stop.
const NAMES_SHOWN: usize = 5;

struct Glyphs {
    tee: &'static str,
    corner: &'static str,
    bar: &'static str,
    blank: &'static str,
    above: &'static str,
    cut: &'static str,
}

const UNICODE: Glyphs = Glyphs {
    tee: "├─ ",
    corner: "└─ ",
    bar: "│  ",
    blank: "   ",
    above: "↑ above",
    cut: "…",
};

const ASCII: Glyphs = Glyphs {
    tee: "|- ",
    corner: "`- ",
    bar: "|  ",
    blank: "   ",
    above: "^ above",
    cut: "...",
};

/// Renders the result as a tree, with a last line that tells whether it is complete; an impact also lists executions,
/// files and bytes by user.
pub fn render_tree(found: &Provenance, schema: &Schema, style: &TreeStyle) -> String {
    let mut tree = Tree {
        found,
        schema,
        style,
        glyphs: if style.ascii { &ASCII } else { &UNICODE },
        index: (0..).zip(&found.vertices).map(|(i, v)| (v.id, i)).collect(),
        spans: found.edges.iter().map(|e| Span::of(&e.edge)).collect(),
        shown: vec![None; found.nodes.len()],
        described: BTreeSet::new(),
        out: String::new(),
    };
    tree.draw();
    if found.direction == Direction::Impact {
        tree.by_user();
    }
    tree.summary();
    tree.out
}

/// A line to be drawn.
struct Item {
    child: Child,
    depth: usize,
    last: bool,
}

struct Tree<'a> {
    found: &'a Provenance,
    schema: &'a Schema,
    style: &'a TreeStyle,
    glyphs: &'static Glyphs,
    index: HashMap<esker_model::VertexId, u32>,
    spans: Vec<Span>,
    /// By node: the part drawn so far. Data: `All`; executions: the span through which they were reached.
    shown: Vec<Option<Drawn>>,
    /// Executions (indices into `vertices`) whose commands and scripts have been written.
    described: BTreeSet<u32>,
    out: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    All,
    Through(Span),
}

impl Tree<'_> {
    fn draw(&mut self) {
        // From a user, or if writers overlapped, there are several roots, and the target is their heading.
        let users_runs = self.found.roots.iter().any(|r| r.edge.is_some());
        let mut stack: Vec<Item> = Vec::new();
        if users_runs || self.found.roots.is_empty() {
            let heading = self.name(0);
            self.line("", &heading, "");
        }
        for (i, root) in self.found.roots.iter().enumerate().rev() {
            stack.push(Item {
                child: *root,
                depth: usize::from(users_runs),
                last: i + 1 == self.found.roots.len(),
            });
        }
        // open[d]: whether the line at depth d has siblings below.
        let mut open = vec![false; usize::from(users_runs)];
        while let Some(item) = stack.pop() {
            open.truncate(item.depth);
            let (kids, again) = self.children(&item);
            let lead = self.lead(&open, Some(item.last));
            open.push(!item.last && item.depth > 0);
            let mut under = self.lead(&open, None);
            let has_lines_below = !again && !kids.is_empty();
            under.push_str(if has_lines_below {
                self.glyphs.bar
            } else {
                self.glyphs.blank
            });
            self.node_line(&item, &lead, &under, again);
            if !again {
                self.attribute_lines(&item, &under);
            }
            let count = kids.len();
            for (i, child) in kids.into_iter().enumerate().rev() {
                stack.push(Item {
                    child,
                    depth: item.depth + 1,
                    last: i + 1 == count,
                });
            }
        }
    }

    /// Returns the children to draw under a node, and whether (some of) them have been drawn above.
    fn children(&mut self, item: &Item) -> (Vec<Child>, bool) {
        let found = self.found;
        let Some(node) = found.node(item.child.node) else {
            return (Vec::new(), false);
        };
        let root = item.depth == 0 || found.roots.contains(&item.child);
        let through = match item.child.edge {
            Some(edge) if node.execution && !root => self.spans.get(edge as usize).copied(),
            _ => None,
        };
        let before = self.shown.get(item.child.node as usize).copied().flatten();
        let admits = |through: Option<Span>, child: &Child| {
            let own = child.edge.and_then(|e| self.spans.get(e as usize));
            match (through, own) {
                (Some(through), Some(own)) => match found.direction {
                    Direction::Lineage => through.may_depend_on(own),
                    Direction::Impact => own.may_depend_on(&through),
                },
                _ => true,
            }
        };
        let drawn = |child: &Child| match before {
            None => false,
            Some(Drawn::All) => true,
            Some(Drawn::Through(span)) => admits(Some(span), child),
        };
        let children: Vec<Child> = if before == Some(Drawn::All) {
            Vec::new()
        } else {
            node.children
                .iter()
                .filter(|c| admits(through, c) && !drawn(c))
                .copied()
                .collect()
        };
        let more = match (before, through, found.direction) {
            (Some(Drawn::All), _, _) | (_, None, _) => Drawn::All,
            (_, Some(span), _) if !span.explicit => Drawn::All,
            (None, Some(span), _) => Drawn::Through(span),
            (Some(Drawn::Through(b)), Some(span), Direction::Lineage) => {
                Drawn::Through(if b.end >= span.end { b } else { span })
            }
            (Some(Drawn::Through(b)), Some(span), Direction::Impact) => {
                Drawn::Through(if b.start <= span.start { b } else { span })
            }
        };
        if let Some(slot) = self.shown.get_mut(item.child.node as usize) {
            *slot = Some(more);
        }
        (children, before.is_some() && !node.children.is_empty())
    }

    /// Returns the lines to the left of a node: `last` for its own connector, `None` for a line under it.
    fn lead(&self, open: &[bool], last: Option<bool>) -> String {
        let g = self.glyphs;
        let mut lead = String::new();
        let levels = open.get(1..).unwrap_or_default();
        let hidden = levels.len().saturating_sub(LEVELS_DRAWN);
        if hidden > 0 {
            let _ = write!(lead, "{}{hidden} ", g.cut);
        }
        for more in levels.get(hidden..).unwrap_or_default() {
            lead.push_str(if *more { g.bar } else { g.blank });
        }
        if !open.is_empty() {
            match last {
                Some(true) => lead.push_str(g.corner),
                Some(false) => lead.push_str(g.tee),
                None => {}
            }
        }
        lead
    }

    /// Writes a node after `lead`, and notes that do not fit after `under`.
    fn node_line(&mut self, item: &Item, lead: &str, under: &str, again: bool) {
        let found = self.found;
        let Some(node) = found.node(item.child.node) else {
            return;
        };
        let edge = item.child.edge.and_then(|e| found.edge(e));
        let mut name = String::new();
        if let Some(edge) = edge {
            let type_name = edge_type_name(self.schema, edge.edge.key.edge_type);
            name.push_str(phrase(&type_name));
            name.push(' ');
        }
        name.push_str(&self.name(node.vertex));
        let mut notes = Vec::new();
        let vertex = found.vertex(node.vertex);
        if item.child.concurrent || edge.is_some_and(|e| e.concurrent) {
            notes.push("(concurrent)".to_owned());
        }
        if vertex
            .and_then(|v| v.vertex.as_ref())
            .is_some_and(|v| v.deleted)
        {
            notes.push("(deleted)".to_owned());
        }
        if vertex.is_some_and(|v| v.vertex.is_none()) {
            notes.push("(never inserted)".to_owned());
        }
        if let Some(version) = node.version {
            notes.push(format!("version {}", (self.style.times.version)(version)));
        }
        if node.execution {
            notes.extend(self.execution_notes(node.vertex));
        }
        if let Some(n) = edge.and_then(|e| bytes_of(&e.edge)) {
            notes.push(bytes(n));
        }
        if let Some(reason) = node.stopped {
            notes.push(format!("[not followed: {}]", reason.name()));
        }
        if again {
            notes.push(self.glyphs.above.to_owned());
        }
        self.wrapped(lead, under, &name, &notes);
    }

    /// Returns a text attribute of a vertex.
    fn text(&self, vertex: u32, name: &str) -> Option<&str> {
        match self
            .found
            .vertex(vertex)?
            .vertex
            .as_ref()?
            .attribute(name)?
        {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Notes on an execution: name, times, state, account, user, executable, enclosing execution.
    fn execution_notes(&self, vertex: u32) -> Vec<String> {
        let mut notes: Vec<String> = self
            .text(vertex, "name")
            .map(printable)
            .into_iter()
            .collect();
        let attribute = |name| {
            let v = self.found.vertex(vertex)?.vertex.as_ref()?;
            match v.attribute(name)? {
                Value::Timestamp(t) => Some((self.style.times.time)(*t)),
                _ => None,
            }
        };
        match (attribute("start"), attribute("end")) {
            (Some(start), Some(end)) => notes.push(format!("{start} to {end}")),
            (Some(start), None) => notes.push(format!("from {start}")),
            (None, Some(end)) => notes.push(format!("to {end}")),
            (None, None) => {}
        }
        notes.extend(self.text(vertex, "state").map(printable));
        let account = self.text(vertex, "account");
        notes.extend(account.map(|account| format!("account {}", printable(account))));
        let types = &self.found.fact_types;
        for (word, types) in [
            ("run by", &types.run_by),
            ("exe", &types.executable),
            ("part of", &types.part_of),
        ] {
            for edge in self.found.facts_of(vertex, types) {
                if let Some(to) = self.index.get(&edge.edge.key.destination) {
                    notes.push(format!("{word} {}", self.name(*to)));
                }
            }
        }
        notes
    }

    fn attribute_lines(&mut self, item: &Item, lead: &str) {
        let found = self.found;
        let Some(node) = found.node(item.child.node).filter(|n| n.execution) else {
            return;
        };
        let Some(vertex) = found.vertex(node.vertex).and_then(|v| v.vertex.as_ref()) else {
            return;
        };
        self.program_lines(node.vertex, lead);
        self.enclosing_lines(node.vertex, lead);
        if !self.style.attributes {
            return;
        }
        let user = vertex.user.iter().map(|a| (a.name.as_str(), &a.value));
        for (name, value) in vertex
            .attributes
            .iter()
            .filter(|(n, _)| *n != "command")
            .chain(user)
        {
            let mut text = format!("{}: ", printable(name));
            match value {
                Value::String(s) => text.push_str(&printable(s)),
                value => write_json_value(&mut text, value),
            }
            self.line(lead, "", &text);
        }
    }

    /// Writes the command and the script of an execution.
    fn program_lines(&mut self, vertex: u32, lead: &str) {
        self.described.insert(vertex);
        let command = self.text(vertex, "command");
        let mut lines: Vec<String> = command
            .map(|command| format!("$ {}", printable(command)))
            .into_iter()
            .collect();
        if let Some(script) = self.text(vertex, "script") {
            let mut rest = script.lines();
            lines.extend(rest.by_ref().take(SCRIPT_LINES).map(printable));
            let left = rest.count();
            if left > 0 {
                let left = count(left, "more line", "more lines");
                lines.push(format!("{} {left}", self.glyphs.cut));
            }
        }
        for line in lines {
            self.line(lead, "", &line);
        }
    }

    /// Writes the executions that an execution is part of and that have a record: the state, account and script of its job.
    fn enclosing_lines(&mut self, vertex: u32, lead: &str) {
        let mut stack = vec![vertex];
        while let Some(part) = stack.pop() {
            let edges = self
                .found
                .facts_of(part, &self.found.fact_types.part_of)
                .filter_map(|edge| self.index.get(&edge.edge.key.destination));
            let wholes: Vec<u32> = edges.copied().collect();
            for whole in wholes {
                let recorded = ["state", "account", "script", "command"]
                    .iter()
                    .any(|name| self.text(whole, name).is_some());
                if recorded && !self.described.contains(&whole) {
                    let notes = self.execution_notes(whole);
                    let name = format!("in {}", self.name(whole));
                    let under = format!("{lead}   ");
                    self.wrapped(lead, &under, &name, &notes);
                    self.program_lines(whole, &under);
                    stack.push(whole);
                }
            }
        }
    }

    fn by_user(&mut self) {
        let groups = self.found.by_user();
        if groups.is_empty() {
            return;
        }
        self.out.push('\n');
        for group in groups {
            let user = group
                .user
                .map_or_else(|| "(user unknown)".to_owned(), |u| self.name(u));
            let notes = format!(
                "  {}, {}, {} written",
                count(group.executions.len(), "execution", "executions"),
                count(group.files.len(), "data object", "data objects"),
                bytes(group.bytes)
            );
            self.line("", &user, &notes);
        }
    }

    fn summary(&mut self) {
        let mut executions: Vec<u32> = Vec::new();
        let mut data: Vec<u32> = Vec::new();
        for node in &self.found.nodes {
            if node.execution {
                &mut executions
            } else {
                &mut data
            }
            .push(node.vertex);
        }
        for list in [&mut executions, &mut data] {
            list.sort_unstable();
            list.dedup();
        }
        let mut text = format!(
            "{}, {}; ",
            count(executions.len(), "execution", "executions"),
            count(data.len(), "data object", "data objects")
        );
        text.push_str(if self.found.complete {
            "complete"
        } else {
            "incomplete"
        });
        self.out.push('\n');
        self.line("", "", &text);
        for stop in &self.found.stopped {
            let text = self.stop_text(stop);
            self.line("", "", &text);
        }
    }

    fn stop_text(&self, stop: &Stopped) -> String {
        let names = names_of_stopped(stop, &self.found.vertices, self.schema);
        let shown: Vec<String> = names
            .iter()
            .take(NAMES_SHOWN)
            .map(|n| printable(n))
            .collect();
        let more = stop.vertices_left.saturating_sub(shown.len() as u64);
        let mut text = format!(
            "stopped ({}): {} not followed: {}",
            stop.reason.name(),
            count(
                usize::try_from(stop.vertices_left).unwrap_or(usize::MAX),
                "vertex",
                "vertices"
            ),
            shown.join(", ")
        );
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        text
    }

    fn name(&self, vertex: u32) -> String {
        self.found
            .vertex(vertex)
            .map(|v| printable(&v.name(self.schema)))
            .unwrap_or_default()
    }

    /// Writes a name and its notes. Notes that do not fit into the width continue on lines after `under`.
    fn wrapped(&mut self, lead: &str, under: &str, name: &str, notes: &[String]) {
        let chars = |s: &str| s.chars().count();
        let room = self.style.width.unwrap_or(usize::MAX);
        let (mut name, mut line, mut used) = (name, String::new(), chars(lead) + chars(name));
        let mut lead = lead;
        for note in notes {
            let more = chars(note) + 2;
            // A line has at least one note, or the name.
            if used + more > room && !(name.is_empty() && line.is_empty()) {
                self.line(lead, name, &line);
                (name, lead) = ("", under);
                line.clear();
                used = chars(lead);
            }
            if !(name.is_empty() && line.is_empty()) {
                line.push_str("  ");
                used += 2;
            }
            line.push_str(note);
            used += chars(note);
        }
        self.line(lead, name, &line);
    }

    /// Writes a line. If it is too long, the middle of the name is cut before the end of the notes.
    fn line(&mut self, lead: &str, name: &str, notes: &str) {
        let chars = |s: &str| s.chars().count();
        self.out.push_str(lead);
        match self
            .style
            .width
            .map(|w| w.saturating_sub(chars(lead)).max(16))
        {
            Some(room) if chars(name) + chars(notes) > room => {
                let least = chars(name).min(room / 2);
                let name_room = room.saturating_sub(chars(notes)).max(least);
                let name = cut_middle(name, name_room, self.glyphs.cut);
                let left = room.saturating_sub(chars(&name));
                self.out.push_str(&name);
                self.out.push_str(&cut_end(notes, left, self.glyphs.cut));
            }
            _ => {
                self.out.push_str(name);
                self.out.push_str(notes);
            }
        }
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        self.out.push('\n');
    }
}

/// Phrases for the relations of Table 1; other types are printed as they are.
fn phrase(edge_type: &str) -> &str {
    match edge_type {
        "wasWrittenBy" => "written by",
        "wasReadBy" => "read by",
        "exedBy" => "executed by",
        "write" => "wrote",
        "run" => "ran",
        other => other,
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Formats bytes: exact below 1,024, else three digits and a binary unit.
fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// Escapes control characters, so that a terminal displays the text and does not interpret it.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Directional overrides can make a path look like another one.
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn cut_end(text: &str, room: usize, cut: &str) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let keep = room.saturating_sub(cut.chars().count());
    let mut out: String = text.chars().take(keep).collect();
    out.extend(cut.chars().take(room - keep));
    out
}

fn cut_middle(text: &str, room: usize, cut: &str) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let keep = room.saturating_sub(cut.chars().count());
    let (head, tail) = (keep / 2, keep - keep / 2);
    let mut out: String = text.chars().take(head).collect();
    out.push_str(cut);
    out.extend(text.chars().skip(length - tail));
    out
}
