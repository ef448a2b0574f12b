//! `tracestate`: what the tracing systems on the way have noted for themselves. This server notes
//! nothing, and passes on what is valid.

/// Most members of a valid list (3.3.1.1).
const MOST_MEMBERS: usize = 32;
/// Bytes that are passed on at most: as many as everyone has to (3.3.1.5).
pub const LONGEST_STATE: usize = 512;
/// Members above this length go first if the list is too long (3.3.1.5).
const LARGE: usize = 128;
/// Longest key, and longest value.
const LONGEST_PART: usize = 256;

/// What is passed on of the values of all `tracestate` headers, in their order; nothing if any part
/// of it is not valid.
pub fn trace_state<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut members: Vec<(&[u8], &[u8])> = Vec::new();
    for part in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        let part = trim(part);
        // An empty member is valid, and means nothing.
        if part.is_empty() {
            continue;
        }
        let equals = part.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (&part[..equals], &part[equals + 1..]);
        let is_new = members.iter().all(|(other, _)| *other != key);
        if !is_key(key) || !is_value(value) || !is_new || members.len() == MOST_MEMBERS {
            return None;
        }
        members.push((key, value));
    }
    shorten(&mut members);
    let mut state = Vec::with_capacity(length(&members));
    for (key, value) in members {
        if !state.is_empty() {
            state.push(b',');
        }
        state.extend_from_slice(key);
        state.push(b'=');
        state.extend_from_slice(value);
    }
    (!state.is_empty()).then_some(state)
}

fn size((key, value): &(&[u8], &[u8])) -> usize {
    key.len() + 1 + value.len()
}

fn length(members: &[(&[u8], &[u8])]) -> usize {
    members.iter().map(size).sum::<usize>() + members.len().saturating_sub(1)
}

/// Removes whole members until the rest is short enough: the large ones first, then those at the
/// end, which are the oldest.
fn shorten(members: &mut Vec<(&[u8], &[u8])>) {
    while length(members) > LONGEST_STATE {
        let large = members.iter().rposition(|member| size(member) > LARGE);
        members.remove(large.unwrap_or(members.len() - 1));
    }
}

fn trim(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn is_key(key: &[u8]) -> bool {
    let begins = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    key.first().is_some_and(begins)
        && key.len() <= LONGEST_PART
        && key.iter().all(|byte| begins(byte) || b"_-*/@".contains(byte))
}

fn is_value(value: &[u8]) -> bool {
    let is_allowed = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'=';
    !value.is_empty() && value.len() <= LONGEST_PART && value.iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(values: &[&str]) -> Option<String> {
        let state = trace_state(values.iter().map(|value| value.as_bytes()));
        state.map(|state| String::from_utf8(state).unwrap())
    }

    #[test]
    fn valid_lists_are_passed_on() {
        for (values, expected) in [
            (&["a=1"][..], "a=1"),
            (&["a=1,b=2"], "a=1,b=2"),
            (&["a=1", "b=2"], "a=1,b=2"),
            (&[" a=1 \t, \t b=2 "], "a=1,b=2"),
            (&["a=1,,b=2,"], "a=1,b=2"),
            (&["0tenant@sys=x:y z"], "0tenant@sys=x:y z"),
        ] {
            assert_eq!(state(values).as_deref(), Some(expected), "{values:?}");
        }
    }

    #[test]
    fn one_bad_member_spoils_the_list() {
        for value in [
            "",
            ",",
            "a",
            "a=",
            "=1",
            "A=1",
            "a=1,a=2",
            "a=1=2",
            "a =1",
            "a=\u{e9}",
            "a=b\u{7f}",
            "@a=1",
        ] {
            assert_eq!(state(&["z=1", value]).is_some(), matches!(value, "" | ","), "{value}");
        }
        let many = |count| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert!(state(&[&many(32)]).is_some() && state(&[&many(33)]).is_none());
        assert_eq!(state(&[&format!("{}=1", "k".repeat(257))]), None);
        assert_eq!(state(&[&format!("k={}", "v".repeat(257))]), None);
    }

    #[test]
    fn long_lists_lose_whole_members() {
        let large = format!("large={}", "x".repeat(200));
        let small = (0..30).map(|n| format!("k{n:02}={}", "v".repeat(12))).collect::<Vec<_>>();
        let all = format!("{large},{}", small.join(","));
        let kept = state(&[&all]).unwrap();
        assert!(kept.len() <= LONGEST_STATE && !kept.contains("large"), "{kept}");
        assert_eq!(kept, small[..30].join(",")[..kept.len()]);
        assert!(kept.len() > LONGEST_STATE - 17);
    }
}
