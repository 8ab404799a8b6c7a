//! The provider's description and keys, with the ages up to which they are used.

use esker_access::jwt::KeySet;
use esker_model::{Error, Result};
use esker_rpc::oidc::Provider;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Age of the keys from which they are fetched again.
const KEYS_FRESH: Duration = Duration::from_mins(10);
/// Age up to which keys are used while the provider does not answer.
const KEYS_MAX: Duration = Duration::from_hours(12);
/// Time between two requests for keys that a token names and the provider has not published.
const UNKNOWN_EVERY: Duration = Duration::from_mins(1);
/// Time for which a failed request is not repeated.
const FAILURE_KEPT: Duration = Duration::from_secs(5);

/// Description and keys of one provider.
pub(super) struct ProviderCache {
    issuer: String,
    state: Mutex<CacheState>,
    /// Held during requests, so that there is one at a time.
    asking: Mutex<()>,
}

#[derive(Default)]
struct CacheState {
    description: Option<(Provider, Instant)>,
    keys: Option<(Arc<KeySet>, Instant)>,
    /// Message of the last request, if it failed.
    failure: Option<(String, Instant)>,
    asked_unknown: Option<Instant>,
}

impl CacheState {
    /// Returns the keys if they are younger than a limit.
    fn keys_up_to(&self, age: Duration) -> Option<Arc<KeySet>> {
        let (keys, at) = self.keys.as_ref()?;
        (at.elapsed() < age).then(|| Arc::clone(keys))
    }

    fn description_up_to(&self, age: Duration) -> Option<Provider> {
        let (provider, at) = self.description.as_ref()?;
        (at.elapsed() < age).then(|| provider.clone())
    }

    /// The message of a request that failed a moment ago.
    fn recent_failure(&self) -> Option<Error> {
        let (why, at) = self.failure.as_ref()?;
        (at.elapsed() < FAILURE_KEPT).then(|| Error::Unavailable(why.clone()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProviderCache {
    pub(super) fn new(issuer: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            state: Mutex::default(),
            asking: Mutex::default(),
        }
    }

    /// Returns the provider's description, at most as old as `age`.
    pub(super) fn description(&self, age: Duration) -> Result<Provider> {
        let found = |state: &CacheState| state.description_up_to(age);
        if let Some(provider) = found(&lock(&self.state)) {
            return Ok(provider);
        }
        let _asking = lock(&self.asking);
        // Another thread may have asked meanwhile.
        if let Some(provider) = found(&lock(&self.state)) {
            return Ok(provider);
        }
        self.ask_description()
    }

    /// Asks for the description, unless that has failed a moment ago.
    fn ask_description(&self) -> Result<Provider> {
        if let Some(e) = lock(&self.state).recent_failure() {
            return Err(e);
        }
        let asked = Provider::discover(&self.issuer, &|| false);
        self.note_failure(asked.as_ref().err());
        let provider = asked?;
        lock(&self.state).description = Some((provider.clone(), Instant::now()));
        Ok(provider)
    }

    fn note_failure(&self, failed: Option<&Error>) {
        let mut state = lock(&self.state);
        state.failure = failed.map(|e| (e.to_string(), Instant::now()));
    }

    /// Returns the provider's keys. Older ones are used while the provider does not answer, up to twelve hours.
    pub(super) fn keys(&self) -> Result<Arc<KeySet>> {
        let fresh = |state: &CacheState| {
            let usable = state.keys_up_to(KEYS_MAX);
            let failed = state.recent_failure().is_some();
            state.keys_up_to(KEYS_FRESH).or(usable.filter(|_| failed))
        };
        if let Some(keys) = fresh(&lock(&self.state)) {
            return Ok(keys);
        }
        let _asking = lock(&self.asking);
        if let Some(keys) = fresh(&lock(&self.state)) {
            return Ok(keys);
        }
        match self.ask_keys() {
            Ok(keys) => Ok(keys),
            Err(e) => match lock(&self.state).keys_up_to(KEYS_MAX) {
                Some(keys) => {
                    tracing::warn!("{e}; its keys of before are used for up to 12 h");
                    Ok(keys)
                }
                None => Err(e),
            },
        }
    }

    fn ask_keys(&self) -> Result<Arc<KeySet>> {
        let known = lock(&self.state).description_up_to(KEYS_FRESH);
        let provider = match known {
            Some(provider) => provider,
            None => self.ask_description()?,
        };
        let asked = provider.keys(&|| false);
        self.note_failure(asked.as_ref().err());
        let keys = Arc::new(asked?);
        lock(&self.state).keys = Some((Arc::clone(&keys), Instant::now()));
        Ok(keys)
    }

    /// Asks for keys that `than` does not have, at most once a minute; `None` without newer keys.
    pub(super) fn newer_keys(&self, than: &Arc<KeySet>) -> Option<Arc<KeySet>> {
        let _asking = lock(&self.asking);
        {
            let mut state = lock(&self.state);
            if let Some((keys, _)) = &state.keys
                && !Arc::ptr_eq(keys, than)
            {
                return Some(Arc::clone(keys));
            }
            if state
                .asked_unknown
                .is_some_and(|at| at.elapsed() < UNKNOWN_EVERY)
            {
                return None;
            }
            state.asked_unknown = Some(Instant::now());
        }
        self.ask_keys()
            .inspect_err(|e| tracing::warn!("a token names a key that is not known, and {e}"))
            .ok()
    }
}
