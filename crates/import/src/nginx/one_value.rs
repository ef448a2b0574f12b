//! Conditions of one value of a query or of the cookies: `$arg_NAME` and `$cookie_NAME`.

use crate::condition::{Cases, Subject, Test};
use crate::pattern;

/// What stands before and behind values of some kind.
struct Kind {
    subject: Subject,
    separator: char,
    /// What may stand between a separator and a name.
    space: &'static str,
}

/// The requests for which a comparison of one value holds, if rules can say it.
pub(super) fn cases(variable: &str, comparison: &[&str]) -> Option<Cases> {
    let (kind, name) = match variable.strip_prefix("$arg_") {
        Some(name) => (Kind { subject: Subject::Query, separator: '&', space: "" }, name),
        None => {
            let subject = Subject::Header("Cookie".to_owned());
            (Kind { subject, separator: ';', space: " *" }, variable.strip_prefix("$cookie_")?)
        }
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_plain) {
        return None;
    }
    let Kind { subject, separator: end, space } = kind;
    // The first value of that name counts; names are for upper and lower case alike.
    let other = other(&format!("{name}="), end);
    let before = format!("^(?:{space}{other}{end})*{space}(?i:{name})=");
    let (value, is_found) = match comparison {
        // Neither empty nor `0`.
        [] => (format!("(?:[^0{end}]|0[^{end}])"), true),
        ["=", ""] | ["="] => (format!("[^{end}]"), false),
        ["!=", ""] | ["!="] => (format!("[^{end}]"), true),
        ["=", value] => (format!("{}(?:{end}|$)", regex_lite::escape(value)), true),
        ["!=", value] => (format!("{}(?:{end}|$)", regex_lite::escape(value)), false),
        [operator @ ("~" | "~*" | "!~" | "!~*"), value] => {
            (within(value, operator.ends_with('*'), end)?, !operator.starts_with('!'))
        }
        _ => return None,
    };
    Some(Cases::of(Test::Found(subject, format!("{before}{value}"), is_found)))
}

/// An expression for a text up to a separator that does not begin with another text.
fn other(text: &str, end: char) -> String {
    text.chars().rev().fold(String::new(), |behind, char| {
        let behind = match &*behind {
            "" => String::new(),
            behind => format!("|(?i:{char}){behind}"),
        };
        format!("(?:(?i:[^{char}{end}])[^{end}]*{behind})?")
    })
}

/// An expression of a value where that stands among others: only texts, which nothing in it may
/// leave.
fn within(expression: &str, ignores_case: bool, end: char) -> Option<String> {
    let start = expression.strip_prefix('^');
    let body = start.unwrap_or(expression);
    let last = body.strip_suffix('$');
    let body = last.unwrap_or(body);
    let is_text = |char: char| char.is_ascii_alphanumeric() || "_-|()?".contains(char);
    let are_whole = body.starts_with('(') || !body.contains('|');
    if !body.chars().all(is_text) || !are_whole {
        return None;
    }
    let body = pattern::translate(&format!("(?:{body})"), false).ok()?;
    let body = if ignores_case { format!("(?i:{body})") } else { body };
    let start = if start.is_some() { "" } else { &format!("[^{end}]*") };
    let last = if last.is_some() { format!("(?:{end}|$)") } else { String::new() };
    Some(format!("{start}{body}{last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_name_decides() {
        for (variable, comparison, text, expected) in [
            ("$arg_x", &[][..], "x=1", true),
            ("$arg_x", &[], "a=2&X=1", true),
            ("$arg_x", &[], "x=0", false),
            ("$arg_x", &[], "x=", false),
            ("$arg_x", &[], "x", false),
            ("$arg_x", &[], "ax=1&xb=1", false),
            ("$arg_ab", &[], "a=1&abc=1&&ab=00", true),
            ("$arg_x", &["=", "y"], "x=y", true),
            ("$arg_x", &["=", "y"], "x=1&x=y", false),
            ("$arg_x", &["=", "y"], "x=yy", false),
            ("$arg_x", &["=", ""], "", true),
            ("$arg_x", &["=", ""], "x=1", false),
            ("$arg_x", &["!=", "y"], "a", true),
            ("$arg_x", &["~", "^(on|off)$"], "b=1&x=off", true),
            ("$arg_x", &["~", "^(on|off)$"], "x=offer", false),
            ("$arg_x", &["~*", "bot"], "x=aBoT", true),
            ("$arg_x", &["~", "bot"], "y=bot", false),
            ("$cookie_id", &[], "a=b; id=7", true),
            ("$cookie_id", &["=", "7"], "id=7; a=b", true),
            ("$cookie_id", &["=", "7"], "xid=7", false),
        ] {
            let found = cases(variable, comparison).unwrap();
            let [case] = &found.0[..] else { panic!("{found:?}") };
            let [Test::Found(_, expression, is_found)] = &case[..] else { panic!("{case:?}") };
            let holds = pattern::is_in(expression, text) == *is_found;
            assert_eq!(holds, expected, "{variable} {comparison:?} {text}: {expression}");
        }
        assert_eq!(cases("$arg_x", &["~", "a.*b"]), None);
    }
}
