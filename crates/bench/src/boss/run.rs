//! The queries on the objects, in the order of `scripts/boss_peers.py`.

use super::BossBenchArgs;
use super::data::{self, PARTS, Spectrum};
use super::peers::Peers;
use crate::random::Random;
use crate::report::{Figure, FigureTarget, Report, Unit, median};
use esker::Database;
use esker_model::filter::Expr;
use esker_model::object::{
    Find, Found, ObjectKey, ObjectRead as _, ObjectWrite as _, TagChange, TagWhere, object_type,
};
use esker_model::{
    Batch, Flow, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, VertexRef,
};
use esker_terminal::context::Context;
use esker_terminal::units::count;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The tags that other databases have as columns.
const COLUMNS: [&str; 4] = ["plate", "mjd", "step", "location"];

/// One database, in this process or of a server.
pub(super) struct BossCase<'a> {
    pub(super) args: &'a BossBenchArgs,
    pub(super) context: &'a Context,
    pub(super) report: &'a mut Report,
    pub(super) peers: &'a Peers,
    pub(super) spectra: &'a [Spectrum],
    pub(super) database: &'a Database,
    pub(super) served: bool,
}

impl BossCase<'_> {
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        let note = if self.served {
            "through a server"
        } else {
            "in this process"
        };
        self.context.note(&format!("BOSS {note}"));
        self.load()?;
        self.single()?;
        for part in PARTS {
            self.group(part)?;
        }
        for part in PARTS {
            self.retrieve(part)?;
        }
        for part in PARTS {
            self.range(part)?;
        }
        Ok(())
    }

    fn check_interrupt(&self) -> anyhow::Result<()> {
        match self.context.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        }
    }

    /// Adds a figure next to the best of the other databases, which call it `row`.
    fn add(&mut self, row: &str, case: &str, unit: Unit, figure: f64, note: &str) {
        let case = if self.served {
            format!("{case}, through a server")
        } else {
            case.to_owned()
        };
        let mut figure = Figure::new(case, unit, figure).note(note);
        if let Some(best) = self.peers.best(row, !self.served) {
            let notes = [note, &best.all];
            let notes = notes.into_iter().filter(|n| !n.is_empty());
            figure.note = notes.collect::<Vec<_>>().join("; ");
            figure = figure.raw(best.figure).target(FigureTarget::Ratio(1.0));
        }
        self.report.add(figure);
    }

    /// Returns the median time of the rounds in milliseconds.
    fn timed(
        &self,
        mut run: impl FnMut(u32) -> anyhow::Result<u64>,
        expected: usize,
    ) -> anyhow::Result<f64> {
        let mut rounds = Vec::new();
        for round in 0..self.args.rounds {
            self.check_interrupt()?;
            let began = Instant::now();
            let got = run(round)?;
            rounds.push(began.elapsed().as_secs_f64() * 1e3);
            anyhow::ensure!(got == expected as u64, "{got} objects, expected {expected}");
        }
        Ok(median(rounds))
    }

    /// Inserts the objects, then builds the indexes.
    fn load(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        if self.served {
            self.send_batches()?;
        } else {
            self.write_batches()?;
        }
        let millis = began.elapsed().as_secs_f64() * 1e3;
        let rate = count((self.spectra.len() as f64 / millis * 1e3) as u64);
        let note = format!("{rate} objects/s, the making of batches included");
        self.add("load", "load", Unit::Millis, millis, &note);
        let began = Instant::now();
        for name in ["plate", "mjd", "step"] {
            self.database.set_index(name, true)?;
        }
        let millis = began.elapsed().as_secs_f64() * 1e3;
        self.add("index", "build the indexes", Unit::Millis, millis, "");
        Ok(())
    }

    /// Writes from two threads, each of which makes its batches and writes them, so that one makes while the other writes. Memory
    /// allocated by another thread would be freed more slowly.
    fn write_batches(&self) -> anyhow::Result<()> {
        let chunks: Vec<_> = self.spectra.chunks(self.args.batch as usize).collect();
        let next = AtomicUsize::new(0);
        let write = || -> anyhow::Result<()> {
            while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.database.apply(data::batch(chunk))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(write);
            let mine = write();
            let theirs = other
                .join()
                .map_err(|_| anyhow::anyhow!("a thread that wrote panicked"))?;
            mine.and(theirs)
        })
    }

    /// Sends batches made by another thread, three in flight.
    fn send_batches(&self) -> anyhow::Result<()> {
        let size = self.args.batch as usize;
        std::thread::scope(|scope| -> anyhow::Result<()> {
            let (sender, batches) = std::sync::mpsc::sync_channel::<Batch>(2);
            let spectra = self.spectra;
            scope.spawn(move || {
                let made = spectra.chunks(size).map(data::batch);
                // The receiver stops after a failure.
                made.map(|b| sender.send(b)).find(Result::is_err)
            });
            let mut sent = std::collections::VecDeque::new();
            for batch in batches {
                sent.push_back(self.database.submit(batch)?);
                if sent.len() > 2
                    && let Some(first) = sent.pop_front()
                {
                    first.wait()?;
                }
            }
            for batch in sent {
                batch.wait()?;
            }
            Ok(())
        })
    }

    /// Single objects: looked up by identity, searched by tags, tagged.
    fn single(&mut self) -> anyhow::Result<()> {
        let mut some = self.spectra.to_vec();
        Random::new(1).shuffle(&mut some);
        some.truncate(self.args.lookups as usize);
        let exact = self.rate(&some, |s| self.lookup(s).map(drop))?;
        self.add(
            "esearch",
            "E-search by identity",
            Unit::CallsPerSecond,
            exact,
            "",
        );
        let one = |s: Spectrum, filter: Expr| {
            let got = self.search(&Find::all(filter), |_| {})?;
            anyhow::ensure!(got == 1, "{s:?} is there {got} times");
            Ok(())
        };
        // Other databases use prepared statements with parameters.
        let by_tags = self.rate(&some, |s| one(s, s.condition()))?;
        let by_text = self.rate(&some, |s| one(s, Expr::parse(&s.filter(), None)?))?;
        self.add(
            "esearch",
            "P-search by plate, mjd and step",
            Unit::CallsPerSecond,
            by_tags,
            &format!("{}/s with the text parsed each time", count(by_text as u64)),
        );
        let schema = self.database.schema()?;
        let type_id = object_type(&schema).ok_or_else(|| anyhow::anyhow!("no type of objects"))?;
        let tagged = self.rate(&some, |s| {
            let vertex = VertexRef {
                id: self.lookup(s)?.id.vertex(),
                type_id,
            };
            let mut batch = Batch::new();
            batch.push(Op::SetAttributes {
                vertex,
                set: Properties::new().with("checked", 1_i64),
                remove: Vec::new(),
            });
            self.database.apply(batch)?;
            Ok(())
        })?;
        self.add(
            "tag one",
            "tag one object",
            Unit::CallsPerSecond,
            tagged,
            "found by identity first; a commit each",
        );
        Ok(())
    }

    fn rate(
        &self,
        some: &[Spectrum],
        mut each: impl FnMut(Spectrum) -> anyhow::Result<()>,
    ) -> anyhow::Result<f64> {
        let began = Instant::now();
        for chunk in some.chunks(256) {
            self.check_interrupt()?;
            chunk.iter().try_for_each(|s| each(*s))?;
        }
        Ok(some.len() as f64 / began.elapsed().as_secs_f64())
    }

    fn lookup(&self, spectrum: Spectrum) -> anyhow::Result<Found> {
        let key = [ObjectKey::from(spectrum.identity())];
        let found = self.database.read_objects(&key, None)?;
        let found = found.into_iter().flatten().next();
        found.ok_or_else(|| anyhow::anyhow!("{} is missing", spectrum.file()))
    }

    fn search(&self, find: &Find, mut each: impl FnMut(Found)) -> anyhow::Result<u64> {
        let report = self.database.find(find, &NeverCancel, &mut |found| {
            each(found);
            Flow::Continue(())
        })?;
        anyhow::ensure!(report.complete, "a search is not complete");
        Ok(report.matches)
    }

    /// Returns all found objects, collected by the caller as other clients do.
    fn fetch(&self, find: &Find) -> anyhow::Result<u64> {
        let mut all = Vec::new();
        self.search(find, |found| all.push(found))?;
        Ok(std::hint::black_box(all).len() as u64)
    }

    /// Returns the found objects as columns, as embedded analytical databases do.
    fn gather(&self, find: &Find) -> anyhow::Result<u64> {
        let found = self.database.find_columns(find, &NeverCancel)?;
        anyhow::ensure!(found.report.complete, "a search is not complete");
        Ok(std::hint::black_box(found).ids.len() as u64)
    }

    /// Tags a part of all objects.
    fn group(&mut self, part: u32) -> anyhow::Result<()> {
        let (plate, objects) = data::bound(self.spectra, part);
        let filter = Expr::parse(&format!("plate <= {plate}"), None)?;
        let millis = self.timed(
            |round| {
                let tag = TagWhere {
                    filter: filter.clone(),
                    change: TagChange {
                        set: Properties::new().with(tag(part, round), 1_i64),
                        ..TagChange::default()
                    },
                    principal: None,
                    dry_run: false,
                    idempotency_key: None,
                };
                Ok(self.database.tag_where(&tag, &NeverCancel)?.changed)
            },
            objects,
        )?;
        let case = format!("group {part} %");
        self.add(&format!("group {part}"), &case, Unit::Millis, millis, "");
        Ok(())
    }

    /// Retrieves the objects by that tag.
    fn retrieve(&mut self, part: u32) -> anyhow::Result<()> {
        let (_, objects) = data::bound(self.spectra, part);
        let filter = Expr::parse(&format!("{} = 1", tag(part, 0)), None)?;
        // The first search scans the column; the second builds an index if that is cheaper.
        let began = Instant::now();
        self.fetch(&with(&filter, Some(&COLUMNS)))?;
        let first = began.elapsed().as_secs_f64() * 1e3;
        self.fetch(&with(&filter, Some(&COLUMNS)))?;
        let one_by_one = self.timed(|_| self.fetch(&with(&filter, Some(&COLUMNS))), objects)?;
        let columns = self.timed(|_| self.gather(&with(&filter, Some(&COLUMNS))), objects)?;
        let all = self.timed(|_| self.fetch(&with(&filter, None)), objects)?;
        let ids = self.timed(|_| self.gather(&with(&filter, Some(&[]))), objects)?;
        let note = format!(
            "{} as columns; object by object {one_by_one:.2} ms; the first time {first:.2} ms; all attributes and tags {all:.2} ms",
            COLUMNS.join(", ")
        );
        let case = format!("retrieve {part} %");
        let row = format!("retrieve {part}");
        self.add(&row, &case, Unit::Millis, columns, &note);
        let case = format!("retrieve {part} %, only numbers");
        self.add(&format!("ids {part}"), &case, Unit::Millis, ids, "");
        Ok(())
    }

    /// Searches by a range of a tag.
    fn range(&mut self, part: u32) -> anyhow::Result<()> {
        let (plate, objects) = data::bound(self.spectra, part);
        let filter = Expr::parse(&format!("plate <= {plate}"), None)?;
        let objects_one_by_one =
            self.timed(|_| self.fetch(&with(&filter, Some(&COLUMNS))), objects)?;
        let millis = self.timed(|_| self.gather(&with(&filter, Some(&COLUMNS))), objects)?;
        let case = format!("range P-search of {part} %");
        let note = format!("as columns; object by object {objects_one_by_one:.2} ms");
        self.add(&format!("range {part}"), &case, Unit::Millis, millis, &note);
        Ok(())
    }
}

fn tag(part: u32, round: u32) -> String {
    format!("group{part}_{round}")
}

fn with(filter: &Expr, columns: Option<&[&str]>) -> Find {
    let names = |columns: &[&str]| columns.iter().map(|c| (*c).to_owned()).collect();
    Find {
        select: columns.map(names),
        ..Find::all(filter.clone())
    }
}
