//! The time of day where this machine is.

use std::ffi::CString;
use std::mem;

/// The longest text that a format may make.
const LONGEST: usize = 256;

/// A moment, in seconds since 1970, as the C library's `strftime` writes it; nothing if that would
/// be too long.
pub fn local(seconds: i64, format: &str) -> String {
    let Ok(format) = CString::new(format) else { return String::new() };
    let mut broken_down = mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both point to values of the types that the call wants; it fills in the second.
    if unsafe { libc::localtime_r(&seconds, broken_down.as_mut_ptr()) }.is_null() {
        return String::new();
    }
    let mut text = vec![0u8; LONGEST];
    // SAFETY: the buffer has the length that is given, the format ends with a zero, and all bytes
    // of a `tm`, zeroed before and filled in now, are initialised; its zone's name is the C
    // library's own.
    let length = unsafe {
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), broken_down.as_ptr())
    };
    text.truncate(length);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_by_the_format() {
        // Noon, so that it is the same day nearly everywhere.
        let noon = 12 * 3600;
        let day = local(noon, "%d-%b-%Y");
        assert!(day == "01-Jan-1970" || day == "02-Jan-1970", "{day}");
        assert_eq!(local(noon, "%s"), "43200");
        assert_eq!(local(noon, ""), "");
        assert_eq!(local(noon, "a\0b"), "");
        assert_eq!(local(i64::MAX, "%Y"), "");
        assert_eq!(local(noon, &"%Y".repeat(100)), "");
    }
}
