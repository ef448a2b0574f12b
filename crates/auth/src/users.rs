//! A file of users, one a line: `name:hash`, as `htpasswd` writes it.

use std::collections::HashMap;
use std::fmt;

use crate::hash::Hash;

/// Longest password that is verified: that of `htpasswd`. SHA-crypt reads it in each of its rounds,
/// so a longer one takes a thread for seconds.
const LONGEST_PASSWORD: usize = 256;

/// The users of a file.
#[derive(Debug, Default)]
pub struct Users {
    /// Their indexes by their names.
    names: HashMap<Vec<u8>, usize>,
    hashes: Vec<Hash>,
    /// The hash that takes longest.
    decoy: Option<usize>,
}

/// What is wrong with a file of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUsers {
    /// The number of the line.
    pub line: usize,
    /// What is wrong with it, without what stands in it.
    pub problem: String,
}

impl fmt::Display for BadUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for BadUsers {}

impl Users {
    /// The users in a file. Empty lines and those that begin with `#` are left out.
    ///
    /// # Errors
    /// Fails with the first line that is wrong.
    pub fn read(file: &[u8]) -> Result<Users, BadUsers> {
        let mut users = Users::default();
        for (line, number) in file.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if !line.is_empty() && line[0] != b'#' {
                users.add(line).map_err(|problem| BadUsers { line: number, problem })?;
            }
        }
        let hashes = users.hashes.iter().enumerate();
        users.decoy = hashes.max_by_key(|(_, hash)| hash.rank()).map(|(index, _)| index);
        Ok(users)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, hash)) = colon.map(|at| (&line[..at], &line[at + 1..])) else {
            return Err("has no `:`; write it as NAME:HASH, as `htpasswd` does".into());
        };
        let shown = String::from_utf8_lossy(name).escape_debug().to_string();
        if name.is_empty() || name.iter().any(u8::is_ascii_control) {
            return Err("has no name in front of the `:`".into());
        }
        // Other programs keep a comment behind a further colon.
        let hash = hash.split(|byte| *byte == b':').next().unwrap_or_default();
        let hash = str::from_utf8(hash)
            .map_err(|_| format!("the hash of `{shown}` is no text"))
            .and_then(|hash| {
                Hash::read(hash).map_err(|bad| format!("the password of `{shown}` {}", bad.0))
            })?;
        if self.names.insert(name.to_owned(), self.hashes.len()).is_some() {
            return Err(format!("`{shown}` is there twice"));
        }
        self.hashes.push(hash);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The index of the user with this name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Those who have the same hash as in `old`, by their indexes here and there.
    pub fn unchanged_since<'a>(&'a self, old: &'a Users) -> impl Iterator<Item = (usize, usize)> {
        let pairs = self.names.iter().filter_map(|(name, user)| Some((*user, old.find(name)?)));
        pairs.filter(|(user, before)| self.hashes[*user] == old.hashes[*before])
    }

    /// Whether this is the password of the user with this index. Without a user (`None`) it takes
    /// as long as for the user whose hash takes longest, and is false: the time does not tell who
    /// is in the file.
    pub fn verify(&self, user: Option<usize>, password: &[u8]) -> bool {
        if password.len() > LONGEST_PASSWORD {
            return false;
        }
        let Some(hash) = user.or(self.decoy).and_then(|index| self.hashes.get(index)) else {
            return false;
        };
        hash.is_of(password) & user.is_some()
    }
}
