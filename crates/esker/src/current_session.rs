//! The current session of a database handle.

use crate::session::Session;
use esker_model::sharded_lock::ShardedLock;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// A reference to the current session. Its reference count is per lane, so that threads on different processors do not
/// write the same counter.
#[derive(Clone)]
pub(crate) struct SessionRef(Arc<LaneShare>);

/// A lane's share of the session.
struct LaneShare(Arc<Session>);

impl SessionRef {
    fn new(session: &Arc<Session>) -> Self {
        Self(Arc::new(LaneShare(Arc::clone(session))))
    }
}

impl SessionRef {
    /// Whether both refer to the same session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.0, &other.0.0)
    }
}

impl Deref for SessionRef {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0.0
    }
}

/// The current session, until it is closed.
pub(crate) struct CurrentSession {
    lanes: ShardedLock<Option<SessionRef>>,
    /// Lock for replacing or closing the session.
    change_lock: Mutex<()>,
}

impl CurrentSession {
    pub(crate) fn new(session: Session) -> Self {
        let session = Arc::new(session);
        Self {
            lanes: ShardedLock::new(|| Some(SessionRef::new(&session))),
            change_lock: Mutex::new(()),
        }
    }

    pub(crate) fn get(&self) -> Option<SessionRef> {
        self.lanes.read(Clone::clone)
    }

    /// Replaces the session, unless it was closed; returns a reference to the new one.
    pub(crate) fn replace(&self, session: Session) -> Option<SessionRef> {
        let _one = self
            .change_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let session = Arc::new(session);
        self.lanes.write(|lane| {
            if let Some(get) = lane {
                *get = SessionRef::new(&session);
            }
        });
        self.get()
    }

    /// Closes the session and returns it. Returns `None` if a call still uses it; the end of that call then drops it.
    pub(crate) fn close(&self) -> Option<Session> {
        let _one = self
            .change_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        self.lanes.write(|lane| {
            // Drops the reference count of each lane.
            last = lane.take().map(|get| Arc::clone(&get.0.0));
        });
        last.and_then(Arc::into_inner)
    }
}
