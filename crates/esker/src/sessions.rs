//! The session that a database's handles use at present.

use crate::session::Session;
use esker_model::lanes::Lanes;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// A session in use. Its count of users belongs to a lane: threads on several processors do not write the same one.
#[derive(Clone)]
pub(crate) struct Present(Arc<Shared>);

/// What a lane has of it.
struct Shared(Arc<Session>);

impl Present {
    fn new(session: &Arc<Session>) -> Self {
        Self(Arc::new(Shared(Arc::clone(session))))
    }
}

impl Present {
    /// Whether it is the same session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.0, &other.0.0)
    }
}

impl Deref for Present {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0.0
    }
}

/// The session, until it is closed.
pub(crate) struct Sessions {
    lanes: Lanes<Option<Present>>,
    /// Held by who changes it.
    changing: Mutex<()>,
}

impl Sessions {
    pub(crate) fn new(session: Session) -> Self {
        let session = Arc::new(session);
        Self {
            lanes: Lanes::new(|| Some(Present::new(&session))),
            changing: Mutex::new(()),
        }
    }

    pub(crate) fn present(&self) -> Option<Present> {
        self.lanes.read(Clone::clone)
    }

    /// Uses another one from now on, unless it was closed; the other one then.
    pub(crate) fn replace(&self, session: Session) -> Option<Present> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let session = Arc::new(session);
        self.lanes.write(|lane| {
            if let Some(present) = lane {
                *present = Present::new(&session);
            }
        });
        self.present()
    }

    /// Closes it: the session, unless somebody is using it, who lets go of it then.
    pub(crate) fn close(&self) -> Option<Session> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        self.lanes.write(|lane| {
            // Each lane's own count goes with it.
            last = lane.take().map(|present| Arc::clone(&present.0.0));
        });
        last.and_then(Arc::into_inner)
    }
}
