//! Tokens of providers: algorithms, signatures, claims and damaged input.

use super::*;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;

const ISSUER: &str = "https://login.example.org";
const NOW: i64 = 1_800_000_000;

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn keys() -> KeySet {
    let x = encoded(pair().public_key().as_ref());
    let document = json!({"keys": [
        {"kty": "oct", "k": "AAAA", "kid": "shared"},
        {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "one", "use": "sig"},
        {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "encryption", "use": "enc"},
    ]});
    KeySet::parse(&document).unwrap()
}

fn signed(header: &Json, claims: &Json) -> String {
    let text = format!(
        "{}.{}",
        encoded(header.to_string()),
        encoded(claims.to_string())
    );
    let signature = pair().sign(text.as_bytes());
    format!("{text}.{}", encoded(signature.as_ref()))
}

fn header() -> Json {
    json!({"alg": "EdDSA", "kid": "one"})
}

fn claims() -> Json {
    json!({"iss": ISSUER, "aud": "esker", "sub": "7", "exp": NOW + 300, "iat": NOW, "nonce": "n"})
}

fn expected() -> ExpectedClaims<'static> {
    ExpectedClaims {
        issuer: ISSUER,
        clients: &["esker", "esker-command"],
        audience: Some("https://data.example.org"),
        nonce: None,
        now: NOW,
    }
}

fn refused_with(change: impl Fn(&mut Json), expected: &ExpectedClaims<'_>) -> String {
    let mut claims = claims();
    change(&mut claims);
    let claims = keys().verify(&signed(&header(), &claims)).unwrap();
    claims.check(expected).unwrap_err().to_string()
}

#[test]
fn a_signed_token_has_its_subject_and_end() {
    let claims = keys().verify(&signed(&header(), &claims())).unwrap();
    let with_nonce = ExpectedClaims {
        nonce: Some("n"),
        ..expected()
    };
    assert_eq!(claims.check(&with_nonce), Ok(("7", NOW + 300)));
    assert_eq!(claims.check(&expected()), Ok(("7", NOW + 300)));
}

#[test]
fn another_signature_is_refused() {
    let token = signed(&header(), &claims());
    let (text, _) = token.rsplit_once('.').unwrap();
    let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
    let forged = format!("{text}.{}", encoded(other.sign(text.as_bytes()).as_ref()));
    assert_eq!(keys().verify(&forged), Err(TokenRefused::Signature));
    assert_eq!(
        keys().verify(&format!("{text}.")),
        Err(TokenRefused::Signature)
    );
    // The claims of another token with the signature of this one.
    let mut changed = claims();
    changed["sub"] = json!("8");
    let spliced = format!(
        "{}.{}.{}",
        encoded(header().to_string()),
        encoded(changed.to_string()),
        token.rsplit('.').next().unwrap()
    );
    assert_eq!(keys().verify(&spliced), Err(TokenRefused::Signature));
}

#[test]
fn algorithms_without_a_key_of_the_issuer_are_refused() {
    for algorithm in ["none", "None", "HS256", "RS1", "ES384", ""] {
        let token = signed(&json!({"alg": algorithm, "kid": "one"}), &claims());
        let refused = keys().verify(&token).unwrap_err();
        assert_eq!(refused, TokenRefused::Algorithm(algorithm.to_owned()));
    }
    // An accepted algorithm, but of another kind than the key.
    for (algorithm, id) in [
        ("RS256", "one"),
        ("ES256", "one"),
        ("EdDSA", "two"),
        ("EdDSA", "encryption"),
    ] {
        let token = signed(&json!({"alg": algorithm, "kid": id}), &claims());
        assert_eq!(
            keys().verify(&token),
            Err(TokenRefused::UnknownKey(id.to_owned()))
        );
    }
    for header in [
        json!({"kid": "one"}),
        json!({"alg": "EdDSA", "kid": "one", "crit": ["b64"], "b64": false}),
        json!({"alg": "EdDSA", "kid": "one", "typ": "logout+jwt"}),
    ] {
        let refused = keys().verify(&signed(&header, &claims())).unwrap_err();
        assert!(
            matches!(refused, TokenRefused::Malformed(_)),
            "{header}: {refused}"
        );
    }
}

#[test]
fn keys_of_the_curve_p_256_verify_es256() {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .unwrap();
    let point = pair.public_key().as_ref();
    let keys = KeySet::parse(&json!({"keys": [
        {"kty": "EC", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..]), "kid": "e", "alg": "ES256"},
    ]}));
    let text = format!(
        "{}.{}",
        encoded(json!({"alg": "ES256"}).to_string()),
        encoded(claims().to_string())
    );
    let signature = pair.sign(&random, text.as_bytes()).unwrap();
    let token = format!("{text}.{}", encoded(signature.as_ref()));
    assert!(
        keys.unwrap()
            .verify(&token)
            .unwrap()
            .check(&expected())
            .is_ok()
    );
}

#[test]
fn claims_that_differ_are_named() {
    let refused = |change: fn(&mut Json)| refused_with(change, &expected());
    assert!(
        refused(|c| c["iss"] = json!("https://other.example.org"))
            .contains("its issuer is `https://other.example.org`")
    );
    assert!(refused(|c| c["aud"] = json!("others")).contains("its audience is `others`"));
    assert!(
        refused(|c| c["aud"] = json!(["esker", "others"]))
            .contains("its audience is `esker others`")
    );
    assert!(refused(|c| c["azp"] = json!("others")).contains("its audience is"));
    assert_eq!(
        refused(|c| c["exp"] = json!(NOW - CLOCK_SKEW)),
        "it expired 60 s ago"
    );
    assert!(refused(|c| c["exp"] = json!("later")).contains("`exp` is not a number"));
    assert!(refused(|c| c["iat"] = json!(NOW + CLOCK_SKEW + 1)).contains("in the future"));
    assert!(refused(|c| c["nbf"] = json!(NOW + 999)).contains("in the future"));
    assert!(refused(|c| c["iat"] = Json::Null).contains("`iat` is not a number"));
    assert!(refused(|c| c["sub"] = json!("")).contains("no claim `sub`"));
    assert!(refused(|c| c["events"] = json!({})).contains("it reports events"));
    let nonce = ExpectedClaims {
        nonce: Some("other"),
        ..expected()
    };
    assert!(refused_with(|_| {}, &nonce).contains("`nonce` is not that of this login"));
}

#[test]
fn an_access_token_is_for_the_server_and_not_for_a_client() {
    let header = json!({"alg": "EdDSA", "kid": "one", "typ": "at+jwt"});
    let check = |audience: &str, expected: &ExpectedClaims<'_>| {
        let mut claims = claims();
        claims["aud"] = json!(audience);
        let claims = keys().verify(&signed(&header, &claims)).unwrap();
        claims.check(expected).is_ok()
    };
    assert!(check("https://data.example.org", &expected()));
    assert!(!check("esker", &expected()));
    // A login of the console takes ID tokens only.
    let login = ExpectedClaims {
        nonce: Some("n"),
        ..expected()
    };
    assert!(!check("https://data.example.org", &login));
    let none = ExpectedClaims {
        audience: None,
        ..expected()
    };
    assert!(!check("https://data.example.org", &none));
}

/// The example of RFC 7636, appendix B.
#[test]
fn a_challenge_hides_its_verifier() {
    let challenge = pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

#[test]
fn clocks_may_differ_by_a_minute() {
    let late = ExpectedClaims {
        now: NOW + 300 + CLOCK_SKEW - 1,
        ..expected()
    };
    let claims = keys().verify(&signed(&header(), &claims())).unwrap();
    assert!(claims.check(&late).is_ok());
}

#[test]
fn a_set_without_keys_is_refused() {
    for (document, why) in [
        (json!([]), "a list `keys`"),
        (json!({"keys": []}), "no key for signatures"),
        (
            json!({"keys": [{"kty": "oct", "k": "AAAA"}]}),
            "no key for signatures",
        ),
        (
            json!({"keys": vec![Json::Null; KEYS_MAX + 1]}),
            "it has 101 keys",
        ),
    ] {
        let refused = KeySet::parse(&document).unwrap_err();
        assert!(refused.contains(why), "{document}: {refused}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read(token in "[A-Za-z0-9_.=-]{0,80}") {
        prop_assert!(keys().verify(&token).is_err());
    }
}
