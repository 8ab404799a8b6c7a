//! Changes of several callers in one commit.

use super::NamesTxn;
use super::batching::{ChangeSet, SetStatus};
use super::dedup;
use super::local_rows::LocalRows;
use super::source::{LocalOutcome, RowSource};
use super::subtree::SubtreeLoad;
use crate::Engine;
use crate::txn::{CommitKind, Group, Writer};
use esker_model::namespace::Change;
use esker_model::{Error, Result, Version};

impl Engine {
    /// Applies changes of several callers in order, each atomically; those that succeed form one commit. Without all rows,
    /// the changes of a caller are applied up to the first that needs other rows. Caller holds the write lock.
    pub(super) fn change_names_locked(
        &self,
        writer: &mut Writer,
        sets: &[ChangeSet<'_>],
        partial: Option<&dyn RowSource>,
    ) -> Result<Vec<Result<LocalOutcome>>> {
        let local = LocalRows(self);
        let source = partial.unwrap_or(&local);
        // Lost unless the commit succeeds: they may have names that do not exist. Other engines add names to directories of a
        // distributed namespace, so that there these filters serve one commit.
        let mut filters = std::mem::take(&mut writer.filters);
        let done = self.commit(writer, CommitKind::Local, &*self.store, |commit| {
            if let Some(partial) = partial {
                commit.overlay.over_names(partial);
            }
            let count: usize = sets.iter().map(|s| s.changes.len()).sum();
            if count > 16 {
                commit.overlay.reserve(count + 8);
            }
            let version = source.version();
            let version = version.inspect(|version| commit.witness(*version));
            let version = version.unwrap_or_else(|| commit.tick());
            let names = &mut NamesTxn::new(self, &mut filters, source);
            let answers = sets.iter();
            let answers = answers.map(|set| self.apply_set(commit, names, set, version));
            let answers = answers.collect();
            for (counter, change) in names.space.iter() {
                commit.effects.changes.add(counter, change);
            }
            commit.effects.moves_paths = names.structural;
            let rows = std::mem::take(&mut names.subtree_rows);
            if !rows.is_empty() {
                commit.effects.bypasses_feed = self.names.has_vertices();
                commit.bulk_load(SubtreeLoad::new(self, rows));
            }
            Ok(answers)
        });
        if done.is_err() {
            // They may contain directories that do not exist.
            self.names.directories.clear();
        } else if source.is_whole() {
            writer.filters = filters;
        }
        done
    }

    /// Applies the changes of one caller, unless they were applied before.
    fn apply_set(
        &self,
        commit: &mut Group<'_, '_>,
        names: &mut NamesTxn<'_>,
        set: &ChangeSet<'_>,
        version: Version,
    ) -> Result<LocalOutcome> {
        let now_millis = self.clock.now_millis();
        let numbered = match self.admit_set(set, commit.producers, now_millis)? {
            SetStatus::New(numbered) => numbered,
            SetStatus::Applied(answers) => {
                return Ok(LocalOutcome {
                    answers,
                    ..LocalOutcome::default()
                });
            }
        };
        let mut done = LocalOutcome::default();
        done.answers.reserve(set.changes.len());
        for change in set.changes {
            let structural = names.structural;
            let mut txn = commit.begin(version);
            let outcome = txn.change_name(names, set.principal, change);
            let effects = txn.effects;
            names.salt += 1;
            done.stopped = (names.source).stop(&commit.overlay, outcome.is_ok(), names.structural);
            if done.stopped.is_some() {
                commit.undo();
                names.structural = structural;
                break;
            }
            let put = std::mem::take(&mut names.put);
            match &outcome {
                Ok(_) => {
                    commit.keep(effects);
                    names.keep_differences();
                    if adds_entry(change) {
                        done.made.extend(put);
                    }
                }
                Err(e) => {
                    commit.undo();
                    names.current.clear();
                    names.local.clear();
                    if !matches!(e, Error::File(_)) {
                        names.invalidate_cache();
                        names.filters.clear();
                    }
                }
            }
            done.answers.push(outcome);
        }
        // A set that changed nothing is not recorded; a repetition may be decided differently.
        if let Some(numbered) = numbered
            && done.stopped.is_none()
            && done.answers.iter().any(Result::is_ok)
        {
            let answer = dedup::encode(version, &done.answers);
            commit.producers.answered(&numbered, now_millis, answer);
        }
        Ok(done)
    }
}

/// Whether a change adds an entry to a directory.
fn adds_entry(change: &Change) -> bool {
    matches!(
        change,
        Change::Create(..) | Change::Rename { .. } | Change::Link { .. }
    )
}
