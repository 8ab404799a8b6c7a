//! Cache of leased answers (leases as in IndexFS): a repeated request within the lease is answered locally.
//!
//! A lease is counted from the time of the request, so it ends here before it ends at the server. A lease is requested only
//! with the second request for the same item, because most files are read once and a lease may make writers wait.

use esker_model::namespace::{Content, Inode, NamePath};
use esker_model::object::Principal;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Capacity of one generation; two are kept.
const GENERATION: usize = 4_096;
/// Maximum size in bytes of a cached answer's contents and extended attributes.
const BYTES_MAX: usize = 1 << 10;

/// Key of the cache: the request and its principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    path: Box<[u8]>,
    follow: bool,
    principal: Option<(i64, Box<[i64]>)>,
}

/// Cached state of a request.
#[derive(Debug, Clone)]
struct CachedAnswer {
    /// End of the lease, and the leased answer.
    leased: Option<(Instant, Inode)>,
}

/// Cache of the answers to recent requests.
#[derive(Debug, Default)]
pub(super) struct LeaseCache {
    generations: Mutex<[HashMap<CacheKey, CachedAnswer>; 2]>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Result of a lookup in the cache.
pub(super) enum Lookup {
    /// The leased answer.
    Hit(Inode),
    /// No valid entry; the server must be asked.
    Miss {
        /// Whether to request a lease: true for a repeated request.
        lease: bool,
    },
}

impl CacheKey {
    pub(super) fn new(principal: Option<&Principal>, path: &NamePath, follow: bool) -> Self {
        Self {
            path: path.as_bytes().into(),
            follow,
            principal: principal.map(|a| (a.uid, a.gids.as_slice().into())),
        }
    }
}

impl LeaseCache {
    /// Looks up a request; returns the answer if its lease is valid.
    pub(super) fn lookup(&self, key: &CacheKey) -> Lookup {
        let cache = self.generations.lock();
        let mut cache = cache.unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *cache;
        // A repeated request moves to the younger generation.
        let known = match young.get(key) {
            Some(known) => Some(known),
            None => old.remove(key).map(|known| {
                let known = known.clone();
                &*young.entry(key.clone()).or_insert(known)
            }),
        };
        let before = known.is_some();
        if let Some((until, inode)) = known.and_then(|known| known.leased.as_ref())
            && Instant::now() < *until
        {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Lookup::Hit(inode.clone());
        }
        if !before {
            young.insert(key.clone(), CachedAnswer { leased: None });
        }
        if young.len() >= GENERATION {
            *old = std::mem::take(young);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        Lookup::Miss { lease: before }
    }

    /// Caches the answer to a request that was sent at `sent`.
    pub(super) fn insert(&self, key: &CacheKey, sent: Instant, millis: u32, inode: &Inode) {
        let until = sent.checked_add(Duration::from_millis(millis.into()));
        let (true, Some(until)) = (millis > 0 && small(inode), until) else {
            return;
        };
        let cache = self.generations.lock();
        let mut cache = cache.unwrap_or_else(PoisonError::into_inner);
        let [young, _] = &mut *cache;
        if let Some(known) = young.get_mut(key) {
            known.leased = Some((until, inode.clone()));
        }
    }

    /// Number of cache hits and misses.
    pub(super) fn figures(&self) -> (u64, u64) {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (of(&self.hits), of(&self.misses))
    }
}

fn small(inode: &Inode) -> bool {
    let content = match &inode.content {
        Content::None => 0,
        Content::Symlink(bytes) | Content::Inline(bytes) | Content::Object(bytes) => bytes.len(),
    };
    let xattrs = inode
        .xattrs
        .iter()
        .map(|(name, value)| name.len() + value.len());
    content + xattrs.sum::<usize>() <= BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::Version;
    use esker_model::namespace::root;

    fn inode() -> Inode {
        Inode {
            id: root(),
            version: Version(7),
            mode: 0o10_0644,
            uid: 1,
            gid: 2,
            links: 1,
            size: 3,
            blocks: 8,
            rdev: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
            content: Content::None,
            xattrs: Vec::new(),
            tracked: false,
        }
    }

    fn key(n: usize) -> CacheKey {
        let path = NamePath::parse(format!("/{n}").as_bytes()).unwrap();
        CacheKey::new(None, &path, false)
    }

    fn answered(cache: &LeaseCache, n: usize) -> bool {
        matches!(cache.lookup(&key(n)), Lookup::Hit(_))
    }

    #[test]
    fn an_answer_is_cached_for_the_duration_of_its_lease() {
        let cache = LeaseCache::default();
        let wants = |n| match cache.lookup(&key(n)) {
            Lookup::Miss { lease } => lease,
            Lookup::Hit(_) => panic!("nothing was promised"),
        };
        assert!(!wants(1), "it was never asked");
        assert!(wants(1));
        let now = Instant::now();
        cache.insert(&key(1), now, 60_000, &inode());
        assert!(answered(&cache, 1));
        let other = Principal {
            uid: 5,
            gids: Vec::new(),
        };
        let path = NamePath::parse(b"/1").unwrap();
        for key in [
            CacheKey::new(Some(&other), &path, false),
            CacheKey::new(None, &path, true),
        ] {
            assert!(matches!(cache.lookup(&key), Lookup::Miss { lease: false }));
        }
        let before = now.checked_sub(Duration::from_mins(1)).unwrap();
        cache.insert(&key(1), before, 60_000, &inode());
        assert!(!answered(&cache, 1), "it was sent a minute ago");
        cache.insert(&key(1), now, 0, &inode());
        assert!(!answered(&cache, 1));
        let large = Inode {
            content: Content::Inline(vec![0; BYTES_MAX + 1]),
            ..inode()
        };
        cache.insert(&key(1), now, 60_000, &large);
        assert!(!answered(&cache, 1));
    }

    #[test]
    fn what_is_not_asked_for_again_goes() {
        let cache = LeaseCache::default();
        for n in [0, 1] {
            let _ = cache.lookup(&key(n));
            cache.insert(&key(n), Instant::now(), 60_000, &inode());
        }
        for n in 2..3 * GENERATION {
            let _ = cache.lookup(&key(n));
            assert!(n % 100 != 0 || answered(&cache, 0));
        }
        assert!(answered(&cache, 0));
        assert!(!answered(&cache, 1));
        let kept: usize = cache
            .generations
            .lock()
            .unwrap()
            .iter()
            .map(HashMap::len)
            .sum();
        assert!(kept <= 2 * GENERATION);
    }
}
