//! Signatures by SSH keys: formats by `ssh-key`, cryptography by *ring*.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use ssh_key::private::{EcdsaKeypair, KeypairData};
use ssh_key::public::{EcdsaPublicKey, KeyData};
use ssh_key::{Algorithm, HashAlg, Mpint, Signature};

/// Minimum RSA key size, in bits: OpenSSH's default since 2018 and the minimum of *ring*.
const RSA_BITS_MIN: usize = 2_048;
const RSA_BITS_MAX: usize = 8_192;

/// Returns a number's bytes without leading zeros.
fn positive(number: &Mpint) -> Result<&[u8], String> {
    let bytes = number.as_positive_bytes();
    bytes.ok_or_else(|| "a number of it is negative".to_owned())
}

fn bits(bytes: &[u8]) -> usize {
    let first = bytes.first().copied().unwrap_or(0);
    (bytes.len() * 8).saturating_sub(first.leading_zeros() as usize)
}

/// Checks that signatures by keys of this kind can be verified; the error says why not.
pub(crate) fn usable(key: &KeyData) -> Result<(), String> {
    match key {
        KeyData::Ed25519(_)
        | KeyData::Ecdsa(EcdsaPublicKey::NistP256(_) | EcdsaPublicKey::NistP384(_)) => Ok(()),
        KeyData::Rsa(key) => {
            let bits = bits(positive(&key.n)?);
            if (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
                return Ok(());
            }
            Err(format!(
                "the RSA key has {bits} bits, and {RSA_BITS_MIN} to {RSA_BITS_MAX} are accepted: make a key with `ssh-keygen -t ed25519`"
            ))
        }
        other => Err(format!(
            "keys of type {} are not accepted: make one with `ssh-keygen -t ed25519`",
            other.algorithm()
        )),
    }
}

/// Converts an ECDSA signature from SSH's two length-prefixed numbers to two numbers of `width` bytes each.
fn fixed(signature: &[u8], width: usize) -> Option<Vec<u8>> {
    let mut rest = signature;
    let mut out = Vec::with_capacity(2 * width);
    for _ in 0..2 {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (number, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = tail;
        let zeros = number.iter().take_while(|b| **b == 0).count();
        let number = number.get(zeros..)?;
        out.resize(out.len() + width.checked_sub(number.len())?, 0);
        out.extend_from_slice(number);
    }
    rest.is_empty().then_some(out)
}

/// Converts an ECDSA signature from two fixed-width numbers to SSH's length-prefixed form.
fn from_fixed(signature: &[u8]) -> Option<Vec<u8>> {
    let (r, s) = signature.split_at_checked(signature.len() / 2)?;
    let mut out = Vec::new();
    for number in [r, s] {
        let number = Mpint::from_positive_bytes(number).ok()?;
        let bytes = number.as_bytes();
        out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
        out.extend_from_slice(bytes);
    }
    Some(out)
}

/// Verifies that `key` made `signature` over `bytes`.
pub(crate) fn verify(key: &KeyData, signature: &Signature, bytes: &[u8]) -> Result<(), String> {
    const NOT: &str = "the signature is not by that key, or not of what was to be signed";
    usable(key)?;
    let raw = signature.as_bytes();
    let other = || {
        Err(format!(
            "the signature is of type {}, but the key of type {}",
            signature.algorithm(),
            key.algorithm()
        ))
    };
    let verified = match (key, signature.algorithm()) {
        (KeyData::Ed25519(key), Algorithm::Ed25519) => {
            UnparsedPublicKey::new(&ED25519, &key.0).verify(bytes, raw)
        }
        (KeyData::Ecdsa(key), Algorithm::Ecdsa { curve }) if key.curve() == curve => {
            let (algorithm, width) = match key {
                EcdsaPublicKey::NistP256(_) => (&ECDSA_P256_SHA256_FIXED, 32),
                _ => (&ECDSA_P384_SHA384_FIXED, 48),
            };
            let raw = fixed(raw, width).ok_or(NOT)?;
            UnparsedPublicKey::new(algorithm, key.as_sec1_bytes()).verify(bytes, &raw)
        }
        (KeyData::Rsa(key), Algorithm::Rsa { hash: Some(hash) }) => {
            let algorithm = match hash {
                HashAlg::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
                HashAlg::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
                _ => return other(),
            };
            let key = RsaPublicKeyComponents {
                n: positive(&key.n)?,
                e: positive(&key.e)?,
            };
            key.verify(algorithm, bytes, raw)
        }
        _ => return other(),
    };
    verified.map_err(|_| NOT.to_owned())
}

/// Signs bytes. Returns `Ok(None)` for kinds of keys that cannot sign here.
pub(crate) fn sign(key: &KeypairData, bytes: &[u8]) -> Result<Option<Signature>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("signing with the key failed: {e}");
    let (algorithm, raw) = match key {
        KeypairData::Ed25519(pair) => {
            let key =
                Ed25519KeyPair::from_seed_and_public_key(pair.private.as_ref(), &pair.public.0)
                    .map_err(|e| failed(&e))?;
            (Algorithm::Ed25519, key.sign(bytes).as_ref().to_vec())
        }
        KeypairData::Ecdsa(pair) => {
            let signing: &'static EcdsaSigningAlgorithm = match pair {
                EcdsaKeypair::NistP256 { .. } => &ECDSA_P256_SHA256_FIXED_SIGNING,
                EcdsaKeypair::NistP384 { .. } => &ECDSA_P384_SHA384_FIXED_SIGNING,
                EcdsaKeypair::NistP521 { .. } => return Ok(None),
            };
            let random = SystemRandom::new();
            let key = EcdsaKeyPair::from_private_key_and_public_key(
                signing,
                pair.private_key_bytes(),
                pair.public_key_bytes(),
                &random,
            )
            .map_err(|e| failed(&e))?;
            let raw = key.sign(&random, bytes).map_err(|e| failed(&e))?;
            let raw =
                from_fixed(raw.as_ref()).ok_or_else(|| failed(&"the signature is malformed"))?;
            (pair.algorithm(), raw)
        }
        _ => return Ok(None),
    };
    let signature = Signature::new(algorithm, raw).map_err(|e| failed(&e))?;
    Ok(Some(signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(bytes in proptest::collection::vec(any::<u8>(), 64)) {
            let out = from_fixed(&bytes).unwrap();
            prop_assert_eq!(fixed(&out, 32), Some(bytes));
        }

        #[test]
        fn any_bytes_are_two_numbers_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            if let Some(out) = fixed(&bytes, 32) {
                prop_assert_eq!(out.len(), 64);
            }
        }
    }
}
