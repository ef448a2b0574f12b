//! What may be said over a connection that others use as well, and what may be said twice.

/// Commands that change what the connection is, or never come to an end; and what to do instead.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"],
        "use transaction{ … }, or a script by EVAL, for commands that belong together",
    ),
    (
        &[
            "BLPOP",
            "BRPOP",
            "BRPOPLPUSH",
            "BLMOVE",
            "BLMPOP",
            "BZPOPMIN",
            "BZPOPMAX",
            "BZMPOP",
            "WAIT",
            "WAITAOF",
        ],
        "use the command that does not wait, and tokamak.sleep",
    ),
    (
        &[
            "SUBSCRIBE",
            "PSUBSCRIBE",
            "SSUBSCRIBE",
            "UNSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SUNSUBSCRIBE",
            "MONITOR",
            "SYNC",
            "PSYNC",
        ],
        "a request cannot follow a stream: use a list, or XREAD without BLOCK",
    ),
    (
        &["AUTH", "HELLO", "SELECT", "RESET", "QUIT", "CLIENT", "READONLY", "READWRITE", "ASKING"],
        "give user, password and database to tokamak.redis",
    ),
];

/// Commands that leave everything as it is, of those that are asked often.
const READING: &[&str] = &[
    "BITCOUNT",
    "DBSIZE",
    "ECHO",
    "EXISTS",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HVALS",
    "KEYS",
    "LINDEX",
    "LLEN",
    "LRANGE",
    "MGET",
    "PING",
    "PTTL",
    "SCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "STRLEN",
    "TIME",
    "TTL",
    "TYPE",
    "XLEN",
    "XRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANK",
    "ZSCORE",
];

fn is(command: &[Vec<u8>], name: &str) -> bool {
    command.first().is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
}

/// Why a command is not sent, if it is not.
pub fn refusal(command: &[Vec<u8>]) -> Option<String> {
    let of = |names: &[&'static str]| names.iter().copied().find(|name| is(command, name));
    let refused = REFUSED.iter().find_map(|(names, instead)| Some((of(names)?, *instead)));
    let blocks = || {
        let name = of(&["XREAD", "XREADGROUP"])?;
        let arguments = &command[1..];
        // What follows STREAMS are names.
        let options =
            arguments.iter().take_while(|argument| !argument.eq_ignore_ascii_case(b"STREAMS"));
        let mut options = options.filter(|argument| argument.eq_ignore_ascii_case(b"BLOCK"));
        options.next().map(|_| (name, "leave BLOCK out, and use tokamak.sleep"))
    };
    let (name, instead) = refused.or_else(blocks)?;
    Some(format!("{name} is not for a connection that all requests share: {instead}"))
}

/// Whether it does no harm to send a command twice.
pub fn is_reading(command: &[Vec<u8>]) -> bool {
    READING.iter().any(|name| is(command, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn what_would_disturb_others_is_refused() {
        for bad in [
            "multi",
            "BLPOP list 0",
            "subscribe news",
            "Select 3",
            "XREAD COUNT 2 BLOCK 0 STREAMS a 0",
        ] {
            let reason = refusal(&command(bad)).unwrap_or_default();
            assert!(reason.contains("all requests share: "), "{bad}: {reason}");
        }
        for good in [
            "GET multi",
            "XREAD COUNT 2 STREAMS block 0",
            "LPOP list",
            "EVAL 0 0",
            "PUBLISH news x",
        ] {
            assert_eq!(refusal(&command(good)), None, "{good}");
        }
    }

    #[test]
    fn only_reading_is_repeated() {
        assert!(is_reading(&command("hgetall h")));
        for changing in ["INCR n", "SET a b", "EVAL x 0", "GETDEL a"] {
            assert!(!is_reading(&command(changing)), "{changing}");
        }
    }
}
