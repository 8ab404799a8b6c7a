//! Options, scratch folder and report of the timed workloads.

use crate::args::Common;
use crate::report::Report;
use crate::scratch::Scratch;
use esker_terminal::context::Context;

/// The context of a workload.
pub(crate) struct Bench<'a> {
    pub(crate) args: &'a Common,
    pub(crate) context: &'a Context,
    pub(crate) scratch: &'a Scratch,
    pub(crate) report: &'a mut Report,
}

impl Bench<'_> {
    /// Returns an error once the user has interrupted; the measurements so far are printed.
    pub(crate) fn check_interrupt(&self) -> anyhow::Result<()> {
        match self.context.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        }
    }

    /// Prints a progress message.
    pub(crate) fn say(&self, text: &str) {
        self.context.note(text);
    }
}

pub(crate) fn is_interruption(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<esker_model::Error>()
        .is_some_and(|e| matches!(e, esker_model::Error::Interrupted))
}
