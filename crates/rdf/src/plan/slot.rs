//! Slots of a plan's operators: what the executor did and chose, if a profile is requested.

use std::cell::RefCell;

/// The place of an operator in which the executor records its runs.
#[derive(Debug, Default)]
pub(crate) struct Slot(RefCell<Option<Box<Record>>>);

/// The runs of an operator.
#[derive(Debug, Default, Clone)]
pub(crate) struct Record {
    pub(crate) runs: u64,
    /// Solutions of the inputs, of all runs.
    pub(crate) rows_in: u64,
    /// Solutions of the operator, of all runs.
    pub(crate) rows_out: u64,
    /// Time with that of the inputs, in nanoseconds.
    pub(crate) nanos: u64,
    /// Choices, each with the number of its runs.
    pub(crate) chosen: Vec<(String, u64)>,
    /// Steps of a pattern that ran, each order of steps with the number of its runs.
    pub(crate) orders: Vec<(Vec<StepRecord>, u64)>,
}

/// The runs of a step.
#[derive(Debug, Clone)]
pub(crate) struct StepRecord {
    pub(crate) label: String,
    pub(crate) expected: Option<f64>,
    /// Rows before and after the step, and nanoseconds without later steps.
    pub(crate) counted: Option<(u64, u64, u64)>,
}

/// Limit of different choices, and of orders of steps, that an operator records.
const CHOICES_MAX: usize = 8;

impl Slot {
    pub(crate) fn record(&self, change: impl FnOnce(&mut Record)) {
        change(self.0.borrow_mut().get_or_insert_default());
    }

    /// Returns what the executor recorded.
    pub(super) fn recorded(&self) -> Record {
        self.0.borrow().as_deref().cloned().unwrap_or_default()
    }
}

impl Record {
    pub(crate) fn choose(&mut self, what: String) {
        let full = self.chosen.len() >= CHOICES_MAX;
        match self.chosen.iter_mut().find(|(text, _)| *text == what) {
            Some((_, runs)) => *runs += 1,
            None if full => {}
            None => self.chosen.push((what, 1)),
        }
    }

    /// Adds one run of a pattern's steps.
    pub(crate) fn add_steps(&mut self, steps: Vec<StepRecord>) {
        let alike = |known: &[StepRecord]| {
            known.len() == steps.len() && known.iter().zip(&steps).all(|(a, b)| a.label == b.label)
        };
        let full = self.orders.len() >= CHOICES_MAX;
        match self.orders.iter_mut().find(|(known, _)| alike(known)) {
            Some((known, runs)) => {
                *runs += 1;
                for (known, step) in known.iter_mut().zip(steps) {
                    if let (Some(all), Some(one)) = (&mut known.counted, step.counted) {
                        *all = (all.0 + one.0, all.1 + one.1, all.2 + one.2);
                    }
                }
            }
            None if full => {}
            None => self.orders.push((steps, 1)),
        }
    }
}
