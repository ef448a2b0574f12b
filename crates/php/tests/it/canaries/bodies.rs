//! Bodies that a request reads in several parts: others run in between. `request.php` knows what is
//! in them.

use std::fmt::Write;

/// A type, and a body, for rows about them.
pub fn body_of(row: &str, n: u64) -> (&'static str, Vec<u8>) {
    let text = match row {
        "uploaded files" => file("f", "f", &n.to_string()) + END,
        "`$_POST` of a long form" => {
            let pair = |k| format!("{}={}", field(n, k), value(n, k));
            let form = (0..400).map(pair).collect::<Vec<_>>().join("&");
            return ("application/x-www-form-urlencoded", form.into_bytes());
        }
        "`$_POST` and `$_FILES` of a long multipart body" => multipart(n),
        "`php://input` that is long" | READ_BY_SCRIPT => {
            return ("text/plain", format!("{n} ").repeat(9000).into_bytes());
        }
        _ => return ("text/plain", n.to_string().into_bytes()),
    };
    ("multipart/form-data; boundary=b", text.into_bytes())
}

/// Of this request PHP reads no body by itself.
pub const READ_BY_SCRIPT: &str = "`php://input` of a `PUT`";

const END: &str = "--b--\r\n";

fn field(n: u64, k: u64) -> String {
    format!("v[of{n}][k{k}][]")
}

fn value(n: u64, k: u64) -> String {
    format!("{n}.{k}.{}", "x".repeat(60))
}

fn file(field: &str, name: &str, text: &str) -> String {
    format!(
        "--b\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\
         Content-Type: text/x\r\n\r\n{text}\r\n"
    )
}

/// Three files, with fields before, between and behind them.
fn multipart(n: u64) -> String {
    let mut text = String::new();
    for k in 0..60 {
        let _ = write!(
            text,
            "--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n",
            field(n, k),
            value(n, k)
        );
        if k % 20 == 9 {
            let k = k / 20;
            let content = format!("{n}.{k}.").repeat(2000);
            text += &file(&format!("g[of{n}][k{k}]"), &format!("name-{n}-{k}"), &content);
        }
    }
    text + END
}
