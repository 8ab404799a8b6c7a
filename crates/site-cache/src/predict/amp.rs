//! AMP (Lin, Li, Jiang, Zhu, Tian, CCGRID 2008): n-grams of each client's requests.
//!
//! A 3-gram: the last two requests of a client say what comes next. After a miss up to six requests are prefetched: the
//! likeliest chain of what follows, each step by the model. Training is quasi-online: requests of one period are
//! counted while the model of the periods before it predicts.

use super::{Access, Predictor, View, Wish};
use crate::entry::Request;
use crate::path::PathId;
use crate::recent::Recent;

/// AMP's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmpSettings {
    /// How many requests are prefetched after a miss; the paper found six best.
    pub candidates: usize,
    /// Requests of a period of training.
    pub period: u64,
    /// Contexts that the model keeps.
    pub contexts: usize,
    /// Clients whose last requests are kept.
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

/// Successors kept of a context.
const SUCCESSORS: usize = 6;

type Context = (Request, Request);
type Followers = [Option<(Request, u32)>; SUCCESSORS];

/// The predictor.
#[derive(Debug)]
pub struct Amp {
    settings: AmpSettings,
    /// What predicts.
    model: Recent<Context, Followers>,
    /// What was seen in this period and is not in the model yet.
    period: Vec<(Context, Request)>,
    seen: u64,
    /// The last two requests of each client.
    last: Recent<u32, (Option<Request>, Request)>,
}

impl Amp {
    /// Untrained.
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

/// The likeliest first; of those alike, the one that was seen first.
fn by_weight(followers: &Followers) -> Vec<Request> {
    let mut all: Vec<(Request, u32)> = followers.iter().flatten().copied().collect();
    all.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    all.into_iter().map(|(request, _)| request).collect()
}

impl Predictor for Amp {
    fn learn(&mut self, access: Access, _view: &dyn View) {
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

    fn predict(&mut self, access: Access, _view: &dyn View, wishes: &mut Vec<Wish>) {
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
        // Room that the chain leaves is for what else has followed.
        for other in others {
            if found.len() < self.settings.candidates && !found.contains(&other) {
                found.push(other);
            }
        }
        for (place, request) in found.into_iter().enumerate() {
            let priority = 5_u8.saturating_sub(place as u8);
            wishes.push(Wish { request, priority });
        }
    }

    fn trained(&mut self) {
        self.train();
        self.last = Recent::new(self.settings.clients);
    }

    fn held(&self, mark: &mut dyn FnMut(PathId)) {
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
