//! `AliasMatch` with an expression that says no more than a folder: it is an `Alias`.

use crate::directive::Directive;
use crate::pattern;

/// The same directive as an `Alias`, if it is one.
pub(super) fn simplified(directive: Directive) -> Directive {
    match (&*directive.name, &directive.args[..]) {
        ("aliasmatch", [path, target]) => match folder(path, target).filter(|it| it.0.len() > 1) {
            Some((path, folder)) => {
                Directive { name: "alias".into(), args: vec![path, folder], ..directive }
            }
            None => directive,
        },
        _ => directive,
    }
}

/// The path and the folder of `^/path(/.*)?$` with `folder$1`, or of `^/path/(.*)$` with
/// `folder/$1`.
pub(super) fn folder(expression: &str, target: &str) -> Option<(String, String)> {
    let expression = expression.strip_prefix('^')?;
    let target = target.strip_suffix("$1")?;
    let (path, has_slash) = match expression.strip_suffix("(/.*)?$") {
        Some(path) => (path, false),
        None => (expression.strip_suffix("(.*)$").or(expression.strip_suffix("(.*)"))?, true),
    };
    let (path, "") = pattern::literal(path) else { return None };
    let fits = path.ends_with('/') == has_slash && target.ends_with('/') == has_slash;
    let is_folder = (path.is_empty() || path.starts_with('/')) && !target.contains('$');
    (fits && is_folder).then(|| (path, target.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_for_a_folder_is_an_alias() {
        for (expression, target, path, to) in [
            ("^/wiki(/.*)?$", "/srv/wiki$1", "/wiki", "/srv/wiki"),
            ("^/old/(.*)$", "/srv/old/$1", "/old/", "/srv/old/"),
            ("^/old/(.*)", "/srv/old/$1", "/old/", "/srv/old/"),
            (r"^/v1\.2(/.*)?$", "/srv/v1.2$1", "/v1.2", "/srv/v1.2"),
            ("^/(.*)$", "/srv/$1", "/", "/srv/"),
        ] {
            assert_eq!(folder(expression, target), Some((path.into(), to.into())), "{expression}");
        }
        let all = super::super::parse::parse("AliasMatch ^/(.*)$ /srv/$1", "a".as_ref()).unwrap();
        assert_eq!(all[0].name, "aliasmatch");
        for (expression, target) in [
            ("^/pics/(.+)\\.jpg$", "/srv/img/$1.png"),
            ("^/wiki(.*)$", "/srv/wiki$1"),
            ("^/v1.2(/.*)?$", "/srv/v1.2$1"),
            ("^/~([a-z]+)(/.*)?$", "/home/$1/www$2"),
            ("^/wiki/.*$", "/srv/w/index.php"),
            ("/wiki(/.*)?$", "/srv/wiki$1"),
            ("^/old/(.*)$", "/srv/old$1"),
        ] {
            assert_eq!(folder(expression, target), None, "{expression}");
        }
    }
}
