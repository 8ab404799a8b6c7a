//! `esker object`: creates, imports, reads and changes objects.

mod change;
mod create;
mod get;
mod import;
mod names;

pub(crate) use names::{NO_OBJECTS, missing, object_name, parse_id};

use crate::args::ObjectCommand;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;

pub(crate) fn run(command: &ObjectCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        ObjectCommand::Create(args) => create::run(args, context),
        ObjectCommand::Import(args) => import::run(args, context),
        ObjectCommand::Get(args) => get::run(args, context),
        ObjectCommand::Update(args) => change::update(args, context),
        ObjectCommand::Delete(args) => change::delete(args, context),
        ObjectCommand::Move(args) => change::move_object(args, context),
    }
}
