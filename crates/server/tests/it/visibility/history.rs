//! Random histories with the subset of steps that a limited user may see at the end.

use esker_model::Properties;
use esker_model::namespace::NewFile;
use esker_model::object::{Identity, Principal};
use esker_testkit::rng::Rng;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Begin of the histories in milliseconds since 1970, and interval between steps.
pub(super) const BEGIN: u64 = 1_750_000_000_000;
pub(super) const STEP: u64 = 1_000;
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";

pub(super) fn person() -> Principal {
    Principal {
        uid: 1001,
        gids: vec![1001, 100],
    }
}

/// Independent implementation of the visibility rule.
pub(super) fn lets(owner: i64, group: Option<i64>, mode: u32, bits: u32) -> bool {
    let who = person();
    let class = if owner == who.uid {
        6
    } else if group.is_some_and(|g| who.gids.contains(&g)) {
        3
    } else {
        0
    };
    mode >> class & bits == bits
}

/// One step of a history.
pub(super) enum Step {
    Make {
        path: String,
        make: NewFile,
    },
    Vertex {
        name: String,
        attributes: Properties,
        tags: Properties,
    },
    Edge {
        source: String,
        edge_type: &'static str,
        destination: String,
        properties: Properties,
    },
    Object {
        identity: Identity,
        attributes: Properties,
        tags: Properties,
    },
    Tag {
        identity: Identity,
        tags: Properties,
    },
    Delete {
        identity: Identity,
    },
    /// Renames a file or directory.
    Rename {
        from: String,
        to: String,
    },
    /// Adds a name to a file.
    Link {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    /// Sets the times of a directory, which depend on all its entries.
    Date {
        path: String,
    },
}

/// A directory that only user 0 may enter, in both databases. It has the hidden names of files that the limited user sees by other names.
const VAULT: &str = "/vault";

struct Entry {
    name: String,
    directory: bool,
    owner: u32,
    group: u32,
    mode: u32,
    /// Size of a file in bytes.
    size: u64,
    /// Directory of its creation: an index of the list, or `None` for the root.
    parent: Option<usize>,
    /// Whether it is created in the vault and becomes visible later. Its id depends on where it is created, so it is created there in
    /// both databases.
    vault: bool,
    fate: Fate,
}

/// Later change of a file, after all files are created. The flag says whether it comes after (`true`) or before (`false`) the file's
/// vertex is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// Moves to that directory.
    Moves(Option<usize>, bool),
    /// Gets another name in that directory.
    Linked(Option<usize>),
    Unlinked,
}

/// The files and directories of a history.
struct Tree(Vec<Entry>);

impl Tree {
    fn random(rng: &mut Rng) -> Self {
        let mut tree = Self(Vec::new());
        for i in 0..34 {
            let directories: Vec<usize> = tree.directories().collect();
            let some = |rng: &mut Rng| {
                (!directories.is_empty() && rng.percent(85)).then(|| *rng.pick(&directories))
            };
            let parent = some(rng);
            let directory = i < 8 || rng.percent(15);
            let mode = if rng.percent(55) {
                if directory { 0o755 } else { 0o644 }
            } else if directory {
                *rng.pick(&[0o700, 0o711, 0o750, 0o744, 0o705])
            } else {
                *rng.pick(&[0o600, 0o640, 0o604, 0o000])
            };
            let ending = *rng.pick(&["dat", "h5", "txt"]);
            let mut fate = match rng.number_below(8) {
                _ if directory => Fate::Stays,
                0 | 1 => Fate::Moves(some(rng), rng.percent(50)),
                2 => Fate::Linked(some(rng)),
                3 => Fate::Unlinked,
                _ => Fate::Stays,
            };
            let mut vault = false;
            if let Fate::Moves(to, _) | Fate::Linked(to) = fate {
                vault = tree.enters(to) && !tree.enters(parent);
                // The vertex is written under the name of the creation, before the move.
                if let (Fate::Moves(to, _), true) = (fate, vault) {
                    fate = Fate::Moves(to, false);
                }
            }
            tree.0.push(Entry {
                name: if directory {
                    format!("dir{i}")
                } else {
                    format!("file{i}.{ending}")
                },
                directory,
                owner: *rng.pick(&[0, 1001, 1002, 1002]),
                group: *rng.pick(&[0, 100, 200]),
                mode,
                size: 10 + rng.number_below(10_000) as u64,
                parent,
                vault,
                fate,
            });
        }
        tree
    }

    fn directory(&self, which: Option<usize>) -> String {
        which.map_or_else(String::new, |i| self.path(i))
    }

    /// Path of the creation.
    fn path(&self, which: usize) -> String {
        let entry = &self.0[which];
        let above = if entry.vault {
            VAULT.to_owned()
        } else {
            self.directory(entry.parent)
        };
        format!("{above}/{}", entry.name)
    }

    /// Later or additional path.
    fn other_path(&self, which: usize) -> Option<String> {
        match self.0[which].fate {
            Fate::Moves(to, _) | Fate::Linked(to) => {
                Some(format!("{}/at{}", self.directory(to), self.0[which].name))
            }
            Fate::Stays | Fate::Unlinked => None,
        }
    }

    /// Whether the limited user may enter a directory.
    fn enters(&self, mut directory: Option<usize>) -> bool {
        while let Some(i) = directory {
            let entry = &self.0[i];
            if !lets(entry.owner.into(), Some(entry.group.into()), entry.mode, 1) {
                return false;
            }
            directory = entry.parent;
        }
        true
    }

    /// Whether the path of the creation is accessible to the limited user.
    fn first_seen(&self, which: usize) -> bool {
        let entry = &self.0[which];
        !entry.vault && self.enters(entry.parent)
    }

    /// Whether the entry is accessible to the limited user at the end.
    fn gets_at(&self, which: usize) -> bool {
        let entry = &self.0[which];
        match entry.fate {
            Fate::Stays | Fate::Unlinked => self.first_seen(which),
            Fate::Moves(to, _) => self.enters(to),
            Fate::Linked(to) => self.first_seen(which) || self.enters(to),
        }
    }

    /// Whether the limited user may read the entry at the end.
    fn reads(&self, which: usize) -> bool {
        let entry = &self.0[which];
        self.gets_at(which) && lets(entry.owner.into(), Some(entry.group.into()), entry.mode, 4)
    }

    fn directories(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|i| self.0[*i].directory)
    }
}

/// Steps of a history, each with its replacement in the database without hidden data.
#[derive(Default)]
pub(super) struct History {
    #[expect(clippy::option_option, reason = "the same step, another one, or none")]
    pub(super) steps: Vec<(Step, Option<Option<Step>>)>,
    /// Names of vertices, paths and identities for requests, visible or not.
    pub(super) vertices: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) identities: Vec<Identity>,
    /// RDF graphs: name (empty for the default graph), rights, triples, and whether the limited user may read it.
    pub(super) graphs: Vec<(String, String, String, bool)>,
    /// Rules of inference for the RDF graphs.
    pub(super) inference: &'static str,
}

impl History {
    fn push(&mut self, step: Step, seen: bool) {
        self.steps.push((step, (!seen).then_some(None)));
    }

    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut history = Self::default();
        let mut tree = Tree::random(&mut rng);
        history.make(&tree);
        history.change(&tree, false);
        let seen = history.files(&mut rng, &tree);
        history.runs(&mut rng, &seen);
        history.change(&tree, true);
        history.move_directories(&mut rng, &mut tree);
        history.objects(&mut rng);
        history.inference = *rng.pick(&["none", "none", "rdfs", "owl-rl"]);
        for i in 0..6 {
            history.rdf(&mut rng, i);
        }
        history
    }

    /// Adds an RDF graph; the first is the default one. All graphs share terms: the first graph with a term determines its number.
    fn rdf(&mut self, rng: &mut Rng, which: usize) {
        let owner = *rng.pick(&[0, 1001, 1002]);
        let mode = *rng.pick(&[0o644, 0o600, 0o640]);
        let name = match which {
            0 => String::new(),
            n => format!("http://x.example/g{}", n - 1),
        };
        let subject = if which == 0 {
            "urn:esker:default"
        } else {
            &name
        };
        let rights = format!(
            "<{subject}> <urn:esker:terms/owner> {owner} ; <urn:esker:terms/group> 100 ; <urn:esker:terms/mode> \"{mode:o}\" ."
        );
        let seen = lets(owner, Some(100), mode, 4);
        let mut triples = format!(
            "<{subject}#a> <http://x.example/p> 1 , 2 . <{subject}#b> <http://x.example/q> \"{subject}\" ."
        );
        for _ in 0..4 {
            let (s, p, o) = (
                rng.number_below(6),
                rng.number_below(3),
                rng.number_below(6),
            );
            let _ = write!(
                triples,
                "<http://x.example/s{s}> <http://x.example/p{p}> <http://x.example/s{o}> , \"{o}.5\"^^<http://www.w3.org/2001/XMLSchema#double> ; a <http://x.example/c{p}> ."
            );
        }
        // Triples that these imply in other graphs must reveal nothing of this graph. The properties of rights occur in them, too.
        for _ in 0..3 {
            let (a, b) = (rng.number_below(3), rng.number_below(3));
            let _ = match rng.number_below(5) {
                0 => write!(
                    triples,
                    "<http://x.example/c{a}> <{RDFS}subClassOf> <http://x.example/c{b}> ."
                ),
                1 => write!(
                    triples,
                    "<http://x.example/p{a}> <{RDFS}subPropertyOf> <http://x.example/p{b}> ."
                ),
                2 => write!(
                    triples,
                    "<http://x.example/p{a}> <{RDFS}domain> <http://x.example/c{b}> ."
                ),
                3 => write!(
                    triples,
                    "<urn:esker:terms/group> <{RDFS}subPropertyOf> <urn:esker:terms/owner> ."
                ),
                _ => write!(
                    triples,
                    "<urn:esker:terms/owner> <{RDFS}domain> <http://x.example/c{b}> ."
                ),
            };
        }
        self.graphs.push((name, rights, triples, seen));
    }

    /// Creates the directories and files.
    fn make(&mut self, tree: &Tree) {
        let step = |path: String, make: NewFile| Step::Make { path, make };
        let vault = NewFile::new(0o4_0700, 0, 0);
        self.push(step(VAULT.into(), vault), true);
        for (i, entry) in tree.0.iter().enumerate() {
            let kind = if entry.directory { 0o4_0000 } else { 0o10_0000 };
            let mut make = NewFile::new(kind | entry.mode, entry.owner, entry.group);
            if !entry.directory {
                make.size = entry.size;
                make.blocks = make.size.div_ceil(512);
            }
            let above = tree.directory(entry.parent);
            // The number of links of a directory (as in `stat`) counts its directories, hidden ones included.
            let counted = entry.directory && entry.parent.is_none_or(|p| tree.gets_at(p));
            let instead = (!tree.gets_at(i)).then(|| {
                counted.then(|| {
                    let other = NewFile::new(0o4_0000, 0, 0);
                    step(format!("{above}/x{i}"), other)
                })
            });
            self.steps.push((step(tree.path(i), make), instead));
            self.paths.push(tree.path(i));
        }
    }

    /// Moves, links and removes files, early or late according to their fate.
    fn change(&mut self, tree: &Tree, late: bool) {
        for (i, entry) in tree.0.iter().enumerate() {
            let (from, to) = (tree.path(i), tree.other_path(i).unwrap_or_default());
            let hidden = format!("{VAULT}/{}", entry.name);
            let sees = tree.gets_at(i);
            match entry.fate {
                Fate::Moves(_, then) if then == late => {
                    let to = to.clone();
                    self.push(Step::Rename { from, to }, sees);
                }
                Fate::Linked(place) if !late => {
                    let link = |to: &str| Step::Link {
                        from: from.clone(),
                        to: to.to_owned(),
                    };
                    // The number of links of a file counts hidden names, too.
                    let to_less = if tree.enters(place) { &to } else { &hidden };
                    let instead = sees.then(|| link(to_less));
                    self.steps.push((link(&to), Some(instead)));
                }
                Fate::Unlinked if late => self.push(Step::Unlink { path: from }, sees),
                _ => continue,
            }
            if !to.is_empty() {
                self.vertices.push(format!("file:{to}"));
                self.paths.push(to);
            }
        }
    }

    /// Renames some directories in place; then sets the times of all, which depend on hidden entries.
    fn move_directories(&mut self, rng: &mut Rng, tree: &mut Tree) {
        for i in tree.directories().collect::<Vec<_>>() {
            let from = tree.path(i);
            if rng.percent(20) {
                tree.0[i].name = format!("moved{i}");
                let to = tree.path(i);
                self.vertices.push(format!("directory:{to}"));
                self.paths.push(to.clone());
                self.push(Step::Rename { from, to }, tree.gets_at(i));
            }
        }
        for i in tree.directories() {
            let path = tree.path(i);
            self.push(Step::Date { path }, tree.gets_at(i));
        }
        for path in ["/", VAULT] {
            self.push(Step::Date { path: path.into() }, true);
        }
    }

    /// Writes vertices of some of the files; returns their names, and whether the limited user sees them.
    fn files(&mut self, rng: &mut Rng, tree: &Tree) -> Vec<(String, bool)> {
        let mut known = Vec::new();
        for (i, entry) in tree.0.iter().enumerate() {
            let kind = if entry.directory { "directory" } else { "file" };
            let path = match entry.fate {
                Fate::Moves(_, false) => tree.other_path(i).unwrap_or_default(),
                _ => tree.path(i),
            };
            let mut name = format!("{kind}:{path}");
            self.vertices.push(name.clone());
            let seen = tree.reads(i);
            if !rng.percent(75) {
                continue;
            }
            if let (Fate::Linked(_), false) = (entry.fate, tree.first_seen(i)) {
                name = format!("{kind}:{}", tree.other_path(i).unwrap_or_default());
            }
            let tags = some_tags(rng, "file");
            self.push(
                Step::Vertex {
                    name: name.clone(),
                    attributes: Properties::new(),
                    tags,
                },
                seen,
            );
            if !entry.directory {
                known.push((name, seen));
            }
        }
        for i in 0..4 {
            let name = format!("file:/elsewhere/e{i}.dat");
            self.vertices.push(name.clone());
            self.push(
                Step::Vertex {
                    name: name.clone(),
                    attributes: Properties::new().with("size", i),
                    tags: Properties::new(),
                },
                true,
            );
            known.push((name, true));
        }
        known
    }

    /// Adds jobs that read and wrote files.
    fn runs(&mut self, rng: &mut Rng, files: &[(String, bool)]) {
        for (user, name) in [("user:1001", "ada"), ("user:1002", "bob")] {
            self.vertices.push(user.into());
            self.push(
                Step::Vertex {
                    name: user.into(),
                    attributes: Properties::new().with("name", name),
                    tags: Properties::new(),
                },
                true,
            );
        }
        for n in 0..6 {
            let job = format!("job:{n}");
            self.vertices.push(job.clone());
            self.push(
                Step::Vertex {
                    name: job.clone(),
                    attributes: Properties::new(),
                    tags: some_tags(rng, "job"),
                },
                true,
            );
            let user = *rng.pick(&["user:1001", "user:1002"]);
            self.edge(user, "run", &job, true);
            let mut taken = BTreeSet::new();
            for _ in 0..7 {
                let (file, seen) = rng.pick(files).clone();
                if taken.insert(file.clone()) {
                    let edge_type = *rng.pick(&["read", "write"]);
                    self.edge(&job, edge_type, &file, seen);
                }
            }
        }
    }

    fn edge(&mut self, source: &str, edge_type: &'static str, destination: &str, seen: bool) {
        let step = Step::Edge {
            source: source.into(),
            edge_type,
            destination: destination.into(),
            properties: Properties::new().with("bytes", 7),
        };
        self.push(step, seen);
    }

    fn objects(&mut self, rng: &mut Rng) {
        let mut all = Vec::new();
        for i in 0..28 {
            let owner = *rng.pick(&[0, 1001, 1002, 1002]);
            let group = *rng.pick(&[100, 200]);
            let mode = *rng.pick(&[0o644, 0o600, 0o640, 0o604, 0o060]);
            let seen = lets(owner, Some(group), mode, 4);
            let identity = Identity {
                name: format!("object{i}"),
                app: (*rng.pick(&["vpic", "gtc"])).into(),
                owner,
                step: rng.number_below(4) as i64,
            };
            let step = Step::Object {
                identity: identity.clone(),
                attributes: Properties::new()
                    .with("gid", group)
                    .with("mode", i64::from(mode)),
                tags: some_tags(rng, "object"),
            };
            self.push(step, seen);
            self.identities.push(identity.clone());
            all.push((identity, seen));
        }
        for _ in 0..6 {
            let (identity, seen) = rng.pick(&all).clone();
            let tags = some_tags(rng, "object");
            self.push(Step::Tag { identity, tags }, seen);
        }
        for _ in 0..3 {
            let at = rng.number_below(all.len());
            let (identity, seen) = all.remove(at);
            self.push(Step::Delete { identity }, seen);
        }
    }
}

pub(super) fn some_tags(rng: &mut Rng, of: &str) -> Properties {
    let mut tags = Properties::new();
    for _ in 0..rng.number_below(4) {
        let name = *rng.pick(&["energy", "Name", "note", "tempo", "secret", "secrets"]);
        match rng.number_below(2) {
            0 => tags.set(name, rng.number_below(5) as i64),
            _ => tags.set(name, format!("{of}{}", rng.number_below(3))),
        }
    }
    tags
}
