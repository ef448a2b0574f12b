//! What Apache refuses by method, by what a request carries, and by `<If>`; and what a closed
//! folder opens.

use std::fs;

use crate::tests::folder;
use crate::{Kind, Language, Output, System, import};

use super::{htaccess, is_refused, site};

#[test]
fn refusals_by_conditions_are_rules_with_conditions() {
    let agent = "SetEnvIfNoCase User-Agent \"^grabber\" unwanted";
    let open = "Order Allow,Deny\nAllow from all";
    for (lines, expected) in [
        (
            "<LimitExcept GET POST>\nRequire all denied\n</LimitExcept>".to_owned(),
            &["method = \"!^(?:GET|POST|HEAD)$\"\ndeny = [\"all\"]"][..],
        ),
        (
            "<Limit PUT DELETE>\nOrder deny,allow\nDeny from all\n</Limit>".to_owned(),
            &["method = \"^(?:PUT|DELETE)$\"\ndeny = [\"all\"]"],
        ),
        (
            format!("{agent}\n{open}\nDeny from env=unwanted"),
            &["header = { User-Agent = \"(?i)^grabber\" }\ndeny = [\"all\"]"],
        ),
        (
            format!("{agent}\n{open}\nDeny from 192.0.2.7 env=unwanted"),
            &["(?i)^grabber\" }\ndeny = [\"all\"]", "deny = [\"192.0.2.7\"]"],
        ),
        (
            "BrowserMatch spider unwanted\nSetEnvIf Referer casino unwanted=1\n<RequireAll>\n\
             Require all granted\nRequire not env unwanted\n</RequireAll>"
                .to_owned(),
            &[
                "header = { User-Agent = \"spider\" }\ndeny",
                "header = { Referer = \"casino\" }\ndeny",
            ],
        ),
        (
            "<If \"%{QUERY_STRING} =~ /debug=/ && %{REQUEST_METHOD} == 'POST'\">\n\
             Require all denied\n</If>"
                .to_owned(),
            &["method = \"^POST$\"\nquery = \"debug=\"\ndeny = [\"all\"]"],
        ),
    ] {
        for import in
            [htaccess("", &lines), site(&format!("<Directory $TOP/site>\n{lines}\n</Directory>"))]
        {
            for text in expected {
                assert!(import.toml.contains(text), "{lines}: {text}\n{}", import.toml);
            }
            assert!(!is_refused(&import), "{lines}: {:?}", import.notes);
        }
    }
}

#[test]
fn conditions_that_no_rule_has_refuse_all() {
    for lines in [
        "<LimitExcept GET>\nRequire ip 192.0.2.7\n</LimitExcept>",
        "Order allow,deny\nAllow from all\nDeny from env=unknown",
        "SetEnvIf Remote_Addr ^192 near\nOrder allow,deny\nAllow from all\nDeny from env=near",
        "SetEnvIf Referer a a\nSetEnvIf Accept b !a\nOrder allow,deny\nAllow from all\n\
         Deny from env=a",
        "SetEnvIf Referer a a\nSetEnvIf a 1 b\nOrder allow,deny\nAllow from all\nDeny from env=b",
        "SetEnvIf Referer a a\n<RequireAny>\nRequire not env a\nRequire ip 192.0.2.7\n</RequireAny>",
        "SetEnvIf Referer a a\n<RequireAll>\nRequire not env a\n</RequireAll>",
        "SetEnvIf Referer a a\nOrder deny,allow\nAllow from 192.0.2.7\nDeny from env=a",
        "<If \"%{REMOTE_ADDR} == '192.0.2.7'\">\nRequire all denied\n</If>",
        "<If \"%{REQUEST_METHOD} == 'PUT'\">\nRequire valid-user\n</If>",
    ] {
        let import = htaccess("deep", lines);
        assert!(is_refused(&import), "{lines}: {:?}\n{}", import.notes, import.toml);
        let whole = "path = \"/deep\"\ndeny = [\"all\"]";
        assert!(import.toml.contains(whole), "{lines}\n{}", import.toml);
    }
}

#[test]
fn a_filter_that_is_off_refuses_nothing() {
    let import = htaccess(
        "",
        "<IfModule mod_security.c>\nSecFilterEngine Off\nSecFilterScanPOST off\n</IfModule>",
    );
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    assert!(is_refused(&htaccess("", "SecFilterEngine On")));
}

#[test]
fn names_that_a_closed_folder_opens_are_left_out() {
    let (newer, older) = ("Require all denied", "Order deny,allow\nDeny from all");
    let (grants, allows) = ("Require all granted", "Allow from all");
    for (closes, names, opens, expected) in [
        (newer, "<Files \"*.pdf\">", grants, Some(r"!/[^/]*\.pdf$")),
        (older, "<Files ~ \"\\.pdf$\">", allows, Some(r"!(?:\.pdf\z)[^/]*$")),
        // Each of both ways holds by itself.
        (newer, "<Files \"*.pdf\">", allows, None),
        (older, "<Files \"*.pdf\">", grants, None),
        (newer, "<Files \"*.pdf\">", "Require ip 192.0.2.7", None),
    ] {
        let end = "</Files>";
        let import = htaccess("deep", &format!("{closes}\n{names}\n{opens}\n{end}"));
        let rule = match expected {
            Some(but) => format!("path = \"/deep\"\nand_pattern = ['{but}']\ndeny = [\"all\"]"),
            None => "path = \"/deep\"\ndeny = [\"all\"]".to_owned(),
        };
        assert!(import.toml.contains(&rule), "{rule}\n{}", import.toml);
    }
}

#[test]
fn a_folder_whose_rewrites_are_not_asked_is_noted() {
    let folder = folder();
    let write = |path: &str, text: &str| {
        let file = folder.path().join("site").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write(".htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ web/$1 [L]");
    write(
        "web/.htaccess",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ a.php",
    );
    let file = folder.path().join("site/.htaccess");
    let import = import(Language::Apache, &file, None, &System, Output::Text).unwrap();
    let is_noted =
        import.notes.iter().any(|it| it.kind == Kind::Differs && it.reason.contains("`root`"));
    assert!(is_noted, "{:?}", import.notes);
}
