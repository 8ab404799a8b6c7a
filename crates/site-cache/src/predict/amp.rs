//! AMP (Lin, Li, Jiang, Zhu, Tian, CCGRID 2008): n-grams of each client's requests.
//!
//! A 3-gram: the last two requests of a client predict the next one. After a miss, up to six requests are prefetched: the most
//! likely chain of successors, step by step. Training is quasi-online: the requests of one period are counted while the model
//! of the earlier periods predicts.

use super::{Access, CacheView, Predictor, PrefetchRequest};
use crate::entry::Request;
use crate::path::PathId;
use crate::recent::Recent;

/// Parameters of the AMP predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmpSettings {
    /// Number of requests prefetched after a miss; six was best in the paper.
    pub candidates: usize,
    /// Requests per training period.
    pub period: u64,
    /// Maximum number of contexts in the model.
    pub contexts: usize,
    /// Maximum number of clients whose last requests are kept.
    pub clients: usize,
}

impl Default for AmpSettings {
    fn default() -> Self {
        Self {
            candidates: 6,
            period: 50_000,
            contexts: 1 << 21,
            clients: 1 << 16,
        }
    }
}

/// Maximum number of successors per context.
const SUCCESSORS: usize = 6;

type Context = (Request, Request);
type Followers = [Option<(Request, u32)>; SUCCESSORS];

/// Predictor AMP with its model.
#[derive(Debug)]
pub struct Amp {
    settings: AmpSettings,
    /// Model used for predictions.
    model: Recent<Context, Followers>,
    /// Observations of this period, not yet in the model.
    period: Vec<(Context, Request)>,
    seen: u64,
    /// Last two requests of each client.
    last: Recent<u32, (Option<Request>, Request)>,
}

impl Amp {
    /// Creates an untrained predictor.
    pub fn new(settings: AmpSettings) -> Self {
        Self {
            settings,
            model: Recent::new(settings.contexts),
            period: Vec::new(),
            seen: 0,
            last: Recent::new(settings.clients),
        }
    }

    fn train(&mut self) {
        for (context, next) in std::mem::take(&mut self.period) {
            let (followers, _) = self.model.get_or_put(context, Followers::default);
            count(followers, next);
        }
    }
}

fn count(followers: &mut Followers, next: Request) {
    let mut lightest = (u32::MAX, 0);
    for (at, place) in followers.iter_mut().enumerate() {
        match place {
            Some((request, times)) if *request == next => {
                *times += 1;
                return;
            }
            Some((_, times)) if *times < lightest.0 => lightest = (*times, at),
            Some(_) => {}
            None => {
                *place = Some((next, 1));
                return;
            }
        }
    }
    followers[lightest.1] = Some((next, 1));
}

/// Returns the successors, most frequent first; ties keep the order of first occurrence.
fn by_weight(followers: &Followers) -> Vec<Request> {
    let mut all: Vec<(Request, u32)> = followers.iter().flatten().copied().collect();
    all.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    all.into_iter().map(|(request, _)| request).collect()
}

impl Predictor for Amp {
    fn learn(&mut self, access: Access, _view: &dyn CacheView) {
        let request = access.request;
        match self.last.get(access.client) {
            Some((before, last)) => {
                if let Some(before) = before {
                    self.period.push(((*before, *last), request));
                }
                (*before, *last) = (Some(*last), request);
            }
            None => {
                self.last.put(access.client, (None, request));
            }
        }
        self.seen += 1;
        if self.seen.is_multiple_of(self.settings.period) {
            self.train();
        }
    }

    fn predict(
        &mut self,
        access: Access,
        _view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if !access.outcome.waits() {
            return;
        }
        let Some((Some(before), last)) = self.last.peek(access.client).copied() else {
            return;
        };
        let mut context = (before, last);
        let mut others = Vec::new();
        let mut found: Vec<Request> = Vec::new();
        while found.len() < self.settings.candidates {
            let Some(followers) = self.model.peek(context) else {
                break;
            };
            let mut ranked = by_weight(followers).into_iter();
            let Some(best) = ranked.next() else { break };
            if found.contains(&best) || best == last {
                break;
            }
            if found.is_empty() {
                others.extend(ranked);
            }
            found.push(best);
            context = (context.1, best);
        }
        // The remaining candidates are other successors.
        for other in others {
            if found.len() < self.settings.candidates && !found.contains(&other) {
                found.push(other);
            }
        }
        for (place, request) in found.into_iter().enumerate() {
            let priority = 5_u8.saturating_sub(place as u8);
            prefetches.push(PrefetchRequest { request, priority });
        }
    }

    fn end_training(&mut self) {
        self.train();
        self.last = Recent::new(self.settings.clients);
    }

    fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        let mut both = |(one, other): &Context| {
            mark(one.path);
            mark(other.path);
        };
        for (context, followers) in self.model.iter() {
            both(&context);
            for (request, _) in followers.iter().flatten() {
                both(&(*request, *request));
            }
        }
        for (context, next) in &self.period {
            both(context);
            both(&(*next, *next));
        }
        for (_, (before, last)) in self.last.iter() {
            both(&(before.unwrap_or(*last), *last));
        }
    }
}
