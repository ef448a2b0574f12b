//! The type of a file, by its name.

use std::borrow::Cow;
use std::path::Path;

use tokamak_config::FileCharset;

/// The media type, without parameters.
pub(super) fn of(path: &Path) -> &'static str {
    match mime_guess::from_path(path).first_raw() {
        None => "application/octet-stream",
        // RFC 9239 has made the other names obsolete.
        Some("application/javascript") => "text/javascript",
        Some(kind) => kind,
    }
}

/// Adds the charset to text types.
pub(super) fn with_charset(kind: &'static str, charset: &FileCharset) -> Cow<'static, str> {
    let name = match charset {
        _ if !is_text(kind) => return kind.into(),
        FileCharset::None => return kind.into(),
        // What the header field says would count more than what the file says.
        FileCharset::UnlessNamed if names_its_charset(kind) => return kind.into(),
        FileCharset::UnlessNamed => "utf-8",
        FileCharset::Is(name) => name,
    };
    [kind, "; charset=", name].concat().into()
}

/// Whether files of this type say themselves which charset they have.
fn names_its_charset(kind: &str) -> bool {
    kind == "text/html" || kind.ends_with("xml")
}

/// Whether a compressed file may lie beside it, so that the response depends on `Accept-Encoding`.
pub(super) fn is_compressible(kind: &str) -> bool {
    is_text(kind)
        || matches!(
            kind,
            "application/wasm"
                | "application/vnd.ms-fontobject"
                | "font/ttf"
                | "font/otf"
                | "application/font-sfnt"
                | "application/x-font-ttf"
                | "image/bmp"
                | "image/x-icon"
                | "image/vnd.microsoft.icon"
        )
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || kind.ends_with("+xml")
        || kind.ends_with("+json")
        || matches!(kind, "application/json" | "application/xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extensions_decide_types() {
        for (name, kind, compressible) in [
            ("a.html", "text/html", true),
            ("a.CSS", "text/css; charset=utf-8", true),
            ("a.js", "text/javascript; charset=utf-8", true),
            ("a.mjs", "text/javascript; charset=utf-8", true),
            ("a.json", "application/json; charset=utf-8", true),
            ("a.svg", "image/svg+xml", true),
            ("a.txt", "text/plain; charset=utf-8", true),
            ("a.xml", "text/xml", true),
            ("a.webmanifest", "application/manifest+json; charset=utf-8", true),
            ("a.wasm", "application/wasm", true),
            ("a.ico", "image/x-icon", true),
            ("a.png", "image/png", false),
            ("a.jpg", "image/jpeg", false),
            ("a.webp", "image/webp", false),
            ("a.woff2", "font/woff2", false),
            ("a.pdf", "application/pdf", false),
            ("a.mp4", "video/mp4", false),
            ("a.unheard-of", "application/octet-stream", false),
            ("a", "application/octet-stream", false),
        ] {
            let found = of(Path::new(name));
            assert_eq!(
                (&*with_charset(found, &FileCharset::UnlessNamed), is_compressible(found)),
                (kind, compressible),
                "{name}"
            );
        }
    }

    #[test]
    fn a_site_may_name_the_charset() {
        let latin = FileCharset::Is("iso-8859-1".into());
        for kind in ["text/html", "text/css"] {
            assert_eq!(with_charset(kind, &latin), format!("{kind}; charset=iso-8859-1"));
            assert_eq!(with_charset(kind, &FileCharset::None), kind);
        }
        assert_eq!(with_charset("image/png", &latin), "image/png");
    }
}
