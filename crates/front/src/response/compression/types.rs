//! Which media types are compressed.

/// Patterns of media types.
#[derive(Debug, Default)]
pub struct Types(Vec<Pattern>);

#[derive(Debug)]
enum Pattern {
    Is(Box<[u8]>),
    Begins(Box<[u8]>),
    Ends(Box<[u8]>),
}

impl Types {
    /// Patterns as the configuration has them: in lower case, with a `*` at the start or the end
    /// for any text.
    pub fn new(patterns: &[String]) -> Types {
        let pattern = |text: &String| match (text.strip_suffix('*'), text.strip_prefix('*')) {
            (Some("*/"), _) => Pattern::Begins(Box::default()),
            (Some(start), _) => Pattern::Begins(start.as_bytes().into()),
            (None, Some(end)) => Pattern::Ends(end.as_bytes().into()),
            (None, None) => Pattern::Is(text.as_bytes().into()),
        };
        Types(patterns.iter().map(pattern).collect())
    }

    /// Whether the type in a `Content-Type` fits a pattern. Its parameters do not count.
    pub fn fits(&self, content_type: &[u8]) -> bool {
        // So it is with most pages: the first pattern is mostly `text/*`.
        if let Some(Pattern::Begins(text)) = self.0.first()
            && content_type.starts_with(text)
        {
            return true;
        }
        let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
        let kind = content_type[..end].trim_ascii();
        self.0.iter().any(|pattern| match pattern {
            Pattern::Is(text) => kind.eq_ignore_ascii_case(text),
            Pattern::Begins(text) => {
                kind.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
            }
            Pattern::Ends(text) => kind
                .len()
                .checked_sub(text.len())
                .is_some_and(|at| kind[at..].eq_ignore_ascii_case(text)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_text_is_compressed_by_default() {
        let types = Types::new(&tokamak_config::Compression::default().types);
        for (kind, expected) in [
            ("text/html; charset=UTF-8", true),
            ("TEXT/HTML", true),
            ("text/event-stream", true),
            ("application/json", true),
            ("application/problem+json;charset=utf-8", true),
            ("application/rss+xml", true),
            ("image/svg+xml", true),
            ("application/wasm", true),
            ("image/x-icon", true),
            ("image/png", false),
            ("font/woff2", false),
            ("application/zip", false),
            ("application/octet-stream", false),
            ("textile", false),
            ("", false),
        ] {
            assert_eq!(types.fits(kind.as_bytes()), expected, "{kind}");
        }
    }

    #[test]
    fn patterns() {
        let fits = |pattern: &str, kind: &str| Types::new(&[pattern.into()]).fits(kind.as_bytes());
        assert!(fits("*/*", "image/png") && fits("image/*", "image/png"));
        assert!(fits("image/png", "image/png;x") && !fits("image/png", "image/pngs"));
        assert!(!fits("*+json", "json") && !fits("image/*", "imag"));
    }
}
