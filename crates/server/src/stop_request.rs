//! Requests of an owner to stop or restart the process, which its main loop polls.

use std::sync::atomic::{AtomicU8, Ordering};

/// Kinds of requests to end the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRequest {
    /// Stop for good.
    Stop,
    /// Stop, to be started again by the process manager.
    Restart,
}

/// Flag that holds the request.
#[derive(Debug, Default)]
pub(crate) struct StopFlag(AtomicU8);

impl StopFlag {
    /// Notes a request. A request to stop overrides one to restart, whichever comes first.
    pub(crate) fn request(&self, request: StopRequest) {
        let number = match request {
            StopRequest::Restart => 1,
            StopRequest::Stop => 2,
        };
        self.0.fetch_max(number, Ordering::AcqRel);
    }

    pub(crate) fn requested(&self) -> Option<StopRequest> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            1 => Some(StopRequest::Restart),
            _ => Some(StopRequest::Stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_stop_counts_more() {
        let flag = StopFlag::default();
        assert_eq!(flag.requested(), None);
        flag.request(StopRequest::Restart);
        assert_eq!(flag.requested(), Some(StopRequest::Restart));
        flag.request(StopRequest::Stop);
        flag.request(StopRequest::Restart);
        assert_eq!(flag.requested(), Some(StopRequest::Stop));
    }
}
