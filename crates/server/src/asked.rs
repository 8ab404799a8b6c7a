//! Whether an owner has asked the process to stop: whoever runs it looks now and then.

use std::sync::atomic::{AtomicU8, Ordering};

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To end, for good.
    Stop,
    /// To end, and to be started again by whoever keeps it running.
    Restart,
}

/// Where that is noted.
#[derive(Debug, Default)]
pub(crate) struct Wish(AtomicU8);

impl Wish {
    /// Notes it. To stop for good counts more, whatever was asked before or after.
    pub(crate) fn ask(&self, asked: Asked) {
        let number = match asked {
            Asked::Restart => 1,
            Asked::Stop => 2,
        };
        self.0.fetch_max(number, Ordering::AcqRel);
    }

    pub(crate) fn asked(&self) -> Option<Asked> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Asked::Restart),
            _ => Some(Asked::Stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_stop_counts_more() {
        let wish = Wish::default();
        assert_eq!(wish.asked(), None);
        wish.ask(Asked::Restart);
        assert_eq!(wish.asked(), Some(Asked::Restart));
        wish.ask(Asked::Stop);
        wish.ask(Asked::Restart);
        assert_eq!(wish.asked(), Some(Asked::Stop));
    }
}
