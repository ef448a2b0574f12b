//! Files of users: those that mean the same to Tokamak as to the server that has read them.

use std::path::Path;

use tokamak_auth::Users;

use crate::source::Disk;

/// The names in a file of users.
///
/// # Errors
/// Fails with a reason if the file is not there, or if one of its lines would let somebody else in.
pub(crate) fn names(disk: &dyn Disk, file: &str) -> Result<Vec<String>, String> {
    let bytes = disk.read(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    read(&bytes).map_err(|problem| format!("{file}, {problem}"))?;
    let mut names = Vec::new();
    for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        // To nginx a space at either end belongs to the name or to the hash, which is wrong then.
        if text.trim_ascii() != text {
            return Err(format!("{file}, line {number}: has spaces at its beginning or its end"));
        }
        let Some((name, hash)) = text.split_once(':').filter(|_| !text.starts_with('#')) else {
            continue;
        };
        // Tokamak alone of these servers knows it, so its user would be let in here only.
        if hash.starts_with("$argon2") {
            return Err(format!("{file}, line {number}: Argon2 is not known to that server"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Whether Tokamak knows the users of a file.
///
/// # Errors
/// Fails with the line that it does not know.
pub(crate) fn read(bytes: &[u8]) -> Result<(), String> {
    Users::read(bytes).map(drop).map_err(|bad| bad.to_string())
}

/// What browsers say of a password, if it can be said so.
pub(crate) fn realm(text: &str) -> Option<String> {
    (!text.trim().is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::System;

    const BCRYPT: &str = "$2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG";
    const ARGON2: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$\
        nGLAIFtV8ZhKi6xW2PFXpDrcNZkqPcnVhTjMYB9wcSE";

    #[test]
    fn a_file_is_taken_only_if_each_line_means_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        for (text, expected) in [
            (format!("# staff\nmax:{BCRYPT}\r\nann:$apr1$ab${}\n", "a".repeat(22)), Ok(2)),
            (format!("max:{BCRYPT}:a comment\n"), Ok(1)),
            ("max:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=".to_owned(), Ok(1)),
            (String::new(), Ok(0)),
            (format!(" max:{BCRYPT}\n"), Err("line 1: has spaces")),
            (format!("a:{BCRYPT}\nmax:{BCRYPT} \n"), Err("line 2: has spaces")),
            (format!("max:{BCRYPT}\nmax:{BCRYPT}\n"), Err("line 2: `max` is there twice")),
            (format!("max:{ARGON2}\n"), Err("line 1: Argon2 is not known")),
            ("max:$1$ab$cdef\n".to_owned(), Err("line 1: the password of `max` is neither")),
            ("max:{PLAIN}secret\n".to_owned(), Err("line 1: the password of `max` is no")),
            ("max:secret\n".to_owned(), Err("line 1: the password of `max` is neither")),
            ("max\n".to_owned(), Err("line 1: has no `:`")),
        ] {
            fs::write(&file, &text).unwrap();
            let names = names(&System, file.to_str().unwrap());
            match (&names, expected) {
                (Ok(names), Ok(count)) => assert_eq!(names.len(), count, "{text}"),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
                _ => panic!("{text}: {names:?}"),
            }
        }
        assert!(names(&System, "/none/users").unwrap_err().starts_with("/none/users: "));
    }
}
