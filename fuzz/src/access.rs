//! Inputs of access control: files that users edit (authorized keys, known hosts, tokens) and proofs of unauthenticated clients.

use esker_access::authorized::{self, AuthorizedKeys, Terms};
use esker_access::known_hosts::{HostKeyStatus, lookup_in_text};
use esker_access::{HostKey, KeyData, Role, UserBinding, proof, token};
use std::net::{IpAddr, Ipv4Addr};

const CLIENT_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
/// Time of the check in seconds since 1970: November 2026.
const NOW: i64 = 1_795_000_000;
/// Exporter secret, which only the two ends of one connection know.
const EXPORTER: [u8; 32] = [7; 32];

/// Whether a credential is bound to the number of user 0, or to a negative one.
fn is_root(user: &UserBinding) -> bool {
    matches!(user, UserBinding::Numbers(user) if user.uid <= 0)
}

/// Checks an authorized-keys file: a key has exactly the rights of its line; a written line is parsed back with the same terms; a removed
/// line is absent.
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
        if let Ok(role) = line.role_at(CLIENT_ADDRESS, NOW) {
            assert_eq!(line.role(), Some(role));
            assert!(line.expires().is_none_or(|end| NOW < end));
            // A line bound to a user grants only the role `read`, and never as user 0.
            let bound = |user: &UserBinding| role == Role::Read && !is_root(user);
            assert!(line.user().is_none_or(bound));
        }
        let terms = Terms {
            role: line.role(),
            expires: line.expires(),
            from: line.from().map(str::to_owned),
            user: line.user().cloned(),
        };
        // Patterns and comments with a quote cannot be written.
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
        assert_eq!(
            again.role_at(CLIENT_ADDRESS, NOW),
            line.role_at(CLIENT_ADDRESS, NOW)
        );
        assert_eq!((again.role(), again.expires()), (terms.role, terms.expires));
        assert_eq!(again.user(), terms.user.as_ref());
        let without = AuthorizedKeys::parse(&authorized::with(&text, key, None));
        assert!(without.lines_of(key).next().is_none());
        // Lines of other keys are unchanged.
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

/// Checks a known-hosts file: a server is listed only if the file contains its key; a `@revoked` line that matches the host refuses the key
/// wherever it is in the file; comments have no effect.
pub(crate) fn known_hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (own, host, port) = (key(1), "lab.example.org", 7400);
    let public = own.public().to_openssh().expect("a key is written");
    // The last 30 of the key's 32 bytes: OpenSSH's format has length fields before the key, which `ssh-key` does not check strictly.
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

/// Checks a token file: tokens are written and parsed back; the hash that the file stores is not accepted as a token.
pub(crate) fn access_tokens(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let tokens = token::parse(&text);
    assert!(tokens.len() <= text.lines().count());
    for one in &tokens {
        assert_eq!(one.hash().len(), 64);
        assert!(one.name().len() > "token:".len());
        let bound = |user: &UserBinding| one.role == Role::Read && !is_root(user);
        assert!(one.user.as_ref().is_none_or(bound));
        let shown = format!("{}{}", token::PREFIX, one.hash());
        assert_eq!(token::find(&tokens, one.hash()), None);
        assert!(
            token::find(&tokens, &shown).is_none_or(|found| found.hash() == token::hash_of(&shown))
        );
    }
    // A final carriage return in a comment is parsed back as part of the line's end.
    if tokens.iter().all(|one| !one.comment.ends_with('\r')) {
        assert_eq!(token::parse(&token::text_of(&tokens)), tokens);
    }
}

/// Checks a client's proof: it is refused unless a key signed for this connection. The only such signature (in the seeds of this target) is
/// by the key made from seed byte 3.
pub(crate) fn key_proof(bytes: &[u8]) {
    match proof::check(bytes, &EXPORTER) {
        Ok(proved) => assert_eq!(&proved, key(3).public().key_data()),
        Err(why) => assert!(!why.is_empty()),
    }
}
