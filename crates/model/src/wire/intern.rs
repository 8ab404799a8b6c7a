//! Interning of error texts that are `&'static str` in the model.

use std::collections::HashSet;
use std::sync::Mutex;

/// Returns the text as a static string, kept for the life of the process. The set is bounded, in case the peer is
/// malicious.
pub fn intern(text: &str) -> &'static str {
    const TEXTS_MAX: usize = 4096;
    static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut guard = TEXTS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let texts = guard.get_or_insert_default();
    if let Some(known) = texts.get(text) {
        return known;
    }
    if texts.len() >= TEXTS_MAX || text.len() > TEXTS_MAX {
        return "(a text that was lost on its way)";
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(kept);
    kept
}
