//! The Caddyfile: words in lines, blocks, snippets and imports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directive::Directive;
use crate::note::Notes;
use crate::source::{Disk, Place, Unreadable, text};

/// Blocks within blocks. Caddy's own examples have five.
const DEEPEST: usize = 32;

/// Imports within imports: more are a circle.
const DEEPEST_IMPORT: usize = 16;

/// Most words of a configuration with all that it imports: a real site has a
/// hundredth of it, and a snippet that imports itself twice ends soon.
const MOST_WORDS: usize = 200_000;

/// Most imports, together. A snippet without words could be imported without an end otherwise.
const MOST_IMPORTS: usize = 2000;

/// Most bytes of a word with the arguments of its snippet, which could double with each import.
const LONGEST_WORD: usize = 1 << 16;

/// A word of a file.
#[derive(Clone, Debug)]
struct Word {
    place: Place,
    text: String,
    /// Whether it is in quotes, so that a brace is only a character.
    is_quoted: bool,
    /// Whether it is the first of its line.
    starts: bool,
}

impl Word {
    fn is(&self, text: &str) -> bool {
        !self.is_quoted && self.text == text
    }
}

/// A block at the top of the file: that of a site, or without addresses the global options.
#[derive(Debug)]
pub(super) struct Section {
    pub place: Place,
    pub addresses: Vec<String>,
    pub directives: Vec<Directive>,
}

/// Reads a file with all that it imports.
pub(super) fn load(
    file: &Path,
    prefix: &Path,
    disk: &dyn Disk,
    notes: &mut Notes,
) -> Result<Vec<Section>, Unreadable> {
    let mut loader =
        Loader { prefix, disk, notes, snippets: BTreeMap::new(), words: Vec::new(), imports: 0 };
    let words = loader.words_of(file)?;
    loader.expand(words, 0)?;
    let Loader { words, .. } = loader;
    Parser { words: words.into_iter().peekable() }.sections()
}

fn fail<T>(place: &Place, problem: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable { place: place.clone(), problem: problem.into() })
}

/// Puts words in the place of `import`.
struct Loader<'a> {
    prefix: &'a Path,
    disk: &'a dyn Disk,
    notes: &'a mut Notes,
    snippets: BTreeMap<String, Vec<Word>>,
    words: Vec<Word>,
    imports: usize,
}

impl Loader<'_> {
    fn words_of(&mut self, file: &Path) -> Result<Vec<Word>, Unreadable> {
        let text = text(self.disk, file)?;
        let text = self.with_environment(&text, file);
        Lexer::new(&text, file).words()
    }

    /// `{$NAME:default}` becomes the default. Without one it stays: it is not known here what the
    /// environment of the server is, and no directive takes a placeholder that it does not know.
    fn with_environment(&mut self, text: &str, file: &Path) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        let mut line = 1;
        while let Some(at) = rest.find("{$") {
            let (before, variable) = rest.split_at(at);
            line += before.matches('\n').count();
            result.push_str(before);
            let name = variable.split(['}', '\n']).next().unwrap_or_default();
            let is_closed = variable[name.len()..].starts_with('}');
            let end = name.len() + usize::from(is_closed);
            match name.split_once(':').filter(|_| is_closed) {
                Some((variable, default)) => {
                    let place = Place { line, ..Place::start(file) };
                    let reason = "the environment of Caddy is not known here, so its default holds";
                    self.notes.differs(&place, &format!("{variable}:{default}}}"), reason);
                    result.push_str(default);
                }
                None => result.push_str(&variable[..end]),
            }
            rest = &variable[end..];
        }
        result + rest
    }

    fn expand(&mut self, words: Vec<Word>, imports: usize) -> Result<(), Unreadable> {
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            if self.words.len() >= MOST_WORDS {
                return fail(&word.place, "the configuration is too large, or imports itself");
            }
            let is_snippet = word.starts
                && word.text.starts_with('(')
                && word.text.ends_with(')')
                && words.peek().is_some_and(|next| next.is("{"));
            if is_snippet {
                let body = snippet(&word, &mut words)?;
                self.snippets.insert(word.text, body);
                continue;
            }
            if !(word.starts && word.is("import")) {
                self.words.push(word);
                continue;
            }
            let mut args = Vec::new();
            while let Some(arg) = words.next_if(|next| !next.starts) {
                args.push(arg.text);
            }
            self.imports += 1;
            if imports == DEEPEST_IMPORT || self.imports > MOST_IMPORTS {
                return fail(&word.place, "too many imports within imports");
            }
            self.import(&word.place, &args, imports + 1)?;
        }
        Ok(())
    }

    fn import(&mut self, place: &Place, args: &[String], depth: usize) -> Result<(), Unreadable> {
        let Some((name, args)) = args.split_first() else {
            return fail(place, "`import` names nothing");
        };
        if let Some(body) = self.snippets.get(&format!("({name})")) {
            let body: Result<_, _> = body.iter().map(|word| with_arguments(word, args)).collect();
            return self.expand(body?, depth);
        }
        let own = Path::new(&*place.file).parent().unwrap_or(Path::new(""));
        let path = self.prefix.join(own).join(name);
        let files: Vec<PathBuf> = match name.contains(['*', '?', '[']) {
            true => self.disk.glob(&path.to_string_lossy()),
            false => vec![path],
        };
        if files.is_empty() {
            self.notes.left(place, &format!("import {name}"), "there is no such file");
        }
        for file in files {
            let words = self.words_of(&file)?;
            let words: Result<_, _> = words.iter().map(|word| with_arguments(word, args)).collect();
            self.expand(words?, depth)?;
        }
        Ok(())
    }
}

/// The words of a snippet, without its braces.
fn snippet(name: &Word, words: &mut impl Iterator<Item = Word>) -> Result<Vec<Word>, Unreadable> {
    let (mut body, mut depth) = (Vec::new(), 0);
    for word in words {
        depth += usize::from(word.is("{"));
        if word.is("}") {
            depth -= 1;
            if depth == 0 {
                body.remove(0);
                return Ok(body);
            }
        }
        body.push(word);
    }
    fail(&name.place, "the snippet is not closed")
}

/// A word of a snippet with what `import` gives for `{args[0]}` or `{args.0}`.
fn with_arguments(word: &Word, args: &[String]) -> Result<Word, Unreadable> {
    let mut word = word.clone();
    if word.text.contains("{args") {
        for (index, arg) in args.iter().enumerate() {
            for name in [format!("{{args[{index}]}}"), format!("{{args.{index}}}")] {
                let grown = word.text.len() + word.text.matches(&name).count() * arg.len();
                if grown > LONGEST_WORD {
                    return fail(&word.place, "a word is too long with what is imported");
                }
                word.text = word.text.replace(&name, arg);
            }
        }
    }
    Ok(word)
}

/// Reads words from a text.
struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    file: Arc<str>,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str, file: &Path) -> Lexer<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Lexer { rest: text.chars().peekable(), file: file.to_string_lossy().into(), line: 1 }
    }

    fn char(&mut self) -> Option<char> {
        let char = self.rest.next()?;
        self.line += usize::from(char == '\n');
        Some(char)
    }

    fn words(mut self) -> Result<Vec<Word>, Unreadable> {
        let (mut words, mut starts) = (Vec::new(), true);
        while let Some(&char) = self.rest.peek() {
            let place = Place { file: self.file.clone(), line: self.line };
            let (text, is_quoted) = match char {
                '\n' => {
                    starts = true;
                    self.char();
                    continue;
                }
                '#' => {
                    while self.rest.peek().is_some_and(|char| *char != '\n') {
                        self.char();
                    }
                    continue;
                }
                char if char.is_whitespace() => {
                    self.char();
                    continue;
                }
                '"' | '`' => (self.quoted(&place)?, true),
                _ => {
                    let word = self.word();
                    // A backslash at the end of a line continues it.
                    if word == "\\" && self.rest.peek() == Some(&'\n') {
                        self.char();
                        continue;
                    }
                    match word.strip_prefix("<<") {
                        Some(marker) if !marker.is_empty() => (self.heredoc(&place, marker)?, true),
                        _ => (word, false),
                    }
                }
            };
            words.push(Word { place, text, is_quoted, starts });
            starts = false;
        }
        Ok(words)
    }

    fn quoted(&mut self, place: &Place) -> Result<String, Unreadable> {
        let quote = self.char();
        let mut word = String::new();
        loop {
            match self.char() {
                None => return fail(place, "a quote is not closed"),
                char if char == quote => return Ok(word),
                Some('\\') if quote == Some('"') && self.rest.peek() == Some(&'"') => {
                    word.extend(self.char());
                }
                Some(char) => word.push(char),
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(char) = self.rest.next_if(|char| !char.is_whitespace()) {
            word.push(char);
        }
        word
    }

    /// Lines until one that begins with the marker, without the indentation of that one. Other
    /// words may follow the marker.
    fn heredoc(&mut self, place: &Place, marker: &str) -> Result<String, Unreadable> {
        let mut lines: Vec<String> = Vec::new();
        while self.char().is_some_and(|char| char != '\n') {}
        while self.rest.peek().is_some() {
            let mut line = String::new();
            while let Some(char) = self.rest.next_if(|char| *char != '\n') {
                line.push(char);
                if let Some(indent) = line.strip_suffix(marker)
                    && indent.trim().is_empty()
                {
                    let clean =
                        |line: &String| line.strip_prefix(indent).unwrap_or(line).to_owned();
                    let lines: Vec<String> = lines.iter().map(clean).collect();
                    return Ok(lines.join("\n"));
                }
            }
            lines.push(line);
            self.char();
        }
        fail(place, "a heredoc is not closed")
    }
}

/// Reads sections from words.
struct Parser {
    words: std::iter::Peekable<std::vec::IntoIter<Word>>,
}

impl Parser {
    fn sections(mut self) -> Result<Vec<Section>, Unreadable> {
        let mut sections: Vec<Section> = Vec::new();
        while let Some(first) = self.words.peek() {
            let place = first.place.clone();
            let mut addresses: Vec<String> = Vec::new();
            // A comma at the end of a line continues the list.
            let mut goes_on = true;
            let mut opens = false;
            while let Some(word) = self.words.next_if(|word| goes_on || !word.starts) {
                if word.is("{") {
                    opens = true;
                    break;
                }
                goes_on = word.text.ends_with(',');
                let own = word.text.split(',').filter(|it| !it.is_empty());
                addresses.extend(own.map(str::to_owned));
            }
            // One site alone needs no braces.
            if !opens && !sections.iter().all(|section| section.addresses.is_empty()) {
                return fail(&place, "a site without a block beside others");
            }
            if addresses.is_empty() && !sections.is_empty() {
                return fail(&place, "the block has no address");
            }
            let directives = self.directives(opens.then_some(&place), 0)?;
            sections.push(Section { place, addresses, directives });
        }
        Ok(sections)
    }

    /// Directives until the brace that closes the block of this place, or the end of the file.
    fn directives(
        &mut self,
        block: Option<&Place>,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let mut directives = Vec::new();
        while let Some(word) = self.words.next() {
            if depth == DEEPEST {
                return fail(&word.place, "too many blocks within blocks");
            }
            if word.is("}") {
                return match block {
                    Some(_) => Ok(directives),
                    None => fail(&word.place, "a brace that closes nothing"),
                };
            }
            if word.is("{") {
                return fail(&word.place, "a block without a name");
            }
            let mut directive =
                Directive { place: word.place, name: word.text, args: Vec::new(), block: None };
            while let Some(word) = self.words.next_if(|word| !word.starts && !word.is("}")) {
                if word.is("{") {
                    directive.block = Some(self.directives(Some(&word.place), depth + 1)?);
                    break;
                }
                directive.args.push(word.text);
            }
            directives.push(directive);
        }
        match block {
            Some(place) => fail(place, "the block is not closed"),
            None => Ok(directives),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str);

    impl Disk for One {
        fn read(&self, file: &Path) -> std::io::Result<Vec<u8>> {
            match file == Path::new("/x") {
                true => Ok(self.0.as_bytes().to_vec()),
                false => Err(std::io::ErrorKind::NotFound.into()),
            }
        }
        fn glob(&self, _: &str) -> Vec<PathBuf> {
            Vec::new()
        }
        fn is_file(&self, _: &Path) -> bool {
            false
        }
        fn find(&self, _: &Path, _: &str) -> Option<Vec<PathBuf>> {
            None
        }
    }

    fn sections(text: &'static str) -> Result<Vec<Section>, String> {
        load(Path::new("/x"), Path::new("/"), &One(text), &mut Notes::default())
            .map_err(|error| error.to_string())
    }

    /// The lines of the first section's directives.
    #[track_caller]
    fn lines(text: &'static str) -> Vec<String> {
        sections(text).unwrap()[0].directives.iter().map(Directive::line).collect()
    }

    #[test]
    fn words_are_those_of_caddy() {
        for (text, expected) in [
            ("a.test\nroot * \"/a \\\"b\" # c\n", vec!["root * /a \"b"]),
            ("a.test {\nrespond `{\n\"x`\n}", vec!["respond {\n\"x"]),
            ("a.test\nheader a \\\n b\n", vec!["header a b"]),
            ("a.test\nroot {$X:/y}/z#k\n", vec!["root /y/z#k"]),
            ("a.test\nroot {$X}\n", vec!["root {$X}"]),
            (
                "(s) {\nrespond {args[0]} {args.1}\n}\na.test {\nimport s /x 403\nabort /y\n}",
                vec!["respond /x 403", "abort /y"],
            ),
        ] {
            assert_eq!(lines(text), expected, "{text}");
        }
        let heredoc = "a.test\nrespond <<END\n  a\n   b\n  END 403\nabort\n";
        assert_eq!(lines(heredoc), ["respond a\n b 403", "abort"]);
        let list = sections("a.test, b.test,\nc.test d.test {\n}\ne.test {\n}").unwrap();
        assert_eq!(list[0].addresses, ["a.test", "b.test", "c.test", "d.test"]);
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn errors_in_a_caddyfile_name_the_mistake() {
        for (text, problem) in [
            ("a.test {\nroot * /a", "not closed"),
            ("a.test\n}\n", "closes nothing"),
            ("a.test {\nroot \"a\n}", "quote"),
            ("(s) {\nimport s\n}\na.test {\nimport s\n}", "imports within imports"),
            ("(s) {\nimport s\nimport s\na\n}\na.test {\nimport s\n}", "import"),
            ("a.test {\nimport none\n}", "cannot be read"),
        ] {
            let error = sections(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
