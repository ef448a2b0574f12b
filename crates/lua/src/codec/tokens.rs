//! Header fields taken apart, as loosely as lighttpd does it.

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A cursor over a field's value, which ends at its first zero byte.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn new(text: &'a [u8]) -> Cursor<'a> {
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Cursor { rest: &text[..end] }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| stop(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// A quoted string with its quotes and escapes; one that lacks its end gets it.
    fn quoted(&mut self) -> Vec<u8> {
        let mut at = 1;
        while let Some(&byte) = self.rest.get(at) {
            match byte {
                b'"' => {
                    let (taken, rest) = self.rest.split_at(at + 1);
                    self.rest = rest;
                    return taken.to_vec();
                }
                b'\\' if at + 1 < self.rest.len() => at += 2,
                b'\\' => break,
                _ => at += 1,
            }
        }
        let mut taken = self.rest.to_vec();
        // A backslash at the very end would escape the quote.
        if at < self.rest.len() {
            taken.push(b'\\');
        }
        taken.push(b'"');
        self.rest = &[];
        taken
    }
}

/// Names and values of a `Cookie` field, one after the other.
pub fn cookie_tokens(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = Cursor::new(text);
    let mut all = Vec::new();
    let ends_token = |byte| matches!(byte, b'=' | b';') || is_space(byte);
    loop {
        cursor.take(|byte| byte != b';' && !is_space(byte));
        if cursor.peek().is_none() {
            return all;
        }
        let name = cursor.take(ends_token).to_vec();
        cursor.take(|byte| !is_space(byte));
        let mut value = Vec::new();
        if cursor.peek() == Some(b'=') {
            cursor.rest = &cursor.rest[1..];
            cursor.take(|byte| !is_space(byte));
            value = match cursor.peek() {
                Some(b'"') => cursor.quoted(),
                _ => cursor.take(ends_token).to_vec(),
            };
        }
        all.push((name, value));
        cursor.take(|byte| byte == b';');
    }
}

/// The words, quoted strings and separators of a field, in their order.
pub fn header_tokens(text: &[u8]) -> Vec<Vec<u8>> {
    let mut cursor = Cursor::new(text);
    let mut all = Vec::new();
    loop {
        cursor.take(|byte| !is_space(byte));
        let token = match cursor.peek() {
            None => return all,
            Some(b',' | b';' | b'=') => {
                let (separator, rest) = cursor.rest.split_at(1);
                cursor.rest = rest;
                separator.to_vec()
            }
            Some(b'"') => cursor.quoted(),
            Some(_) => {
                cursor.take(|byte| matches!(byte, b',' | b';' | b'=') || is_space(byte)).to_vec()
            }
        };
        all.push(token);
    }
}
