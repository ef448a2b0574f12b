//! The hash of a password, in the forms that `htpasswd` and Apache know.

use std::fmt;

use argon2::{Argon2, Params, PasswordHash, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bcrypt::HashParts;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::md5_crypt::{self, apr1};
use crate::sha_crypt::ShaCrypt;

/// Greatest cost of bcrypt: about four seconds. Each step more doubles it.
const MOST_BCRYPT: u32 = 16;

/// Most memory of Argon2, in KiB: several passwords are verified at a time.
const MOST_ARGON2_MEMORY: u32 = 256 * 1024;

/// Most passes of Argon2 over its memory: with the most memory, some seconds.
const MOST_ARGON2_PASSES: u32 = 16;

/// Most lanes of Argon2; they are computed one after the other.
const MOST_ARGON2_LANES: u32 = 16;

/// A hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    Bcrypt(String),
    Argon2(String),
    Sha(ShaCrypt),
    Apr1 { salt: String, hash: String },
    Sha1([u8; 20]),
}

// A hash is not for a log.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

/// Why a text is no hash: a sentence without its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHash(pub &'static str);

impl Hash {
    /// A hash from its text.
    ///
    /// # Errors
    /// Fails with what is wrong with it.
    pub fn read(text: &str) -> Result<Hash, BadHash> {
        let form = match text.as_bytes() {
            [b'$', b'2', ..] => bcrypt(text)?,
            [b'$', b'a', b'r', ..] => argon2(text)?,
            [b'$', b'5', b'$', ..] => {
                Form::Sha(ShaCrypt::read(&text[3..], false).map_err(BadHash)?)
            }
            [b'$', b'6', b'$', ..] => Form::Sha(ShaCrypt::read(&text[3..], true).map_err(BadHash)?),
            [b'$', b'a', b'p', ..] => md5(text)?,
            [b'{', ..] => sha(text)?,
            _ => {
                return Err(BadHash(
                    "is neither hashed with bcrypt, Argon2, SHA-crypt, apr1 nor {SHA}; plain text \
                        and crypt(3) are not accepted, `htpasswd -B` makes a hash",
                ));
            }
        };
        Ok(Hash(form))
    }

    /// Whether it is the hash of this password. Takes as long as its form wants: up to seconds. The
    /// time does not tell how much of a password is right.
    pub fn is_of(&self, password: &[u8]) -> bool {
        match &self.0 {
            Form::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Form::Argon2(hash) => PasswordHash::new(hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            Form::Sha(hash) => {
                let (own, computed) = hash.compute(password);
                own.ct_eq(computed.as_bytes()).into()
            }
            Form::Apr1 { salt, hash } => {
                apr1(password, salt.as_bytes()).ct_eq(hash.as_bytes()).into()
            }
            Form::Sha1(hash) => Sha1::digest(password).ct_eq(hash).into(),
        }
    }

    /// How expensive its form is: that of a greater number takes longer.
    pub fn rank(&self) -> u32 {
        match &self.0 {
            Form::Sha1(_) => 0,
            Form::Apr1 { .. } => 1,
            Form::Sha(_) => 2,
            Form::Argon2(_) => 3,
            Form::Bcrypt(hash) => 4 + cost(hash).unwrap_or(0),
        }
    }
}

fn cost(hash: &str) -> Option<u32> {
    hash.parse::<HashParts>().ok().map(|parts| parts.get_cost())
}

fn bcrypt(text: &str) -> Result<Form, BadHash> {
    const BAD: BadHash = BadHash("is no whole hash of bcrypt");
    let is_known = ["$2y$", "$2a$", "$2b$"].iter().any(|prefix| text.starts_with(prefix));
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"./$".contains(&byte);
    if !is_known || !text.bytes().all(is_letter) || text.len() != 60 {
        return Err(BAD);
    }
    match cost(text) {
        Some(4..=MOST_BCRYPT) => Ok(Form::Bcrypt(text.to_owned())),
        Some(_) => Err(BadHash("has a cost below 4 or above 16; make another one")),
        None => Err(BAD),
    }
}

fn argon2(text: &str) -> Result<Form, BadHash> {
    const BAD: BadHash = BadHash("is no whole hash of Argon2");
    let hash = PasswordHash::new(text).map_err(|_| BAD)?;
    let is_known = ["argon2id", "argon2i", "argon2d"].contains(&hash.algorithm.as_str());
    if !is_known || hash.salt.is_none() || hash.hash.is_none() {
        return Err(BAD);
    }
    let params = Params::try_from(&hash).map_err(|_| BAD)?;
    if params.m_cost() > MOST_ARGON2_MEMORY
        || params.t_cost() > MOST_ARGON2_PASSES
        || params.p_cost() > MOST_ARGON2_LANES
    {
        return Err(BadHash("needs more than 256 MiB, 16 passes or 16 lanes; make another one"));
    }
    Ok(Form::Argon2(text.to_owned()))
}

fn md5(text: &str) -> Result<Form, BadHash> {
    let parts = text.strip_prefix("$apr1$").and_then(|rest| rest.split_once('$'));
    match parts {
        Some((salt, hash)) if (1..=8).contains(&salt.len()) && hash.len() == md5_crypt::LENGTH => {
            Ok(Form::Apr1 { salt: salt.to_owned(), hash: hash.to_owned() })
        }
        _ => Err(BadHash("is no whole hash of apr1")),
    }
}

fn sha(text: &str) -> Result<Form, BadHash> {
    let encoded = text.strip_prefix("{SHA}").and_then(|rest| STANDARD.decode(rest).ok());
    match encoded.and_then(|bytes| bytes.try_into().ok()) {
        Some(hash) => Ok(Form::Sha1(hash)),
        None => Err(BadHash("is no whole hash of {SHA}")),
    }
}
