//! Answers that an application gives again because it keeps its request: the warm-up's page for
//! whatever is asked.

use crate::Failure;
use crate::drive::{Answer, Application};

/// A target that no application has.
const ELSEWHERE: &str = "/tokamak-seal-report/elsewhere";

/// A target that is answered as a warm-up request was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// What was asked for.
    pub target: String,
    /// The warm-up request whose answer came.
    pub answered_as: String,
}

/// Asks for all targets, and for one that is nowhere, in an image with warm-up and in one without.
pub(crate) fn stale(
    targets: &[String],
    warm: &[String],
    warmed: &mut Application,
    unwarmed: &mut Application,
) -> Result<Vec<Stale>, Failure> {
    // Whole addresses bring another host, which a request of the report cannot.
    let pages = warm.iter().filter(|target| target.starts_with('/'));
    let of_warm_up: Vec<(&str, Answer)> = pages
        .map(|page| Ok((page.as_str(), unwarmed.answer(page)?)))
        .collect::<Result<_, Failure>>()?;
    let mut found = Vec::new();
    for target in targets.iter().map(String::as_str).chain([ELSEWHERE]) {
        let (now, own) = (warmed.answer(target)?, unwarmed.answer(target)?);
        if let Some(page) = repeated(&now, &own, &of_warm_up) {
            found.push(Stale { target: target.to_owned(), answered_as: page.to_owned() });
        }
    }
    Ok(found)
}

/// The warm-up request whose answer `now` is, if without warm-up the target has another one. Pages
/// that are alike anyhow are not accused, nor is one that changes from request to request.
fn repeated<'a>(now: &Answer, own: &Answer, warm: &[(&'a str, Answer)]) -> Option<&'a str> {
    let same = warm.iter().find(|(_, answer)| answer == now && answer != own);
    same.map(|(page, _)| *page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.into() }
    }

    #[test]
    fn only_the_answer_of_a_warm_up_request_in_the_place_of_another_one_is_stale() {
        let (home, gone) = (answer(200, "home"), answer(404, "gone"));
        let warm = [("/login", answer(200, "login")), ("/", home.clone())];
        assert_eq!(repeated(&home, &gone, &warm), Some("/"));
        assert_eq!(repeated(&gone, &gone, &warm), None, "its own answer");
        assert_eq!(repeated(&home, &home, &warm), None, "every page is the same");
        assert_eq!(repeated(&answer(200, "at 12:01"), &gone, &warm), None, "no warm-up's answer");
    }
}
