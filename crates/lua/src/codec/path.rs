//! Paths without detours.

/// Takes `//`, `/./` and `/../` out of a path, which gets a slash in front if it has a detour at
/// its beginning; nothing leads above the root.
pub fn simplify(path: &[u8]) -> Vec<u8> {
    if matches!(path, b"" | b"." | b"..") {
        return Vec::new();
    }
    let mut out: Vec<&[u8]> = Vec::new();
    let mut rooted = path[0] == b'/';
    let mut ends_in_folder = false;
    for part in path.split(|&byte| byte == b'/') {
        ends_in_folder = true;
        match part {
            b"" => {}
            b"." => rooted |= out.is_empty(),
            b".." => {
                out.pop();
                rooted |= out.is_empty();
            }
            _ => {
                out.push(part);
                ends_in_folder = false;
            }
        }
    }
    let mut joined = out.join(&b'/');
    if ends_in_folder && !joined.is_empty() {
        joined.push(b'/');
    }
    if rooted || joined.is_empty() {
        joined.insert(0, b'/');
    }
    joined
}
