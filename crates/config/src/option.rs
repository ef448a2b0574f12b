//! The table of options. Each row is the only place that knows an option's name, type, default,
//! bounds, documentation, reload class, environment variable and flag; all else is derived from it.
//!
//! A new option is one row in a file below here, one field in `model` and one line each in
//! `resolve` (towards the server) and `text` (back to TOML). The compiler asks for the last two,
//! and a test for the page in `docs/`, which is written from the rows.

use crate::literal::Literal;
use crate::origin::Origin;
pub use crate::value::Kind;
use crate::value::{Bounds, ValueError};

/// When a changed option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// At `tokamak reload`.
    Live,
    /// At the next start: the supervisor holds it open for its whole life.
    Restart,
}

/// One option.
#[derive(Debug)]
pub struct Row {
    /// Table of the file that it stands in: empty, `limits`, `site.pool`, …
    pub section: &'static str,
    /// Name in that table.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Default, as one would type it on the command line; empty: not set.
    pub default: &'static str,
    /// Limits of a number.
    pub bounds: Bounds,
    /// When a change takes effect.
    pub reload: Reload,
    /// Environment variable that overrides the file.
    pub variable: Option<&'static str>,
    /// Flag that overrides both.
    pub flag: Option<&'static str>,
    /// What it means, in full sentences.
    pub about: &'static str,
}

impl Row {
    /// `section.name`, as errors and documentation write it.
    pub fn key(&self) -> String {
        key_of(self.section, self.name)
    }
}

pub(crate) fn key_of(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// A kind of table of the file: its rows, and the struct that holds its typed values.
pub(crate) trait Section: Values + Sized {
    /// What it is for.
    const ABOUT: &'static str;
    /// Its rows, in the order of the documentation.
    const ROWS: &'static [Row];

    /// Every option at its default.
    fn defaults() -> Self;

    /// Whether the option `name` has the same value in `other`.
    fn agrees(&self, other: &Self, name: &str) -> bool;
}

/// The values of one table of the file.
pub(crate) trait Values {
    /// The rows of its options.
    fn rows(&self) -> &'static [Row];

    /// Sets the option `name`.
    ///
    /// # Errors
    /// Fails if the value is wrong, or there is no such option.
    fn put(&mut self, name: &str, literal: &Literal, origin: Origin)
    -> Result<(), Vec<ValueError>>;

    /// The option `name` as TOML, without secrets; absent if it is not set.
    fn show(&self, name: &str) -> Option<String>;

    /// What of the option `name` is set and not shown, as [`crate::value::Value::hidden`] says it.
    fn hidden(&self, name: &str) -> Vec<String>;
}

/// One table of the documentation.
#[derive(Debug)]
pub struct Group {
    /// Heading as in the file: `[limits]`, `[[site]]`; empty for the top level.
    pub heading: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// The options in it.
    pub rows: &'static [Row],
}

macro_rules! maybe {
    () => {
        None
    };
    ($set:expr) => {
        Some($set)
    };
}

/// Declares a section: the struct of its values and its rows.
macro_rules! section {
    (
        $(#[doc = $what:literal])+
        $Name:ident $section:literal {$(
            $(#[doc = $about:literal])+
            $name:ident: $Type:ty = $default:literal, $bounds:expr, $reload:ident
                $(, env $variable:literal)? $(, flag $flag:literal)?;
        )*}
    ) => {
        $(#[doc = $what])+
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $Name {
            $($(#[doc = $about])+ pub $name: crate::origin::Given<$Type>,)*
        }

        impl crate::option::Section for $Name {
            const ABOUT: &'static str = concat!($($what),+).trim_ascii();
            const ROWS: &'static [crate::option::Row] = &[$(crate::option::Row {
                section: $section,
                name: stringify!($name),
                kind: <$Type as crate::value::Value>::KIND,
                default: $default,
                bounds: $bounds,
                reload: crate::option::Reload::$reload,
                variable: maybe!($($variable)?),
                flag: maybe!($($flag)?),
                about: concat!($($about),+).trim_ascii(),
            },)*];

            fn defaults() -> $Name {
                $Name {$(
                    $name: crate::origin::Given {
                        value: <$Type as crate::value::Value>::read(&crate::literal::Literal::Word($default.into()), &$bounds)
                            .expect("a test reads every default"),
                        origin: crate::origin::Origin::Default,
                    },
                )*}
            }

            fn agrees(&self, other: &$Name, name: &str) -> bool {
                match name {
                    $(stringify!($name) => self.$name.value == other.$name.value,)*
                    _ => true,
                }
            }
        }

        impl crate::option::Values for $Name {
            fn rows(&self) -> &'static [crate::option::Row] {
                <Self as crate::option::Section>::ROWS
            }

            fn put(
                &mut self,
                name: &str,
                literal: &crate::literal::Literal,
                origin: crate::origin::Origin,
            ) -> Result<(), Vec<crate::value::ValueError>> {
                match name {
                    $(stringify!($name) => {
                        let value = <$Type as crate::value::Value>::read(literal, &$bounds)?;
                        self.$name = crate::origin::Given { value, origin };
                        Ok(())
                    })*
                    _ => Err(vec![format!("`{name}` is no option of this table").into()]),
                }
            }

            fn show(&self, name: &str) -> Option<String> {
                match name {
                    $(stringify!($name) => crate::value::Value::toml(&self.$name.value),)*
                    _ => None,
                }
            }

            fn hidden(&self, name: &str) -> Vec<String> {
                match name {
                    $(stringify!($name) => crate::value::Value::hidden(&self.$name.value),)*
                    _ => Vec::new(),
                }
            }
        }
    };
}

mod mercure;
mod rule;
mod server;
mod site;
mod upstream;

pub(crate) use mercure::Mercure;
pub(crate) use rule::Rule;
pub(crate) use server::{Acme, Cache, Http2, Http3, Limits, Log, Lua, Timeouts, Tls, Top, Trace};
pub(crate) use site::{Manager, Pool, Route, Site};
pub(crate) use upstream::Upstream;

/// Every option, table by table.
pub const GROUPS: &[Group] = &[
    group::<Top>(""),
    group::<Tls>("[tls]"),
    group::<Acme>("[acme]"),
    group::<Limits>("[limits]"),
    group::<Http2>("[http2]"),
    group::<Http3>("[http3]"),
    group::<Timeouts>("[timeouts]"),
    group::<Log>("[log]"),
    group::<Lua>("[lua]"),
    group::<Cache>("[cache]"),
    group::<Trace>("[trace]"),
    group::<Upstream>("[[upstream]]"),
    group::<Site>("[[site]]"),
    group::<Pool>("[site.pool]"),
    group::<Mercure>("[site.mercure]"),
    group::<Route>("[[site.route]]"),
    group::<Rule>("[[site.rule]]"),
];

const fn group<S: Section>(heading: &'static str) -> Group {
    Group { heading, about: S::ABOUT, rows: S::ROWS }
}

/// Every option.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|group| group.rows)
}

/// The row with this flag.
pub fn row_of_flag(flag: &str) -> Option<&'static Row> {
    rows().find(|row| row.flag == Some(flag))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{Mode, Reset, TraceMode, TrustedHeader};
    use crate::value::Choice;

    #[test]
    fn names_variables_and_flags_are_unique() {
        let mut seen = BTreeSet::new();
        for row in rows() {
            for name in
                [Some(row.key()), row.variable.map(str::to_owned), row.flag.map(str::to_owned)]
                    .into_iter()
                    .flatten()
            {
                assert!(seen.insert(name.clone()), "{name} is there twice");
            }
        }
    }

    #[test]
    fn every_row_is_documented_in_sentences() {
        for row in rows() {
            assert!(row.about.ends_with('.'), "{}: {}", row.key(), row.about);
            assert!(row.about.starts_with(|first: char| first.is_uppercase()), "{}", row.key());
            assert!(!row.about.contains("  ") && !row.about.contains('|'), "{}", row.key());
        }
        for group in GROUPS {
            assert!(group.about.ends_with('.'), "{}", group.heading);
        }
    }

    #[test]
    fn every_scalar_option_has_a_variable_with_our_prefix() {
        for row in rows() {
            // Of these tables there are several, and a variable could not tell which it means.
            if matches!(row.section, "upstream" | "site.route" | "site.rule") {
                assert_eq!((row.variable, row.flag), (None, None), "{}", row.key());
                continue;
            }
            match row.variable {
                Some(variable) => assert!(variable.starts_with("TOKAMAK_"), "{variable}"),
                None => assert!(!row.kind.is_scalar(), "{} has no environment variable", row.key()),
            }
            assert!(row.flag.is_none_or(|flag| flag.starts_with("--")), "{}", row.key());
        }
    }

    #[test]
    fn every_default_is_within_its_bounds() {
        Top::defaults();
        Tls::defaults();
        Limits::defaults();
        Timeouts::defaults();
        Log::defaults();
        Lua::defaults();
        Cache::defaults();
        Trace::defaults();
        Site::defaults();
        Pool::defaults();
        Mercure::defaults();
        Upstream::defaults();
        Route::defaults();
        Rule::defaults();
    }

    #[test]
    fn restart_options_stand_at_the_top_where_they_are_compared() {
        assert!(rows().all(|row| row.reload == Reload::Live || row.section.is_empty()));
    }

    #[test]
    fn a_choice_has_one_name_for_each_value() {
        assert_eq!(Reset::NAMES.len(), Reset::ALL.len());
        assert!(Mode::ALL.iter().map(|mode| mode.name()).eq(Mode::NAMES.iter().copied()));
        assert_eq!(Manager::NAMES.len(), Manager::ALL.len());
        assert_eq!(TraceMode::NAMES.len(), TraceMode::ALL.len());
        assert_eq!(TrustedHeader::NAMES.len(), TrustedHeader::ALL.len());
    }
}
