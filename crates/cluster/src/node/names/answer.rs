//! Namespace requests of other servers.

use super::calls::CallState;
use super::change::ChangeOptions;
use crate::node::Node;
use crate::peer::{NamesCall, NamesReply, Refusal, entries_vertex};
use crate::vnode::ServerId;
use esker_engine::{EntriesPage, ListCursor, RawEntry};
use esker_model::{Result, VertexId};
use std::sync::Arc;

/// Largest number of entries in a page.
const PAGE_MAX: usize = 4_096;

impl Node {
    pub(crate) async fn answer_names(
        self: &Arc<Self>,
        from: ServerId,
        call: NamesCall,
    ) -> Result<NamesReply> {
        Ok(match call {
            NamesCall::Rows { keys } => self.rows_here(&keys).await?,
            NamesCall::Change {
                call,
                principal,
                changes,
                idempotency_key,
                apply_remote,
            } => match self.take_call(from, call).await? {
                CallState::Answered(reply) => reply,
                CallState::New => {
                    let (answers, splits) = self
                        .change_here(
                            principal.as_ref(),
                            &changes,
                            ChangeOptions {
                                idempotency_key: idempotency_key.as_deref(),
                                apply_remote,
                            },
                        )
                        .await?;
                    let answers = answers.into_iter().map(|a| a.map_err(Refusal::from));
                    let reply = NamesReply::Changed(answers.collect(), splits);
                    self.answered_call(from, call, &reply);
                    reply
                }
            },
            NamesCall::Sums { of } => NamesReply::Sums(self.own_names().sums(&of)?),
            NamesCall::Page {
                directory,
                from,
                limit,
            } => self.entry_page_here(directory, from, limit).await?,
            NamesCall::Children { of } => {
                let children = of.iter().map(|id| self.own_names().children(*id));
                NamesReply::Children(children.collect::<Result<_>>()?)
            }
            NamesCall::Count {
                directory,
                first,
                last,
            } => NamesReply::Count(self.count_range(directory, (first, last))?),
            NamesCall::ExchangeFlags(theirs) => NamesReply::Flags(self.merge_flags(theirs)),
            NamesCall::LeaseVertex { vertex } => {
                NamesReply::LeaseMillis(self.own_names().lease_vertex(vertex))
            }
            NamesCall::DirectoryLeases => {
                let millis = self.own_names().lease_millis_left(&[], &[], &[], true);
                NamesReply::LeaseMillis(u32::try_from(millis).unwrap_or(u32::MAX))
            }
            NamesCall::Last { id } => {
                let last = self.own_names().last_state(id)?;
                NamesReply::Rows(last.into_iter().map(|(_, row)| Some(row)).collect())
            }
            NamesCall::Space { by } => NamesReply::Space(self.own_names().space(by)?),
        })
    }

    /// Returns entries of a directory that are here, from a hash on.
    async fn entry_page_here(
        self: &Arc<Self>,
        directory: VertexId,
        from: ListCursor,
        limit: u32,
    ) -> Result<NamesReply> {
        let limit = (limit as usize).clamp(1, PAGE_MAX);
        let deadline = self.names_deadline();
        loop {
            let before = self.stable_splits(directory, from.0);
            match before {
                None => {}
                Some(None) => {
                    let known = self.encoded_splits(&self.state(), &[entries_vertex(directory)]);
                    return Ok(NamesReply::Moved(known));
                }
                Some(Some(splits)) => {
                    let (entries, next) = self.read_page(directory, from, limit)?;
                    if self.stable_splits(directory, from.0) == Some(Some(splits)) {
                        return Ok(NamesReply::Page { entries, next });
                    }
                }
            }
            self.wait_for_names(deadline).await?;
        }
    }

    /// Returns how a directory has split if entries with that hash are here (`Some(None)` if not); `None` while the
    /// directory splits or pending transactions may change its entries.
    fn stable_splits(
        &self,
        directory: VertexId,
        hash: u64,
    ) -> Option<Option<Vec<(VertexId, Vec<u8>)>>> {
        let state = self.state();
        let id = entries_vertex(directory);
        if Self::entries_move(&state, directory)
            || state.pending.touches(id)
            || state.pending.structure_changes()
        {
            return None;
        }
        if self.entries_here(&state, directory, hash).is_none() {
            return Some(None);
        }
        Some(Some(self.encoded_splits(&state, &[id])))
    }

    fn read_page(
        &self,
        directory: VertexId,
        from: ListCursor,
        limit: usize,
    ) -> Result<EntriesPage> {
        let mut entries: Vec<RawEntry> = Vec::new();
        let mut from = from;
        loop {
            let here = self.entries_here(&self.state(), directory, from.0);
            let Some((_, last)) = here else {
                return Ok((entries, Some(from)));
            };
            let left = limit.saturating_sub(entries.len());
            let (page, more) = self.own_names().page(directory, from, last, left)?;
            let end = page.last().map(|(key, _)| key.clone());
            entries.extend(page);
            if more {
                let end = end
                    .as_deref()
                    .map(esker_model::namespace::record::decode_dentry_key);
                let next = match end {
                    Some(Ok((_, hash, n))) => (hash, Some(n)),
                    // The page was full before the first entry.
                    _ => from,
                };
                return Ok((entries, Some(next)));
            }
            match last.checked_add(1) {
                Some(next) => from = (next, None),
                None => return Ok((entries, None)),
            }
        }
    }
}
