//! The image manager: all private memory of a process as it was at one moment, and the way back to
//! it.
//!
//! It is C, in `c/`, because what it does has no place in a Rust program's own rules: a function
//! that returns again and again with the memory of its first return. Its contract (numbered
//! invariants, a state diagram, the check of them at run time) is `c/image.h`; its only user is the
//! C side of the PHP worker. This crate compiles it and holds its tests, which need no PHP.
//!
//! A program that links it defines `mmap` and its relatives by `image_mmap` and its relatives, and
//! exports them, so that the dynamic linker finds them before libc's.
