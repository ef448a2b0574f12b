//! Selectors of topics: `*`, a topic, or a URI template (RFC 6570) that has the topic among its
//! expansions.
//!
//! A template is compared in time proportional to its parts and the topic's length, by the set of
//! the places that the parts so far can have reached: no template can be made slow.

use std::fmt;

use crate::limits::LONGEST;

/// Most variables of a template. Templates of applications have one to three; with ten times more,
/// strangers could have each update cost ten times as much.
const MOST_VARIABLES: usize = 16;

/// Selects topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: Box<str>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// All topics.
    All,
    /// The topic that is the text.
    Exact,
    /// That topic, and the expansions of this template.
    Template(Box<[Part]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    Expression(Operator, Box<[Variable]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: Box<str>,
    /// Whether lists become one value for each item (`*`).
    explodes: bool,
}

/// How an expression is expanded (RFC 6570, appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operator {
    /// Before the first value; empty: nothing.
    first: &'static str,
    /// Between values.
    separator: u8,
    /// Whether values have their names.
    is_named: bool,
    /// Whether the name of an empty value is followed by `=`.
    has_equals: bool,
    /// Whether reserved characters stay as they are.
    keeps_reserved: bool,
}

impl Operator {
    const SIMPLE: Operator = Operator {
        first: "",
        separator: b',',
        is_named: false,
        has_equals: false,
        keeps_reserved: false,
    };

    /// The operator of an expression, and the rest of that.
    fn split(expression: &str) -> (Operator, &str) {
        let simple = Operator::SIMPLE;
        let operator = match expression.as_bytes().first() {
            Some(b'+') => Operator { keeps_reserved: true, ..simple },
            Some(b'#') => Operator { first: "#", keeps_reserved: true, ..simple },
            Some(b'.') => Operator { first: ".", separator: b'.', ..simple },
            Some(b'/') => Operator { first: "/", separator: b'/', ..simple },
            Some(b';') => Operator { first: ";", separator: b';', is_named: true, ..simple },
            Some(b'?') => Operator::query("?"),
            Some(b'&') => Operator::query("&"),
            _ => return (simple, expression),
        };
        (operator, &expression[1..])
    }

    const fn query(first: &'static str) -> Operator {
        Operator { first, separator: b'&', is_named: true, has_equals: true, keeps_reserved: false }
    }

    /// Whether a value can have this byte.
    fn has(self, byte: u8, explodes: bool) -> bool {
        // Items of a list are joined by commas, whatever the operator.
        byte.is_ascii_alphanumeric()
            || b"-._~,".contains(&byte)
            || (self.keeps_reserved && b":/?#[]@!$&'()*+;=".contains(&byte))
            || (explodes && (byte == self.separator || byte == b'='))
    }
}

/// Why a text is no selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is empty.
    Empty,
    /// It is too long.
    Long,
    /// It has control characters.
    Control,
    /// It has too many variables.
    Variables,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Empty => f.write_str("is empty"),
            Unusable::Long => write!(f, "has more than {LONGEST} bytes"),
            Unusable::Control => f.write_str("has control characters"),
            Unusable::Variables => write!(f, "has more than {MOST_VARIABLES} variables"),
        }
    }
}

impl Selector {
    /// The selector that this text is. A text that is no template, or one with a part that limits
    /// the length of a value (`{name:3}`), selects the topic of that text.
    ///
    /// # Errors
    /// Fails if it is no text for a topic, or has too many variables.
    pub fn new(text: &str) -> Result<Selector, Unusable> {
        if text.is_empty() {
            return Err(Unusable::Empty);
        }
        if text.len() > LONGEST {
            return Err(Unusable::Long);
        }
        if text.contains(char::is_control) {
            return Err(Unusable::Control);
        }
        let kind = match (text, template(text)?) {
            ("*", _) => Kind::All,
            (_, Some(parts)) => Kind::Template(parts),
            (_, None) => Kind::Exact,
        };
        Ok(Selector { text: text.into(), kind })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can select other topics than the one of its text.
    pub fn is_pattern(&self) -> bool {
        self.kind != Kind::Exact
    }

    /// Whether it selects this topic.
    pub fn matches(&self, topic: &str) -> bool {
        match &self.kind {
            Kind::All => true,
            Kind::Exact => *self.text == *topic,
            Kind::Template(parts) => *self.text == *topic || expands_to(parts, topic.as_bytes()),
        }
    }
}

/// The parts of a template; `None`: the text is none, or has no variables.
fn template(text: &str) -> Result<Option<Box<[Part]>>, Unusable> {
    let (mut parts, mut rest, mut count) = (Vec::new(), text, 0);
    while let Some(begin) = rest.find(['{', '}']) {
        let Some(inner) = rest[begin..].strip_prefix('{') else { return Ok(None) };
        let Some(end) = inner.find(['{', '}']) else { return Ok(None) };
        if begin > 0 {
            parts.push(Part::Literal(rest[..begin].into()));
        }
        let (operator, names) = Operator::split(&inner[..end]);
        let Some(variables) = names.split(',').map(variable).collect::<Option<Box<[_]>>>() else {
            return Ok(None);
        };
        count += variables.len();
        if count > MOST_VARIABLES {
            return Err(Unusable::Variables);
        }
        parts.push(Part::Expression(operator, variables));
        let Some(after) = inner[end..].strip_prefix('}') else { return Ok(None) };
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.into()));
    }
    Ok((count > 0).then(|| parts.into()))
}

fn variable(text: &str) -> Option<Variable> {
    let (name, explodes) = match text.strip_suffix('*') {
        Some(name) => (name, true),
        None => (text, false),
    };
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_good);
    is_name.then(|| Variable { name: name.into(), explodes })
}

/// The places in a topic that the parts so far can have reached.
type Places = Vec<bool>;

fn expands_to(parts: &[Part], topic: &[u8]) -> bool {
    // Most topics differ here already.
    if let Some(Part::Literal(literal)) = parts.first()
        && !topic.starts_with(literal.as_bytes())
    {
        return false;
    }
    let mut places = vec![false; topic.len() + 1];
    places[0] = true;
    for part in parts {
        places = match part {
            Part::Literal(literal) => behind(&places, topic, literal.as_bytes()),
            Part::Expression(operator, variables) => expanded(&places, topic, *operator, variables),
        };
        if !places.contains(&true) {
            return false;
        }
    }
    places[topic.len()]
}

/// The places behind this text.
fn behind(places: &[bool], topic: &[u8], text: &[u8]) -> Places {
    let mut reached = vec![false; places.len()];
    for place in (0..places.len()).filter(|place| places[*place]) {
        if topic[place..].starts_with(text) {
            reached[place + text.len()] = true;
        }
    }
    reached
}

/// The places behind an expression, of whose variables any may be undefined.
fn expanded(places: &[bool], topic: &[u8], operator: Operator, variables: &[Variable]) -> Places {
    // Behind the values of some variables; `places` are those of none.
    let mut some = vec![false; places.len()];
    for variable in variables {
        let first = behind(places, topic, operator.first.as_bytes());
        let next = behind(&some, topic, &[operator.separator]);
        let begun = union(first, &next);
        some = union(some, &valued(begun, topic, operator, variable));
    }
    union(some, places)
}

/// The places behind the value of a variable that is defined.
fn valued(begun: Places, topic: &[u8], operator: Operator, variable: &Variable) -> Places {
    let mut filled = begun;
    let mut nameless = Vec::new();
    // One that explodes may be a map, whose own keys are its names.
    if operator.is_named && !variable.explodes {
        let named = behind(&filled, topic, variable.name.as_bytes());
        filled = behind(&named, topic, b"=");
        if !operator.has_equals {
            nameless = named;
        }
    }
    for place in 0..topic.len() {
        if filled[place] {
            match &topic[place..] {
                [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                    filled[place + 3] = true;
                }
                [byte, ..] if operator.has(*byte, variable.explodes) => filled[place + 1] = true,
                _ => {}
            }
        }
    }
    if nameless.is_empty() { filled } else { union(filled, &nameless) }
}

fn union(mut places: Places, others: &[bool]) -> Places {
    places.iter_mut().zip(others).for_each(|(place, other)| *place |= other);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_select_topics() {
        for (selector, topic, expected) in [
            ("*", "anything", true),
            ("/a", "/a", true),
            ("/a", "/a/b", false),
            ("/a/*", "/a/b", false),
            ("/books/{id}", "/books/1", true),
            ("/books/{id}", "/books/{id}", true),
            ("/books/{id}", "/books/", true),
            ("/books/{id}", "/books/a%20b", true),
            ("/books/{id}", "/books/a%2", false),
            ("/books/{id}", "/books/1/reviews", false),
            ("/books/{id}", "/books/1?x", false),
            ("/books/{id}", "/book/1", false),
            ("/books/{id}/reviews/{other}", "/books/1/reviews/2", true),
            ("/books/{id}/reviews/{other}", "/books/1/review/2", false),
            ("/{+path}", "/a/b?c=d#e", true),
            ("/{+path}", "/a b", false),
            ("/x{#anchor}", "/x", true),
            ("/x{#anchor}", "/x#y/z", true),
            ("/x{#anchor}", "/xy", false),
            ("/x{.format}", "/x.json", true),
            ("/x{.format}", "/x.json.gz", true),
            ("/x{.format}", "/x/json", false),
            ("/x{/a,b}", "/x/1/2", true),
            ("/x{/a,b}", "/x/1", true),
            ("/x{/a,b}", "/x", true),
            ("/x{/a,b}", "/x/1/2/3", false),
            ("/x{/a*}", "/x/1/2/3", true),
            ("/x{;a,b}", "/x;a=1;b", true),
            ("/x{;a,b}", "/x;b=1", true),
            ("/x{;a,b}", "/x;b=1;a=2", false),
            ("/users/{?topic}", "/users/?topic=http%3A%2F%2Fexample.com%2Fa", true),
            ("/users/{?topic}", "/users/?other=1", false),
            ("/users/{?topic}", "/users/?topic", false),
            ("/users/{?topic}", "/users/", true),
            ("/x{?a,b}", "/x?a=1&b=2", true),
            ("/x{?a,b}", "/x?b=2", true),
            ("/x{?a,b}", "/x&b=2", false),
            ("/x?a=1{&b}", "/x?a=1&b=2", true),
            ("/x{?keys*}", "/x?one=1&two=2", true),
            ("{a,b}", "1,2", true),
            ("{a}", "1,2", true),
            ("{a}{b}", "12", true),
            ("{a:3}", "123", false),
            ("{a:3}", "{a:3}", true),
            ("{", "{", true),
            ("}", "}", true),
            ("{}", "x", false),
            ("{a", "a", false),
            ("{a{b}}", "x", false),
            ("/ä/{b}", "/ä/1", true),
            ("/{b}", "/ä", false),
        ] {
            let matches = Selector::new(selector).unwrap().matches(topic);
            assert_eq!(matches, expected, "{selector} {topic}");
        }
    }

    #[test]
    fn what_is_no_text_for_a_topic_is_no_selector() {
        for (text, expected) in [
            (String::new(), Unusable::Empty),
            ("a".repeat(LONGEST + 1), Unusable::Long),
            ("a\nb".into(), Unusable::Control),
            ("{a}".repeat(MOST_VARIABLES + 1), Unusable::Variables),
        ] {
            assert_eq!(Selector::new(&text), Err(expected), "{text}");
        }
        let longest = "{a}".repeat(MOST_VARIABLES);
        assert!(Selector::new(&longest).unwrap().matches(&"x".repeat(LONGEST)));
    }
}
