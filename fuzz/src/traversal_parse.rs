//! Traversals: a chain is parsed, or refused at a position inside the text; a parsed chain is written and parsed back.

use esker_model::Traversal;

pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Traversal::parse(&text) {
        Ok(traversal) => {
            let written = traversal.to_string();
            assert_eq!(
                Traversal::parse(&written).as_ref(),
                Ok(&traversal),
                "{written}"
            );
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.at) && error.at + error.len <= text.len());
            assert_eq!(error.render(&text).lines().count(), 4);
            assert!(!error.to_string().contains('\n'));
        }
    }
}
