//! Answers that a server has promised to stay what they are for a while (leases, as IndexFS has them): asked for again within that
//! time, they are given from here.
//!
//! Time runs from when the question was sent, so a promise ends here before it ends at the server. A promise is asked for
//! only when the same is asked a second time: most files are looked at once, and a promise may make somebody wait.

use esker_model::namespace::{Content, Inode, NamePath};
use esker_model::object::Asker;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Questions of one generation; two are kept.
const GENERATION: usize = 4_096;
/// Answers with larger attributes are not kept.
const BYTES_MAX: usize = 1 << 10;

/// Who asks what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    path: Box<[u8]>,
    follow: bool,
    asker: Option<(i64, Box<[i64]>)>,
}

/// What is known of the answer.
#[derive(Debug, Clone)]
struct Known {
    /// Until then it is this.
    promised: Option<(Instant, Inode)>,
}

/// Answers to questions that were asked lately.
#[derive(Debug, Default)]
pub(super) struct Held {
    generations: Mutex<[HashMap<Question, Known>; 2]>,
    given: AtomicU64,
    asked: AtomicU64,
}

/// What is to be done about a question.
pub(super) enum Look {
    /// Nothing: this is the answer.
    Answer(Inode),
    /// It is to be asked; with a promise if it was asked before.
    Ask {
        /// Whether a promise is wanted.
        promise: bool,
    },
}

impl Question {
    pub(super) fn new(asker: Option<&Asker>, path: &NamePath, follow: bool) -> Self {
        Self {
            path: path.as_bytes().into(),
            follow,
            asker: asker.map(|a| (a.uid, a.gids.as_slice().into())),
        }
    }
}

impl Held {
    /// Answers a question, if what was promised holds still.
    pub(super) fn look(&self, question: &Question) -> Look {
        let held = self.generations.lock();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *held;
        // What is asked for again stays.
        let known = match young.get(question) {
            Some(known) => Some(known),
            None => old.remove(question).map(|known| {
                let known = known.clone();
                &*young.entry(question.clone()).or_insert(known)
            }),
        };
        let before = known.is_some();
        if let Some((until, inode)) = known.and_then(|known| known.promised.as_ref())
            && Instant::now() < *until
        {
            self.given.fetch_add(1, Ordering::Relaxed);
            return Look::Answer(inode.clone());
        }
        if !before {
            young.insert(question.clone(), Known { promised: None });
        }
        if young.len() >= GENERATION {
            *old = std::mem::take(young);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        Look::Ask { promise: before }
    }

    /// Keeps an answer to a question that was sent then.
    pub(super) fn keep(&self, question: &Question, sent: Instant, millis: u32, inode: &Inode) {
        let until = sent.checked_add(Duration::from_millis(millis.into()));
        let (true, Some(until)) = (millis > 0 && small(inode), until) else {
            return;
        };
        let held = self.generations.lock();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        let [young, _] = &mut *held;
        if let Some(known) = young.get_mut(question) {
            known.promised = Some((until, inode.clone()));
        }
    }

    /// Questions that were answered from here, and those that were not.
    pub(super) fn figures(&self) -> (u64, u64) {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (of(&self.given), of(&self.asked))
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

    fn question(n: usize) -> Question {
        let path = NamePath::parse(format!("/{n}").as_bytes()).unwrap();
        Question::new(None, &path, false)
    }

    fn answered(held: &Held, n: usize) -> bool {
        matches!(held.look(&question(n)), Look::Answer(_))
    }

    #[test]
    fn an_answer_holds_as_long_as_was_promised() {
        let held = Held::default();
        let wants = |n| match held.look(&question(n)) {
            Look::Ask { promise } => promise,
            Look::Answer(_) => panic!("nothing was promised"),
        };
        assert!(!wants(1), "it was never asked");
        assert!(wants(1));
        let now = Instant::now();
        held.keep(&question(1), now, 60_000, &inode());
        assert!(answered(&held, 1));
        let other = Asker {
            uid: 5,
            gids: Vec::new(),
        };
        let path = NamePath::parse(b"/1").unwrap();
        for question in [
            Question::new(Some(&other), &path, false),
            Question::new(None, &path, true),
        ] {
            assert!(matches!(held.look(&question), Look::Ask { promise: false }));
        }
        let before = now.checked_sub(Duration::from_mins(1)).unwrap();
        held.keep(&question(1), before, 60_000, &inode());
        assert!(!answered(&held, 1), "it was sent a minute ago");
        held.keep(&question(1), now, 0, &inode());
        assert!(!answered(&held, 1));
        let large = Inode {
            content: Content::Inline(vec![0; BYTES_MAX + 1]),
            ..inode()
        };
        held.keep(&question(1), now, 60_000, &large);
        assert!(!answered(&held, 1));
    }

    #[test]
    fn what_is_not_asked_for_again_goes() {
        let held = Held::default();
        for n in [0, 1] {
            let _ = held.look(&question(n));
            held.keep(&question(n), Instant::now(), 60_000, &inode());
        }
        for n in 2..3 * GENERATION {
            let _ = held.look(&question(n));
            assert!(n % 100 != 0 || answered(&held, 0));
        }
        assert!(answered(&held, 0));
        assert!(!answered(&held, 1));
        let kept: usize = held
            .generations
            .lock()
            .unwrap()
            .iter()
            .map(HashMap::len)
            .sum();
        assert!(kept <= 2 * GENERATION);
    }
}
