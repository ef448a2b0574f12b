//! The hashes of `htpasswd -2` and `-5`, which are those of `/etc/shadow` (`$5$`, `$6$`): SHA-256
//! and SHA-512, thousands of times.

use sha_crypt::{Sha256Params, Sha512Params, sha256_crypt_b64, sha512_crypt_b64};

/// Rounds if a hash does not say how many.
const ROUNDS: usize = 5000;

/// Rounds that are accepted: about a second. A hash with more would take a thread away from all
/// other logins for as long.
const MOST_ROUNDS: usize = 1_000_000;

/// Longest salt; what is longer has no effect.
const LONGEST_SALT: usize = 16;

/// Which function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Sha256,
    Sha512,
}

/// A hash, and what it was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaCrypt {
    function: Function,
    rounds: usize,
    salt: String,
    hash: String,
}

impl ShaCrypt {
    /// Parses the text behind `$5$` (`is_long` is false) or `$6$` (true).
    ///
    /// # Errors
    /// Fails with what is wrong with it.
    pub fn read(text: &str, is_long: bool) -> Result<ShaCrypt, &'static str> {
        const BAD: &str = "is no whole hash of SHA-crypt";
        let (rounds, rest) = match text.strip_prefix("rounds=") {
            Some(rest) => {
                let (rounds, rest) = rest.split_once('$').ok_or(BAD)?;
                (rounds.parse().map_err(|_| BAD)?, rest)
            }
            None => (ROUNDS, text),
        };
        if !(1000..=MOST_ROUNDS).contains(&rounds) {
            return Err("has less than 1000 or more than 1000000 rounds; make another one");
        }
        let (salt, hash) = rest.split_once('$').ok_or(BAD)?;
        let (function, length) =
            if is_long { (Function::Sha512, 86) } else { (Function::Sha256, 43) };
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
        if salt.len() > LONGEST_SALT || hash.len() != length || !hash.bytes().all(is_letter) {
            return Err(BAD);
        }
        Ok(ShaCrypt { function, rounds, salt: salt.to_owned(), hash: hash.to_owned() })
    }

    /// The stored hash, and the hash of this password with the same salt and rounds.
    pub fn compute(&self, password: &[u8]) -> (&[u8], String) {
        let ShaCrypt { function, rounds, salt, hash } = self;
        let computed = match function {
            Function::Sha256 => Sha256Params::new(*rounds)
                .and_then(|params| sha256_crypt_b64(password, salt.as_bytes(), &params)),
            Function::Sha512 => Sha512Params::new(*rounds)
                .and_then(|params| sha512_crypt_b64(password, salt.as_bytes(), &params)),
        };
        // The rounds were checked, and nothing else can fail; an empty text is no hash.
        (hash.as_bytes(), computed.unwrap_or_default())
    }
}
