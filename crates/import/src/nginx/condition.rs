//! The conditions of `if`, as what requests have to be.

use crate::condition::{Cases, Subject, Test};
use crate::pattern;

/// Names of the file that is asked for.
const FILES: [&str; 4] = [
    "$request_filename",
    "$document_root$uri",
    "$document_root$fastcgi_script_name",
    "$realpath_root$fastcgi_script_name",
];

/// The requests for which a condition holds, if rules can say it.
pub(super) fn cases(words: &[&str]) -> Option<Cases> {
    let test = match words {
        ["-e" | "-f", file] if FILES.contains(file) => Test::File(true),
        ["!-e" | "!-f", file] if FILES.contains(file) => Test::File(false),
        // A variable that is neither empty nor `0`.
        [variable] => Test::Found(subject(variable)?, "^(?:[^0]|0.)".to_owned(), true),
        [variable, operator, value @ ..] => {
            let value = value.join(" ");
            let (expression, is_found) = match *operator {
                "=" => (format!("^{}$", regex_lite::escape(&value)), true),
                "!=" => (format!("^{}$", regex_lite::escape(&value)), false),
                "~" | "!~" => (pattern::translate(&value, false).ok()?, *operator == "~"),
                "~*" | "!~*" => (pattern::translate(&value, true).ok()?, *operator == "~*"),
                _ => return None,
            };
            Test::Found(subject(variable)?, expression, is_found)
        }
        [] => return None,
    };
    Some(Cases::of(test))
}

fn subject(variable: &str) -> Option<Subject> {
    Some(match variable {
        "$request_method" => Subject::Method,
        "$args" | "$query_string" => Subject::Query,
        "$uri" | "$document_uri" => Subject::Path,
        _ => {
            let name = variable.strip_prefix("$http_")?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.bytes().all(is_plain).then(|| Subject::Header(name.replace('_', "-")))?
        }
    })
}
