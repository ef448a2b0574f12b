//! The priority of a response (RFC 9218): how urgent it is, and whether a part of it is of use.

use http::header::{HeaderMap, HeaderName, HeaderValue};

const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// What stands for a response in the order of those that wait for the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether the client can use a part of it, so that others of its kind may go beside it.
    pub is_incremental: bool,
}

impl Priority {
    /// That of a request which says nothing. RFC 9218 section 4.2 would have such responses sent
    /// one after the other; but clients that do not know of priorities expect to get them side by
    /// side, and the first one may be endless.
    pub const UNKNOWN: Priority = Priority { urgency: 3, is_incremental: true };

    /// That of one which says something, but not this.
    const UNSAID: Priority = Priority { urgency: 3, is_incremental: false };

    /// What a request asks for.
    pub fn of_request(headers: &HeaderMap) -> Priority {
        Priority::UNSAID.with_fields(headers).unwrap_or(Priority::UNKNOWN)
    }

    /// What a PRIORITY_UPDATE frame asks for (section 7): the value of the field.
    pub fn of_update(value: &[u8]) -> Priority {
        Priority::UNSAID.with_values(std::iter::once(value))
    }

    /// The same with what the fields of a response say (section 8); `None`: they say nothing.
    pub fn with_response(self, headers: &HeaderMap) -> Option<Priority> {
        self.with_fields(headers)
    }

    fn with_fields(self, headers: &HeaderMap) -> Option<Priority> {
        let mut values = headers.get_all(PRIORITY).iter().peekable();
        values.peek()?;
        Some(self.with_values(values.map(HeaderValue::as_bytes)))
    }

    /// The same with what values of `Priority` say. They are a dictionary of structured fields (RFC
    /// 9651): what is unknown or no value for its key is ignored.
    fn with_values<'a>(mut self, values: impl Iterator<Item = &'a [u8]>) -> Priority {
        for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            let without_parameters = member.split(|byte| *byte == b';').next().unwrap_or_default();
            match without_parameters.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = digit - b'0',
                b"i" | b"i=?1" => self.is_incremental = true,
                b"i=?0" => self.is_incremental = false,
                _ => {}
            }
        }
        self
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (PRIORITY, HeaderValue::from_static(value))).collect()
    }

    fn said(urgency: u8, is_incremental: bool) -> Priority {
        Priority { urgency, is_incremental }
    }

    #[test]
    fn what_clients_say_is_understood() {
        for (values, expected) in [
            (&[][..], Priority::UNKNOWN),
            (&["u=0, i"], said(0, true)),
            (&["u=1"], said(1, false)),
            (&["i"], said(3, true)),
            (&["i=?0,u=7"], said(7, false)),
            (&["u=5;a=b , i=?1;c"], said(5, true)),
            (&["u=2", "i"], said(2, true)),
            (&["u=1, u=4"], said(4, false)),
            (&[""], said(3, false)),
            (&["u=8, i=1, U=0, u, =, ;;, u=-1, u=1.0, x=\"u=0\""], said(3, false)),
        ] {
            assert_eq!(Priority::of_request(&headers(values)), expected, "{values:?}");
            if let [value] = values {
                assert_eq!(Priority::of_update(value.as_bytes()), expected, "{value}");
            }
        }
    }

    #[test]
    fn a_response_may_change_what_the_request_asks_for() {
        let asked = said(5, true);
        assert_eq!(asked.with_response(&headers(&[])), None);
        assert_eq!(asked.with_response(&headers(&["u=1"])), Some(said(1, true)));
        assert_eq!(asked.with_response(&headers(&["i=?0"])), Some(said(5, false)));
    }
}
