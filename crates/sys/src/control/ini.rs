//! Settings of `php.ini`, as the values of a configuration are written there.

/// A value as text of such a file. Plain words and numbers stay bare, so that `on`, `none` and
/// `E_ALL & ~E_NOTICE` mean what they mean in `php.ini`; all else is quoted. `${NAME}` is replaced
/// in both, as there.
pub fn ini_value(value: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_.:/,+-".contains(c);
    let is_expression =
        value.starts_with("E_") && value.chars().all(|c| is_bare(c) || " &|~^()".contains(c));
    if value.chars().all(is_bare) || is_expression {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_meaning() {
        assert_eq!(ini_value("E_ALL & ~E_NOTICE"), "E_ALL & ~E_NOTICE");
        assert_eq!(ini_value("Europe/Berlin"), "Europe/Berlin");
        assert_eq!(ini_value("a;b\"c"), "\"a;b\\\"c\"");
        assert_eq!(ini_value("a\nb=1"), "\"a\nb=1\"");
    }
}
