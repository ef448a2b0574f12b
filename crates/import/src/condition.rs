//! What a request has to be beside what its location says: the conditions of `RewriteCond` and
//! `if`, as those of rules.

use crate::model::Rule;
use crate::pattern;

/// Most rules that one of another server becomes: more are no site that anybody could read.
const MOST: usize = 64;

/// What of a request is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    /// Its path.
    Path,
    /// Its query, without the question mark.
    Query,
    Method,
    /// The header field of this name.
    Header(String),
}

/// One thing that a request has to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// There is a file or folder at its path, or none.
    File(bool),
    /// There is a file at its path and no folder, or that is not so.
    NoFolder(bool),
    /// An expression is found, or is not.
    Found(Subject, String, bool),
}

impl Test {
    fn negated(&self) -> Test {
        match self {
            Test::File(is_there) => Test::File(!is_there),
            Test::NoFolder(is_there) => Test::NoFolder(!is_there),
            Test::Found(subject, expression, is_found) => {
                Test::Found(subject.clone(), expression.clone(), !is_found)
            }
        }
    }
}

/// All of these tests have to hold.
pub(crate) type Case = Vec<Test>;

/// Cases, one of which has to hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cases(pub Vec<Case>);

impl Cases {
    /// Every request.
    pub(crate) fn all() -> Cases {
        Cases(vec![Vec::new()])
    }

    /// No request.
    pub(crate) fn none() -> Cases {
        Cases(Vec::new())
    }

    /// Those for which a test holds.
    pub(crate) fn of(test: Test) -> Cases {
        Cases(vec![vec![test]])
    }

    /// One of both.
    pub(crate) fn or(mut self, mut other: Cases) -> Cases {
        self.0.append(&mut other.0);
        self
    }

    /// Both; `None` if there are too many.
    pub(crate) fn and(&self, other: &Cases) -> Option<Cases> {
        let mut cases: Vec<Case> = Vec::new();
        for one in &self.0 {
            for another in &other.0 {
                let mut case = one.clone();
                case.extend(another.iter().filter(|test| !one.contains(test)).cloned());
                let is_possible = case.iter().all(|test| !case.contains(&test.negated()));
                if is_possible && !cases.contains(&case) {
                    cases.push(case);
                }
            }
        }
        (cases.len() <= MOST).then_some(Cases(cases))
    }

    /// The requests for which none of the cases holds; `None` if there are too many.
    pub(crate) fn not(&self) -> Option<Cases> {
        self.0.iter().try_fold(Cases::all(), |all, case| {
            all.and(&Cases(case.iter().map(|test| vec![test.negated()]).collect()))
        })
    }
}

/// The same rule for the requests of a case.
///
/// # Errors
/// Fails with a reason if a rule cannot say it.
pub(crate) fn limited(mut rule: Rule, case: &Case) -> Result<Rule, String> {
    let guards = rule.guards();
    for test in case {
        let (subject, expression, is_found) = match test {
            // What refuses holds whether there is a file or not: where none is, nothing is lost.
            Test::File(_) | Test::NoFolder(_) if guards => continue,
            Test::File(is_there) | Test::NoFolder(is_there) => {
                rule.if_file |= is_there;
                rule.unless_file |= !is_there;
                rule.folders_are_files &= matches!(test, Test::File(_));
                continue;
            }
            Test::Found(subject, expression, is_found) => (subject, expression, *is_found),
        };
        let text = match is_found {
            true if guards && *subject == Subject::Path => pattern::refusing(expression),
            true => expression.clone(),
            false => format!("!{expression}"),
        };
        match subject {
            Subject::Path => rule.scope.and.push(text),
            Subject::Query => put(&mut rule.conditions.query, text)?,
            Subject::Method => put(&mut rule.conditions.method, text)?,
            Subject::Header(name) => {
                let mut own = rule.conditions.headers.get(name).cloned();
                put(&mut own, text)?;
                rule.conditions.headers.extend(own.map(|own| (name.clone(), own)));
            }
        }
    }
    if rule.if_file && rule.unless_file {
        return Err("a file that is there and is not is not translated".to_owned());
    }
    Ok(rule)
}

/// Adds a condition to one of the same thing: what must be missing may be one of several.
fn put(own: &mut Option<String>, text: String) -> Result<(), String> {
    *own = Some(match own.take() {
        None => text,
        Some(before) => match (before.strip_prefix('!'), text.strip_prefix('!')) {
            (Some(one), Some(other)) => format!("!(?:{one})|(?:{other})"),
            _ => return Err("two conditions of the same thing are not translated".to_owned()),
        },
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Scope;
    use crate::source::Place;
    use std::path::Path;

    fn query(text: &str) -> Test {
        Test::Found(Subject::Query, text.to_owned(), true)
    }

    #[test]
    fn cases_are_negated_and_joined() {
        let both = Cases::of(query("a")).and(&Cases::of(Test::File(true))).unwrap();
        let neither = both.not().unwrap();
        assert_eq!(neither.0, [vec![query("a").negated()], vec![Test::File(false)]]);
        assert!(neither.and(&both).unwrap().0.is_empty());
        assert!(Cases::all().not().unwrap().0.is_empty());
        assert_eq!(Cases::all().and(&both), Some(both));
    }

    #[test]
    fn a_rule_takes_what_it_can_say() {
        let rule = || Rule::at(&Place::start(Path::new("a")), Scope::default());
        let missing = [query("a").negated(), query("b").negated()];
        let limited_by = limited(rule().rewrite("/x"), &missing.to_vec()).unwrap();
        assert_eq!(limited_by.conditions.query.as_deref(), Some("!(?:a)|(?:b)"));
        assert!(limited(rule(), &vec![query("a"), query("b")]).is_err());
        let path = Test::Found(Subject::Path, "\\.php$".to_owned(), true);
        let refusal = limited(rule().refuse_all(403), &vec![path, Test::File(true)]).unwrap();
        assert_eq!(refusal.scope.and, ["\\.php(?:/|$)"]);
        assert!(!refusal.if_file);
    }
}
