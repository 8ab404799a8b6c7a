//! Restricts a run whose file was written by another user than the one whose process delivers it.
//!
//! The user of a run is the owner of its file. All else in the file is a claim: it may name any run, any job and any file. Only that
//! part of the run is written which its user may assert: the run itself, and the files that it read and wrote as far as the user may
//! read and write them.

use crate::deliver::Target;
use crate::run::{Run, Use, new_id};
use esker_model::namespace::{Errno, Kind, NamePath};
use esker_model::object::Principal;
use esker_model::visibility::{self, Access};
use esker_model::{EdgeSelect, Error, Result, Schema, Value, Version, Versions, Vertex, VertexId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const READ: u32 = 4;
const WRITE: u32 = 2;
/// Maximum number of runs whose users are looked up for a file; beyond it, another user's run cannot tag the file.
const WRITERS_MAX: usize = 1000;

/// User on whose behalf runs are delivered to a database.
#[derive(Debug, Clone)]
pub struct RunOwner {
    /// The user with the groups that this machine reports.
    pub principal: Principal,
    /// Name of the user on this machine.
    pub name: Option<String>,
}

/// Rights of a user to a file that a run names.
enum FileRights {
    /// The run may record that it used the file, and tag it.
    Tags,
    /// The run may record that it used the file.
    Use,
    /// The run may record nothing about the file, for this reason.
    Denied(&'static str),
}

impl RunOwner {
    /// Returns the part of the run that its user may assert, or why it may not be written. Omissions are appended to `left_out`.
    pub(crate) fn allowed<T: Target>(
        &self,
        database: &T,
        schema: &Schema,
        run: &Run,
        left_out: &mut Vec<String>,
    ) -> Result<std::result::Result<Run, String>> {
        if run.id != new_id(run.start, &run.host, run.pid, run.uid) {
            return Ok(Err(format!(
                "its id is not the one of a run that user {} began on host {} then",
                run.uid, run.host
            )));
        }
        let graph = Graph { database, schema };
        let execution = VertexId::of("Execution", &run.id);
        match graph.owners(execution)? {
            Owners::Nobody => {}
            Owners::Users(users) if self.is_only(&users) => {}
            Owners::Users(_) => {
                return Ok(Err("another user has a run with that id".into()));
            }
            Owners::Unknown => {
                return Ok(Err(
                    "there is a run with that id, and its owner is not known".into(),
                ));
            }
        }
        let mut out = run.clone();
        let mut leave = |what: String| {
            left_out.push(format!("execution:{} of user {}: {what}", run.id, run.uid));
        };
        out.user.clone_from(&self.name);
        if let Some(parent) = &run.parent
            && !self.may_join(&graph, "Execution", parent)?
        {
            leave(format!(
                "it says that it belongs to execution:{parent}, which is another user's"
            ));
            out.parent = None;
        }
        if let Some(slurm) = &run.slurm {
            let array = slurm.array.as_ref();
            if !self.may_join(&graph, "Job", &slurm.job)? {
                leave(format!(
                    "it says that it belongs to job:{}, which is another user's",
                    slurm.job
                ));
                out.slurm = None;
            } else if let Some(array) = array
                && !self.may_join(&graph, "Job", array)?
            {
                leave(format!(
                    "it says that its job belongs to job:{array}, which is another user's"
                ));
                if let Some(slurm) = &mut out.slurm {
                    slurm.array = None;
                }
            }
        }
        for (uses, bits) in [(&mut out.inputs, READ), (&mut out.outputs, WRITE)] {
            let mut kept = Vec::with_capacity(uses.len());
            for mut used in uses.drain(..) {
                match self.file_rights(&graph, &used, bits)? {
                    FileRights::Tags => kept.push(used),
                    FileRights::Use => {
                        if !used.tags.is_empty() {
                            leave(format!(
                                "tags of file:{}, which is not that user's",
                                used.path
                            ));
                            used.tags.clear();
                        }
                        kept.push(used);
                    }
                    FileRights::Denied(why) => leave(format!("file:{}: {why}", used.path)),
                }
            }
            *uses = kept;
        }
        Ok(Ok(out))
    }

    fn is_only(&self, users: &BTreeSet<VertexId>) -> bool {
        let own = VertexId::of("User", &self.principal.uid.to_string());
        users.iter().all(|user| *user == own)
    }

    /// Whether a run of this user may claim to be part of that run or job.
    fn may_join<T: Target>(
        &self,
        graph: &Graph<'_, T>,
        type_name: &str,
        key: &str,
    ) -> Result<bool> {
        Ok(match graph.owners(VertexId::of(type_name, key))? {
            Owners::Nobody | Owners::Unknown => true,
            Owners::Users(users) => self.is_only(&users),
        })
    }

    fn file_rights<T: Target>(
        &self,
        graph: &Graph<'_, T>,
        used: &Use,
        bits: u32,
    ) -> Result<FileRights> {
        // A path that is not in normal form is refused when the batch is made.
        if let Ok(path) = NamePath::parse(used.path.as_bytes()) {
            // For a symbolic link, the vertex is that of the link: its mode lets all users write.
            match graph.database.stat(Some(&self.principal), &path, false) {
                Ok(inode) if inode.kind() == Kind::Symlink => {
                    let own = i64::from(inode.uid) == self.principal.uid;
                    return Ok(if own {
                        FileRights::Tags
                    } else {
                        FileRights::Use
                    });
                }
                Ok(inode) => {
                    return Ok(if inode.allows(Some(&self.principal), WRITE) {
                        FileRights::Tags
                    } else if inode.allows(Some(&self.principal), bits) {
                        FileRights::Use
                    } else if bits == WRITE {
                        FileRights::Denied("the user may not write it")
                    } else {
                        FileRights::Denied("the user may not read it")
                    });
                }
                Err(Error::File(e)) if matches!(e.errno, Errno::NotFound | Errno::NotDirectory) => {
                }
                Err(Error::File(_)) => {
                    return Ok(FileRights::Denied("the user has no access to it"));
                }
                Err(e) => return Err(e),
            }
        }
        self.rights_in_graph(graph, used, bits)
    }

    /// Determines the rights to a file that is only a vertex.
    fn rights_in_graph<T: Target>(
        &self,
        graph: &Graph<'_, T>,
        used: &Use,
        bits: u32,
    ) -> Result<FileRights> {
        let id = VertexId::of("File", &used.path);
        let Some(vertex) = graph.vertex(id)? else {
            return Ok(FileRights::Tags);
        };
        let number = |name: &str| match vertex.attribute(name) {
            Some(Value::I64(number)) => Some(*number),
            _ => None,
        };
        if let (Some(owner), Some(mode)) = (number("uid"), number("mode")) {
            let access = Access::new(Some(owner), number("gid"), Some(mode));
            let may = |bits| access.allows(Some(&self.principal), bits);
            return Ok(if may(visibility::WRITE) {
                FileRights::Tags
            } else if bits == WRITE {
                FileRights::Denied("the user may not write it")
            } else if may(visibility::READ) {
                FileRights::Use
            } else {
                FileRights::Denied("the user may not read it")
            });
        }
        if used.tags.is_empty() {
            return Ok(FileRights::Use);
        }
        // Without an owner, the file belongs to the user if all runs that wrote it do.
        let writers = graph.edges(id, "wasWrittenBy")?;
        let mut own = !writers.is_empty() && writers.len() < WRITERS_MAX;
        for writer in writers {
            own = own
                && matches!(graph.owners(writer)?, Owners::Users(users) if self.is_only(&users));
        }
        let bare = vertex.user.is_empty() && vertex.attributes.iter().next().is_none();
        Ok(
            if own || (bare && graph.edges(id, "wasWrittenBy")?.is_empty()) {
                FileRights::Tags
            } else {
                FileRights::Use
            },
        )
    }
}

/// Users of a run or a job.
enum Owners {
    /// The vertex does not exist, or has only a name.
    Nobody,
    /// The vertex exists, without a known user.
    Unknown,
    /// Users who ran it.
    Users(BTreeSet<VertexId>),
}

struct Graph<'a, T> {
    database: &'a T,
    schema: &'a Schema,
}

impl<T: Target> Graph<'_, T> {
    fn vertex(&self, id: VertexId) -> Result<Option<Vertex>> {
        let found = self.database.read_vertices(&[id], Version::MAX)?;
        Ok(found.into_iter().flatten().find(|vertex| !vertex.deleted))
    }

    /// Returns the destinations of edges of a type, at most [`WRITERS_MAX`].
    fn edges(&self, from: VertexId, edge_type: &str) -> Result<Vec<VertexId>> {
        let select = EdgeSelect {
            types: vec![self.schema.edge_type_id(edge_type)?],
            versions: Versions::NOW,
            properties: false,
            after: None,
        };
        let mut found = Vec::new();
        self.database.scan_edges(&[from], &select, &mut |_, edge| {
            found.push(edge.key.destination);
            if found.len() < WRITERS_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(found)
    }

    fn owners(&self, execution: VertexId) -> Result<Owners> {
        let Some(vertex) = self.vertex(execution)? else {
            return Ok(Owners::Nobody);
        };
        let users: BTreeSet<VertexId> = self.edges(execution, "wasRunBy")?.into_iter().collect();
        Ok(if !users.is_empty() {
            Owners::Users(users)
        } else if vertex.attributes.iter().next().is_none() && vertex.user.is_empty() {
            Owners::Nobody
        } else {
            Owners::Unknown
        })
    }
}
