//! Where requests are logged: in the files of the other server, or there is a note.

use super::{apache, caddy, check, folder, imported};
use crate::{Import, Language};

/// What the written file says of access logs, and how many notes there are.
fn patterns_and_notes(import: &Import) -> (Vec<String>, usize) {
    let lines = import.toml.lines().filter(|line| line.starts_with("access"));
    (lines.map(|line| line.replace('"', "")).collect(), import.notes.len())
}

#[test]
fn servers_of_nginx_keep_their_logs() {
    let server = |name: &str, lines: &str| {
        format!("server {{ listen 80; server_name {name}.test; root $TOP/site; {lines} }}\n")
    };
    let all = "access_log /all.log;\n";
    for (text, expected, notes) in [
        (server("a", "access_log /a.log;"), &["access_log = /a.log"][..], 0),
        (all.to_owned() + &server("a", ""), &["access = /all.log"], 0),
        (
            all.to_owned() + &server("a", "access_log /a.log combined;") + &server("b", ""),
            &["access = /all.log", "access_log = /a.log"],
            0,
        ),
        (all.to_owned() + &server("a", all), &["access = /all.log"], 0),
        // One for each site.
        (server("a", "access_log /a.log; access_log /b.log;"), &["access_log = /a.log"], 1),
        // A shape that is not known is that which programs read.
        (server("a", "access_log /a.log main;"), &["access_log = /a.log"], 1),
        (
            "log_format main '$remote_addr $status ' '$http_x_a';\n".to_owned()
                + &server("a", "access_log /a.log main;"),
            &["access_log = /a.log", "access_format = $remote_addr $status $http_x_a"],
            0,
        ),
        (
            format!("log_format x $status/$ssl_cipher;\n{}", server("a", "access_log /a.log x;")),
            &["access_log = /a.log"],
            1,
        ),
        (server("a", "access_log logs/a.log;"), &[], 1),
        (
            server("a", "access_log /a.log; location /x/ { access_log /a.log; }"),
            &["access_log = /a.log"],
            0,
        ),
        (
            server("a", "access_log /a.log; location /x/ { access_log /b.log; }"),
            &["access_log = /a.log"],
            1,
        ),
        (server("a", "location /x/ { access_log /b.log; }"), &[], 1),
    ] {
        let folder = folder();
        let import = imported(&folder, Language::Nginx, &text).unwrap();
        check(&folder, &import.toml).unwrap();
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(patterns_and_notes(&import), (expected, notes), "{text}: {:?}", import.notes);
    }
}

#[test]
fn sites_of_apache_keep_their_logs() {
    let import = |lines: &str| patterns_and_notes(&apache(lines));
    let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let (before, notes) = import("");
    assert!(before.is_empty());
    for (lines, expected, more) in [
        ("CustomLog /a.log combined", &["access_log = /a.log"][..], 0),
        ("CustomLog /a.log vhost_combined", &["access_log = /a.log", "access_format = vhost"], 0),
        ("CustomLog /a.log common", &["access_log = /a.log"], 1),
        (
            "LogFormat \"%h %>s\" short\nCustomLog /a.log short",
            &["access_log = /a.log", "access_format = $remote_addr $status"],
            0,
        ),
        ("CustomLog /a.log \"%h %D\"", &["access_log = /a.log"], 1),
        ("CustomLog ${LOGS}/a.log combined", &[], 1),
        ("CustomLog \"|/bin/rotate a.log\" combined", &[], 1),
        ("CustomLog /a.log combined env=!quiet", &[], 1),
        ("CustomLog /a.log combined\nCustomLog /b.log combined", &["access_log = /a.log"], 1),
    ] {
        assert_eq!(import(lines), (own(expected), notes + more), "{lines}");
    }
}

/// Tokamak refuses a file whose lines have two shapes.
#[test]
fn one_file_has_lines_of_one_shape() {
    let site = |name: &str, format: &str| {
        format!(
            "<VirtualHost *:80>\nServerName {name}.test\nDocumentRoot $TOP/site\n\
             CustomLog /a.log {format}\n</VirtualHost>\n"
        )
    };
    let folder = folder();
    let text = site("a", "vhost_combined") + &site("b", "combined");
    let import = imported(&folder, Language::Apache, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    assert_eq!(import.toml.matches("access_format = \"vhost\"").count(), 2, "{}", import.toml);
    assert!(import.notes.iter().any(|note| note.reason.contains("another site writes /a.log")));
}

#[test]
fn sites_of_caddy_keep_their_logs() {
    let import = |lines: &str| patterns_and_notes(&caddy(lines));
    let json = |file: &str| vec![format!("access_log = {file}"), "access_format = json".to_owned()];
    let (before, notes) = import("");
    assert!(before.is_empty());
    for (lines, expected) in [
        ("log {\noutput file /a.log\n}", json("/a.log")),
        ("log {\noutput file /a.log {\nroll_size 1gb\n}\nformat json\n}", json("/a.log")),
        ("log {\noutput stdout\n}", json("-")),
        ("log", Vec::new()),
        ("log {\noutput file a.log\n}", Vec::new()),
        ("log {\noutput file /a.log\nformat console\n}", json("/a.log")),
        ("log {\noutput file /a.log\nlevel ERROR\n}", Vec::new()),
        ("log other {\noutput file /a.log\n}", Vec::new()),
    ] {
        assert_eq!(import(lines), (expected, notes + 1), "{lines}");
    }
}
