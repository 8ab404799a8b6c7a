//! Faults that only real processes have: a disk without room, a client that is cut off from all servers.

use crate::failover::{batch, identity};
use crate::moving::{Moving, found, through, wait_for};
use crate::serve::{run, text};
use esker_model::GraphWrite as _;
use esker_model::object::Identity;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
