//! Pictures of small graphs.

use super::{OpenSides, Picture, PictureBox, PictureRequest, picture};
use esker::OpenOptions;
use esker_model::{
    Batch, Commit, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, Version, VertexId,
    VertexName, VertexRef,
};
use std::collections::{BTreeMap, BTreeSet};

struct Lab {
    _folder: tempfile::TempDir,
    db: esker::Database,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = OpenOptions::new()
            .create(true)
            .open(folder.path().join("lab").to_str().unwrap())
            .unwrap();
        Self {
            _folder: folder,
            db,
        }
    }

    fn vertex(&self, name: &str) -> VertexRef {
        let schema = self.db.schema().unwrap();
        VertexName::parse(name).unwrap().resolve(&schema).unwrap()
    }

    /// Inserts edges `job read file`, in one commit.
    fn link(&self, edges: &[(&str, &str, &str)]) -> Commit {
        let schema = self.db.schema().unwrap();
        let mut batch = Batch::new();
        for (source, edge_type, destination) in edges {
            let ends = [source, destination].map(|name| {
                let vertex = self.vertex(name);
                let key = name.split_once(':').unwrap().1.to_owned();
                batch.push(Op::EnsureVertex { vertex, key });
                vertex
            });
            batch.push(Op::PutEdge {
                source: ends[0],
                edge_type: schema.edge_type_id(edge_type).unwrap(),
                destination: ends[1],
                properties: Properties::new(),
            });
        }
        self.db.apply(batch).unwrap()
    }

    fn request(&self, focus: &str) -> PictureRequest {
        PictureRequest {
            focus: self.vertex(focus).id,
            as_of: Version::MAX,
            up: 1,
            down: 1,
            open: BTreeMap::new(),
            split: BTreeSet::new(),
        }
    }

    fn picture(&self, request: &PictureRequest) -> Picture {
        picture(&self.db, request, &NeverCancel).unwrap()
    }

    fn id(&self, name: &str) -> VertexId {
        self.vertex(name).id
    }
}

/// a → one → b → two → c → three → d, and b → other → e.
fn chain() -> Lab {
    let lab = Lab::new();
    lab.link(&[
        ("job:1", "read", "file:/in/a"),
        ("job:1", "write", "file:/b"),
    ]);
    lab.link(&[("job:2", "read", "file:/b"), ("job:2", "write", "file:/c")]);
    lab.link(&[("job:3", "read", "file:/c"), ("job:3", "write", "file:/d")]);
    lab.link(&[("job:4", "read", "file:/b"), ("job:4", "write", "file:/e")]);
    lab
}

fn names(picture: &Picture) -> Vec<&str> {
    let mut boxes: Vec<&PictureBox> = picture.boxes.iter().collect();
    boxes.sort_by(|a, b| a.layer.cmp(&b.layer).then(a.id.cmp(&b.id)));
    boxes.iter().map(|b| b.id.as_str()).collect()
}

fn box_of<'a>(picture: &'a Picture, id: &str) -> &'a PictureBox {
    picture.boxes.iter().find(|b| b.id == id).unwrap()
}

#[test]
fn a_level_up_and_down_from_left_to_right() {
    let lab = chain();
    let picture = lab.picture(&lab.request("file:/c"));
    assert_eq!(
        names(&picture),
        ["file:/b", "job:2", "file:/c", "job:3", "file:/d"]
    );
    assert_eq!(picture.focus, "file:/c");
    let line = |from: &str, to: &str| {
        let found = picture.lines.iter().find(|l| l.from == from && l.to == to);
        found.map(|l| (l.edge_type.as_str(), l.count, l.back))
    };
    assert_eq!(line("file:/b", "job:2"), Some(("read", 1, false)));
    assert_eq!(line("job:2", "file:/c"), Some(("write", 1, false)));
    assert_eq!(line("file:/c", "job:3"), Some(("read", 1, false)));
    assert_eq!(picture.lines.len(), 4);
    // Neighbours of b: the job that wrote it, and job 4.
    let b = box_of(&picture, "file:/b");
    assert_eq!((b.up, b.down), (1, 1));
    assert!(box_of(&picture, "file:/c").focus);
    assert_eq!(
        (
            box_of(&picture, "file:/c").up,
            box_of(&picture, "file:/c").down
        ),
        (0, 0)
    );
    assert!(picture.stopped.is_empty());
}

#[test]
fn what_is_opened_shows_one_level_more() {
    let lab = chain();
    let mut request = lab.request("file:/c");
    let up = OpenSides {
        up: true,
        down: false,
    };
    request.open.insert(lab.id("file:/b"), up);
    let picture = lab.picture(&request);
    assert_eq!(
        names(&picture),
        [
            "file:/in/a",
            "job:1",
            "file:/b",
            "job:2",
            "file:/c",
            "job:3",
            "file:/d"
        ]
    );
    // The far side of an input is not on the way to the focus: it needs a traversal of its own.
    let both = OpenSides {
        up: true,
        down: true,
    };
    request.open.insert(lab.id("file:/b"), both);
    let picture = lab.picture(&request);
    assert!(
        names(&picture).contains(&"file:/e"),
        "{:?}",
        names(&picture)
    );
    assert_eq!(box_of(&picture, "file:/b").down, 0);
    assert_eq!(picture.boxes.len(), 9);
}

#[test]
fn levels_are_as_many_as_asked_for() {
    let lab = chain();
    let mut request = lab.request("file:/d");
    (request.up, request.down) = (3, 0);
    assert_eq!(
        names(&lab.picture(&request)),
        [
            "file:/in/a",
            "job:1",
            "file:/b",
            "job:2",
            "file:/c",
            "job:3",
            "file:/d"
        ]
    );
    (request.up, request.down) = (0, 0);
    assert_eq!(names(&lab.picture(&request)), ["file:/d"]);
}

#[test]
fn of_an_execution_its_inputs_and_outputs() {
    let lab = chain();
    let picture = lab.picture(&lab.request("job:2"));
    assert_eq!(names(&picture), ["file:/b", "job:2", "file:/c"]);
    assert!(box_of(&picture, "job:2").execution);
}

#[test]
fn of_a_user_what_they_ran() {
    let lab = chain();
    lab.link(&[("user:7", "run", "job:2")]);
    let picture = lab.picture(&lab.request("user:7"));
    assert_eq!(names(&picture), ["user:7", "job:2", "file:/c"]);
    // The job shows the user in turn.
    let picture = lab.picture(&lab.request("file:/c"));
    assert!(
        box_of(&picture, "job:2").detail.starts_with("user 7"),
        "{picture:?}"
    );
}

#[test]
fn as_of_a_time_only_what_was_there() {
    let lab = Lab::new();
    let first = lab.link(&[("job:1", "write", "file:/x")]);
    let second = lab.link(&[("job:2", "write", "file:/x")]);
    let now = lab.picture(&lab.request("file:/x"));
    assert_eq!(
        names(&now),
        ["job:2", "file:/x"],
        "its newest version is by job 2"
    );
    let mut request = lab.request("file:/x");
    request.as_of = first.version;
    let then = lab.picture(&request);
    assert_eq!(names(&then), ["job:1", "file:/x"]);
    let ticks: Vec<&str> = now.versions.iter().map(|t| t.version.as_str()).collect();
    for version in [first.version, second.version] {
        assert!(ticks.contains(&version.to_string().as_str()), "{ticks:?}");
    }
    assert_eq!(now.versions, then.versions);
}

#[test]
fn many_alike_are_one_box_with_a_count() {
    let lab = Lab::new();
    let mut edges = Vec::new();
    let members: Vec<String> = (0..312)
        .map(|n| format!("file:/scratch/out/part_{n:04}.nc"))
        .collect();
    for file in &members {
        edges.push(("job:1", "read", file.as_str()));
    }
    edges.push(("job:1", "read", "file:/scratch/namelist"));
    edges.push(("job:1", "write", "file:/sum"));
    lab.link(&edges);
    let mut request = lab.request("file:/sum");
    let picture = lab.picture(&request);
    let group = picture.boxes.iter().find(|b| b.kind == "group").unwrap();
    assert_eq!((group.members, group.by), (312, Some("pattern")));
    assert_eq!(
        (group.label.as_str(), group.detail.as_str()),
        ("part_#.nc", "/scratch/out")
    );
    assert_eq!(
        picture.boxes.len(),
        4,
        "the group, the namelist, the job, the sum"
    );
    let line = picture.lines.iter().find(|l| l.from == group.id).unwrap();
    assert_eq!((line.to.as_str(), line.count), ("job:1", 312));

    request.split.insert(group.id.clone());
    let split = lab.picture(&request);
    let rest = box_of(&split, &group.id);
    assert_eq!(rest.members, 262);
    assert_eq!(split.boxes.len(), 4 + 50);
    assert!(split.boxes.iter().any(|b| b.id == members[0]));

    // Opened vertices are shown alone.
    request.split.clear();
    request.open.insert(
        lab.id(&members[7]),
        OpenSides {
            up: true,
            down: false,
        },
    );
    let opened = lab.picture(&request);
    assert!(opened.boxes.iter().any(|b| b.id == members[7]));
    assert_eq!(
        box_of(
            &opened,
            &opened.boxes.iter().find(|b| b.kind == "group").unwrap().id
        )
        .members,
        311
    );
}

#[test]
fn every_vertex_is_in_one_box_and_every_line_between_boxes() {
    let lab = Lab::new();
    let mut edges: Vec<(String, &str, String)> = Vec::new();
    for n in 0..40 {
        let job = format!("job:{n}");
        edges.push((job.clone(), "read", "file:/common".into()));
        for part in 0..n % 12 {
            edges.push((job.clone(), "write", format!("file:/d{}/o{part}", n % 5)));
        }
    }
    let edges: Vec<(&str, &str, &str)> = edges
        .iter()
        .map(|(a, t, b)| (a.as_str(), *t, b.as_str()))
        .collect();
    lab.link(&edges);
    let picture = lab.picture(&lab.request("file:/common"));
    let ids: BTreeSet<&str> = picture.boxes.iter().map(|b| b.id.as_str()).collect();
    assert_eq!(ids.len(), picture.boxes.len(), "no box twice");
    for line in &picture.lines {
        assert!(ids.contains(line.from.as_str()) && ids.contains(line.to.as_str()));
    }
    let read: u64 = picture
        .lines
        .iter()
        .filter(|l| l.edge_type == "read")
        .map(|l| l.count)
        .sum();
    assert_eq!(read, 40);
    let members: u64 = picture
        .boxes
        .iter()
        .filter(|b| b.execution)
        .map(|b| b.members)
        .sum();
    assert_eq!(members, 40);
}

#[test]
fn what_is_not_there_is_said() {
    let lab = chain();
    let request = lab.request("file:/nowhere");
    let refused = picture(&lab.db, &request, &NeverCancel).unwrap_err();
    assert!(refused.to_string().contains("no vertex"), "{refused}");
}

/// Each part has its own task: the parts are one group, and the tasks another.
#[test]
fn tasks_of_an_array_and_their_parts_are_two_boxes() {
    let lab = Lab::new();
    let mut edges: Vec<(String, &str, String)> = Vec::new();
    for n in 0..40 {
        let task = format!("job:4100_{n}");
        edges.push((task.clone(), "read", "file:/in/mesh".into()));
        edges.push((task, "write", format!("file:/out/part_{n}.h5")));
        edges.push(("job:4200".into(), "read", format!("file:/out/part_{n}.h5")));
    }
    edges.push(("job:4200".into(), "write", "file:/out/merged.h5".into()));
    // Parts with another name or without a merge are not in the group.
    edges.push(("job:7".into(), "write", "file:/out/odd.txt".into()));
    edges.push(("job:4200".into(), "read", "file:/out/odd.txt".into()));
    let edges: Vec<(&str, &str, &str)> = edges
        .iter()
        .map(|(a, b, c)| (a.as_str(), *b, c.as_str()))
        .collect();
    lab.link(&edges);
    let mut request = lab.request("file:/out/merged.h5");
    request.up = 3;
    let picture = lab.picture(&request);
    let groups: Vec<(&str, u64, Option<&str>)> = picture
        .boxes
        .iter()
        .filter(|b| b.kind == "group")
        .map(|b| (b.label.as_str(), b.members, b.by))
        .collect();
    assert_eq!(
        groups,
        [
            ("part_#.h5", 40, Some("pattern")),
            ("4100_#", 40, Some("array"))
        ]
    );
    assert_eq!(
        picture.boxes.len(),
        7,
        "mesh, tasks, parts, odd, its job, the merge, merged"
    );
    let between: u64 = picture
        .lines
        .iter()
        .filter(|l| l.from.starts_with("group") && l.to.starts_with("group"))
        .map(|l| l.count)
        .sum();
    assert_eq!(between, 40);
    // A part shown alone has its task alone.
    request.focus = lab.id("file:/out/part_3.h5");
    request.down = 0;
    let one = lab.picture(&request);
    assert!(
        one.boxes.iter().all(|b| b.kind == "vertex"),
        "{:?}",
        one.boxes
    );
}
