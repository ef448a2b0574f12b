//! What tests of real applications lean on: services of their own, and visitors.
//!
//! Each service belongs to the test that starts it (own directory, own port on 127.0.0.1) and is
//! gone when the value is dropped.

pub mod browser;
pub mod devtools;
pub mod faulty;
pub mod gate;
pub mod home;
pub mod mariadb;
pub mod picture;
pub mod postgresql;
pub mod redis;
pub mod session;
pub mod unpacked;
pub mod visitor;
