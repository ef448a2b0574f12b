//! Shapes of access log lines of other servers, as patterns of `access_format`.

use std::fmt::Write;

use crate::model::COMBINED;

/// What patterns have of nginx's variables.
const VARIABLES: [&str; 21] = [
    "args",
    "body_bytes_sent",
    "host",
    "http_referer",
    "http_user_agent",
    "msec",
    "query_string",
    "remote_addr",
    "remote_user",
    "request",
    "request_id",
    "request_method",
    "request_time",
    "request_uri",
    "scheme",
    "server_name",
    "server_port",
    "server_protocol",
    "status",
    "time_iso8601",
    "time_local",
];

/// Fields of requests that are not logged, since they hold secrets.
const SECRETS: [&str; 3] = ["authorization", "cookie", "proxy_authorization"];

/// `log_format` of nginx: its arguments behind the name.
///
/// # Errors
/// Fails with what is not known of it.
pub(crate) fn nginx(args: &[String]) -> Result<String, String> {
    let (escape, args) = match args.split_first() {
        Some((first, rest)) if first == "escape=json" => ("escape=json ", rest),
        Some((first, rest)) if first == "escape=default" => ("", rest),
        Some((first, _)) if first.starts_with("escape=") => return Err(first.clone()),
        _ => ("", args),
    };
    let text = args.concat();
    if text.contains(char::is_control) {
        return Err("a control character".into());
    }
    let mut rest = &*text;
    let mut has_variable = false;
    while let Some((_, after)) = rest.split_once('$') {
        let after = after.strip_prefix('{').unwrap_or(after);
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = after.find(|c| !is_letter(c)).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let field = name.strip_prefix("http_").filter(|field| !SECRETS.contains(field));
        let is_field = field.is_some_and(|field| {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !field.is_empty() && field.bytes().all(|byte| is_plain(byte) || byte == b'_')
        });
        if !VARIABLES.contains(&name) && name != "upstream_response_time" && !is_field {
            return Err(format!("${name}"));
        }
        has_variable = true;
        rest = after;
    }
    match has_variable {
        true => Ok(format!("{escape}{text}")),
        false => Err("a line without a variable".into()),
    }
}

/// `LogFormat` of Apache.
///
/// # Errors
/// Fails with what is not known of it.
pub(crate) fn apache(format: &str) -> Result<String, String> {
    if format.contains(char::is_control) || format.contains("\\t") || format.contains("\\n") {
        return Err("a control character".into());
    }
    let mut pattern = String::new();
    let mut rest = &*format.replace("\\\"", "\"");
    while let Some((before, after)) = rest.split_once('%') {
        pattern.push_str(&before.replace('$', "$$"));
        let (name, after) = match after.strip_prefix('{').and_then(|it| it.split_once('}')) {
            Some((name, after)) => (Some(name), after),
            None => (None, after.strip_prefix('>').unwrap_or(after)),
        };
        let mut chars = after.chars();
        let kind = chars.next().unwrap_or(' ');
        let own = match (name, kind) {
            (None, '%') => "%",
            (None, 'a' | 'h') => "$remote_addr",
            (None, 'l') => "-",
            (None, 'u') => "$remote_user",
            (None, 't') => "[$time_local]",
            (None, 'r') => "$request",
            (None, 's') => "$status",
            (None, 'b' | 'B') => "$body_bytes_sent",
            (None, 'm') => "$request_method",
            (None, 'H') => "$server_protocol",
            (None, 'v') => "$server_name",
            (None, 'V') => "$host",
            (None, 'p') => "$server_port",
            (Some(name), 'i') => match field(name) {
                Some(field) => {
                    // A letter behind it would belong to the name.
                    let _ = write!(pattern, "${{http_{field}}}");
                    ""
                }
                None => return Err(format!("%{{{name}}}i")),
            },
            (Some(name), kind) => return Err(format!("%{{{name}}}{kind}")),
            (None, kind) => return Err(format!("%{kind}")),
        };
        pattern.push_str(own);
        // A letter behind it would belong to the name.
        let next = chars.as_str().chars().next();
        if own.starts_with('$') && next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            let at = pattern.len() - own.len();
            pattern.replace_range(at.., &format!("${{{}}}", &own[1..]));
        }
        rest = chars.as_str();
    }
    pattern.push_str(&rest.replace('$', "$$"));
    match pattern.contains('$') {
        true => Ok(pattern),
        false => Err("a line without a variable".into()),
    }
}

/// A header field as it stands in a variable.
fn field(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_known = !name.is_empty() && name.bytes().all(is_plain);
    (is_known && !SECRETS.contains(&&*name)).then_some(name)
}

/// A shape, or `combined` with the reason why it is not the own one.
pub(crate) fn or_combined(found: Result<String, String>) -> (String, Option<String>) {
    match found {
        Ok(pattern) => (pattern, None),
        Err(unknown) => {
            let reason = format!(
                "its lines are `combined`, which programs read: a line has no {unknown} here; see \
                 `access_format`"
            );
            (COMBINED.to_owned(), Some(reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_nginx_are_patterns_if_all_of_them_is_known() {
        let read =
            |args: &[&str]| nginx(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let main = "$remote_addr \"$request\" $status ";
        assert_eq!(
            read(&[main, "\"$http_x_forwarded_for\""]).unwrap(),
            format!("{main}\"$http_x_forwarded_for\"")
        );
        assert_eq!(
            read(&["escape=json", "{\"t\":${msec}}"]).unwrap(),
            "escape=json {\"t\":${msec}}"
        );
        for (format, unknown) in [
            ("$status $ssl_cipher", "$ssl_cipher"),
            ("$http_cookie", "$http_cookie"),
            ("escape=none", "escape=none"),
            ("plain", "a line without a variable"),
        ] {
            assert_eq!(read(&[format]).unwrap_err(), unknown);
        }
    }

    #[test]
    fn formats_of_apache_are_patterns_if_all_of_them_is_known() {
        for (format, expected) in [
            (
                "%h %l %u %t \"%r\" %>s %b \\\"%{Referer}i\\\"",
                Ok("$remote_addr - $remote_user [$time_local] \"$request\" $status \
                    $body_bytes_sent \"${http_referer}\""),
            ),
            ("%v:%p %a 100%% $1", Ok("$server_name:$server_port $remote_addr 100% $$1")),
            ("%sms", Ok("${status}ms")),
            ("%{X-Forwarded-For}i", Ok("${http_x_forwarded_for}")),
            ("%{Cookie}i", Err("%{Cookie}i")),
            ("%h %D", Err("%D")),
            ("%{ms}T", Err("%{ms}T")),
            ("%200u", Err("%2")),
            ("%", Err("% ")),
        ] {
            let found = apache(format);
            assert_eq!(found.as_deref().map_err(|it| &**it), expected, "{format}");
        }
    }
}
