//! Types with a few values, each with a name.

use super::{Bounds, Kind, Value, ValueError, quote, quoted, wrong};
use crate::literal::Literal;
use crate::model::{
    AcmeChallenge, Balance, ClientAuth, EarlyHints, Forwarded, Ignored, Leftover, Mode,
    ProtocolName, Reset, Reuse, Satisfy, Serve, StopSignal, TlsVersion, TokenAlgorithm, TraceMode,
    TrustedHeader, UnknownName,
};

/// Types with a few values, each with a name.
pub trait Choice: Copy + PartialEq + 'static {
    /// Names in the order of [`Choice::ALL`].
    const NAMES: &'static [&'static str];
    /// The values.
    const ALL: &'static [Self];
}

impl<T: Choice> Value for T {
    const KIND: Kind = Kind::Choice(T::NAMES);

    fn read(literal: &Literal, _: &Bounds) -> Result<T, Vec<ValueError>> {
        let (Literal::Word(word) | Literal::Text(word)) = literal else {
            return wrong(format!("must be {}, not {}", plain(T::NAMES), literal.sort()));
        };
        match T::NAMES.iter().position(|name| name == word) {
            Some(at) => Ok(T::ALL[at]),
            None => wrong(format!(
                "`{word}` is unknown; use {}{}",
                plain(T::NAMES),
                did_you_mean(word, T::NAMES)
            )),
        }
    }

    fn toml(&self) -> Option<String> {
        let at = T::ALL.iter().position(|value| value == self)?;
        quote(T::NAMES[at])
    }
}

fn plain(names: &[&str]) -> String {
    quoted(names, "or").replace(['`', '"'], "")
}

/// `; did you mean …?` with the nearest of `names`, if one is near.
pub fn did_you_mean(typed: &str, names: &[&str]) -> String {
    match nearest(typed, names) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}

/// The name that was probably meant. `front-controller` and `Front_Controller` are
/// `front_controller`.
pub fn nearest<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase().replace('-', "_");
    let likeness = |name: &&&str| (strsim::jaro_winkler(&typed, name) * 1000.0) as u32;
    let best = names.iter().max_by_key(likeness)?;
    // 0.75 is chosen by trial: typos of one or two letters are above it, other words mostly below.
    (likeness(&best) >= 750).then_some(*best)
}

impl Choice for Mode {
    const NAMES: &'static [&'static str] = &["classic", "worker", "sealed", "async", "fastcgi"];
    const ALL: &'static [Mode] =
        &[Mode::Classic, Mode::Worker, Mode::Sealed, Mode::Async, Mode::Fastcgi];
}

impl Choice for TraceMode {
    const NAMES: &'static [&'static str] = &["off", "begin", "continue"];
    const ALL: &'static [TraceMode] = &[TraceMode::Off, TraceMode::Begin, TraceMode::Continue];
}

impl Choice for TokenAlgorithm {
    const NAMES: &'static [&'static str] = &[
        "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
        "ES384", "EdDSA",
    ];
    const ALL: &'static [TokenAlgorithm] = &[
        TokenAlgorithm::Hs256,
        TokenAlgorithm::Hs384,
        TokenAlgorithm::Hs512,
        TokenAlgorithm::Rs256,
        TokenAlgorithm::Rs384,
        TokenAlgorithm::Rs512,
        TokenAlgorithm::Ps256,
        TokenAlgorithm::Ps384,
        TokenAlgorithm::Ps512,
        TokenAlgorithm::Es256,
        TokenAlgorithm::Es384,
        TokenAlgorithm::EdDsa,
    ];
}

impl Choice for TlsVersion {
    const NAMES: &'static [&'static str] = &["1.2", "1.3"];
    const ALL: &'static [TlsVersion] = &[TlsVersion::V12, TlsVersion::V13];
}

impl Choice for ClientAuth {
    const NAMES: &'static [&'static str] = &["none", "optional", "required"];
    const ALL: &'static [ClientAuth] =
        &[ClientAuth::None, ClientAuth::Optional, ClientAuth::Required];
}

impl Choice for AcmeChallenge {
    const NAMES: &'static [&'static str] = &["http-01", "tls-alpn-01", "dns-01"];
    const ALL: &'static [AcmeChallenge] =
        &[AcmeChallenge::Http, AcmeChallenge::TlsAlpn, AcmeChallenge::Dns];
}

impl Choice for EarlyHints {
    const NAMES: &'static [&'static str] = &["off", "http2", "all"];
    const ALL: &'static [EarlyHints] = &[EarlyHints::Off, EarlyHints::Http2, EarlyHints::All];
}

impl Choice for UnknownName {
    const NAMES: &'static [&'static str] = &["default", "refuse"];
    const ALL: &'static [UnknownName] = &[UnknownName::Default, UnknownName::Refuse];
}

impl Choice for TrustedHeader {
    const NAMES: &'static [&'static str] = &[
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-port",
        "forwarded",
        "x-request-id",
    ];
    const ALL: &'static [TrustedHeader] = &[
        TrustedHeader::For,
        TrustedHeader::Proto,
        TrustedHeader::Host,
        TrustedHeader::Port,
        TrustedHeader::Forwarded,
        TrustedHeader::RequestId,
    ];
}

impl Choice for Balance {
    const NAMES: &'static [&'static str] = &["round_robin", "least_busy"];
    const ALL: &'static [Balance] = &[Balance::RoundRobin, Balance::LeastBusy];
}

impl Choice for ProtocolName {
    const NAMES: &'static [&'static str] = &["fastcgi", "http", "https", "http2"];
    const ALL: &'static [ProtocolName] =
        &[ProtocolName::FastCgi, ProtocolName::Http, ProtocolName::Https, ProtocolName::Http2];
}

impl Choice for Forwarded {
    const NAMES: &'static [&'static str] = &["x_forwarded", "forwarded", "none"];
    const ALL: &'static [Forwarded] = &[Forwarded::Fields, Forwarded::Standard, Forwarded::None];
}

impl Choice for Reuse {
    const NAMES: &'static [&'static str] = &["repeatable", "all"];
    const ALL: &'static [Reuse] = &[Reuse::Repeatable, Reuse::All];
}

impl Choice for Reset {
    const NAMES: &'static [&'static str] = &[
        "ini",
        "error_handlers",
        "cwd",
        "umask",
        "locale",
        "timezone",
        "encodings",
        "env",
        "session",
    ];
    const ALL: &'static [Reset] = Reset::ALL;
}

impl Choice for Ignored {
    const NAMES: &'static [&'static str] = &["cookie", "set_cookie", "request", "response"];
    const ALL: &'static [Ignored] =
        &[Ignored::Cookie, Ignored::SetCookie, Ignored::Request, Ignored::Response];
}

impl Choice for Leftover {
    const NAMES: &'static [&'static str] = &["php", "hidden"];
    const ALL: &'static [Leftover] = &[Leftover::Php, Leftover::Hidden];
}

impl Choice for Satisfy {
    const NAMES: &'static [&'static str] = &["all", "any"];
    const ALL: &'static [Satisfy] = &[Satisfy::All, Satisfy::Any];
}

impl Choice for Serve {
    const NAMES: &'static [&'static str] = &["all", "existing", "files"];
    const ALL: &'static [Serve] = &[Serve::All, Serve::Existing, Serve::Files];
}

impl Choice for StopSignal {
    const NAMES: &'static [&'static str] = &["term", "usr1", "int", "quit"];
    const ALL: &'static [StopSignal] =
        &[StopSignal::Terminate, StopSignal::User1, StopSignal::Interrupt, StopSignal::Quit];
}
