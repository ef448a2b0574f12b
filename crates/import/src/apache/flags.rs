//! The flags of a `RewriteRule`.

/// The flags of a rule.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub redirect: Option<u16>,
    pub refuses: Option<u16>,
    pub ignores_case: bool,
    pub keeps_query: bool,
    pub drops_query: bool,
    pub sets_variable: bool,
    /// The variables that it sets, with their values.
    pub variables: Vec<(String, String)>,
    pub chains: bool,
    /// Whether it leads to a service (`P`).
    pub proxies: bool,
    /// Whether Apache skips the later rules (`L`, `END`).
    pub ends: bool,
    pub is_unknown: bool,
}

impl Flags {
    /// Parses flags in brackets, as in `[R=301,L]`.
    pub(super) fn of(text: &str) -> Flags {
        let mut flags = Flags::default();
        let text = text.trim_start_matches('[').trim_end_matches(']');
        for flag in text.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match &*name.to_ascii_lowercase() {
                "l" | "last" | "end" => flags.ends = true,
                "pt" | "ne" | "noescape" | "passthrough" | "ns" => {}
                "nc" | "nocase" => flags.ignores_case = true,
                "qsa" | "qsappend" => flags.keeps_query = true,
                "qsd" | "qsdiscard" => flags.drops_query = true,
                "e" | "env" => {
                    flags.sets_variable = true;
                    let own = value.split_once(':').map(|(name, own)| (name.into(), own.into()));
                    flags.variables.extend(own);
                }
                "c" | "chain" => flags.chains = true,
                "p" | "proxy" => flags.proxies = true,
                "f" | "forbidden" => flags.refuses = Some(403),
                "g" | "gone" => flags.refuses = Some(410),
                "r" | "redirect" => match value {
                    "" => flags.redirect = Some(302),
                    "permanent" => flags.redirect = Some(301),
                    status => match status.parse() {
                        Ok(status @ 300..400) => flags.redirect = Some(status),
                        Ok(status) => flags.refuses = Some(status),
                        _ => flags.refuses = Some(403),
                    },
                },
                _ => flags.is_unknown = true,
            }
        }
        flags
    }
}
