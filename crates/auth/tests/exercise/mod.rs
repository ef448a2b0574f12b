//! Any bytes as a file of users, as a header field, and as files on their way. The fuzz target runs
//! it too.

use tokamak_auth::{Login, UserFiles, Users};

/// Reads the bytes in each of these ways.
pub fn run(bytes: &[u8]) {
    if let Some(login) = Login::read(bytes) {
        assert!(!login.name.contains(&b':') && !login.name.contains(&0));
        assert!(!format!("{login:?}").contains('\n'));
    }
    match Users::read(bytes) {
        Ok(users) => assert!(users.len() <= bytes.len() / 3 && users.find(b"").is_none()),
        Err(error) => assert!(error.line > 0 && error.line <= bytes.len() + 1),
    }
    if let Ok(files) = UserFiles::decode(bytes) {
        assert_eq!(files.encode(), bytes);
    }
}
