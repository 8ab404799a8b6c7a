//! Proof that a client has a private key: a signature in OpenSSH's format (SSHSIG) over a value that only the two ends of one
//! connection know.
//!
//! TLS exports the value (RFC 5705, RFC 8446 section 7.5). It differs per connection, so that a recorded signature is useless on any
//! other; and it differs on the two sides of a man in the middle, who therefore cannot relay a signature. No challenge is sent, so
//! none can be replayed.

use crate::crypto;
use crate::fingerprint;
use esker_model::{Error, Result};
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, LineEnding, PublicKey, Signature, SshSig};

/// SSHSIG namespace of proofs: signatures for other purposes are refused, and proofs are invalid elsewhere.
pub const NAMESPACE: &str = "esker-access@1";
/// Exporter label under which TLS derives the value.
pub const LABEL: &[u8] = b"EXPORTER-esker-access@1";
/// Length of the exported value, in bytes.
pub const EXPORTER_BYTES: usize = 32;
/// Maximum size of a proof, in bytes.
pub const PROOF_BYTES_MAX: usize = 16 << 10;

/// Returns the message that is signed for a connection.
fn statement(exporter: &[u8; EXPORTER_BYTES]) -> Vec<u8> {
    [b"this connection is mine\0".as_slice(), exporter].concat()
}

/// Signs a proof for a connection by `sign`, which returns `Ok(None)` if it cannot sign with that key.
pub(crate) fn sign_with(
    key: &PublicKey,
    exporter: &[u8; EXPORTER_BYTES],
    sign: impl FnOnce(&[u8]) -> Result<Option<Signature>, String>,
) -> Result<SshSig> {
    let failed = |why: &dyn std::fmt::Display| {
        Error::Target(format!(
            "signing with key {} failed: {why}",
            fingerprint(key.key_data())
        ))
    };
    let bytes = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, &statement(exporter))
        .map_err(|e| failed(&e))?;
    let signature = sign(&bytes).map_err(|e| failed(&e))?.ok_or_else(|| {
        failed(&"keys of its type are used through an agent only: add it (ssh-add)")
    })?;
    SshSig::new(
        key.key_data().clone(),
        NAMESPACE,
        HashAlg::Sha512,
        signature,
    )
    .map_err(|e| failed(&e))
}

/// Returns the message for programs that make the complete SSHSIG themselves.
pub(crate) fn unsigned(exporter: &[u8; EXPORTER_BYTES]) -> Vec<u8> {
    statement(exporter)
}

/// Formats a signature as text.
pub fn to_text(signature: &SshSig) -> Result<String> {
    signature
        .to_pem(LineEnding::LF)
        .map_err(|e| Error::Target(format!("a signature cannot be written: {e}")))
}

/// Verifies a proof and returns the key that signed for this connection; the error says why it is invalid.
pub fn check(text: &[u8], exporter: &[u8; EXPORTER_BYTES]) -> Result<KeyData, String> {
    if text.len() > PROOF_BYTES_MAX {
        return Err(format!("a proof has at most {PROOF_BYTES_MAX} bytes"));
    }
    let signature =
        SshSig::from_pem(text).map_err(|e| format!("the proof is not an SSH signature: {e}"))?;
    if signature.namespace() != NAMESPACE {
        return Err(format!(
            "the signature has another namespace than `{NAMESPACE}`: use a client of the same release"
        ));
    }
    if !signature.reserved().is_empty() {
        return Err("the signature has an unknown field".into());
    }
    let bytes = SshSig::signed_data(NAMESPACE, signature.hash_alg(), &statement(exporter))
        .map_err(|e| format!("the proof is not an SSH signature: {e}"))?;
    crypto::verify(signature.public_key(), signature.signature(), &bytes)?;
    Ok(signature.public_key().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostKey;
    use proptest::prelude::*;

    #[test]
    fn a_proof_is_for_one_connection() {
        let key = HostKey::generate().unwrap();
        let text = to_text(&key.prove(&[7; 32]).unwrap()).unwrap();
        assert_eq!(
            check(text.as_bytes(), &[7; 32]).as_ref(),
            Ok(key.public().key_data())
        );
        // Replayed on another connection.
        let refused = check(text.as_bytes(), &[8; 32]).unwrap_err();
        assert!(refused.contains("not by that key"), "{refused}");
    }

    #[test]
    fn a_signature_for_something_else_proves_nothing() {
        let key = HostKey::generate().unwrap();
        let signature = key.prove(&[7; 32]).unwrap();
        let other = SshSig::new(
            key.public().key_data().clone(),
            "file",
            HashAlg::Sha512,
            signature.signature().clone(),
        )
        .unwrap();
        let refused = check(to_text(&other).unwrap().as_bytes(), &[7; 32]).unwrap_err();
        assert!(refused.contains("another namespace"), "{refused}");
        // Nor does another's public key with the signature.
        let stolen = SshSig::new(
            HostKey::generate().unwrap().public().key_data().clone(),
            NAMESPACE,
            HashAlg::Sha512,
            signature.signature().clone(),
        )
        .unwrap();
        assert!(check(to_text(&stolen).unwrap().as_bytes(), &[7; 32]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(check(&bytes, &[0; 32]).is_err());
        }

        #[test]
        fn a_changed_proof_is_refused(at in 0_usize..400, to in any::<u8>()) {
            let key = HostKey::from_seed(&[3; 32]);
            let mut text = to_text(&key.prove(&[7; 32]).unwrap()).unwrap().into_bytes();
            let at = at % text.len();
            if text[at] != to {
                text[at] = to;
                if let Ok(proved) = check(&text, &[7; 32]) {
                    // White space and similar variations of the text's format.
                    prop_assert_eq!(&proved, key.public().key_data());
                }
            }
        }
    }
}
