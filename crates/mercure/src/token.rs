//! Tokens (JWT) by which publishers and subscribers show what they may do.

use std::collections::HashSet;
use std::fmt;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{DecodingKey, Validation};
use serde_json::Value;

use crate::selector::Selector;

/// How tokens are signed. A key is for one of them; there is none for tokens without a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm(jsonwebtoken::Algorithm);

impl Algorithm {
    /// The algorithm of this name (RFC 7518 section 3.1), if it is known.
    pub fn named(name: &str) -> Option<Algorithm> {
        name.parse().ok().map(Algorithm)
    }
}

/// A key that verifies tokens.
pub struct Key {
    key: DecodingKey,
    validation: Validation,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(not shown)")
    }
}

/// Why a token is not taken. None of them shows the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It is no token.
    Malformed,
    /// It is signed with another algorithm, or not signed.
    Algorithm,
    /// The signature is not that of the key.
    Signature,
    /// It is not valid any more.
    Expired,
    /// It is not valid yet.
    Early,
    /// A selector in it cannot be used.
    Selector,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::Malformed => "the token is malformed",
            Invalid::Algorithm => "the token is not signed with the configured algorithm",
            Invalid::Signature => "the token is not signed with the configured key",
            Invalid::Expired => "the token has expired",
            Invalid::Early => "the token is not valid yet",
            Invalid::Selector => "a selector in the token cannot be used",
        })
    }
}

/// What a token says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The topics for which its bearer may publish.
    pub publish: Vec<Selector>,
    /// The topics of which its bearer gets private updates.
    pub subscribe: Vec<Selector>,
    /// When it expires, in seconds since 1970.
    pub until: Option<u64>,
}

impl Claims {
    /// Whether an update with these topics may be published: each has to be allowed.
    pub fn may_publish(&self, topics: &[String]) -> bool {
        let is_allowed = |topic: &String| self.publish.iter().any(|it| it.matches(topic));
        !topics.is_empty() && topics.iter().all(is_allowed)
    }
}

impl Key {
    /// A key of this algorithm: the secret itself, or a public key as PEM.
    ///
    /// # Errors
    /// Fails if it is no key of this algorithm. The error does not show it.
    pub fn new(algorithm: Algorithm, text: &str) -> Result<Key, String> {
        use jsonwebtoken::AlgorithmFamily::{Ec, Ed, Hmac, Rsa};
        let Algorithm(algorithm) = algorithm;
        let bytes = text.as_bytes();
        let of = |family: jsonwebtoken::AlgorithmFamily| family.algorithms().contains(&algorithm);
        let key = match () {
            () if of(Hmac) => DecodingKey::from_secret(bytes),
            () if of(Rsa) => DecodingKey::from_rsa_pem(bytes),
            () if of(Ec) => DecodingKey::from_ec_pem(bytes),
            () if of(Ed) => DecodingKey::from_ed_pem(bytes),
            () => return Err("is of no known algorithm".into()),
        };
        let key = key.map_err(|_| match of(Hmac) {
            true => "is empty".to_owned(),
            false => format!("is no public key (PEM) for {algorithm:?}"),
        })?;
        let mut validation = Validation::new(algorithm);
        // Tokens of the protocol need no claim but their own.
        validation.required_spec_claims = HashSet::new();
        validation.validate_aud = false;
        validation.validate_nbf = true;
        validation.leeway = 0;
        Ok(Key { key, validation })
    }

    /// What a token says, if it is signed with this key and valid now.
    ///
    /// # Errors
    /// Fails with the reason why it is not taken.
    pub fn verify(&self, token: &[u8]) -> Result<Claims, Invalid> {
        let token = jsonwebtoken::decode::<Value>(token, &self.key, &self.validation);
        let token = token.map_err(|error| match error.kind() {
            ErrorKind::InvalidAlgorithm => Invalid::Algorithm,
            ErrorKind::InvalidSignature => Invalid::Signature,
            ErrorKind::ExpiredSignature => Invalid::Expired,
            ErrorKind::ImmatureSignature => Invalid::Early,
            _ => Invalid::Malformed,
        })?;
        let claims = &token.claims;
        let own = claims.get("https://mercure.rocks/").or_else(|| claims.get("mercure"));
        let selectors = |name: &str| -> Result<Vec<Selector>, Invalid> {
            let listed = own.and_then(|own| own.get(name));
            let listed = listed.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let selector = |text: &Value| {
                let text = text.as_str().ok_or(Invalid::Selector)?;
                Selector::new(text).map_err(|_| Invalid::Selector)
            };
            listed.iter().map(selector).collect()
        };
        Ok(Claims {
            publish: selectors("publish")?,
            subscribe: selectors("subscribe")?,
            // Some write it with a fraction.
            until: claims.get("exp").and_then(Value::as_f64).map(|seconds| seconds as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
    use serde_json::json;

    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn key(algorithm: &str, text: &str) -> Key {
        Key::new(Algorithm::named(algorithm).unwrap(), text).unwrap()
    }

    fn signed(algorithm: &str, key: &EncodingKey, claims: &Value) -> String {
        encode(&Header::new(algorithm.parse().unwrap()), claims, key).unwrap()
    }

    fn by_secret(claims: &Value) -> String {
        signed("HS256", &EncodingKey::from_secret(SECRET.as_bytes()).unwrap(), claims)
    }

    fn seconds(from_now: i64) -> i64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_secs() as i64 + from_now
    }

    #[test]
    fn a_token_says_what_its_bearer_may_do() {
        let until = seconds(60);
        let claims = json!({
            "mercure": {"publish": ["/a", "/b/{id}"], "subscribe": ["*"], "payload": 1},
            "exp": until, "aud": "other", "sub": 7,
        });
        let read = key("HS256", SECRET).verify(by_secret(&claims).as_bytes()).unwrap();
        assert_eq!(read.until, Some(until as u64));
        assert!(read.subscribe[0].matches("/x"));
        for (topics, expected) in
            [(&["/a"][..], true), (&["/a", "/b/1"], true), (&["/a", "/c"], false), (&[], false)]
        {
            let topics: Vec<_> = topics.iter().map(|topic| (*topic).to_owned()).collect();
            assert_eq!(read.may_publish(&topics), expected, "{topics:?}");
        }
        for (claims, publish) in [
            (json!({}), 0),
            (json!({"mercure": {}}), 0),
            (json!({"mercure": {"publish": []}}), 0),
            (json!({"mercure": {"publish": null}}), 0),
            (json!({"mercure": "*"}), 0),
            (json!({"https://mercure.rocks/": {"publish": ["*"]}}), 1),
        ] {
            let read = key("HS256", SECRET).verify(by_secret(&claims).as_bytes()).unwrap();
            assert_eq!((read.publish.len(), read.until), (publish, None), "{claims}");
        }
    }

    #[test]
    fn only_tokens_of_the_key_and_its_algorithm_are_taken() {
        let good = json!({"mercure": {"publish": ["*"]}});
        let token = by_secret(&good);
        let (signed_part, signature) = token.rsplit_once('.').unwrap();
        // {"alg":"none"}, {"alg":"HS256"} and an unknown one
        let [none, hs256, other] =
            ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJYWSJ9"];
        let payload = signed_part.split_once('.').unwrap().1;
        let secret = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
        let stranger = EncodingKey::from_secret(b"another secret of 32 characters.").unwrap();
        let of = |claims: Value| by_secret(&claims);
        for (token, expected) in [
            (format!("{none}.{payload}."), Invalid::Malformed),
            (format!("{none}.{payload}.{signature}"), Invalid::Malformed),
            (format!("{other}.{payload}.{signature}"), Invalid::Malformed),
            (format!("{hs256}.{payload}.{signature}"), Invalid::Signature),
            (format!("{hs256}.{payload}."), Invalid::Signature),
            (signed("HS256", &stranger, &good), Invalid::Signature),
            (signed("HS512", &secret, &good), Invalid::Algorithm),
            (of(json!({"exp": seconds(-1)})), Invalid::Expired),
            (of(json!({"exp": "tomorrow"})), Invalid::Malformed),
            (of(json!({"nbf": seconds(60)})), Invalid::Early),
            (of(json!({"mercure": {"publish": [""]}})), Invalid::Selector),
            (of(json!({"mercure": {"publish": [1]}})), Invalid::Selector),
            (String::new(), Invalid::Malformed),
            ("a.b.c".into(), Invalid::Malformed),
            ("....".into(), Invalid::Malformed),
        ] {
            assert_eq!(key("HS256", SECRET).verify(token.as_bytes()), Err(expected), "{token}");
        }
    }

    #[test]
    fn keys_of_all_families_verify() {
        let claims = json!({"mercure": {"publish": ["*"]}});
        let rsa = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
        let ec = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let ed = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let pem = |pair: &KeyPair| pair.serialize_pem().into_bytes();
        for (algorithm, pair, signer) in [
            ("RS256", &rsa, EncodingKey::from_rsa_pem(&pem(&rsa)).unwrap()),
            ("PS384", &rsa, EncodingKey::from_rsa_pem(&pem(&rsa)).unwrap()),
            ("ES256", &ec, EncodingKey::from_ec_pem(&pem(&ec)).unwrap()),
            ("EdDSA", &ed, EncodingKey::from_ed_pem(&pem(&ed)).unwrap()),
        ] {
            let public = pair.public_key_pem();
            let read =
                key(algorithm, &public).verify(signed(algorithm, &signer, &claims).as_bytes());
            assert_eq!(read.map(|claims| claims.publish.len()), Ok(1), "{algorithm}");
            // The public key as if it were a secret.
            let secret = EncodingKey::from_secret(public.as_bytes()).unwrap();
            let forged = signed("HS256", &secret, &claims);
            let read = key(algorithm, &public).verify(forged.as_bytes());
            assert_eq!(read, Err(Invalid::Algorithm), "{algorithm}");
        }
        let wrong = |algorithm, text: &str| Key::new(Algorithm::named(algorithm).unwrap(), text);
        for (algorithm, text) in
            [("RS256", SECRET), ("RS256", &ec.public_key_pem()), ("ES256", SECRET), ("HS256", "")]
        {
            let error = wrong(algorithm, text).unwrap_err();
            assert!(!error.contains(SECRET), "{error}");
        }
        assert!(Algorithm::named("none").is_none() && Algorithm::named("hs256").is_none());
        assert_eq!(format!("{:?}", key("HS256", SECRET)), "Key(not shown)");
    }
}
