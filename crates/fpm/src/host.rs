//! What a configuration is checked against: the users of the machine, and the user of this process.

use tokamak_sys::process;

/// Answers about the machine. A trait, so that a configuration can be judged as if by root.
pub trait Host {
    /// Whether the process may change its user.
    fn is_root(&self) -> bool;
    /// A user's number and that of its group, by name.
    fn user(&self, name: &str) -> Option<(u32, u32)>;
    /// The number of a user's group, by the user's number.
    fn group_of(&self, uid: u32) -> Option<u32>;
    /// A group's number, by name.
    fn group(&self, name: &str) -> Option<u32>;
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The machine this runs on.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl Host for Machine {
    fn is_root(&self) -> bool {
        process::is_root()
    }

    fn user(&self, name: &str) -> Option<(u32, u32)> {
        process::find_user(name)
    }

    fn group_of(&self, uid: u32) -> Option<u32> {
        process::find_group_of(uid)
    }

    fn group(&self, name: &str) -> Option<u32> {
        process::find_group(name)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
