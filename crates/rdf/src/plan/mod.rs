//! Planning: from an algebra expression to a tree of operators, which the executor runs as it is.

mod build;
mod group;
mod order;
mod pattern;
mod show;
mod slot;
mod steps;
mod tree;
mod view;

pub(crate) use build::{Required, plan};
pub(crate) use pattern::is_movable;
pub(crate) use show::{show, show_step};
pub(crate) use slot::{Slot, StepRecord};
pub(crate) use steps::{Constraint, Side, Step};
pub(crate) use tree::{
    EachGraph, Filter, Join, LEADING_MAX, Later, Mode, Op, Optional, OrderBy, PathSearch, Pattern,
    Plan, ROW, SENT_MAX, Union,
};
pub use view::{PlanNode, PlanRun};
