//! Matchers of Caddy: what rules say exactly, and what they say for more.

use super::caddy;
use crate::Kind;

/// The site's own rules, one a line.
fn rules(toml: &str) -> Vec<String> {
    let own = toml.find("host = [\"a.test\"]").unwrap();
    let rules = toml[own..].split("[[site]]").next().unwrap().split("[[site.rule]]").skip(1);
    rules
        .map(|rule| {
            let lines = rule.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            lines.collect::<Vec<_>>().join("; ")
        })
        .collect()
}

#[test]
fn conditions_become_those_of_rules() {
    for (lines, expected) in [
        (
            "@x {\nnot path /wp-admin/*\nmethod POST PUT\n}\nredir @x /y",
            "and_pattern = ['!(?i)^/wp\\-admin/']; method = \"^(?:POST|PUT)$\"; redirect = \"/y?\"; status = 302",
        ),
        (
            "@x {\npath /a/*\nheader User-Agent *Bad*\nnot header X-Key ok\n}\nrespond @x 403",
            "path = \"/a/*\"; header = { User-Agent = \"Bad\", X-Key = \"!^ok$\" }; deny = [\"all\"]",
        ),
        (
            "@x {\npath /a\nquery old=1\n}\nredir @x /b{uri}",
            "pattern = \"^/(.*)$\"; and_pattern = [\"(?i)^/a$\"]; query = \"(?:^|&)old=1(?:&|$)\"; \
             redirect = \"/b/$1\"; status = 302",
        ),
        (
            "@x header !Cookie\nredir @x /login",
            "header = { Cookie = \"!.\" }; redirect = \"/login?\"; status = 302",
        ),
        (
            "@x {\nfile\npath *.css *.js\n}\nheader @x Cache-Control public",
            "pattern = '(?i)\\.css$|\\.js$'; of_answer = true; \
             set_headers = { Cache-Control = \"public\" }; always = true",
        ),
    ] {
        let import = caddy(&format!("file_server\nphp_fastcgi x\n{lines}"));
        let rules = rules(&import.toml);
        assert!(rules.iter().any(|rule| rule == expected), "{lines}: {rules:#?}");
        assert!(import.notes.iter().all(|note| note.kind != Kind::Refused), "{:?}", import.notes);
    }
}

#[test]
fn what_is_refused_may_be_more_and_never_less() {
    for (lines, expected) in [
        // What is percent-encoded is the same for Caddy.
        (
            "@x query debug=1\nrespond @x 403",
            "query = \"(?:^|&)debug=1(?:&|$)|%\"; deny = [\"all\"]",
        ),
        // Caddy looks at the first of several values.
        ("@x not query key=1\nrespond @x 403", "query = \"!^key=1(?:&|$)\"; deny = [\"all\"]"),
        ("@x {\nfile\npath /a/*\n}\nrespond @x 403", "path = \"/a/*\"; deny = [\"all\"]"),
        (
            "@x {\nnot path /b/{x}\npath /a/*\n}\nrespond @x 403",
            "path = \"/a/*\"; deny = [\"all\"]",
        ),
    ] {
        let import = caddy(&format!("file_server\n{lines}"));
        let rules = rules(&import.toml);
        assert!(rules.iter().any(|rule| rule == expected), "{lines}: {rules:#?}");
        assert!(import.notes.iter().any(|note| note.kind == Kind::Refused), "{lines}");
    }
}

#[test]
fn a_file_that_closes_the_site_refuses_only_if_it_is_there() {
    let import = caddy("file_server\n@x file /closed.html\nrespond @x \"later\" 503");
    let note = import.notes.iter().find(|note| note.line.starts_with("respond")).unwrap();
    assert_eq!(note.kind, Kind::Left, "{note:?}");
    assert!(note.reason.contains("no /closed.html now"), "{note:?}");
    let import = caddy("file_server\n@x file {http.request.host}.html\nrespond @x 503");
    assert!(import.notes.iter().any(|note| note.kind == Kind::Refused), "{:?}", import.notes);
}

#[test]
fn a_front_controller_that_clients_cannot_ask_for_answers_for_other_paths() {
    let refused = "php_fastcgi x\nfile_server\n@x path *.php*\nerror @x 404";
    let import = caddy(refused);
    assert!(import.toml.contains("status = 404\ninternal = true"), "{}", import.toml);
    assert!(import.notes.iter().all(|note| note.kind != Kind::Refused), "{:?}", import.notes);
    // Behind a rewrite it is refused, too.
    for rewrite in ["rewrite /a /index.php", "try_files {path} /index.php"] {
        let import = caddy(&format!("{rewrite}\n{refused}"));
        assert!(!import.toml.contains("internal = true"), "{rewrite}: {}", import.toml);
    }
}
