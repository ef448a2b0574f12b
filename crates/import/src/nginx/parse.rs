//! The language of nginx: directives with arguments, some with a block.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directive::Directive;
use crate::note::Notes;
use crate::source::{Disk, Place, Unreadable, text};

/// Blocks within blocks. nginx's own have six.
const DEEPEST: usize = 32;

/// Most files that are included, together: more are a circle, or no configuration of a site.
const MOST_FILES: usize = 2000;

/// A token of a file.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

/// Reads tokens from a text.
struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    file: Arc<str>,
    line: usize,
}

impl Lexer<'_> {
    fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.line }
    }

    fn fail<T>(&self, problem: &str) -> Result<T, Unreadable> {
        Err(Unreadable { place: self.place(), problem: problem.to_owned() })
    }

    fn char(&mut self) -> Option<char> {
        let char = self.rest.next()?;
        self.line += usize::from(char == '\n');
        Some(char)
    }

    /// The next token, with the line where it begins.
    fn token(&mut self) -> Result<Option<(Token, Place)>, Unreadable> {
        loop {
            match self.rest.peek() {
                None => return Ok(None),
                Some('#') => while self.char().is_some_and(|char| char != '\n') {},
                Some(char) if char.is_whitespace() => drop(self.char()),
                Some(_) => break,
            }
        }
        let place = self.place();
        let token = match self.rest.peek() {
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(&quote @ ('"' | '\'')) => {
                self.char();
                return Ok(Some((Token::Word(self.quoted(quote)?), place)));
            }
            _ => return Ok(Some((Token::Word(self.word()), place))),
        };
        self.char();
        Ok(Some((token, place)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, Unreadable> {
        let mut word = String::new();
        loop {
            match self.char() {
                None => return self.fail("a quote is not closed"),
                Some(char) if char == quote => return Ok(word),
                Some('\\') => self.escaped(&mut word),
                Some(char) => word.push(char),
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&char) = self.rest.peek() {
            let is_variable = char == '{' && word.ends_with('$');
            if !is_variable && (char.is_whitespace() || matches!(char, ';' | '{')) {
                break;
            }
            self.char();
            match char {
                '\\' => self.escaped(&mut word),
                // `${name}` is `$name`; the braces only end the name.
                '{' => {
                    word.push('{');
                    while let Some(char) = self.char() {
                        word.push(char);
                        if char == '}' {
                            break;
                        }
                    }
                }
                char => word.push(char),
            }
        }
        word
    }

    /// What follows a backslash. It stays in front of all that it does not change, as in `\.php`.
    fn escaped(&mut self, word: &mut String) {
        match self.char() {
            Some(char @ ('"' | '\'' | '\\')) => word.push(char),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(char) => word.extend(['\\', char]),
            None => word.push('\\'),
        }
    }

    /// Skips a block of Lua, in which quotes and comments may hold braces.
    fn skip_lua(&mut self) -> Result<(), Unreadable> {
        let mut depth = 1;
        while let Some(char) = self.char() {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => self.skip_string(char),
                '-' if self.rest.peek() == Some(&'-') => {
                    self.char();
                    match self.long_bracket() {
                        Some(level) => self.skip_long(level),
                        None => while self.char().is_some_and(|char| char != '\n') {},
                    }
                }
                '[' => {
                    if let Some(level) = self.level() {
                        self.skip_long(level);
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        self.fail("a block is not closed")
    }

    fn skip_string(&mut self, quote: char) {
        while let Some(char) = self.char() {
            match char {
                '\\' => drop(self.char()),
                '\n' => return,
                char if char == quote => return,
                _ => {}
            }
        }
    }

    fn long_bracket(&mut self) -> Option<usize> {
        if self.rest.peek() != Some(&'[') {
            return None;
        }
        self.char();
        self.level()
    }

    /// The number of `=` before a second bracket.
    fn level(&mut self) -> Option<usize> {
        let mut level = 0;
        while self.rest.peek() == Some(&'=') {
            self.char();
            level += 1;
        }
        if self.rest.peek() != Some(&'[') {
            return None;
        }
        self.char();
        Some(level)
    }

    fn skip_long(&mut self, level: usize) {
        let end = format!("]{}]", "=".repeat(level));
        let mut last = String::new();
        while let Some(char) = self.char() {
            last.push(char);
            if last.ends_with(&end) {
                return;
            }
            if !matches!(char, ']' | '=') {
                last.clear();
            }
        }
    }
}

/// Reads the directives of one text, without includes.
pub(crate) fn parse(text: &str, file: &Path) -> Result<Vec<Directive>, Unreadable> {
    let file = file.to_string_lossy().into();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = Lexer { rest: text.chars().peekable(), file, line: 1 };
    block(&mut lexer, 0)
}

fn block(lexer: &mut Lexer<'_>, depth: usize) -> Result<Vec<Directive>, Unreadable> {
    if depth > DEEPEST {
        return lexer.fail("too many blocks in each other");
    }
    let mut directives = Vec::new();
    let mut words: Vec<(String, Place)> = Vec::new();
    while let Some((token, place)) = lexer.token()? {
        match token {
            Token::Word(word) => {
                words.push((word, place));
                continue;
            }
            Token::Close if words.is_empty() && depth > 0 => return Ok(directives),
            Token::Close => return lexer.fail("a `}` is not expected here"),
            Token::End | Token::Open if words.is_empty() => {
                return lexer.fail("a directive has no name");
            }
            Token::End | Token::Open => {}
        }
        let place = words[0].1.clone();
        let mut args = words.drain(..).map(|(word, _)| word);
        let name = args.next().unwrap_or_default();
        let args = args.collect();
        let block = match token {
            Token::Open if name.ends_with("_by_lua_block") || name == "lua" => {
                lexer.skip_lua()?;
                Some(Vec::new())
            }
            Token::Open => Some(block(lexer, depth + 1)?),
            _ => None,
        };
        directives.push(Directive { place, name, args, block });
    }
    match (words.first(), depth) {
        (Some(_), _) => lexer.fail("the file ends within a directive; a `;` may be missing"),
        (None, 0) => Ok(directives),
        (None, _) => lexer.fail("the file ends within a block"),
    }
}

/// Reads a file with all that it includes. Relative names start from `prefix`.
pub(crate) fn load(
    file: &Path,
    prefix: &Path,
    disk: &dyn Disk,
    notes: &mut Notes,
) -> Result<Vec<Directive>, Unreadable> {
    let mut includes = Includes { prefix, disk, notes, files: 0 };
    let directives = parse(&text(disk, file)?, file)?;
    includes.expand(directives, 0)
}

struct Includes<'a> {
    prefix: &'a Path,
    disk: &'a dyn Disk,
    notes: &'a mut Notes,
    files: usize,
}

impl Includes<'_> {
    fn expand(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let mut expanded = Vec::new();
        for mut directive in directives {
            if directive.name == "include" && directive.block.is_none() {
                expanded.extend(self.include(&directive, depth)?);
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand(block, depth)?);
            }
            expanded.push(directive);
        }
        Ok(expanded)
    }

    fn include(
        &mut self,
        directive: &Directive,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let pattern = self.prefix.join(directive.arg(0));
        let name = pattern.to_string_lossy();
        let files: Vec<PathBuf> = match name.contains(['*', '?', '[']) {
            true => self.disk.glob(&name),
            false => vec![pattern.clone()],
        };
        if files.is_empty() {
            let reason = "no file has such a name; see that those of the server are there";
            self.notes.left(&directive.place, &directive.line(), reason);
        }
        let mut all = Vec::new();
        for file in files {
            self.files += 1;
            if depth > DEEPEST || self.files > MOST_FILES {
                let problem = "too many includes; a file may include itself".to_owned();
                return Err(Unreadable { place: directive.place.clone(), problem });
            }
            match text(self.disk, &file) {
                Ok(text) => {
                    let directives = parse(&text, &file)?;
                    all.extend(self.expand(directives, depth + 1)?);
                }
                // What is in it might refuse, which cannot be known.
                Err(error) => {
                    let reason = format!("{}: {}", file.display(), error.problem);
                    self.notes.refused(&directive.place, &directive.line(), reason);
                    all.push(Directive { name: MISSING.to_owned(), ..directive.clone() });
                }
            }
        }
        Ok(all)
    }
}

/// The name of a directive in place of an include that cannot be read.
pub(crate) const MISSING: &str = "include of a missing file";

/// Whether a directive stands for what is unknown, because its file is missing.
pub(super) fn is_missing(directive: &Directive) -> bool {
    directive.name == MISSING
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Directive>, String> {
        parse(text, Path::new("a.conf")).map_err(|error| error.to_string())
    }

    /// Writes directives so that each argument is quoted.
    fn write(directives: &[Directive], text: &mut String) {
        for directive in directives {
            text.push_str(&directive.name);
            for arg in &directive.args {
                let arg = arg.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!(" \"{arg}\""));
            }
            match &directive.block {
                None => text.push_str(";\n"),
                Some(block) => {
                    text.push_str(" {\n");
                    write(block, text);
                    text.push_str("}\n");
                }
            }
        }
    }

    #[test]
    fn the_whole_language_is_read() {
        let text = "a 'b c' \"d\\\"e\" \\.php$ ${x}y; # no;\nb { c; }\nif ($x ~ \"{2}\") { }\n\
            content_by_lua_block { -- }\n local x = \"}\" --[[ } ]] x = [=[ } ]=] } d;";
        let directives = read(text).unwrap();
        let names: Vec<_> = directives.iter().map(|it| (&*it.name, it.place.line)).collect();
        let expected = [("a", 1), ("b", 2), ("if", 3), ("content_by_lua_block", 4), ("d", 5)];
        assert_eq!(names, expected);
        assert_eq!(directives[0].args, ["b c", "d\"e", "\\.php$", "${x}y"]);
        assert_eq!(directives[1].block.as_ref().unwrap()[0].name, "c");
        assert_eq!(directives[2].args, ["($x", "~", "{2}", ")"]);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, problem) in [
            ("a\n{", "a.conf:2: the file ends within a block"),
            ("a", "a.conf:1: the file ends within a directive; a `;` may be missing"),
            ("}", "a.conf:1: a `}` is not expected here"),
            (";", "a.conf:1: a directive has no name"),
            ("a \"", "a.conf:1: a quote is not closed"),
        ] {
            assert_eq!(read(text).unwrap_err(), problem, "{text}");
        }
        assert!(read(&"a {".repeat(10_000)).unwrap_err().contains("too many blocks"));
    }

    fn invented() -> impl Strategy<Value = Vec<Directive>> {
        let plain = ("[a-z_]{1,8}", proptest::collection::vec("[ -~äß\n]{0,8}", 0..4));
        let leaf = plain.clone().prop_map(|(name, args)| (name, args, None));
        let tree = leaf.prop_recursive(4, 30, 5, move |inner| {
            let block = proptest::collection::vec(inner, 0..5);
            (plain.clone(), block)
                .prop_map(|((name, args), block)| (name, args, Some(block)))
                .prop_map(|(name, args, block)| (name, args, block.map(build)))
        });
        proptest::collection::vec(tree, 0..6).prop_map(build)
    }

    type Plain = (String, Vec<String>, Option<Vec<Directive>>);

    fn build(plain: Vec<Plain>) -> Vec<Directive> {
        let place = Place::start(Path::new("a.conf"));
        let directive = |(name, args, block): Plain| Directive {
            place: place.clone(),
            name: format!("x{name}"),
            args,
            block,
        };
        plain.into_iter().map(directive).collect()
    }

    fn forget_lines(directives: &mut [Directive]) {
        for directive in directives {
            directive.place.line = 1;
            forget_lines(directive.block.as_deref_mut().unwrap_or_default());
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(directives in invented()) {
            let mut text = String::new();
            write(&directives, &mut text);
            let mut again = read(&text).unwrap();
            forget_lines(&mut again);
            prop_assert_eq!(again, directives);
        }

        #[test]
        fn no_text_is_too_strange(text in "[ -~\n{};\"'\\\\$#]{0,200}") {
            let _ = read(&text);
        }
    }
}
