//! Users and groups by a name service that may be slow or hang: a cache, and a few threads that wait for the service.
//!
//! A lookup takes at most [`Ages::patience`]. If the service does not answer in that time, an answer from the cache is used that is not
//! older than [`Ages::stale`], else the lookup fails. At most [`THREADS`] threads wait for a service that hangs; lookups then fail at
//! once.

use crate::name_service::{Account, NameService, SystemNames};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of threads that ask the name service.
pub const THREADS: usize = 4;
/// Maximum number of lookups that wait for a thread.
const QUEUE_MAX: usize = 256;
/// Maximum number of cached answers.
const ENTRIES_MAX: usize = 16_384;
/// Time after which a thread without work ends.
const IDLE: Duration = Duration::from_secs(30);

/// Ages up to which cached answers are used, and the time limit of a lookup.
#[derive(Debug, Clone, Copy)]
pub struct Ages {
    /// Age up to which a user or a group is used without another lookup.
    pub found: Duration,
    /// Age up to which an unknown name stays unknown without another lookup.
    pub not_found: Duration,
    /// Age up to which an answer is used while the service fails or hangs.
    pub stale: Duration,
    /// Time limit of one lookup.
    pub patience: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            found: Duration::from_mins(1),
            not_found: Duration::from_secs(10),
            stale: Duration::from_mins(10),
            patience: Duration::from_secs(2),
        }
    }
}

/// Reason for a lookup without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// The name service has no such user or group.
    NotFound,
    /// The name service did not answer, or failed.
    Unavailable(String),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("the machine's name service (NSS) has no such name"),
            Self::Unavailable(why) => f.write_str(why),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Query {
    Login(String),
    Uid(u32),
    Group(String),
}

#[derive(Debug, Clone)]
enum Answer {
    Account(Arc<Account>),
    Group(u32),
}

#[derive(Debug)]
struct Entry {
    answer: Option<Answer>,
    at: Instant,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Query, Entry>,
    /// Errors of the service since the last answers.
    failures: HashMap<Query, (Instant, String)>,
    /// Lookups without an answer yet, with the time at which a thread began them.
    pending: HashMap<Query, Option<Instant>>,
    queue: VecDeque<Query>,
    threads: usize,
    idle: usize,
}

struct Shared {
    source: Box<dyn NameService>,
    ages: Ages,
    state: Mutex<State>,
    /// Signalled when a lookup is queued.
    queued: Condvar,
    /// Signalled when a lookup is answered.
    answered: Condvar,
}

/// Users and groups of a name service, cached. Clones share the cache and the threads.
#[derive(Clone)]
pub struct Accounts {
    shared: Arc<Shared>,
    /// Runs a closure that may wait for the service.
    run: fn(&mut dyn FnMut()),
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl State {
    /// Returns the cached answer if its age permits to use it without another lookup.
    fn fresh_answer(&self, query: &Query, ages: Ages) -> Option<Result<Answer, LookupError>> {
        let entry = self.entries.get(query)?;
        let age = match entry.answer {
            Some(_) => ages.found,
            None => ages.not_found,
        };
        (entry.at.elapsed() < age).then(|| entry.answer.clone().ok_or(LookupError::NotFound))
    }

    /// Whether all threads wait for a service that hangs.
    fn is_hung(&self, patience: Duration) -> bool {
        let late = |began: &&Option<Instant>| began.is_some_and(|at| at.elapsed() >= patience);
        self.pending.values().filter(late).count() >= THREADS
    }

    /// Stores an answer. The cache is bounded: if it is full, old answers are dropped.
    fn store(&mut self, query: Query, answer: Option<Answer>, stale: Duration) {
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.retain(|_, entry| entry.at.elapsed() < stale);
        }
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.clear();
        }
        let at = Instant::now();
        self.failures.remove(&query);
        self.entries.insert(query, Entry { answer, at });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, query: &Query) -> Result<Option<Answer>, String> {
        let account = |found: Option<Account>| found.map(|a| Answer::Account(Arc::new(a)));
        match query {
            Query::Login(login) => self.source.user_named(login).map(account),
            Query::Uid(uid) => self.source.user_numbered(*uid).map(account),
            Query::Group(name) => self
                .source
                .group_named(name)
                .map(|found| found.map(Answer::Group)),
        }
    }

    /// Takes lookups from the queue and asks the service, until there is nothing to do for a while.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some(query) = state.queue.pop_front() else {
                state.idle += 1;
                let waited = self.queued.wait_timeout(state, IDLE);
                let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = next;
                state.idle -= 1;
                if timeout.timed_out() && state.queue.is_empty() {
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            state.pending.insert(query.clone(), Some(Instant::now()));
            drop(state);
            let answer = self.request(&query);
            state = self.lock();
            state.pending.remove(&query);
            match answer {
                Ok(answer) => state.store(query, answer, self.ages.stale),
                Err(why) => {
                    if state.failures.len() >= ENTRIES_MAX {
                        state.failures.clear();
                    }
                    state.failures.insert(query, (Instant::now(), why));
                }
            }
            self.answered.notify_all();
        }
    }
}

impl Accounts {
    /// Creates a cache over a name service.
    pub fn new(source: impl NameService, ages: Ages) -> Self {
        let shared = Shared {
            source: Box::new(source),
            ages,
            state: Mutex::default(),
            queued: Condvar::new(),
            answered: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            run: |wait| wait(),
        }
    }

    /// Returns the same cache for callers on threads that must not wait: `run` is called with each closure that may wait.
    #[must_use]
    pub fn waiting_by(&self, run: fn(&mut dyn FnMut())) -> Self {
        Self {
            run,
            ..self.clone()
        }
    }

    /// Returns the users and groups of this machine, with one cache for the process.
    pub fn system() -> &'static Self {
        static SYSTEM: OnceLock<Accounts> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::new(SystemNames, Ages::default()))
    }

    /// Looks up a user by login name.
    pub fn by_login(&self, login: &str) -> Result<Arc<Account>, LookupError> {
        self.account(&Query::Login(login.to_owned()))
    }

    /// Looks up a user by id.
    pub fn by_uid(&self, uid: u32) -> Result<Arc<Account>, LookupError> {
        self.account(&Query::Uid(uid))
    }

    /// Looks up the id of a group by name.
    pub fn group_id(&self, name: &str) -> Result<u32, LookupError> {
        match self.look_up(&Query::Group(name.to_owned()))? {
            Answer::Group(gid) => Ok(gid),
            Answer::Account(_) => Err(LookupError::NotFound),
        }
    }

    fn account(&self, query: &Query) -> Result<Arc<Account>, LookupError> {
        match self.look_up(query)? {
            Answer::Account(account) => Ok(account),
            Answer::Group(_) => Err(LookupError::NotFound),
        }
    }

    fn look_up(&self, query: &Query) -> Result<Answer, LookupError> {
        let shared = &self.shared;
        if let Some(answer) = shared.lock().fresh_answer(query, shared.ages) {
            return answer;
        }
        let mut found = Err(LookupError::NotFound);
        (self.run)(&mut || found = self.wait_for(query));
        found
    }

    /// Queues a lookup and waits for its answer.
    fn wait_for(&self, query: &Query) -> Result<Answer, LookupError> {
        let shared = &self.shared;
        let Ages {
            stale, patience, ..
        } = shared.ages;
        let begun = Instant::now();
        let mut state = shared.lock();
        let mut why = None;
        if !state.pending.contains_key(query) {
            why = self.enqueue(&mut state, query).err();
        }
        while why.is_none() {
            let until = match state.pending.get(query) {
                None => break,
                Some(Some(started)) => *started + patience,
                Some(None) if state.is_hung(patience) => break,
                Some(None) => begun + patience,
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = shared.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some((at, failed)) = state.failures.get(query)
            && *at >= begun
        {
            why = Some(format!("the machine's name service (NSS) failed: {failed}"));
        }
        match state.entries.get(query) {
            Some(entry) if entry.at >= begun => {
                return entry.answer.clone().ok_or(LookupError::NotFound);
            }
            Some(entry) if entry.at.elapsed() < stale => {
                if let Some(answer) = &entry.answer {
                    return Ok(answer.clone());
                }
            }
            _ => {}
        }
        Err(LookupError::Unavailable(why.unwrap_or_else(|| {
            format!(
                "the machine's name service (NSS) did not answer within {} ms: check LDAP or SSSD on the server (`getent passwd`)",
                patience.as_millis()
            )
        })))
    }

    /// Queues a lookup for a thread, and starts one if all are busy.
    fn enqueue(&self, state: &mut State, query: &Query) -> Result<(), String> {
        if state.queue.len() >= QUEUE_MAX {
            return Err(format!(
                "{QUEUE_MAX} lookups wait for the machine's name service (NSS) already: check LDAP or SSSD on the server"
            ));
        }
        if state.idle <= state.queue.len() && state.threads < THREADS {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name("esker-names".into())
                .spawn(move || shared.work());
            match started {
                Ok(_) => state.threads += 1,
                // Threads that exist answer the lookup.
                Err(_) if state.threads > 0 => {}
                Err(e) => return Err(format!("no thread for the name service: {e}")),
            }
        }
        state.pending.insert(query.clone(), None);
        state.queue.push_back(query.clone());
        self.shared.queued.notify_one();
        Ok(())
    }

    /// Returns the number of threads that ask the name service now.
    #[doc(hidden)]
    pub fn threads(&self) -> usize {
        self.shared.lock().threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A name service with one user, that can hang and fail.
    #[derive(Default)]
    struct TestService {
        hangs: AtomicBool,
        fails: AtomicBool,
        asked: AtomicUsize,
        released: Condvar,
        lock: Mutex<()>,
    }

    impl TestService {
        fn pass(&self) -> Result<(), String> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let mut lock = self.lock.lock().unwrap();
            while self.hangs.load(Ordering::SeqCst) {
                lock = self.released.wait(lock).unwrap();
            }
            if self.fails.load(Ordering::SeqCst) {
                return Err("LDAP is down".into());
            }
            Ok(())
        }

        fn release(&self) {
            let _lock = self.lock.lock().unwrap();
            self.hangs.store(false, Ordering::SeqCst);
            self.released.notify_all();
        }
    }

    struct Service(Arc<TestService>);

    impl NameService for Service {
        fn user_named(&self, login: &str) -> Result<Option<Account>, String> {
            self.0.pass()?;
            Ok((login == "ada").then(|| Account {
                uid: 1001,
                login: "ada".into(),
                gids: vec![100, 7],
            }))
        }

        fn user_numbered(&self, uid: u32) -> Result<Option<Account>, String> {
            self.0.pass()?;
            Ok((uid == 1001).then(|| Account {
                uid,
                login: "ada".into(),
                gids: vec![100, 7],
            }))
        }

        fn group_named(&self, name: &str) -> Result<Option<u32>, String> {
            self.0.pass()?;
            Ok((name == "staff").then_some(7))
        }
    }

    fn test_accounts(ages: Ages) -> (Arc<TestService>, Accounts) {
        let staged = Arc::new(TestService::default());
        let accounts = Accounts::new(Service(Arc::clone(&staged)), ages);
        (staged, accounts)
    }

    /// A day, for times that a test must not reach.
    const LONG: Duration = Duration::from_hours(24);

    #[test]
    fn answers_are_cached_for_their_ages() {
        let ages = Ages {
            not_found: Duration::ZERO,
            found: LONG,
            patience: LONG,
            ..Ages::default()
        };
        let (staged, accounts) = test_accounts(ages);
        for _ in 0..3 {
            assert_eq!(accounts.by_login("ada").unwrap().uid, 1001);
            assert_eq!(accounts.by_uid(1001).unwrap().gids, [100, 7]);
            assert_eq!(accounts.group_id("staff"), Ok(7));
        }
        assert_eq!(staged.asked.load(Ordering::SeqCst), 3);
        // An age of zero asks again each time.
        for _ in 0..2 {
            assert_eq!(accounts.by_login("eve"), Err(LookupError::NotFound));
        }
        assert_eq!(staged.asked.load(Ordering::SeqCst), 5);
    }

    #[test]
    fn a_service_that_hangs_costs_a_bounded_number_of_threads() {
        let ages = Ages {
            found: Duration::ZERO,
            patience: Duration::from_millis(20),
            ..Ages::default()
        };
        let (staged, accounts) = test_accounts(ages);
        // Under load, a lookup may take longer than the patience of this test.
        while accounts.by_login("ada").is_err() {}
        staged.hangs.store(true, Ordering::SeqCst);
        // The old answer is used.
        assert_eq!(accounts.by_login("ada").unwrap().uid, 1001);
        for uid in 0..50 {
            let refused = accounts.by_uid(uid).unwrap_err();
            assert!(
                matches!(&refused, LookupError::Unavailable(why) if why.contains("did not answer within 20 ms")),
                "{refused:?}"
            );
        }
        assert_eq!(accounts.threads(), THREADS);
        staged.release();
        while accounts.by_uid(1001).is_err() {}
        assert_eq!(accounts.by_login("ada").unwrap().uid, 1001);
    }

    #[test]
    fn an_old_answer_is_used_up_to_its_age_only() {
        let ages = Ages {
            found: Duration::ZERO,
            stale: Duration::ZERO,
            patience: LONG,
            ..Ages::default()
        };
        let (staged, accounts) = test_accounts(ages);
        assert!(accounts.by_login("ada").is_ok());
        staged.fails.store(true, Ordering::SeqCst);
        let refused = accounts.by_login("ada").unwrap_err().to_string();
        assert!(refused.contains("LDAP is down"), "{refused}");
        staged.fails.store(false, Ordering::SeqCst);
        assert!(accounts.by_login("ada").is_ok());
    }
}
