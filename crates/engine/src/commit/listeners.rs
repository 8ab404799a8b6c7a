//! Listeners of commits: the change feed and the watches of directories. One pass over the rows of a commit serves both.

use super::changed_row::ChangedRow;
use super::participant::{CommitParticipant, PendingCommit};
use crate::Engine;
use crate::feed::{Feed, FeedEntry};
use crate::names::NamesChange;
use esker_model::object::ObjectId;
use esker_model::{Result, Version};

/// News of a commit for the change feed.
enum FeedNews {
    /// No news: nobody follows, or no followed item was touched.
    None,
    /// The touched items.
    Listed(FeedEntry),
    /// Followers must read everything.
    Unlisted,
}

/// The listeners, for one commit.
pub(super) struct Listeners<'e> {
    engine: &'e Engine,
    feed: FeedNews,
    watched: Vec<NamesChange>,
}

impl<'e> Listeners<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self {
            engine,
            feed: FeedNews::None,
            watched: Vec::new(),
        }
    }

    fn end(&mut self, committed: bool) {
        let Engine { names, feed, .. } = self.engine;
        names
            .watch
            .notify(std::mem::take(&mut self.watched), committed);
        match std::mem::replace(&mut self.feed, FeedNews::None) {
            FeedNews::None => return,
            FeedNews::Listed(entry) => feed.append(entry),
            FeedNews::Unlisted => feed.invalidate(),
        }
        feed.committed(committed);
    }
}

impl CommitParticipant for Listeners<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        let Engine {
            names, feed, store, ..
        } = self.engine;
        let followed = feed.is_followed();
        let listed = commit.effects.are_listed();
        let file_vertices = names.has_vertices();
        let mut entry = (followed && listed).then(|| Feed::collect(store, file_vertices));
        let mut watched = names.watch.collect(store, file_vertices);
        if entry.is_some() || watched.is_some() {
            for row in commit.rows().filter_map(ChangedRow::of) {
                if let Some(entry) = &mut entry {
                    entry.add(row);
                }
                if let Some(watched) = &mut watched {
                    watched.add(row);
                }
            }
        }
        if let Some(watched) = watched {
            self.watched = watched.finish(&commit.effects.changes);
        }
        if followed && !listed {
            self.feed = FeedNews::Unlisted;
            feed.end_persistence(&mut commit.batch);
        }
        if let Some(entry) = entry {
            let objects = commit.new_objects.ids().map(ObjectId::vertex);
            let late = commit.effects.min_explicit.unwrap_or(Version::MAX);
            let entry = entry.finish(objects, late);
            // Followers ignore files without a vertex.
            if !entry.is_empty() {
                feed.persist(&entry, commit.version, &mut commit.batch);
                self.feed = FeedNews::Listed(entry);
            }
        }
        Ok(())
    }

    fn committed(&mut self, _commit: &PendingCommit) {
        self.end(true);
    }

    /// Listeners learn of changes that the store may have.
    fn aborted(&mut self, _commit: &PendingCommit) {
        self.end(false);
    }
}
