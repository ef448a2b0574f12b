//! Users and groups: looked up by name and number, and taken on by a process.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::privacy::Sets;

/// The identity of a process: user, group, and the groups of that user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
    account: Option<Account>,
}

/// What programs of a user find in their environment, as `USER` and `HOME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name.
    pub name: OsString,
    /// The user's home directory.
    pub home: OsString,
}

impl Account {
    /// That of the user that this process acts as, if the system knows it.
    pub fn own() -> Option<Account> {
        user_by_number(effective_uid()).ok()?.map(|user| user.account)
    }
}

impl Identity {
    /// The identity behind a user's and a group's name or number; without a group, the user's own.
    ///
    /// # Errors
    /// Fails if there is no such user or group, or a user's number comes without a group.
    pub fn find(user: &str, group: Option<&str>) -> io::Result<Identity> {
        let group = group.map(group_id).transpose()?;
        if let Ok(uid) = user.parse() {
            let known = user_by_number(uid)?;
            let own = known.as_ref().map(|user| user.gid);
            let gid = group.or(own).ok_or_else(|| missing("group beside the user", user))?;
            let groups = known.as_ref().map_or_else(|| vec![gid], |user| user.groups(gid));
            return Ok(Identity { uid, gid, groups, account: known.map(|user| user.account) });
        }
        let user = user_by_name(&CString::new(user)?)?.ok_or_else(|| missing("user", user))?;
        let gid = group.unwrap_or(user.gid);
        Ok(Identity { uid: user.uid, gid, groups: user.groups(gid), account: Some(user.account) })
    }

    /// That of this process.
    ///
    /// # Errors
    /// Fails if the system's list of users cannot be read.
    pub fn own() -> io::Result<Identity> {
        // SAFETY: takes nothing, cannot fail.
        let (uid, gid) = (effective_uid(), unsafe { libc::getegid() });
        let mut groups = vec![0; 65_536];
        // SAFETY: `groups` has room for as many as a process can have.
        let count = unsafe { libc::getgroups(groups.len() as libc::c_int, groups.as_mut_ptr()) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        groups.truncate(count.unsigned_abs() as usize);
        Ok(Identity { uid, gid, groups, account: user_by_number(uid)?.map(|user| user.account) })
    }

    /// Becomes that user, if there is one to become. Without one, no capability of an ordinary
    /// user's process is passed on all the same: a script could do with it what it likes.
    pub(super) fn assume_if_any(identity: Option<&Identity>) -> io::Result<()> {
        match identity {
            Some(identity) => identity.assume(),
            None if is_root() => Ok(()),
            None => Sets::default().write(false),
        }
    }

    /// Becomes that user for good, without any capability, unless it is the superuser.
    ///
    /// Only system calls, no allocation: it also runs between `fork` and `exec`.
    pub fn assume(&self) -> io::Result<()> {
        self.change()?;
        // The kernel takes them away from a process that was the superuser, and from no other.
        if self.uid == 0 { Ok(()) } else { Sets::default().write(false) }
    }

    /// Changes the user. Groups first: after `setuid` the right to change them is gone.
    pub(super) fn change(&self) -> io::Result<()> {
        // SAFETY: `groups` is an array of the given length; the others take numbers.
        let failed = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) != 0
                || libc::setgid(self.gid) != 0
                || libc::setuid(self.uid) != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The identity with these numbers.
    pub fn numbered(uid: u32, gid: u32, groups: Vec<u32>) -> Identity {
        Identity { uid, gid, groups, account: None }
    }

    /// The user's number.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The group's number.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// What programs find of the user in their environment, if the system knows it.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// The numbers of all its groups.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }
}

/// Whether this process is the superuser.
pub fn is_root() -> bool {
    effective_uid() == 0
}

/// The user that this process acts as.
pub fn effective_uid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// An entry of the system's list of users.
struct User {
    uid: libc::uid_t,
    gid: libc::gid_t,
    account: Account,
}

impl User {
    fn of(entry: &libc::passwd) -> User {
        let text = |at: *const libc::c_char| {
            // SAFETY: a text that the call has put into the buffer, which is still there.
            let text = unsafe { at.as_ref().map(|at| CStr::from_ptr(at)) };
            OsStr::from_bytes(text.unwrap_or_default().to_bytes()).to_owned()
        };
        let account = Account { name: text(entry.pw_name), home: text(entry.pw_dir) };
        User { uid: entry.pw_uid, gid: entry.pw_gid, account }
    }

    /// The groups that it belongs to, with `gid` among them.
    fn groups(&self, gid: libc::gid_t) -> Vec<libc::gid_t> {
        let name = CString::new(self.account.name.as_bytes());
        name.map_or_else(|_| vec![gid], |name| groups_of(&name, gid))
    }
}

/// Calls a `get…_r` function with a buffer that grows until it suffices.
fn look_up<T, R>(
    mut call: impl FnMut(*mut T, &mut [libc::c_char], *mut *mut T) -> libc::c_int,
    found: impl Fn(&T) -> R,
) -> io::Result<Option<R>> {
    let mut buffer = vec![0; 1024];
    loop {
        let mut entry = mem::MaybeUninit::<T>::uninit();
        let mut result = ptr::null_mut();
        match call(entry.as_mut_ptr(), &mut buffer, &mut result) {
            // SAFETY: `result`, when not null, points to `entry`, which the call has filled in.
            0 => return Ok(unsafe { result.as_ref() }.map(found)),
            libc::ERANGE if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn user_by_name(name: &CStr) -> io::Result<Option<User>> {
    look_up(
        // SAFETY: all pointers are valid for the call, the length is the buffer's.
        |entry, buffer, result| unsafe {
            libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), result)
        },
        User::of,
    )
}

fn user_by_number(uid: libc::uid_t) -> io::Result<Option<User>> {
    look_up(
        // SAFETY: as above.
        |entry, buffer, result| unsafe {
            libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), result)
        },
        User::of,
    )
}

fn group_by_name(name: &CStr) -> io::Result<Option<libc::gid_t>> {
    look_up(
        // SAFETY: as above.
        |entry, buffer, result| unsafe {
            libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), result)
        },
        |entry: &libc::group| entry.gr_gid,
    )
}

/// The number of a user, given by name or by the number itself.
///
/// # Errors
/// Fails if there is no such user.
pub fn user_id(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    Ok(user_by_name(&CString::new(name)?)?.ok_or_else(|| missing("user", name))?.uid)
}

/// The number of a group, given by name or by the number itself.
///
/// # Errors
/// Fails if there is no such group.
pub fn group_id(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    group_by_name(&CString::new(name)?)?.ok_or_else(|| missing("group", name))
}

fn missing(what: &str, name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {what} \"{name}\""))
}

/// A user's number and that of its group, by name.
pub fn find_user(name: &str) -> Option<(u32, u32)> {
    user_by_name(&CString::new(name).ok()?).ok()?.map(|user| (user.uid, user.gid))
}

/// The number of a user's group, by the user's number.
pub fn find_group_of(uid: u32) -> Option<u32> {
    user_by_number(uid).ok()?.map(|user| user.gid)
}

/// A group's number, by name.
pub fn find_group(name: &str) -> Option<u32> {
    group_by_name(&CString::new(name).ok()?).ok()?
}

/// The groups that a user belongs to, with `gid` among them.
fn groups_of(user: &CStr, gid: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![gid; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: `groups` has room for `count` entries; the call writes no more, and returns how
        // many.
        let fits =
            unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &mut count) } >= 0;
        if fits || groups.len() >= 65_536 {
            groups.truncate(count.unsigned_abs() as usize);
            return groups;
        }
        groups.resize(groups.len() * 4, gid);
    }
}
