//! Synthetic objects of the BOSS case: 276,575 spectra in 4,888 groups of one plate and night (mjd), each with its fiber number,
//! as the paper counts them (section III-F).

use crate::random::Random;
use esker_model::filter::{Comparison, Expr, Test};
use esker_model::object::Identity;
use esker_model::{Batch, Op, Properties, Value};
use std::fmt::Write as _;

/// Total number of spectra.
pub(super) const OBJECTS: usize = 276_575;
/// Number of pairs of plate and night.
pub(super) const GROUPS: usize = 4_888;
/// Fibers of a plate, numbered from 1.
const FIBERS: u32 = 1000;
/// Percentages of the objects that are tagged, retrieved and searched.
pub(super) const PARTS: [u32; 6] = [1, 2, 4, 8, 16, 32];

const FIRST_PLATE: u32 = 3586;
const FIRST_NIGHT: u32 = 55_176;
const NIGHTS: u64 = 1500;
const SEED: u64 = 2018;

/// One spectrum of the survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spectrum {
    pub(super) plate: u32,
    pub(super) mjd: u32,
    pub(super) fiber: u32,
}

impl Spectrum {
    /// Returns the name of the spectrum's file.
    pub(super) fn file(self) -> String {
        let Self { plate, mjd, fiber } = self;
        format!("spec-{plate:04}-{mjd:05}-{fiber:04}.fits")
    }

    /// Returns the ID attributes: the group is the name, the fiber the time step.
    pub(super) fn identity(self) -> Identity {
        Identity {
            name: format!("spec-{:04}-{:05}", self.plate, self.mjd),
            app: "boss".to_owned(),
            owner: 1001,
            step: i64::from(self.fiber),
        }
    }

    /// Returns a filter on tags that finds the spectrum, as text.
    pub(super) fn filter(self) -> String {
        let Self { plate, mjd, fiber } = self;
        format!("plate = {plate} AND mjd = {mjd} AND step = {fiber}")
    }

    /// Returns the same filter as an expression.
    pub(super) fn condition(self) -> Expr {
        let Self { plate, mjd, fiber } = self;
        let is = |name: &str, value: u32| {
            let value = Value::from(i64::from(value));
            Expr::term(name, Test::Compare(Comparison::Eq, value))
        };
        Expr::all_of([is("plate", plate), is("mjd", mjd), is("step", fiber)])
    }

    fn op(self) -> Op {
        Op::CreateObject {
            identity: self.identity(),
            attributes: Properties::new().with("location", self.file()),
            tags: Properties::new()
                .with("mjd", i64::from(self.mjd))
                .with("plate", i64::from(self.plate)),
        }
    }
}

/// Returns all spectra, group by group.
pub(super) fn spectra() -> Vec<Spectrum> {
    let mut random = Random::new(SEED);
    // Between 1 and 112 per group, then adjusted by one until the total is the paper's.
    let mut sizes: Vec<usize> = (0..GROUPS)
        .map(|_| random.next_below(112) as usize + 1)
        .collect();
    let mut sum: usize = sizes.iter().sum();
    for group in (0..GROUPS).cycle() {
        let size = &mut sizes[group];
        if sum < OBJECTS {
            *size += 1;
            sum += 1;
        } else if sum > OBJECTS && *size > 1 {
            *size -= 1;
            sum -= 1;
        } else if sum == OBJECTS {
            break;
        }
    }
    let mut spectra = Vec::with_capacity(OBJECTS);
    let mut night = 0;
    for (group, size) in sizes.into_iter().enumerate() {
        // Two nights for each plate.
        let plate = FIRST_PLATE + group as u32 / 2;
        night = if group % 2 == 0 {
            FIRST_NIGHT + random.next_below(NIGHTS) as u32
        } else {
            night + 1 + random.next_below(400) as u32
        };
        let mut fibers: Vec<u32> = (1..=FIBERS).collect();
        random.shuffle(&mut fibers);
        fibers.truncate(size);
        fibers.sort_unstable();
        spectra.extend(fibers.into_iter().map(|fiber| Spectrum {
            plate,
            mjd: night,
            fiber,
        }));
    }
    spectra
}

/// Returns the spectra as CSV for other databases.
pub(super) fn table(spectra: &[Spectrum]) -> String {
    let mut text = String::from("plate,mjd,fiber,name\n");
    for spectrum in spectra {
        let Spectrum { plate, mjd, fiber } = spectrum;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{plate},{mjd},{fiber},{}", spectrum.file());
    }
    text
}

/// Builds a batch that creates the spectra as objects.
pub(super) fn batch(spectra: &[Spectrum]) -> Batch {
    let mut batch = Batch::new();
    spectra.iter().for_each(|s| batch.push(s.op()));
    batch
}

/// Returns the smallest plate number such that at least `part` percent of the objects have it or a lower one, and the number
/// of these objects; equal to `scripts/boss_peers.py`.
pub(super) fn bound(spectra: &[Spectrum], part: u32) -> (u32, usize) {
    let mut plates: Vec<u32> = spectra.iter().map(|s| s.plate).collect();
    plates.sort_unstable();
    let last = (plates.len() * part as usize).div_ceil(100).max(1) - 1;
    let plate = plates[last];
    (plate, plates.partition_point(|p| *p <= plate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn as_many_as_the_paper_has() {
        let spectra = spectra();
        assert_eq!(spectra.len(), OBJECTS);
        let groups: HashSet<_> = spectra.iter().map(|s| (s.plate, s.mjd)).collect();
        assert_eq!(groups.len(), GROUPS);
        let different: HashSet<_> = spectra.iter().collect();
        assert_eq!(different.len(), OBJECTS);
        assert!(spectra.iter().all(|s| (1..=FIBERS).contains(&s.fiber)));
    }

    #[test]
    fn a_condition_is_its_text() {
        for spectrum in spectra().into_iter().step_by(9_999) {
            let text = Expr::parse(&spectrum.filter(), None).unwrap();
            assert_eq!(spectrum.condition(), text);
        }
    }

    #[test]
    fn parts_are_what_they_say() {
        let spectra = spectra();
        for part in PARTS {
            let (plate, objects) = bound(&spectra, part);
            let share = objects as f64 * 100.0 / OBJECTS as f64;
            assert!(
                share >= f64::from(part) && share < f64::from(part) + 0.1,
                "{part}: {share}"
            );
            let counted = spectra.iter().filter(|s| s.plate <= plate).count();
            assert_eq!(counted, objects);
        }
    }
}
