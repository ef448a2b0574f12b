//! What is mounted: which `handle_path` of Caddy become folders, and what does not lead there.

use super::{assert_has, caddy, nginx};
use crate::{Import, Kind};

/// The part of the file that is for what is mounted at `/a`.
fn mount(import: &Import) -> Option<&str> {
    let (_, rest) = import.toml.split_once("path = \"/a\"\nroot")?;
    rest.split("[[site]]").next()
}

#[test]
fn files_under_another_path_are_mounted() {
    for (lines, parts) in [
        ("handle_path /a/* {\nroot * $TOP/other\nfile_server\n}", &["/other\"", "serve"][..]),
        ("handle_path /a/* {\nroot $TOP/other\nfile_server\n}", &["/other\""]),
        ("handle_path /a/* {\nfile_server\n}", &["/site\""]),
        (
            "handle_path /a/* {\nheader X-A b\nfile_server {\nindex x.html\nhide *.bak\n}\n}",
            &["X-A", "index = [\"x.html\"]", "bak"],
        ),
        // What is refused below the path is refused there, too.
        (
            "respond /a/x/* 403\n@s path *.sql\nrespond @s 404\nrespond /b/* 403\nheader X-B c\n\
                handle_path /a/* {\nfile_server\n}",
            &["path = \"/x/*\"\ndeny", "sql", "X-B"],
        ),
        ("redir /b /c\nhandle_path /a/* {\nfile_server\n}", &[]),
        ("handle /b/* {\nrespond 403\n}\nhandle_path /a/* {\nfile_server\n}", &[]),
    ] {
        let import = caddy(&format!("file_server\n{lines}"));
        let own = mount(&import).unwrap_or_else(|| panic!("{lines}: {}", import.toml));
        for part in parts {
            assert!(own.contains(part), "{lines}: no {part} in {own}");
        }
        assert!(!own.contains("/b"), "{lines}: {own}");
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
}

#[test]
fn what_is_more_than_files_under_another_path_is_refused() {
    let own = "handle_path /a/* {\nfile_server\n}";
    for lines in [
        "handle_path /a/* {\nphp_fastcgi x\nfile_server\n}",
        "handle_path /a/* {\nreverse_proxy h2c://x\n}",
        "handle_path /a/* {\nbasic_auth {\na b\n}\nfile_server\n}",
        "handle_path /a/* {\nroot * {x}\nfile_server\n}",
        "handle_path /a/* {\nroot /b/* /c\nfile_server\n}",
        "handle_path /a/* {\nfile_server /b/*\n}",
        "handle_path /a/* {\nfile_server {\nroot $TOP/other\n}\n}",
        "handle_path /a* {\nfile_server\n}",
        "handle_path /a/*/b/* {\nfile_server\n}",
        // What comes before it may lead elsewhere, or has a part of its paths.
        &format!("redir /a/x /c\n{own}"),
        &format!("rewrite * /c\n{own}"),
        &format!("try_files {{path}} /index.html\n{own}"),
        &format!("uri strip_suffix x\n{own}"),
        &format!("header /a/x* X-A b\n{own}"),
        &format!("handle /a/x/* {{\nfile_server\n}}\n{own}"),
        &format!("route {{\nredir /a/x /c\n}}\n{own}"),
        &format!("route {{\n{own}\n}}"),
    ] {
        let import = caddy(&format!("file_server\n{lines}"));
        assert_eq!(mount(&import), None, "{lines}: {}", import.toml);
        let is_refused = import.notes.iter().any(|note| note.kind == Kind::Refused);
        assert!(is_refused, "{lines}: {:?}", import.notes);
        assert_has(&import, "deny = [\"all\"]");
    }
}

#[test]
fn a_root_within_a_handle_is_not_that_of_a_handle_path() {
    let folder = super::folder();
    let text = "http://a.test {\nhandle {\nroot * $TOP/site\nfile_server\n}\n\
        handle_path /a/* {\nfile_server\n}\n}";
    let import = super::imported(&folder, crate::Language::Caddy, text).unwrap();
    assert_eq!(mount(&import), None, "{}", import.toml);
    assert_has(&import, "path = \"/a/*\"\ndeny");
}

#[test]
fn a_rewrite_does_not_lead_into_what_is_mounted() {
    let mount = "location ^~ /pics { alias $TOP/other; }";
    for (to, is_refused, is_said) in [
        ("/pics/$1", true, true),
        ("/$1", true, false),
        ("/index.php?p=$1", false, false),
        ("/picture/$1", false, false),
    ] {
        let import = nginx(&format!("{mount} rewrite ^/old/(.*)$ {to} last;"));
        let refused = import.toml.contains("path = \"/pics\"\ndeny = [\"all\"]\nstatus = 404");
        assert_eq!(refused, is_refused, "{to}: {}", import.toml);
        let said = import.notes.iter().any(|note| note.reason.contains("do not leave the site"));
        assert_eq!(said, is_said, "{to}: {:?}", import.notes);
        // Nor is it what stands beside its folder.
        assert!(import.toml.contains("pattern = \"^/pics[^/]\"\ndeny"), "{}", import.toml);
    }
}
