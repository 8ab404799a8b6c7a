//! What decides who may do what: files that users edit, and proofs of clients whom nobody knows yet.

use esker_access::authorized::{self, AuthorizedKeys, Terms};
use esker_access::known_hosts::{HostKeyStatus, lookup_in_text};
use esker_access::{HostKey, KeyData, Role, proof, token};
use esker_model::object::Principal;
use std::net::{IpAddr, Ipv4Addr};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
/// Seconds since 1970: November 2026.
const NOW: i64 = 1_795_000_000;
/// What the two ends of one connection know.
const EXPORTER: [u8; 32] = [7; 32];

/// Keys give the rights that their lines say and no others; a line that is written says the same, and one that is taken out is gone.
pub(crate) fn authorized_keys(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file = AuthorizedKeys::parse(&text);
    let of_lines = file.lines.iter().map(|line| line.number);
    let mut numbers: Vec<usize> = of_lines
        .chain(file.mistakes.iter().map(|mistake| mistake.number))
        .collect();
    numbers.sort_unstable();
    assert!(numbers.is_sorted_by(|one, next| one < next));
    assert!(
        numbers
            .last()
            .is_none_or(|last| *last <= text.lines().count())
    );
    assert!(file.mistakes.iter().all(|mistake| !mistake.why.is_empty()));
    for line in &file.lines {
        if let Ok(role) = line.role_at(HERE, NOW) {
            assert_eq!(line.role(), Some(role));
            assert!(line.expires().is_none_or(|end| NOW < end));
            // Who reads as a user reads, and nothing more; nobody reads so as user 0.
            let bound = |user: &Principal| role == Role::Read && user.uid > 0;
            assert!(line.user().is_none_or(bound));
        }
        let terms = Terms {
            role: line.role(),
            expires: line.expires(),
            from: line.from().map(str::to_owned),
            user: line.user().cloned(),
        };
        // A pattern or a comment with a quote cannot be written.
        let Ok(written) = authorized::line(&line.key, &terms) else {
            continue;
        };
        let key = line.key.key_data();
        let granted = authorized::with(&text, key, Some(&written));
        let granted = AuthorizedKeys::parse(&granted);
        let again: Vec<_> = granted.lines_of(key).collect();
        let [again] = again[..] else {
            panic!("one line names the key");
        };
        assert_eq!(again.role_at(HERE, NOW), line.role_at(HERE, NOW));
        assert_eq!((again.role(), again.expires()), (terms.role, terms.expires));
        assert_eq!(again.user(), terms.user.as_ref());
        let without = AuthorizedKeys::parse(&authorized::with(&text, key, None));
        assert!(without.lines_of(key).next().is_none());
        // Nobody else's line is touched.
        let others = |file: &AuthorizedKeys| {
            let others = file.lines.iter().filter(|l| l.key.key_data() != key);
            others.count()
        };
        assert_eq!(others(&without), others(&file));
        assert_eq!(without.mistakes.len(), file.mistakes.len());
    }
}

fn key(seed: u8) -> HostKey {
    HostKey::from_seed(&[seed; 32])
}

/// A server is listed only if its key stands in the file; a key that is revoked anywhere is; comments say nothing.
pub(crate) fn known_hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (own, host, port) = (key(1), "lab.example.org", 7400);
    let public = own.public().to_openssh().expect("a key is written");
    // Of the key's 32 bytes the last 30: OpenSSH's form has lengths before them, at which `ssh-key` does not look closely.
    let words = public.split(' ').nth(1).and_then(|blob| blob.get(28..));
    let words = words.expect("a key has words");
    let look = |text: &str, of: &KeyData| lookup_in_text(text, host, port, of);
    let own = own.public().key_data();
    let known = look(&text, own);
    match &known {
        HostKeyStatus::Listed | HostKeyStatus::Revoked { .. } => assert!(text.contains(words)),
        HostKeyStatus::Other { at, listed } => assert!(!at.is_empty() && !listed.is_empty()),
        HostKeyStatus::New => {}
    }
    assert_eq!(look(&format!("{text}\n# {host} {public}\n"), own), known);
    let listed = look(&format!("{text}\n[{host}]:{port} {public}\n"), own);
    assert!(matches!(
        listed,
        HostKeyStatus::Listed | HostKeyStatus::Revoked { .. }
    ));
    let revoked = look(&format!("{text}\n@revoked * {public}\n"), own);
    assert!(matches!(revoked, HostKeyStatus::Revoked { .. }));
}

/// Tokens are read as they were written, and none is shown by the file that keeps them.
pub(crate) fn access_tokens(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let tokens = token::parse(&text);
    assert!(tokens.len() <= text.lines().count());
    for one in &tokens {
        assert_eq!(one.hash().len(), 64);
        assert!(one.name().len() > "token:".len());
        let bound = |user: &Principal| one.role == Role::Read && user.uid > 0;
        assert!(one.user.as_ref().is_none_or(bound));
        let shown = format!("{}{}", token::PREFIX, one.hash());
        assert_eq!(token::find(&tokens, one.hash()), None);
        assert!(
            token::find(&tokens, &shown).is_none_or(|found| found.hash() == token::hash_of(&shown))
        );
    }
    // A line's end is no part of a comment.
    if tokens.iter().all(|one| !one.comment.ends_with('\r')) {
        assert_eq!(token::parse(&token::text_of(&tokens)), tokens);
    }
}

/// A proof is refused unless a key signed for this very connection; the only one that did is that of seed 3.
pub(crate) fn key_proof(bytes: &[u8]) {
    match proof::check(bytes, &EXPORTER) {
        Ok(proved) => assert_eq!(&proved, key(3).public().key_data()),
        Err(why) => assert!(!why.is_empty()),
    }
}
