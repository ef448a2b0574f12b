//! Lua's patterns, matched within the time limit.
//!
//! LuaJIT matches patterns in C, where nothing can interrupt it, and a pattern with several
//! repetitions takes for ever on a text of a few kilobytes. The prelude calls LuaJIT where that
//! cannot happen, and this where it could. The results are the same: a property test compares the
//! two.

use crate::raw::is_due;

/// Captures that a pattern may have, and how deep matching may nest: as in LuaJIT.
const MOST_CAPTURES: usize = 32;
const DEEPEST: usize = 200;

/// Steps between two looks at the time: some microseconds of matching. A tenth would make the look
/// a measurable part of the matching; ten times more would still be far more precise than the time
/// limit.
const LOOK: u32 = 4096;

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time is up.
    Overdue,
    /// The pattern cannot be meant, or asks for too much.
    Bad(&'static str),
}

/// What a part of a pattern captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// This part of the text.
    Text(usize, usize),
    /// A place in it, counted from 0.
    Place(usize),
}

/// A match: where it begins and ends, and what was captured.
#[derive(Debug, PartialEq, Eq)]
pub struct Match {
    /// Its first byte, counted from 0.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// What the pattern's parentheses captured.
    pub captures: Vec<Capture>,
}

#[derive(Clone, Copy)]
enum Length {
    Open,
    Place,
    Closed(usize),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    steps: u32,
}

/// The first match at `from` or behind it. A `^` in front binds it to `from`, if `anchors` says so.
pub fn search(
    text: &[u8],
    pattern: &[u8],
    from: usize,
    anchors: bool,
) -> Result<Option<Match>, Stop> {
    // A zero byte ends a pattern, as in Lua 5.1, which has `%z` for it.
    let pattern = pattern.split(|&byte| byte == 0).next().unwrap_or_default();
    let anchored = anchors && pattern.first() == Some(&b'^');
    let pattern = if anchored { &pattern[1..] } else { pattern };
    let mut matcher = Matcher { text, pattern, captures: Vec::new(), depth: 0, steps: 0 };
    for start in from..=text.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.at(start, 0)? {
            let captures = matcher.captures.iter().map(|capture| match *capture {
                (start, Length::Closed(length)) => Ok(Capture::Text(start, start + length)),
                (start, Length::Place) => Ok(Capture::Place(start)),
                (_, Length::Open) => Err(Stop::Bad("unfinished capture")),
            });
            return Ok(Some(Match { start, end, captures: captures.collect::<Result<_, _>>()? }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

impl Matcher<'_> {
    fn step(&mut self) -> Result<(), Stop> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(LOOK) && is_due() { Err(Stop::Overdue) } else { Ok(()) }
    }

    /// Where a match of the pattern from `p` on ends, if one begins at `s`.
    fn at(&mut self, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Stop::Bad("pattern too complex"));
        }
        let end = self.go(s, p);
        self.depth -= 1;
        end
    }

    fn go(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, Stop> {
        loop {
            self.step()?;
            match self.pattern[p..] {
                [] => return Ok(Some(s)),
                [b'(', b')', ..] => return self.open(s, p + 2, Length::Place),
                [b'(', ..] => return self.open(s, p + 1, Length::Open),
                [b')', ..] => return self.close(s, p + 1),
                [b'$'] => return Ok((s == self.text.len()).then_some(s)),
                [b'%', b'b', ..] => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                [b'%', b'f', ..] => {
                    if self.pattern.get(p + 2) != Some(&b'[') {
                        return Err(Stop::Bad("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p + 2)?;
                    let before = s.checked_sub(1).map_or(0, |at| self.text[at]);
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.is_in_set(before, p + 2, end - 1)
                        || !self.is_in_set(here, p + 2, end - 1)
                    {
                        return Ok(None);
                    }
                    p = end;
                }
                [b'%', digit @ b'0'..=b'9', ..] => match self.again(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    let fits = self.fits(s, p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if fits && let Some(found) = self.at(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.most(s, p, end),
                        Some(b'+') if fits => return self.most(s + 1, p, end),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.fewest(s, p, end),
                        _ if fits => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// As many as there are, then fewer.
    fn most(&mut self, s: usize, p: usize, end: usize) -> Result<Option<usize>, Stop> {
        let mut count = 0;
        while self.fits(s + count, p, end) {
            self.step()?;
            count += 1;
        }
        for count in (0..=count).rev() {
            if let Some(found) = self.at(s + count, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// As few as possible, then more.
    fn fewest(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>, Stop> {
        loop {
            if let Some(found) = self.at(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, length: Length) -> Result<Option<usize>, Stop> {
        if self.captures.len() >= MOST_CAPTURES {
            return Err(Stop::Bad("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push((s, length));
        let found = self.at(s, p)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        let open = self.captures.iter().rposition(|(_, length)| matches!(length, Length::Open));
        let open = open.ok_or(Stop::Bad("invalid pattern capture"))?;
        self.captures[open].1 = Length::Closed(s - self.captures[open].0);
        let found = self.at(s, p)?;
        if found.is_none() {
            self.captures[open].1 = Length::Open;
        }
        Ok(found)
    }

    /// Behind the same text that a capture has.
    fn again(&mut self, s: usize, digit: u8) -> Result<Option<usize>, Stop> {
        let capture =
            usize::from(digit).checked_sub(usize::from(b'1')).and_then(|at| self.captures.get(at));
        let Some((start, Length::Closed(length))) = capture else {
            return Err(Stop::Bad("invalid capture index"));
        };
        let captured = &self.text[*start..start + length];
        Ok(self.text[s..].starts_with(captured).then_some(s + length))
    }

    /// Behind the second of two characters that enclose others of them in pairs.
    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        let [open, close, ..] = self.pattern[p..] else {
            return Err(Stop::Bad("malformed pattern (missing arguments to '%b')"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (at, &byte) in self.text.iter().enumerate().skip(s + 1) {
            self.step()?;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Behind the class of characters that begins at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Stop> {
        match self.pattern[p] {
            b'%' if p + 1 < self.pattern.len() => Ok(p + 2),
            b'%' => Err(Stop::Bad("malformed pattern (ends with '%')")),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // The first character is one of the set, even if it is a bracket.
                loop {
                    match self.pattern.get(at) {
                        None => return Err(Stop::Bad("malformed pattern (missing ']')")),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the character at `s` is of the class from `p` to `end`.
    fn fits(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_of(byte, self.pattern[p + 1]),
            b'[' => self.is_in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether a character is in the set from the bracket at `p` to the one at `last`.
    fn is_in_set(&self, byte: u8, p: usize, last: usize) -> bool {
        let set = &self.pattern[p + 1..last];
        let (negated, mut set) = match set {
            [b'^', rest @ ..] => (true, rest),
            _ => (false, set),
        };
        loop {
            set = match set {
                [] => return negated,
                [b'%', class, rest @ ..] => {
                    if is_of(byte, *class) {
                        return !negated;
                    }
                    rest
                }
                [low, b'-', high, rest @ ..] => {
                    if (low..=high).contains(&&byte) {
                        return !negated;
                    }
                    rest
                }
                [literal, rest @ ..] => {
                    if *literal == byte {
                        return !negated;
                    }
                    rest
                }
            }
        }
    }
}

/// Whether a character is of the class `%` with that letter; a capital means all others.
fn is_of(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}
