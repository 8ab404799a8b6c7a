//! Random histories: what happens, and what of it a person may not see in the end.

use esker_model::Properties;
use esker_model::namespace::Make;
use esker_model::object::{Asker, Identity};
use esker_testkit::rng::Rng;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// When the histories begin, in milliseconds since 1970, and how much later each step is.
pub(super) const BEGIN: u64 = 1_750_000_000_000;
pub(super) const STEP: u64 = 1_000;
pub(super) fn person() -> Asker {
    Asker {
        uid: 1001,
        gids: vec![1001, 100],
    }
}

/// The rule once more, written down by itself.
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

/// One thing that happens.
pub(super) enum Step {
    Make {
        path: String,
        make: Make,
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
    /// A directory says when it was changed, whatever came into it.
    Date {
        path: String,
    },
}

pub(super) struct Entry {
    path: String,
    directory: bool,
    owner: u32,
    group: u32,
    mode: u32,
    /// Where it lies, in the list.
    parent: Option<usize>,
}

/// A history, its steps with what is done instead of each where what the person may not see never was.
#[derive(Default)]
pub(super) struct History {
    #[expect(clippy::option_option, reason = "the same step, another one, or none")]
    pub(super) steps: Vec<(Step, Option<Option<Step>>)>,
    /// Names of vertices, paths and identities that are asked for, seen or not.
    pub(super) vertices: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) identities: Vec<Identity>,
    /// Graphs of RDF: name, the rights that are said of it, its triples, whether the person may read it.
    pub(super) graphs: Vec<(String, String, String, bool)>,
}

impl History {
    fn push(&mut self, step: Step, seen: bool) {
        self.steps.push((step, (!seen).then_some(None)));
    }

    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut history = Self::default();
        let entries = history.tree(&mut rng);
        let seen = history.files(&mut rng, &entries);
        history.runs(&mut rng, &seen);
        history.objects(&mut rng);
        for i in 0..5 {
            let owner = *rng.pick(&[0, 1001, 1002]);
            let mode = *rng.pick(&[0o644, 0o600, 0o640]);
            let name = format!("http://x.example/g{i}");
            let rights = format!(
                "<{name}> <urn:esker:terms/owner> {owner} ; <urn:esker:terms/group> 100 ; <urn:esker:terms/mode> \"{mode:o}\" ."
            );
            let seen = lets(owner, Some(100), mode, 4);
            let mut triples = format!(
                "<{name}#a> <http://x.example/p> 1 , 2 . <{name}#b> <http://x.example/q> \"{name}\" ."
            );
            // Terms that several graphs have: whichever graph is first gives them their numbers.
            for _ in 0..4 {
                let (s, p, o) = (rng.below(6), rng.below(3), rng.below(6));
                let _ = write!(
                    triples,
                    "<http://x.example/s{s}> <http://x.example/p{p}> <http://x.example/s{o}> , \"{o}.5\"^^<http://www.w3.org/2001/XMLSchema#double> ."
                );
            }
            history.graphs.push((name, rights, triples, seen));
        }
        history
    }

    /// Directories and files; which of them the person gets at.
    fn tree(&mut self, rng: &mut Rng) -> Vec<Entry> {
        let mut all: Vec<Entry> = Vec::new();
        for i in 0..34 {
            let directories: Vec<usize> = (0..all.len()).filter(|n| all[*n].directory).collect();
            let parent =
                (!directories.is_empty() && rng.percent(85)).then(|| *rng.pick(&directories));
            let directory = i < 8 || rng.percent(15);
            let above = parent.map_or("", |p: usize| all[p].path.as_str());
            let mode = if rng.percent(55) {
                if directory { 0o755 } else { 0o644 }
            } else if directory {
                *rng.pick(&[0o700, 0o711, 0o750, 0o744, 0o705])
            } else {
                *rng.pick(&[0o600, 0o640, 0o604, 0o000])
            };
            let ending = *rng.pick(&["dat", "h5", "txt"]);
            let path = if directory {
                format!("{above}/dir{i}")
            } else {
                format!("{above}/file{i}.{ending}")
            };
            all.push(Entry {
                path,
                directory,
                owner: *rng.pick(&[0, 1001, 1002, 1002]),
                group: *rng.pick(&[0, 100, 200]),
                mode,
                parent,
            });
        }
        for (i, entry) in all.iter().enumerate() {
            let kind = if entry.directory { 0o4_0000 } else { 0o10_0000 };
            let mut make = Make::new(kind | entry.mode, entry.owner, entry.group);
            if !entry.directory {
                make.size = 10 + rng.below(10_000) as u64;
                make.blocks = make.size.div_ceil(512);
            }
            let step = |path: String, make: Make| Step::Make { path, make };
            let instead = if gets_at(&all, i) {
                None
            } else {
                // How many directories are in one, its number of links says (as `stat` does), whoever may go into it.
                let counted = entry.directory && entry.parent.is_none_or(|p| gets_at(&all, p));
                Some(counted.then(|| {
                    let above = entry.parent.map_or("", |p| all[p].path.as_str());
                    step(format!("{above}/x{i}"), Make::new(0o4_0000, 0, 0))
                }))
            };
            self.steps.push((step(entry.path.clone(), make), instead));
            self.paths.push(entry.path.clone());
        }
        // When something came into a directory, it says itself, too.
        for (i, entry) in all.iter().enumerate().filter(|(_, e)| e.directory) {
            let path = entry.path.clone();
            self.push(Step::Date { path }, gets_at(&all, i));
        }
        all
    }

    /// Vertices of some of the files; the names of those that the person sees, and of the others.
    fn files(&mut self, rng: &mut Rng, entries: &[Entry]) -> Vec<(String, bool)> {
        let mut known = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            let kind = if entry.directory { "directory" } else { "file" };
            let name = format!("{kind}:{}", entry.path);
            self.vertices.push(name.clone());
            let spoken = rng.percent(75);
            let seen = gets_at(entries, i)
                && lets(entry.owner.into(), Some(entry.group.into()), entry.mode, 4);
            if !spoken {
                continue;
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

    /// Jobs that read and wrote files.
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
                step: rng.below(4) as i64,
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
            let at = rng.below(all.len());
            let (identity, seen) = all.remove(at);
            self.push(Step::Delete { identity }, seen);
        }
    }
}

pub(super) fn gets_at(all: &[Entry], which: usize) -> bool {
    let mut next = all[which].parent;
    while let Some(place) = next {
        let entry = &all[place];
        if !lets(entry.owner.into(), Some(entry.group.into()), entry.mode, 1) {
            return false;
        }
        next = entry.parent;
    }
    true
}

pub(super) fn some_tags(rng: &mut Rng, of: &str) -> Properties {
    let mut tags = Properties::new();
    for _ in 0..rng.below(4) {
        let name = *rng.pick(&["energy", "Name", "note", "tempo", "secret", "secrets"]);
        match rng.below(2) {
            0 => tags.set(name, rng.below(5) as i64),
            _ => tags.set(name, format!("{of}{}", rng.below(3))),
        }
    }
    tags
}
