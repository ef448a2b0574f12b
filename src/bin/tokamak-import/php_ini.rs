//! Which `php.ini` PHP reads, and where it differs from the one that the site's PHP reads today:
//! what is set in that one alone, as `disable_functions`, would be lost without a word.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

/// The server says in it where its PHP is.
const PHP: &str = "TOKAMAK_PHP";

/// Most settings that are named.
const MOST: usize = 20;

/// What was found out about one `php.ini` of today.
#[derive(Debug, PartialEq, Eq)]
pub struct Comparison {
    /// For the operator.
    pub text: String,
    /// Whether both say the same.
    pub is_same: bool,
}

/// Compares the settings of a site here with those of each of these SAPIs that has files of its
/// own.
pub fn compare(sapis: &[&str]) -> Vec<Comparison> {
    let Some(php) = env::var_os(PHP) else { return Vec::new() };
    let Ok(ours) = settings(&php, None) else { return Vec::new() };
    let theirs = sapis.iter().filter_map(|sapi| Some((sapi, settings(&php, Some(sapi)).ok()?)));
    let is_other = |theirs: &[Pair]| file(theirs) != file(&ours);
    theirs
        .filter(|(_, theirs)| is_other(theirs))
        .map(|(sapi, it)| comparison(sapi, &it, &ours))
        .collect()
}

type Pair = (String, String);

/// All settings of PHP as a site without any of its own has them, by their names; those of the
/// `php.ini` and `conf.d` of this SAPI, if one is named and has such files.
///
/// The file itself is `php.ini`, and each extension is `extension`.
fn settings(php: &OsStr, ini_of: Option<&str>) -> io::Result<Vec<Pair>> {
    let mut command = Command::new(php);
    command.args(["--show", "settings"]).args(ini_of.map(|sapi| format!("ini_of={sapi}")));
    let output = command.stderr(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("PHP does not start; see tokamak php-info"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The `php.ini` that was read.
fn file(settings: &[Pair]) -> &str {
    let found = settings.iter().find(|(name, _)| name == "php.ini");
    found.map(|(_, file)| file.as_str()).filter(|file| !file.is_empty()).unwrap_or("no php.ini")
}

fn comparison(sapi: &str, theirs: &[Pair], ours: &[Pair]) -> Comparison {
    let differences = differences(theirs, ours);
    let files = format!(
        "php.ini: PHP reads {} and its conf.d here; today's PHP ({sapi}) reads {}",
        file(ours),
        file(theirs)
    );
    let Some((last, first)) = differences.split_last() else {
        return Comparison { text: format!("{files}. Both say the same."), is_same: true };
    };
    let mut named: String = first.iter().take(MOST - 1).map(|it| format!("{it}, ")).collect();
    named += &match differences.len().saturating_sub(MOST) {
        0 => last.clone(),
        more => format!("{}, and {} more", first[MOST - 1], more),
    };
    let advice = "write them into `php_admin_value` of the site, or into the file that is read \
        here";
    Comparison { text: format!("{files}. There it says {named}: {advice}"), is_same: false }
}

/// What they say otherwise, and what only one of them says.
fn differences(theirs: &[Pair], ours: &[Pair]) -> Vec<String> {
    let is_setting = |pair: &&Pair| pair.0 != "php.ini";
    let visible = |text: &str| text.replace(char::is_control, " ");
    let has_name = |pairs: &[Pair], name: &str| pairs.iter().any(|(own, _)| own == name);
    let other = theirs.iter().filter(is_setting).filter(|pair| !ours.contains(pair));
    let other = other.map(|(name, value)| format!("{name} = \"{}\"", visible(value)));
    let missing = ours.iter().filter(is_setting).filter(|pair| {
        !theirs.contains(pair) && (pair.0 == "extension" || !has_name(theirs, &pair.0))
    });
    let missing = missing.map(|(name, value)| match &**name {
        "extension" => format!("no extension {value}"),
        _ => format!("no {name}"),
    });
    other.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<Pair> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn says_what_differs_and_what_one_side_lacks() {
        let theirs =
            pairs(&[("php.ini", "/fpm"), ("extension", "a"), ("extension", "b"), ("x", "1\n2")]);
        let ours =
            pairs(&[("php.ini", "/embed"), ("extension", "a"), ("extension", "c"), ("x", "")]);
        let compared = comparison("fpm", &theirs, &ours);
        let said = "extension = \"b\", x = \"1 2\", no extension c: write";
        assert!(!compared.is_same && compared.text.contains(said), "{compared:?}");
        assert!(comparison("fpm", &theirs, &theirs).is_same);
    }

    #[test]
    fn many_differences_are_counted() {
        let many = |value: &str, count: usize| -> Vec<Pair> {
            (0..count).map(|number| (format!("s{number}"), value.to_owned())).collect()
        };
        for (count, end) in [(20, "s18 = \"a\", s19 = \"a\": "), (22, "s19 = \"a\", and 2 more: ")]
        {
            let compared = comparison("fpm", &many("a", count), &many("b", count)).text;
            assert!(compared.contains(end) && compared.matches(" = ").count() == 20, "{compared}");
        }
    }
}
