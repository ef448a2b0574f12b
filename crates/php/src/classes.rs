//! Classes that are written in PHP: their text, for `php_classes.c`.

use std::ffi::{c_char, c_int};

use crate::ffi;

/// The source of each class, by its name in lower case. A source begins with PHP's opening tag; it
/// ends with a NUL, since PHP's scanner needs one.
const CLASSES: &[(&str, &str)] = &[
    ("tokamak\\pool", POOL),
    ("tokamak\\poolexception", POOL),
    ("tokamak\\revoltdriver", concat!(include_str!("../php/RevoltDriver.php"), "\0")),
    ("tokamak\\revoltsuspension", concat!(include_str!("../php/RevoltSuspension.php"), "\0")),
];

const POOL: &str = concat!(include_str!("../php/Pool.php"), "\0");

const OPENING_TAG: &str = "<?php";

/// # Safety
/// `name` points to `len` bytes, and `text` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_class(name: *const c_char, len: usize, text: *mut ffi::Text) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), len) };
    let Some((_, class)) = CLASSES.iter().find(|(known, _)| known.as_bytes() == name) else {
        return 0;
    };
    let body = &class[OPENING_TAG.len()..];
    // SAFETY: the caller's promise.
    unsafe { text.write(ffi::Text { at: body.as_ptr().cast(), len: body.len() - 1 }) };
    1
}
