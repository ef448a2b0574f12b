//! POSIX access control lists: users and groups that may use a file beside its owner and group.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The attribute in which Linux keeps a file's list.
const ATTRIBUTE: &std::ffi::CStr = c"system.posix_acl_access";

/// The version of its format: an entry is a tag, permissions and a number.
const VERSION: u32 = 2;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The number in entries without a user or group (ACL_UNDEFINED_ID).
const UNDEFINED_ID: u32 = u32::MAX;

const READ_AND_WRITE: u16 = 0o6;

/// Lets these users and groups read and write a file; for its owner, its group and others the mode
/// says what they may.
pub fn set(path: &Path, mode: u32, users: &[u32], groups: &[u32]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let list = encode(mode, users, groups);
    // SAFETY: both texts are NUL-terminated, the list has the length that is given.
    let result = unsafe {
        libc::setxattr(path.as_ptr(), ATTRIBUTE.as_ptr(), list.as_ptr().cast(), list.len(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn encode(mode: u32, users: &[u32], groups: &[u32]) -> Vec<u8> {
    let of_mode = |shift: u32| ((mode >> shift) & 0o7) as u16;
    let sorted = |numbers: &[u32]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let mut entries = vec![(OWNER, of_mode(6), UNDEFINED_ID)];
    entries.extend(sorted(users).into_iter().map(|user| (USER, READ_AND_WRITE, user)));
    entries.push((OWNING_GROUP, of_mode(3), UNDEFINED_ID));
    entries.extend(sorted(groups).into_iter().map(|group| (GROUP, READ_AND_WRITE, group)));
    // What all but the owner and others may at most.
    entries.push((MASK, of_mode(3) | READ_AND_WRITE, UNDEFINED_ID));
    entries.push((OTHERS, of_mode(0), UNDEFINED_ID));
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(number.to_le_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_in_the_order_that_the_kernel_wants() {
        let list = encode(0o640, &[33, 1, 33], &[5]);
        let entries: Vec<(u8, u8, u8)> = list[4..]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|entry| (entry[0], entry[2], entry[4]))
            .collect();
        let expected = [
            (1, 6, 255),
            (2, 6, 1),
            (2, 6, 33),
            (4, 4, 255),
            (8, 6, 5),
            (16, 6, 255),
            (32, 0, 255),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn a_file_takes_it() {
        let path = std::env::temp_dir().join(format!("tokamak-access-list-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let set = set(&path, 0o600, &[1, 2], &[3]);
        let mode = std::fs::metadata(&path).map(|data| {
            use std::os::unix::fs::MetadataExt;
            data.mode() & 0o777
        });
        std::fs::remove_file(&path).expect("it was there");
        match set {
            // The bits of the group show the mask.
            Ok(()) => assert_eq!(mode.expect("a mode"), 0o660),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}"),
        }
    }
}
