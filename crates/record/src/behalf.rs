//! What a run may say, when its file was written by another user than the one whose process brings it to a database.
//!
//! Whose a run is, its file's owner says. All else in the file is a claim: it may name any run, any job and any file. So of such a run only that
//! is written which its user may say: what the run itself is, and which files it read and wrote as far as the user may read and write them.

use crate::deliver::Target;
use crate::run::{Run, Use, new_id};
use esker_model::namespace::{Errno, Kind, NamePath};
use esker_model::object::Asker;
use esker_model::visibility::{self, Access};
use esker_model::{EdgeSelect, Error, Result, Schema, Value, Version, Versions, Vertex, VertexId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const READ: u32 = 4;
const WRITE: u32 = 2;
/// A file that more runs have written gets no tags by another user's run: all of them would have to be asked whose they are.
const WRITERS_MAX: usize = 1000;

/// A user on whose behalf runs are brought to a database.
#[derive(Debug, Clone)]
pub struct Behalf {
    /// The user, with the groups that this machine says they are in.
    pub asker: Asker,
    /// The user's name, as this machine says.
    pub name: Option<String>,
}

/// How a user stands to a file that a run names.
enum Standing {
    /// The run may say that it used the file, and give it tags.
    Tags,
    /// The run may say that it used the file.
    Use,
    /// The run may say nothing of it, and why.
    Nothing(&'static str),
}

impl Behalf {
    /// The run with what its user may say, or why it may not be written at all. What was left out of it is told in `left_out`.
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
                return Ok(Err("another user has a run of that id".into()));
            }
            Owners::Unknown => {
                return Ok(Err(
                    "there is a run of that id, and nothing says whose it is".into(),
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
                match self.standing(&graph, &used, bits)? {
                    Standing::Tags => kept.push(used),
                    Standing::Use => {
                        if !used.tags.is_empty() {
                            leave(format!(
                                "tags of file:{}, which is not that user's",
                                used.path
                            ));
                            used.tags.clear();
                        }
                        kept.push(used);
                    }
                    Standing::Nothing(why) => leave(format!("file:{}: {why}", used.path)),
                }
            }
            *uses = kept;
        }
        Ok(Ok(out))
    }

    fn is_only(&self, users: &BTreeSet<VertexId>) -> bool {
        let own = VertexId::of("User", &self.asker.uid.to_string());
        users.iter().all(|user| *user == own)
    }

    /// Whether a run of this user may say that it is a part of that run or job.
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

    fn standing<T: Target>(&self, graph: &Graph<'_, T>, used: &Use, bits: u32) -> Result<Standing> {
        // What is no path in its plain form is refused when the batch is made.
        if let Ok(path) = NamePath::parse(used.path.as_bytes()) {
            // The vertex is the link's, if there is a link: everybody may write one, by its mode.
            match graph.database.stat(Some(&self.asker), &path, false) {
                Ok(inode) if inode.kind() == Kind::Symlink => {
                    let own = i64::from(inode.uid) == self.asker.uid;
                    return Ok(if own { Standing::Tags } else { Standing::Use });
                }
                Ok(inode) => {
                    return Ok(if inode.allows(Some(&self.asker), WRITE) {
                        Standing::Tags
                    } else if inode.allows(Some(&self.asker), bits) {
                        Standing::Use
                    } else if bits == WRITE {
                        Standing::Nothing("the user may not write it")
                    } else {
                        Standing::Nothing("the user may not read it")
                    });
                }
                Err(Error::File(e)) if matches!(e.errno, Errno::NotFound | Errno::NotDirectory) => {
                }
                Err(Error::File(_)) => return Ok(Standing::Nothing("the user does not get at it")),
                Err(e) => return Err(e),
            }
        }
        self.standing_in_graph(graph, used, bits)
    }

    /// How the user stands to a file that is only a vertex.
    fn standing_in_graph<T: Target>(
        &self,
        graph: &Graph<'_, T>,
        used: &Use,
        bits: u32,
    ) -> Result<Standing> {
        let id = VertexId::of("File", &used.path);
        let Some(vertex) = graph.vertex(id)? else {
            return Ok(Standing::Tags);
        };
        let number = |name: &str| match vertex.attribute(name) {
            Some(Value::I64(number)) => Some(*number),
            _ => None,
        };
        if let (Some(owner), Some(mode)) = (number("uid"), number("mode")) {
            let access = Access::new(Some(owner), number("gid"), Some(mode));
            let may = |bits| access.lets(Some(&self.asker), bits);
            return Ok(if may(visibility::WRITE) {
                Standing::Tags
            } else if bits == WRITE {
                Standing::Nothing("the user may not write it")
            } else if may(visibility::READ) {
                Standing::Use
            } else {
                Standing::Nothing("the user may not read it")
            });
        }
        if used.tags.is_empty() {
            return Ok(Standing::Use);
        }
        // Nothing says whose it is: it is the user's if all who have written it are.
        let writers = graph.edges(id, "wasWrittenBy")?;
        let mut own = !writers.is_empty() && writers.len() < WRITERS_MAX;
        for writer in writers {
            own = own
                && matches!(graph.owners(writer)?, Owners::Users(users) if self.is_only(&users));
        }
        let bare = vertex.user.is_empty() && vertex.attributes.iter().next().is_none();
        Ok(
            if own || (bare && graph.edges(id, "wasWrittenBy")?.is_empty()) {
                Standing::Tags
            } else {
                Standing::Use
            },
        )
    }
}

/// Whose a run or a job is.
enum Owners {
    /// It is not there, or only its name is.
    Nobody,
    /// It is there, and no user is known to have run it.
    Unknown,
    /// Those who have run it.
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

    /// Where edges of a type lead to, [`WRITERS_MAX`] at most.
    fn edges(&self, from: VertexId, edge_type: &str) -> Result<Vec<VertexId>> {
        let select = EdgeSelect {
            types: vec![self.schema.edge_type_id(edge_type)?],
            versions: Versions::NOW,
            properties: false,
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
