//! The tokens of an INI line. What a character means depends on where it stands, and of several
//! readings the longest wins; of equally long ones the first in the order of the functions below.

use std::fmt;

/// Brackets within brackets: more is refused, since each takes stack.
const DEEPEST: usize = 100;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Nothing more.
    End,
    /// The line ends, or a comment begins.
    EndOfLine,
    /// `[` that begins a section.
    Section,
    /// A name before `=`.
    Label(String),
    /// A name before `[`.
    Offset(String),
    /// `true`, `on`, `yes`
    True,
    /// `false`, `off`, `no`, `none`
    False,
    /// `null`
    Null,
    /// A word that may name a constant.
    Constant(String),
    /// Any other text.
    Text(String),
    /// `"`, at either end.
    Quote,
    /// `${`
    Variable,
    /// A character that means itself.
    Char(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::End => f.write_str("end of file"),
            Token::EndOfLine => f.write_str("end of line"),
            Token::Section => f.write_str("'['"),
            Token::Label(text)
            | Token::Offset(text)
            | Token::Constant(text)
            | Token::Text(text) => {
                write!(f, "'{text}'")
            }
            Token::True => f.write_str("a true value"),
            Token::False => f.write_str("a false value"),
            Token::Null => f.write_str("'null'"),
            Token::Quote => f.write_str("'\"'"),
            Token::Variable => f.write_str("'${'"),
            Token::Char(char) => write!(f, "'{char}'"),
        }
    }
}

/// Where the scanner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Before a statement, and in a name.
    Initial,
    /// Behind `=`.
    Value,
    /// Behind `[` of a section.
    Section,
    /// Behind `[` of a key.
    Key,
    /// Within `"`.
    Quoted,
    /// Behind `${`.
    Variable,
}

/// Cuts a line into tokens.
pub struct Scanner<'a> {
    rest: &'a str,
    mode: Mode,
    /// Where `Quoted` and `Variable` go back to.
    outer: Vec<Mode>,
    brackets: usize,
}

fn is_blank(char: char) -> bool {
    char == ' ' || char == '\t'
}

fn ends_line(char: char) -> bool {
    char == '\n' || char == '\r'
}

/// The length of the head of `text` whose characters pass.
fn run(text: &str, passes: impl Fn(char) -> bool) -> usize {
    text.find(|char| !passes(char)).unwrap_or(text.len())
}

fn label(text: &str) -> usize {
    run(text, |char| !"=\n\r\t;&|^$~(){}!\"[".contains(char))
}

/// The length of a line's end at the head of `text`, or 0.
fn line_end(text: &str) -> usize {
    if text.starts_with("\r\n") {
        2
    } else if text.starts_with(ends_line) {
        1
    } else {
        0
    }
}

/// `text` from a word that means true, false or null, with the blanks behind it.
fn keyword(text: &str) -> Option<(Token, usize)> {
    let words = [
        ("true", Token::True),
        ("on", Token::True),
        ("yes", Token::True),
        ("false", Token::False),
        ("off", Token::False),
        ("none", Token::False),
        ("no", Token::False),
        ("null", Token::Null),
    ];
    let found = words.into_iter().filter(|(word, _)| {
        text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
    });
    found
        .map(|(word, token)| (token, word.len() + run(&text[word.len()..], is_blank)))
        .max_by_key(|(_, length)| *length)
}

fn constant(text: &str) -> usize {
    let word = run(text, |char| char.is_ascii_alphanumeric() || char == '_');
    if text.starts_with(|first: char| first.is_ascii_digit()) { 0 } else { word }
}

/// A run of characters of which `plain` says whether one passes alone; `$` passes with the
/// character behind it, unless that is `{`, and so does `\` where `escapes`.
fn words(text: &str, plain: impl Fn(char) -> bool, escapes: bool) -> usize {
    let mut chars = text.char_indices().peekable();
    let mut end = 0;
    while let Some((at, char)) = chars.next() {
        if (char == '$') || (char == '\\' && escapes) {
            match chars.peek() {
                Some((_, '{')) if char == '$' => break,
                // A dollar at the end of the line.
                None if char == '$' => end = text.len(),
                None => break,
                Some(_) => {
                    let (next, with) = chars.next().unwrap_or((at, char));
                    end = next + with.len_utf8();
                    if char == '$' && with == '\\' {
                        end += chars.next().map_or(0, |(_, escaped)| escaped.len_utf8());
                    }
                }
            }
        } else if plain(char) {
            end = at + char.len_utf8();
        } else {
            break;
        }
    }
    end
}

/// The longest reading, of equally long ones the first.
fn longest(readings: Vec<(Token, usize)>) -> Option<(Token, usize)> {
    let mut best: Option<(Token, usize)> = None;
    for reading in readings {
        if reading.1 > best.as_ref().map_or(0, |best| best.1) {
            best = Some(reading);
        }
    }
    best
}

impl<'a> Scanner<'a> {
    /// A scanner at the beginning of a line.
    pub fn new(line: &'a str) -> Scanner<'a> {
        Scanner { rest: line, mode: Mode::Initial, outer: Vec::new(), brackets: 0 }
    }

    /// Reads the next tokens as inside `mode`.
    pub fn enter(&mut self, mode: Mode) {
        self.outer.push(self.mode);
        self.mode = mode;
    }

    /// Back to where [`Scanner::enter`] was called.
    pub fn leave(&mut self) {
        self.mode = self.outer.pop().unwrap_or(Mode::Initial);
    }

    /// Counts an opening bracket; false if there were too many.
    pub fn nest(&mut self) -> bool {
        self.brackets += 1;
        self.brackets <= DEEPEST
    }

    /// The next token.
    pub fn next(&mut self) -> Token {
        match self.mode {
            Mode::Initial => self.initial(),
            Mode::Value => self.value(),
            Mode::Section | Mode::Key => self.bracketed(),
            Mode::Quoted => self.quoted(),
            Mode::Variable => self.variable(),
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn initial(&mut self) -> Token {
        loop {
            let text = self.rest;
            let Some(first) = text.chars().next() else { return Token::End };
            let blanks = run(text, is_blank);
            let behind = &text[blanks..];
            if behind.starts_with(';') {
                self.comment();
                return Token::EndOfLine;
            }
            if behind.is_empty() || line_end(behind) > 0 {
                self.take(blanks + line_end(behind));
                return Token::EndOfLine;
            }
            if behind.starts_with('=') {
                self.take(blanks + 1);
                self.take(run(self.rest, is_blank));
                self.mode = Mode::Value;
                return Token::Char('=');
            }
            if first == '[' {
                self.take(1);
                self.mode = Mode::Section;
                return Token::Section;
            }
            let name = label(text);
            if text[name..].starts_with('[') && name > 0 {
                let found = self.take(name).trim_matches(is_blank).to_string();
                self.take(1);
                self.take(run(self.rest, is_blank));
                self.mode = Mode::Key;
                return Token::Offset(found);
            }
            if let Some((word, length)) = keyword(text).filter(|(_, length)| *length >= name) {
                self.take(length);
                return word;
            }
            if blanks > name {
                self.take(blanks);
                continue;
            }
            if name > 0 {
                return Token::Label(self.take(name).trim_matches(is_blank).to_string());
            }
            self.take(first.len_utf8());
            return Token::Char(first);
        }
    }

    fn comment(&mut self) {
        self.take(run(self.rest, |char| !ends_line(char)));
        self.take(line_end(self.rest));
        self.mode = Mode::Initial;
    }

    fn value(&mut self) -> Token {
        let text = self.rest;
        let blanks = run(text, is_blank);
        let behind = &text[blanks..];
        if behind.is_empty() || line_end(behind) > 0 {
            self.take(blanks + line_end(behind));
            self.mode = Mode::Initial;
            return Token::EndOfLine;
        }
        match behind.chars().next() {
            Some(';') => {
                self.comment();
                return Token::EndOfLine;
            }
            Some('"') => {
                self.take(blanks + 1);
                return Token::Quote;
            }
            _ if blanks > 0 => return Token::Text(self.take(blanks).to_string()),
            _ => {}
        }
        if text.starts_with("${") {
            self.take(2);
            return Token::Variable;
        }
        if let Some(raw) = self.single_quoted() {
            return raw;
        }
        if let Some(operator) = text.chars().next().filter(|char| "&|^~()!".contains(*char)) {
            self.take(1);
            self.take(run(self.rest, is_blank));
            return Token::Char(operator);
        }
        let plain = |char: char| !"= \t\n\r;&|^~()!\"'".contains(char);
        let word = constant(text);
        let mut readings: Vec<(Token, usize)> = keyword(text).into_iter().collect();
        readings.push((Token::Constant(text[..word].to_string()), word));
        let other = words(text, plain, false);
        readings.push((Token::Text(text[..other].to_string()), other));
        match longest(readings) {
            Some((token, length)) => {
                self.take(length);
                token
            }
            // Nothing that can stand here: the value ends, and what follows is read as a statement.
            None => {
                if !text.starts_with('=') {
                    self.take(1);
                }
                self.mode = Mode::Initial;
                Token::EndOfLine
            }
        }
    }

    fn single_quoted(&mut self) -> Option<Token> {
        let inner = self.rest.strip_prefix('\'')?;
        let Some(end) = inner.find('\'') else {
            self.rest = inner;
            return Some(Token::Char('\''));
        };
        if end == 0 {
            return None;
        }
        let text = inner[..end].to_string();
        self.take(end + 2);
        Some(Token::Text(text))
    }

    fn bracketed(&mut self) -> Token {
        let text = self.rest;
        let blanks = run(text, is_blank);
        let behind = &text[blanks..];
        let closes = if self.mode == Mode::Key { behind } else { text };
        if closes.starts_with(']') {
            self.take(text.len() - closes.len() + 1);
            if self.mode == Mode::Section {
                self.take(run(self.rest, is_blank));
                self.take(line_end(self.rest));
            }
            self.mode = Mode::Initial;
            return Token::Char(']');
        }
        if behind.starts_with('"') {
            self.take(blanks + 1);
            return Token::Quote;
        }
        if text.starts_with("${") {
            self.take(2);
            return Token::Variable;
        }
        if let Some(raw) = self.single_quoted() {
            return raw;
        }
        let word = constant(text);
        let other = words(text, |char| !"\n\r;\"']".contains(char), true);
        let readings = vec![
            (Token::Constant(text[..word].to_string()), word),
            (Token::Text(text[..other].to_string()), other),
        ];
        match longest(readings) {
            Some((token, length)) => {
                self.take(length);
                token
            }
            None => Token::End,
        }
    }

    fn variable(&mut self) -> Token {
        let name = label(self.rest);
        if name > 0 {
            return Token::Label(self.take(name).trim_matches(is_blank).to_string());
        }
        if self.rest.starts_with('}') {
            self.take(1);
            return Token::Char('}');
        }
        Token::End
    }

    fn quoted(&mut self) -> Token {
        let text = self.rest;
        if text.starts_with('"') {
            self.take(1);
            self.take(run(self.rest, is_blank));
            return Token::Quote;
        }
        if text.starts_with("${") {
            self.take(2);
            return Token::Variable;
        }
        if text.is_empty() {
            return Token::End;
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => break,
                b'$' if bytes.get(at + 1) == Some(&b'{') => break,
                // `"C:\path\"`: a quote at the very end closes, whatever stands before it.
                b'\\'
                    if bytes.get(at + 1) == Some(&b'"')
                        && bytes.get(at + 2).is_none_or(|b| b"\r\n".contains(b)) =>
                {
                    at += 1;
                    break;
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        let mut at = at.min(text.len());
        // The character behind a backslash may be longer than one byte.
        while !text.is_char_boundary(at) {
            at += 1;
        }
        Token::Text(unescape(self.take(at)))
    }
}

/// Takes the backslash from before `\`, `"` and `$`.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char == '\\' {
            match chars.next() {
                Some(escaped @ ('\\' | '"' | '$')) => plain.push(escaped),
                Some(other) => plain.extend(['\\', other]),
                None => plain.push('\\'),
            }
        } else {
            plain.push(char);
        }
    }
    plain
}
