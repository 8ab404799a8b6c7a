//! How a client proves that a key is its own: a signature in OpenSSH's form (SSHSIG) over a value that only the two ends of
//! one connection know.
//!
//! That value comes out of TLS (RFC 5705, RFC 8446 section 7.5). It is another one for each connection, so that a signature
//! that somebody has seen is of no use on any other; and it is another one on both sides of somebody in the middle, so that
//! none can be handed on. No challenge is sent, none can be replayed.

use crate::crypto;
use crate::fingerprint;
use esker_model::{Error, Result};
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, LineEnding, PublicKey, Signature, SshSig};

/// What such signatures are for. One made for anything else is refused, and one of these is no use elsewhere.
pub const NAMESPACE: &str = "esker-access@1";
/// The label under which TLS gives out the value.
pub const LABEL: &[u8] = b"EXPORTER-esker-access@1";
/// Its bytes.
pub const EXPORTER_BYTES: usize = 32;
/// Bytes that a proof may have.
pub const PROOF_BYTES_MAX: usize = 16 << 10;

/// What is signed for a connection.
fn statement(exporter: &[u8; EXPORTER_BYTES]) -> Vec<u8> {
    [b"this connection is mine\0".as_slice(), exporter].concat()
}

/// Signs for a connection, by whatever signs bytes with that key. `Ok(None)` from it: it cannot.
pub(crate) fn sign_with(
    key: &PublicKey,
    exporter: &[u8; EXPORTER_BYTES],
    sign: impl FnOnce(&[u8]) -> Result<Option<Signature>, String>,
) -> Result<SshSig> {
    let failed = |why: &dyn std::fmt::Display| {
        Error::Target(format!(
            "key {} did not sign: {why}",
            fingerprint(key.key_data())
        ))
    };
    let bytes = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, &statement(exporter))
        .map_err(|e| failed(&e))?;
    let signature = sign(&bytes)
        .map_err(|e| failed(&e))?
        .ok_or_else(|| failed(&"its kind is not signed with here; add it to an agent (ssh-add)"))?;
    SshSig::new(
        key.key_data().clone(),
        NAMESPACE,
        HashAlg::Sha512,
        signature,
    )
    .map_err(|e| failed(&e))
}

/// What is to be signed by other programs, which make the whole of the signature.
pub(crate) fn unsigned(exporter: &[u8; EXPORTER_BYTES]) -> Vec<u8> {
    statement(exporter)
}

/// A signature as text.
pub fn to_text(signature: &SshSig) -> Result<String> {
    signature
        .to_pem(LineEnding::LF)
        .map_err(|e| Error::Target(format!("a signature cannot be written: {e}")))
}

/// The key that signed for this connection; why not, if none did.
pub fn check(text: &[u8], exporter: &[u8; EXPORTER_BYTES]) -> Result<KeyData, String> {
    if text.len() > PROOF_BYTES_MAX {
        return Err(format!("a proof has at most {PROOF_BYTES_MAX} bytes"));
    }
    let signature =
        SshSig::from_pem(text).map_err(|e| format!("the proof is no signature by SSH: {e}"))?;
    if signature.namespace() != NAMESPACE {
        return Err("the signature was made for something else".into());
    }
    if !signature.reserved().is_empty() {
        return Err("the signature holds something that is not known here".into());
    }
    let bytes = SshSig::signed_data(NAMESPACE, signature.hash_alg(), &statement(exporter))
        .map_err(|e| format!("the proof is no signature by SSH: {e}"))?;
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
        // Replayed on another one.
        let refused = check(text.as_bytes(), &[8; 32]).unwrap_err();
        assert!(refused.contains("not one by that key"), "{refused}");
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
        assert!(refused.contains("something else"), "{refused}");
        // Nor does another's key beside the signature.
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
                    // White space and the like in the text's form.
                    prop_assert_eq!(&proved, key.public().key_data());
                }
            }
        }
    }
}
