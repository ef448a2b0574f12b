//! What a publisher sends, judged.

use std::fmt;

use crate::form::{self, Malformed, Pair};
use crate::history::EARLIEST;
use crate::limits::{LONGEST, Limits};
use crate::update::Draft;

/// Why an update is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The form is malformed.
    Form(Malformed),
    /// It has no topic.
    NoTopic,
    /// It has more topics than this.
    Topics(usize),
    /// A topic, an id or a type is longer than this.
    Long(&'static str, usize),
    /// It takes more bytes than this.
    Size(usize),
    /// This field is not what it has to be.
    Field(&'static str, &'static str),
}

impl Refused {
    /// Whether the update is only too large.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Refused::Topics(_) | Refused::Long(..) | Refused::Size(_))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Form(malformed) => write!(f, "the form is malformed: {malformed}"),
            Refused::NoTopic => f.write_str("the update has no `topic`"),
            Refused::Topics(most) => write!(f, "the update has more than {most} topics"),
            Refused::Long(name, most) => write!(f, "`{name}` has more than {most} bytes"),
            Refused::Size(most) => write!(f, "the update has more than {most} bytes"),
            Refused::Field(name, problem) => write!(f, "`{name}` {problem}"),
        }
    }
}

/// The update that this form describes.
///
/// # Errors
/// Fails with what is wrong with it.
pub fn publication(form: &[u8], limits: &Limits) -> Result<Draft, Refused> {
    draft(form::pairs(form).map_err(Refused::Form)?, limits)
}

/// The update that these fields of a form describe.
///
/// # Errors
/// Fails with what is wrong with it.
pub fn draft<'a>(
    fields: impl IntoIterator<Item = Pair<'a>>,
    limits: &Limits,
) -> Result<Draft, Refused> {
    let mut draft = Draft::default();
    for (name, value) in fields {
        match &*name {
            "topic" => draft.topics.push(value.into_owned()),
            "data" => draft.data = value.into_owned(),
            // Whatever its value is.
            "private" => draft.is_private = true,
            // As the reference hub takes them: empty as if they were not there.
            "id" => draft.id = Some(value.into_owned()).filter(|id| !id.is_empty()),
            "type" => draft.kind = Some(value.into_owned()).filter(|kind| !kind.is_empty()),
            "retry" => draft.retry = retry(&value)?,
            _ => {}
        }
    }
    draft.check(limits)?;
    Ok(draft)
}

fn retry(value: &str) -> Result<Option<u64>, Refused> {
    if value.is_empty() {
        return Ok(None);
    }
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_number);
    number.map(Some).ok_or(Refused::Field("retry", "is no number of milliseconds"))
}

impl Draft {
    /// Judges an update.
    ///
    /// # Errors
    /// Fails with what is wrong with it.
    pub fn check(&self, limits: &Limits) -> Result<(), Refused> {
        if self.topics.is_empty() {
            return Err(Refused::NoTopic);
        }
        if self.topics.len() > limits.topics {
            return Err(Refused::Topics(limits.topics));
        }
        for topic in &self.topics {
            check_text("topic", topic)?;
            if topic.is_empty() {
                return Err(Refused::Field("topic", "is empty"));
            }
            if topic == "*" {
                return Err(Refused::Field("topic", "is `*`, which is the selector of all topics"));
            }
        }
        if let Some(id) = &self.id {
            check_text("id", id)?;
            if id.starts_with('#') || id == EARLIEST {
                let problem = "begins with `#`, or is `earliest`: these are the hub's own";
                return Err(Refused::Field("id", problem));
            }
            // It comes back in a header field.
            if !id.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                return Err(Refused::Field("id", "has characters beyond ASCII"));
            }
        }
        if let Some(kind) = &self.kind {
            check_text("type", kind)?;
        }
        let topics = self.topics.iter().map(String::len).sum::<usize>();
        if self.data.len() + topics > limits.update {
            return Err(Refused::Size(limits.update));
        }
        Ok(())
    }
}

fn check_text(name: &'static str, text: &str) -> Result<(), Refused> {
    if text.len() > LONGEST {
        return Err(Refused::Long(name, LONGEST));
    }
    match text.contains(char::is_control) {
        true => Err(Refused::Field(name, "has control characters")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { topics: 2, update: 30, ..Limits::default() }
    }

    #[test]
    fn a_form_becomes_an_update() {
        let form = b"topic=/a&topic=/b&data=x%0Ay&private=&id=7&type=t&retry=100&other=z";
        let expected = Draft {
            topics: vec!["/a".into(), "/b".into()],
            data: "x\ny".into(),
            is_private: true,
            id: Some("7".into()),
            kind: Some("t".into()),
            retry: Some(100),
        };
        assert_eq!(publication(form, &limits()), Ok(expected));
        let expected = Draft { topics: vec!["/a".into()], ..Draft::default() };
        assert_eq!(publication(b"topic=/a&id=&type=&retry=", &limits()), Ok(expected));
    }

    #[test]
    fn what_would_break_events_or_limits_is_refused() {
        let long = format!("topic={}", "x".repeat(LONGEST + 1));
        for (form, expected) in [
            ("data=x", "the update has no `topic`"),
            ("topic=", "`topic` is empty"),
            ("topic=*", "`topic` is `*`, which is the selector of all topics"),
            ("topic=a%0Ab", "`topic` has control characters"),
            ("topic=a%C2%85b", "`topic` has control characters"),
            ("topic=a&topic=b&topic=c", "the update has more than 2 topics"),
            (&*long, "`topic` has more than 2048 bytes"),
            ("topic=a&data=012345678901234567890123456789", "the update has more than 30 bytes"),
            ("topic=a&id=x%0Adata:", "`id` has control characters"),
            ("topic=a&id=%C3%A4", "`id` has characters beyond ASCII"),
            ("topic=a&id=%231", "`id` begins with `#`, or is `earliest`: these are the hub's own"),
            (
                "topic=a&id=earliest",
                "`id` begins with `#`, or is `earliest`: these are the hub's own",
            ),
            ("topic=a&type=x%0D", "`type` has control characters"),
            ("topic=a&retry=-1", "`retry` is no number of milliseconds"),
            ("topic=a&retry=%2B1", "`retry` is no number of milliseconds"),
            ("topic=%FF", "the form is malformed: a name or a value is not UTF-8"),
        ] {
            let refused = publication(form.as_bytes(), &limits()).unwrap_err();
            assert_eq!(refused.to_string(), expected, "{form}");
        }
    }
}
