//! A profile of several sites, of which each takes its own.

use crate::profile::Profile;

/// A profile of the sites that gave one, and why the others did not.
#[derive(Debug)]
pub struct Taken {
    /// All samples together.
    pub profile: Profile,
    /// A line for each site that gave none.
    pub refusals: Vec<String>,
}

/// The profiles of the sites with these names, as one.
///
/// # Errors
/// Fails if there are sites and none of them gave a profile.
pub fn gather(
    parts: impl IntoIterator<Item = (String, Result<Profile, String>)>,
) -> Result<Taken, String> {
    let mut taken = Taken { profile: Profile::default(), refusals: Vec::new() };
    let mut count = 0;
    for (site, part) in parts {
        match part {
            Ok(part) => {
                taken.profile.join(part);
                count += 1;
            }
            Err(why) => taken.refusals.push(format!("no profile of site {site}: {why}")),
        }
    }
    if count == 0 && !taken.refusals.is_empty() {
        return Err(taken.refusals.join("; "));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{read, tests::TEXT};

    #[test]
    fn a_site_that_gives_none_takes_none_away() {
        let one = || ("a".to_owned(), read("a", TEXT));
        let none = || ("b".to_owned(), Err("gone".to_owned()));
        let taken = gather([one(), none()]).unwrap();
        assert_eq!(taken.refusals, ["no profile of site b: gone"]);
        assert_eq!(taken.profile.ticks, 11);
        let why = gather([none(), none()]).unwrap_err();
        assert_eq!(why, "no profile of site b: gone; no profile of site b: gone");
        assert_eq!(gather([]).unwrap().profile, Profile::default());
    }
}
