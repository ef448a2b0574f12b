//! One line of a php-fpm configuration, read as PHP reads it: php-fpm gives PHP's INI parser one
//! line after the other, in its "normal" mode, where constants, `${VARIABLE}` and `|&^~!()` are
//! worked out.
//!
//! There are two differences, since no PHP runs here: of PHP's constants only `E_*` are known, and
//! others stay as they are written; `${name}` is looked up in the environment, but not in
//! `php.ini`.

mod scan;

use std::fmt;

use scan::{Mode, Scanner, Token};

/// What a line says. Mostly one statement, but `[www] user = www-data` is two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `[NAME]`
    Section(String),
    /// `NAME = VALUE`, or `NAME` alone.
    Entry {
        /// Without spaces around it.
        name: String,
        /// `None` when there is no `=`.
        value: Option<String>,
    },
    /// `NAME[KEY] = VALUE`
    Item {
        /// Without spaces around it.
        name: String,
        /// Empty for `NAME[]`.
        key: String,
        /// What it is set to.
        value: String,
    },
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    unexpected: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "syntax error, unexpected {}", self.unexpected)
    }
}

impl std::error::Error for SyntaxError {}

/// Gives the value of an environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads one line, its end not included.
pub fn parse(line: &str, variables: Lookup<'_>) -> Result<Vec<Statement>, SyntaxError> {
    // PHP's parser is given a C string.
    let line = line.split('\0').next().unwrap_or_default();
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let mut scanner = Scanner::new(line);
    let first = scanner.next();
    let mut parser = Parser { scanner, token: first, variables };
    let mut statements = Vec::new();
    while let Some(statement) = parser.statement()? {
        statements.extend(statement);
    }
    Ok(statements)
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    /// The one token that was read and is not yet used.
    token: Token,
    variables: Lookup<'a>,
}

impl Parser<'_> {
    fn advance(&mut self) -> Token {
        std::mem::replace(&mut self.token, self.scanner.next())
    }

    fn expect(&mut self, token: Token) -> Result<(), SyntaxError> {
        if self.token == token {
            self.advance();
            return Ok(());
        }
        self.unexpected()
    }

    fn unexpected<T>(&self) -> Result<T, SyntaxError> {
        Err(SyntaxError { unexpected: self.token.to_string() })
    }

    /// The next statement; `None` at the end, `Some(None)` for an empty line.
    fn statement(&mut self) -> Result<Option<Option<Statement>>, SyntaxError> {
        match &self.token {
            Token::End => Ok(None),
            Token::EndOfLine => {
                self.advance();
                Ok(Some(None))
            }
            Token::Section => {
                self.advance();
                let name = self.text(Constants::Literal)?.unwrap_or_default();
                self.expect(Token::Char(']'))?;
                Ok(Some(Some(Statement::Section(name))))
            }
            Token::Label(name) => {
                let name = name.clone();
                self.advance();
                let mut value = None;
                if self.token == Token::Char('=') {
                    self.advance();
                    value = Some(self.value()?);
                }
                Ok(Some(Some(Statement::Entry { name, value })))
            }
            Token::Offset(name) => {
                let name = name.clone();
                self.advance();
                let key = self.text(Constants::Valued)?.unwrap_or_default();
                self.expect(Token::Char(']'))?;
                self.expect(Token::Char('='))?;
                let value = self.value()?;
                Ok(Some(Some(Statement::Item { name, key, value })))
            }
            _ => self.unexpected(),
        }
    }

    fn value(&mut self) -> Result<String, SyntaxError> {
        match self.token {
            Token::True => {
                self.advance();
                Ok("1".into())
            }
            Token::False | Token::Null | Token::EndOfLine => {
                self.advance();
                Ok(String::new())
            }
            _ => self.expression(),
        }
    }

    fn expression(&mut self) -> Result<String, SyntaxError> {
        let mut left = self.operand()?;
        while let Token::Char(operator @ ('|' | '&' | '^')) = self.token {
            self.advance();
            let right = self.operand()?;
            let (a, b) = (leading_number(&left), leading_number(&right));
            left = match operator {
                '|' => a | b,
                '&' => a & b,
                _ => a ^ b,
            }
            .to_string();
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<String, SyntaxError> {
        // Each step takes one character of the line, so deep nesting is only long.
        let mut signs = Vec::new();
        while let Token::Char(sign @ ('~' | '!')) = self.token {
            self.advance();
            signs.push(sign);
        }
        let mut value = if self.token == Token::Char('(') {
            if !self.scanner.nest() {
                return Err(SyntaxError { unexpected: "depth of brackets".into() });
            }
            self.advance();
            let inner = self.expression()?;
            self.expect(Token::Char(')'))?;
            inner
        } else {
            match self.text(Constants::Valued)? {
                Some(text) => text,
                None => return self.unexpected(),
            }
        };
        while let Some(sign) = signs.pop() {
            let number = leading_number(&value);
            value = if sign == '~' { !number } else { i32::from(number == 0) }.to_string();
        }
        Ok(value)
    }

    /// Words, quoted strings and variables in a row, put together; `None` if there are none.
    fn text(&mut self, constants: Constants) -> Result<Option<String>, SyntaxError> {
        let mut all: Option<String> = None;
        loop {
            let part = match &self.token {
                Token::Constant(word) if constants == Constants::Valued => {
                    constant(word).map_or_else(|| word.clone(), |number| number.to_string())
                }
                Token::Constant(word) | Token::Text(word) => word.clone(),
                Token::Variable => {
                    all.get_or_insert_default().push_str(&self.variable()?);
                    continue;
                }
                Token::Quote => {
                    all.get_or_insert_default().push_str(&self.quoted()?);
                    continue;
                }
                _ => return Ok(all),
            };
            self.advance();
            all.get_or_insert_default().push_str(&part);
        }
    }

    fn quoted(&mut self) -> Result<String, SyntaxError> {
        self.scanner.enter(Mode::Quoted);
        self.advance();
        let mut all = String::new();
        loop {
            match &self.token {
                Token::Text(part) => all.push_str(part),
                Token::Variable => {
                    all.push_str(&self.variable()?);
                    continue;
                }
                Token::Quote => break,
                _ => return self.unexpected(),
            }
            self.advance();
        }
        self.scanner.leave();
        self.advance();
        Ok(all)
    }

    fn variable(&mut self) -> Result<String, SyntaxError> {
        self.scanner.enter(Mode::Variable);
        self.advance();
        let Token::Label(name) = &self.token else { return self.unexpected() };
        let value = (self.variables)(name).unwrap_or_default();
        self.advance();
        if self.token != Token::Char('}') {
            return self.unexpected();
        }
        self.scanner.leave();
        self.advance();
        Ok(value)
    }
}

/// Whether a word that names a constant stands for its value.
#[derive(Clone, Copy, PartialEq)]
enum Constants {
    Valued,
    Literal,
}

fn constant(name: &str) -> Option<i32> {
    const ALL: [(&str, i32); 16] = [
        ("E_ERROR", 1),
        ("E_WARNING", 2),
        ("E_PARSE", 4),
        ("E_NOTICE", 8),
        ("E_CORE_ERROR", 16),
        ("E_CORE_WARNING", 32),
        ("E_COMPILE_ERROR", 64),
        ("E_COMPILE_WARNING", 128),
        ("E_USER_ERROR", 256),
        ("E_USER_WARNING", 512),
        ("E_USER_NOTICE", 1024),
        ("E_STRICT", 2048),
        ("E_RECOVERABLE_ERROR", 4096),
        ("E_DEPRECATED", 8192),
        ("E_USER_DEPRECATED", 16384),
        ("E_ALL", 32767),
    ];
    ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The number at the head of a text, as `atoi` takes it: 0 if there is none.
pub fn leading_number(text: &str) -> i32 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut number: i64 = 0;
    for digit in digits.bytes().take_while(u8::is_ascii_digit) {
        number = (number * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX) + 1);
    }
    let number = if negative { -number } else { number.min(i64::from(i32::MAX)) };
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
