//! Edge types by their role in lineage, resolved against the schema.

use super::result::FactTypes;
use super::{Direction, LineageOptions};
use esker_model::{EdgeTypeId, Error, Result, Schema, VertexTypeId};

/// Kind of start vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Data,
    Execution,
    User,
}

/// Edge types by role.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    /// From a data object to the execution that made it.
    pub(super) made_by: Vec<EdgeTypeId>,
    /// From an execution to the data that it made: the inverses.
    pub(super) made: Vec<EdgeTypeId>,
    /// From an execution to the data that it used.
    pub(super) used: Vec<EdgeTypeId>,
    /// From data to the executions that used it: the inverses.
    pub(super) used_by: Vec<EdgeTypeId>,
    /// From a user to executions: the inverses of [`FactTypes::run_by`].
    pub(super) ran: Vec<EdgeTypeId>,
    /// From an execution to its parts: the inverses of [`FactTypes::part_of`].
    pub(super) parts: Vec<EdgeTypeId>,
    /// Types of edges that describe an execution and are not followed.
    pub(super) facts: FactTypes,
}

impl Roles {
    pub(super) fn resolve(
        schema: &Schema,
        direction: Direction,
        options: &LineageOptions,
    ) -> Result<Self> {
        let ids = |names: &[String]| -> Result<Vec<EdgeTypeId>> {
            let mut ids = names
                .iter()
                .map(|name| schema.edge_type_id(name))
                .collect::<Result<Vec<_>, _>>()?;
            ids.sort_unstable();
            ids.dedup();
            Ok(ids)
        };
        let inverses = |ids: &[EdgeTypeId]| {
            let mut inverses: Vec<_> = ids.iter().map(|t| schema.inverse(*t)).collect();
            inverses.sort_unstable();
            inverses.dedup();
            inverses
        };
        let made_by = ids(&options.made_by)?;
        let mut used = ids(&options.used)?;
        let facts = FactTypes {
            run_by: ids(&options.run_by)?,
            executable: ids(&options.executable)?,
            part_of: ids(&options.part_of)?,
        };
        if made_by.is_empty() || used.is_empty() {
            return Err(Error::Invalid(
                "lineage needs at least one edge type for `made by` and one for `used`".into(),
            ));
        }
        if direction == Direction::Impact {
            used.extend(&facts.executable);
            used.sort_unstable();
            used.dedup();
        }
        if let Some(both) = made_by.iter().find(|t| used.contains(t)) {
            let name = schema.edge_type(*both).map_or("?", |t| t.name.as_str());
            return Err(Error::Invalid(format!(
                "edge type `{name}` cannot mean both `made by` and `used`"
            )));
        }
        Ok(Self {
            made: inverses(&made_by),
            used_by: inverses(&used),
            ran: inverses(&facts.run_by),
            parts: inverses(&facts.part_of),
            made_by,
            used,
            facts,
        })
    }

    /// Determines the kind of start for a target of that type.
    pub(super) fn start(
        &self,
        schema: &Schema,
        direction: Direction,
        type_id: VertexTypeId,
        name: &str,
    ) -> Result<Start> {
        let joins = |types: &[EdgeTypeId], source: bool| {
            types
                .iter()
                .filter_map(|t| schema.edge_type(*t))
                .map(|t| if source { t.source } else { t.destination })
                .any(|end| schema.is_a(type_id, end))
        };
        if joins(&self.made_by, true) || joins(&self.used, false) {
            return Ok(Start::Data);
        }
        if joins(&self.made_by, false) || joins(&self.used, true) {
            return Ok(Start::Execution);
        }
        if direction == Direction::Impact && joins(&self.ran, true) {
            return Ok(Start::User);
        }
        let type_name = schema
            .vertex_type(type_id)
            .map_or_else(|| schema.prefix(type_id), |t| t.name.clone());
        Err(Error::Invalid(match direction {
            Direction::Lineage => format!(
                "`{name}` is a {type_name}: lineage starts from a data object or an execution; \
                 `impact` shows what came of a user's runs"
            ),
            Direction::Impact => format!(
                "`{name}` is a {type_name}: impact starts from a data object, an execution or a user"
            ),
        }))
    }

    /// All types of edges that describe an execution without being followed.
    pub(super) fn fact_types(&self) -> Vec<EdgeTypeId> {
        let f = &self.facts;
        let mut all: Vec<_> = [&f.run_by, &f.executable, &f.part_of]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
