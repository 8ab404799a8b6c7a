//! Output of a vertex's placement.

use crate::args::RowFormat;
use esker_cluster::Kind;
use esker_cluster::placement::{Partition, Shard, SplitState, Splits, Tree};
use esker_model::VertexId;
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::{count, counted};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

/// Maximum sizes of a bitmap (in bits) and of a tree (in shards) that are printed on one line.
const ON_A_LINE_MAX: u32 = 64;
const TREE_ON_A_LINE_MAX: u32 = 16;

/// A vertex with the partitions of its edges.
pub(super) struct View {
    pub(super) vertex: String,
    pub(super) id: VertexId,
    pub(super) kind: Kind,
    pub(super) threshold: u64,
    pub(super) servers: u32,
    pub(super) vnodes: Option<u32>,
    /// The home shard of the vertex.
    pub(super) home: Shard,
    /// The server of each shard.
    pub(super) server_of: Vec<u32>,
    /// The partition tree, if the placement splits.
    pub(super) tree: Option<Tree>,
    pub(super) splits: Splits,
    /// The partitions, in order.
    pub(super) parts: Vec<PartitionView>,
}

/// One partition with its edges.
pub(super) struct PartitionView {
    pub(super) partition: Partition,
    /// Level of the partition's node in the tree.
    pub(super) level: u32,
    pub(super) place: Shard,
    pub(super) server: u32,
    pub(super) edges: u64,
    /// Number of edges whose destination's home is on that server.
    pub(super) at_destination: u64,
}

impl View {
    fn edges(&self) -> u64 {
        self.parts.iter().map(|part| part.edges).sum()
    }

    fn home_server(&self) -> u32 {
        self.server_of
            .get(self.home.0 as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Returns GraphMeta's two metrics of a scan of the vertex: communication, and the reads of the busiest server.
    fn scan(&self) -> (u64, u64) {
        let mut reads: BTreeMap<u32, u64> = BTreeMap::new();
        let mut comm = 0;
        for part in self.parts.iter().filter(|part| part.edges > 0) {
            *reads.entry(part.server).or_default() += part.edges;
            comm += part.edges - part.at_destination;
        }
        let elsewhere = reads.keys().filter(|server| **server != self.home_server());
        (
            comm + elsewhere.count() as u64,
            reads.values().copied().max().unwrap_or(0),
        )
    }

    /// Returns the row of the vertex's splits in hexadecimal, if it has split.
    fn row(&self) -> Option<String> {
        if self.splits.is_unsplit() {
            return None;
        }
        let state = SplitState::new(self.kind, self.tree?, self.splits.clone())?;
        let hex = state.encode().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Some(hex)
    }

    /// Formats a shard: `S7`, or `S7 v230`.
    fn place_name(&self, place: Shard) -> String {
        let server = self.server_of.get(place.0 as usize).copied().unwrap_or(0);
        match self.vnodes {
            None => server_name(server),
            Some(_) => format!("{} v{}", server_name(server), place.0),
        }
    }

    fn place_of(&self, partition: Partition) -> Shard {
        let places = self.server_of.len() as u32;
        Shard((self.home.0 + partition.0) % places)
    }

    pub(super) fn print(&self, context: &mut Context) -> io::Result<()> {
        let vnodes = self.vnodes.map_or(String::new(), |k| {
            format!(
                " with {}",
                counted(k.into(), "virtual node", "virtual nodes")
            )
        });
        let threshold = match self.tree {
            Some(_) => format!("; split threshold {}", count(self.threshold)),
            None => String::new(),
        };
        let out = &mut context.out;
        writeln!(
            out,
            "{}  {}; home {}; {} over {}{vnodes}{threshold}",
            self.vertex,
            counted(self.edges(), "edge", "edges"),
            self.place_name(self.home),
            self.kind,
            counted(self.servers.into(), "server", "servers"),
        )?;
        let (comm, reads) = self.scan();
        writeln!(
            out,
            "a scan: StatComm {}, StatReads {}",
            count(comm),
            count(reads)
        )?;
        if let Some(tree) = self.tree {
            self.print_tree(tree, out)?;
        }
        writeln!(out)?;
        let columns: &[&str] = match self.vnodes {
            None => &["partition", "level", "server", "edges", "at_destination"],
            Some(_) => &[
                "partition",
                "level",
                "server",
                "vnode",
                "edges",
                "at_destination",
            ],
        };
        let mut rows = Rows::new(out, RowFormat::Table, context.style, columns);
        // Without a tree there is one partition per server; empty ones are not printed.
        for part in self
            .parts
            .iter()
            .filter(|p| self.tree.is_some() || p.edges > 0)
        {
            let mut cells = vec![
                Cell::Count(part.partition.0.into()),
                Cell::Count(part.level.into()),
                server_name(part.server).into(),
            ];
            if self.vnodes.is_some() {
                cells.push(Cell::Count(part.place.0.into()));
            }
            cells.push(Cell::Count(part.edges));
            cells.push(Cell::Count(part.at_destination));
            rows.row(cells)?;
        }
        rows.finish().map(|_| ())
    }

    fn print_tree(&self, tree: Tree, out: &mut dyn io::Write) -> io::Result<()> {
        if tree.shards() <= TREE_ON_A_LINE_MAX && self.vnodes.is_none() {
            let levels: Vec<String> = self.levels(tree).iter().map(|l| l.join(" ")).collect();
            writeln!(out, "its tree: {}", levels.join(" | "))?;
        }
        let bits: String = (0..tree.shards().min(ON_A_LINE_MAX))
            .map(|p| {
                if self.splits.contains(Partition(p)) {
                    '1'
                } else {
                    '0'
                }
            })
            .collect();
        let more = if tree.shards() > ON_A_LINE_MAX {
            "..."
        } else {
            ""
        };
        match self.row() {
            Some(row) => writeln!(out, "bitmap: {bits}{more}, stored as {row}")?,
            None => writeln!(out, "bitmap: {bits}{more}, not stored: it has not split")?,
        }
        writeln!(out)?;
        let edges = self.parts.iter().map(|p| (p.partition, p.edges)).collect();
        self.print_node(&TreeNode { tree, edges }, Partition(0), 0, "", "", out)?;
        Ok(())
    }

    /// Prints a node and its subtree, left before right.
    fn print_node(
        &self,
        node: &TreeNode,
        partition: Partition,
        level: u32,
        first: &str,
        rest: &str,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let name = self.place_name(self.place_of(partition));
        let edges = node.under(&self.splits, partition, level);
        writeln!(out, "{first}{name}  {}", count(edges))?;
        let Some(child) = node.child(&self.splits, partition, level) else {
            return Ok(());
        };
        for (under, branch, bar) in [(partition, "├─ ", "│  "), (child, "└─ ", "   ")] {
            let (first, rest) = (format!("{rest}{branch}"), format!("{rest}{bar}"));
            self.print_node(node, under, level + 1, &first, &rest, out)?;
        }
        Ok(())
    }

    /// Returns the levels of the complete tree as names of shards.
    fn levels(&self, tree: Tree) -> Vec<Vec<String>> {
        let name = |p: &Partition| self.place_name(self.place_of(*p));
        tree.levels()
            .iter()
            .map(|level| level.iter().map(name).collect())
            .collect()
    }

    pub(super) fn json(&self) -> Json {
        let parts: Vec<Json> = self
            .parts
            .iter()
            .map(|part| {
                json!({
                    "partition": part.partition.0,
                    "level": part.level,
                    "server": server_name(part.server),
                    "vnode": self.vnodes.map(|_| part.place.0),
                    "edges": part.edges,
                    "at_destination": part.at_destination,
                })
            })
            .collect();
        let (comm, reads) = self.scan();
        json!({
            "vertex": self.vertex,
            "id": self.id.to_string(),
            "placement": self.kind.name(),
            "servers": self.servers,
            "vnodes": self.vnodes,
            "threshold": self.threshold,
            "home": server_name(self.home_server()),
            "home_vnode": self.vnodes.map(|_| self.home.0),
            "edges": self.edges(),
            "statcomm": comm,
            "statreads": reads,
            "tree": self.tree.map(|tree| self.levels(tree)),
            "state": self.row(),
            "partitions": parts,
        })
    }
}

/// State for printing the tree.
struct TreeNode {
    tree: Tree,
    edges: BTreeMap<Partition, u64>,
}

impl TreeNode {
    /// Returns the right child of a node, if it has split.
    fn child(&self, splits: &Splits, partition: Partition, level: u32) -> Option<Partition> {
        let child = self.tree.child(partition, level)?;
        splits.contains(child).then_some(child)
    }

    /// Returns the number of edges below a node.
    fn under(&self, splits: &Splits, partition: Partition, level: u32) -> u64 {
        match self.child(splits, partition, level) {
            None => self.edges.get(&partition).copied().unwrap_or(0),
            Some(child) => {
                self.under(splits, partition, level + 1) + self.under(splits, child, level + 1)
            }
        }
    }
}

/// Formats a server as the paper does, from S1.
fn server_name(server: u32) -> String {
    format!("S{}", server + 1)
}
