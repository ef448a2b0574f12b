//! Passwords: which rules ask for them, and what is refused where no rule says the same.

use std::fs;

use tempfile::TempDir;

use super::{assert_has, check, folder, imported, rules_of};
use crate::{Import, Kind, Language, Output, System, import};

const USERS: &str = "max:$2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG\n";

/// A folder with files of users.
pub(super) fn with_users() -> TempDir {
    let folder = folder();
    fs::write(folder.path().join("users"), USERS).unwrap();
    fs::write(folder.path().join("others"), USERS).unwrap();
    fs::write(folder.path().join("both"), format!("{USERS}{}", USERS.replace("max", "ann")))
        .unwrap();
    fs::write(folder.path().join("plain"), "max:secret\n").unwrap();
    folder
}

#[track_caller]
fn nginx(lines: &str) -> Import {
    let folder = with_users();
    let text = format!("server {{ listen 80; server_name a.test; root $TOP/site; {lines} }}");
    let import = imported(&folder, Language::Nginx, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

fn refusals(import: &Import) -> usize {
    import.notes.iter().filter(|note| note.kind == Kind::Refused).count()
}

/// Whether a rule of this scope asks for the password of the file `users`.
fn asks(import: &Import, scope: &str) -> bool {
    let rules = rules_of(import, scope);
    rules.iter().any(|rule| rule.contains("/users\"\n") && rule.contains("auth_users = \""))
}

/// `auth_basic` with this file.
fn basic(file: &str) -> String {
    format!("auth_basic Staff; auth_basic_user_file {file};")
}

#[test]
fn passwords_of_nginx_are_asked_for() {
    let own = basic("users");
    for (lines, scope) in [
        (own.clone(), "auth_realm = \"Staff\""),
        (format!("location /a/ {{ {own} }}"), "path = \"/a/*\""),
        (format!("location = /a {{ {own} }}"), "path = \"/a\""),
        (format!("location ~ ^/a/.*\\.txt$ {{ {own} }}"), "pattern = '^/a/.*\\.txt(?:/|$)'"),
        (format!("location /a/ {{ {own} location ~ \\.php$ {{ fastcgi_pass x; }} }}"), "/a/*"),
        (format!("location = /a.php {{ {own} fastcgi_pass x; }}"), "path = \"/a.php\""),
        // Each of both is inherited by itself.
        ("auth_basic_user_file users; location /a/ { auth_basic x; }".to_owned(), "/a/*"),
        (format!("{own} location /a/ {{ alias $TOP/other/; }}"), "auth_realm"),
        (format!("{own} location /a/ {{ allow 10.0.0.1; deny all; }}"), "auth_realm"),
        (format!("location /a/ {{ allow 10.0.0.1; deny all; {own} }}"), "path = \"/a/*\""),
    ] {
        let import = nginx(&lines);
        assert!(asks(&import, scope), "{lines}: {}", import.toml);
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    // What is mounted has rules of its own.
    let import = nginx(&format!("{own} location /a/ {{ alias $TOP/other/; }}"));
    assert_eq!(import.toml.matches("auth_users").count(), 2, "{}", import.toml);
    let import = nginx(&format!("location /a/ {{ allow 10.0.0.1; deny all; {own} }}"));
    assert_has(&import, "path = \"/a/*\"\nallow = [\"10.0.0.1\"]\ndeny = [\"all\"]\n");
    // The index file and the front controller have the password of their own names.
    let import = nginx(&format!(
        "location / {{ try_files $uri $uri/ /index.php?$args; }} location ~ \\.php$ {{ {own} \
            fastcgi_pass x; }}"
    ));
    assert!(asks(&import, "\\.php(?:/|$)"), "{}", import.toml);
    assert_has(&import, "unless_file = true\nrewrite = \"/index.php\"");
}

#[test]
fn passwords_of_nginx_that_no_rule_asks_for_are_refused() {
    let own = basic("users");
    for (lines, scope) in [
        ("location /a/ { auth_basic x; }".to_owned(), "path = \"/a/*\""),
        (format!("location /a/ {{ {} }}", basic("none")), "path = \"/a/*\""),
        (format!("location /a/ {{ {} }}", basic("plain")), "path = \"/a/*\""),
        (format!("location /a/ {{ {} }}", basic("$host")), "path = \"/a/*\""),
        ("location /a/ { auth_basic $x; auth_basic_user_file users; }".to_owned(), "/a/*"),
        // Nobody can send two passwords.
        (format!("{own} location /a/ {{ {} }}", basic("others")), "path = \"/a/*\""),
        (format!("location /a/b/ {{ {} }} location /a/ {{ {own} }}", basic("others")), "/a/b/*"),
        (format!("location ~ x {{ {} }} location /a/ {{ {own} }}", basic("others")), "/a/*"),
        (format!("location /a/ {{ internal; alias $TOP/other/; {own} }}"), "path = \"/a/*\""),
    ] {
        let import = nginx(&lines);
        assert_eq!(refusals(&import), 1, "{lines}: {:?}", import.notes);
        let rules = rules_of(&import, scope);
        let is_refused = rules.iter().any(|rule| rule.contains("deny = [\"all\"]"));
        assert!(is_refused, "{lines}: {}", import.toml);
    }
    let elsewhere = format!("location /a/ {{ {} }} location /b/ {{ {own} }}", basic("others"));
    assert_eq!(refusals(&nginx(&elsewhere)), 0);
    let many: String = (0..34).map(|at| format!("location /{at:02}/ {{ {own} }}\n")).collect();
    let import = nginx(&many);
    assert_eq!((refusals(&import), import.toml.matches("auth_users").count()), (2, 32));
}

#[test]
fn what_is_opened_within_a_password_stays_behind_it() {
    let own = basic("users");
    for lines in [
        format!("{own} location /a/ {{ auth_basic off; }}"),
        format!("location / {{ {own} }} location /a/ {{ }}"),
        format!("location /a/ {{ {own} }} {}", super::PHP),
    ] {
        let import = nginx(&lines);
        assert!(asks(&import, "Staff"), "{lines}: {}", import.toml);
        let differs = import.notes.iter().any(|note| note.kind == Kind::Differs);
        assert!(differs, "{lines}: {:?}", import.notes);
    }
    let import = nginx(&format!("{own} error_page 404 /404.html;"));
    assert!(!import.toml.contains("error_pages"), "{}", import.toml);
    assert!(import.notes[0].reason.contains("error page of 404"), "{:?}", import.notes);
}

#[test]
fn an_address_or_a_password_is_enough_only_where_that_is_the_same() {
    let any = format!("satisfy any; {}", basic("users"));
    let rule = "allow = [\"10.0.0.0/8\"]\nauth_users = ";
    for lines in [
        "allow 10.0.0.0/8; deny all;",
        "allow 10.0.0.0/8;",
        "allow 10.0.0.0/8; deny all; \
        allow all;",
        "allow unix:; allow 10.0.0.0/8; deny all;",
    ] {
        let import = nginx(&format!("location /a/ {{ {any} {lines} }}"));
        assert_has(&import, &format!("path = \"/a/*\"\n{rule}"));
        assert_has(&import, "satisfy = \"any\"");
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
    }
    for lines in [
        // Who is named by no line needs the password.
        "deny 10.0.0.1;",
        "deny 10.0.0.1; allow 10.0.0.0/8; deny all;",
        "allow all;",
        "deny all;",
        "allow x; deny all;",
        "allow 10.0.0.1; deny all; set_real_ip_from 10.0.0.2; real_ip_header X-Real-IP;",
    ] {
        let import = nginx(&format!("location /a/ {{ {any} {lines} }}"));
        let is_refused = rules_of(&import, "path = \"/a/*\"")[0].contains("deny = [\"all\"]");
        assert!(is_refused && refusals(&import) > 0, "{lines}: {}", import.toml);
    }
    // Within such a block, either may be wanted by itself.
    let outer = format!("{any} allow 10.0.0.0/8; deny all;");
    for (lines, expected) in [
        ("auth_basic off;", "path = \"/a/*\"\nallow = [\"10.0.0.0/8\"]\ndeny = [\"all\"]"),
        ("satisfy all;", "path = \"/a/*\"\nallow = [\"10.0.0.0/8\"]\ndeny = [\"all\"]"),
        ("satisfy all;", "path = \"/a/*\"\nauth_users"),
        ("allow all;", "[[site.rule]]\nallow = [\"10.0.0.0/8\"]\nauth_users"),
        ("allow 10.0.0.1; deny all;", "path = \"/a/*\"\nallow = [\"10.0.0.1\"]\nauth_users"),
    ] {
        let import = nginx(&format!("{outer} location /a/ {{ {lines} }}"));
        assert_has(&import, expected);
        assert_has(&import, &format!("[[site.rule]]\n{rule}"));
        assert!(!import.notes.is_empty(), "{lines}");
    }
}

/// Imports a site of Apache with these lines, and an `.htaccess` in its folder `deep`.
#[track_caller]
fn apache(lines: &str, htaccess: &str) -> Import {
    let folder = with_users();
    fs::write(folder.path().join("site/deep/.htaccess"), htaccess).unwrap();
    let text = format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot $TOP/site\n\
         <Directory $TOP/site>\nAllowOverride All\n</Directory>\n{lines}\n</VirtualHost>\n"
    );
    let import = imported(&folder, Language::Apache, &text).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

/// What Apache is told of passwords in this file.
fn settings(file: &str) -> String {
    format!("AuthType Basic\nAuthName Staff\nAuthUserFile {file}\n")
}

#[test]
fn passwords_of_apache_are_asked_for() {
    let own = format!("{}Require valid-user", settings("users"));
    for (lines, htaccess, scope) in [
        (format!("<Directory $TOP/site>\n{own}\n</Directory>"), "", "auth_realm = \"Staff\""),
        (format!("<Directory $TOP/site/deep>\n{own}\n</Directory>"), "", "path = \"/deep\""),
        (format!("<Location /a/b>\n{own}\n</Location>"), "", "path = \"/a/b\""),
        (format!("<LocationMatch ^/a>\n{own}\n</LocationMatch>"), "", "pattern = \"^/a\""),
        (String::new(), &*own, "path = \"/deep\""),
        (
            String::new(),
            &format!("<Files login.php>\n{own}\n</Files>"),
            "pattern = '/login\\.php(?:/|$)'",
        ),
        // The settings of what is around it in the file.
        (
            String::new(),
            &format!("{}<Files login.php>\nRequire valid-user\n</Files>", settings("users")),
            "pattern = '/login\\.php(?:/|$)'",
        ),
        (
            format!(
                "<Directory $TOP/site>\n{}<FilesMatch \\.txt$>\nRequire valid-user\n\
                    </FilesMatch>\n</Directory>",
                settings("users")
            ),
            "",
            "pattern = '\\.txt(?:/|$)'",
        ),
    ] {
        let import = apache(&lines, htaccess);
        assert!(asks(&import, scope), "{lines} {htaccess}: {}", import.toml);
        assert!(import.notes.is_empty(), "{lines} {htaccess}: {:?}", import.notes);
    }
    let import = apache("", &format!("{}Require user max ann", settings("both")));
    assert_has(&import, "path = \"/deep\"\nauth_users");
    assert!(import.notes[0].reason.contains("added later"), "{:?}", import.notes);
    let import = apache("", &format!("{own}\nRequire ip 10.0.0.1"));
    assert_has(&import, "path = \"/deep\"\nallow = [\"10.0.0.1\"]\nauth_users");
    let import = apache(
        "",
        &format!(
            "{}<RequireAll>\nRequire valid-user\nRequire ip 10.0.0.1\n</RequireAll>",
            settings("users")
        ),
    );
    assert_has(&import, "path = \"/deep\"\nallow = [\"10.0.0.1\"]\ndeny = [\"all\"]");
    assert!(asks(&import, "path = \"/deep\"\nauth_users"), "{}", import.toml);
}

#[test]
fn passwords_of_apache_that_no_rule_asks_for_are_refused() {
    let own = format!("{}Require valid-user", settings("users"));
    for (lines, htaccess) in [
        ("", "Require valid-user".to_owned()),
        ("", format!("{}Require valid-user", settings("none"))),
        ("", format!("{}Require valid-user", settings("plain"))),
        ("", format!("{}Require user max", settings("both"))),
        ("", format!("{}Require group staff", settings("users"))),
        ("", format!("{own}\nAuthBasicProvider ldap")),
        ("", format!("{own}\nRequire ip 10.0.0.1\n<Limit GET>\nRequire valid-user\n</Limit>")),
        ("RemoteIPHeader X-Real-IP", format!("{own}\nRequire ip 10.0.0.1")),
        // What is around it may change whom it asks.
        ("<Directory $TOP>\nAuthBasicProvider dbm\n</Directory>", own.clone()),
        ("<Directory $TOP>\nAuthType Basic\nAuthUserFile others\n</Directory>", own.clone()),
        ("<Location /deep>\nAuthType Digest\n</Location>", own.clone()),
    ] {
        let import = apache(lines, &htaccess);
        assert!(refusals(&import) > 0, "{lines} {htaccess}: {:?}", import.notes);
        let rules = rules_of(&import, "path = \"/deep\"");
        let is_refused = rules.iter().any(|rule| rule.contains("deny = [\"all\"]"));
        assert!(is_refused, "{lines} {htaccess}: {}", import.toml);
    }
    // So may what is within it.
    let lines = format!("<Directory $TOP/site>\n{own}\n</Directory>");
    for htaccess in ["AuthUserFile others", "AuthBasicProvider ldap", "AuthType None"] {
        let import = apache(&lines, htaccess);
        assert_has(&import, "[[site.rule]]\ndeny = [\"all\"]");
        assert!(refusals(&import) > 0, "{htaccess}: {:?}", import.notes);
    }
    for htaccess in ["AuthName Other", "AuthUserFile users", "Require all granted"] {
        assert!(asks(&apache(&lines, htaccess), "Staff"), "{htaccess}");
    }
}

#[test]
fn files_of_users_lie_below_the_root_of_the_server() {
    let folder = with_users();
    fs::create_dir(folder.path().join("server")).unwrap();
    fs::write(folder.path().join("server/users"), USERS).unwrap();
    let own = format!("{}Require valid-user", settings("users"));
    let text = format!(
        "ServerRoot $TOP/server\nDocumentRoot $TOP/site\n<Location /a>\n{own}\n</Location>\n"
    );
    let import = imported(&folder, Language::Apache, &text).unwrap();
    assert_has(&import, "/server/users\"\n");
}

#[test]
fn the_folder_of_an_htaccess_may_be_behind_a_password() {
    let folder = with_users();
    let file = folder.path().join("site/.htaccess");
    let top = folder.path().display();
    let text = format!("{}Require valid-user\n", settings(&format!("{top}/users")));
    fs::write(&file, text).unwrap();
    let import = import(Language::Apache, &file, None, &System, Output::Text).unwrap();
    check(&folder, &import.toml).unwrap();
    assert!(asks(&import, "auth_realm = \"Staff\""), "{}", import.toml);
    assert!(import.notes.is_empty(), "{:?}", import.notes);
}

/// Imports a site of Caddy with these lines.
#[track_caller]
fn caddy(lines: &str, output: Output) -> Import {
    let folder = folder();
    let text = format!(
        "http://a.test {{\nroot * {}/site\nfile_server\n{lines}\n}}",
        folder.path().display()
    );
    let file = folder.path().join("Caddyfile");
    fs::write(&file, text).unwrap();
    let import = import(Language::Caddy, &file, None, &System, output).unwrap();
    check(&folder, &import.toml).unwrap();
    import
}

#[test]
fn passwords_of_caddy_become_files_beside_the_configuration() {
    let hash = USERS.trim().strip_prefix("max:").unwrap();
    let users = format!("{{\nmax {hash}\n}}");
    let rule = "auth_users = \".htpasswd-1\"\nauth_realm = ";
    for (lines, expected) in [
        (format!("basic_auth /a/* {users}"), format!("path = \"/a/*\"\n{rule}\"restricted\"")),
        (format!("basicauth {users}"), format!("[[site.rule]]\n{rule}")),
        (format!("basic_auth * bcrypt Staff {users}"), format!("{rule}\"Staff\"")),
        (
            format!("@x {{\npath /a/*\nnot remote_ip 10.0.0.0/8\n}}\nbasic_auth @x {users}"),
            format!("path = \"/a/*\"\nallow = [\"10.0.0.0/8\"]\n{rule}"),
        ),
        // The same users have one file.
        (
            format!("@x path /a/* /b/*\nbasic_auth @x {users}\nbasic_auth /c/* {users}"),
            format!("path = \"/b/*\"\n{rule}"),
        ),
    ] {
        let import = caddy(&lines, Output::Folder);
        assert_has(&import, &expected);
        assert_eq!(import.files, [(".htpasswd-1".to_owned(), USERS.to_owned())], "{lines}");
        assert!(import.notes.is_empty(), "{lines}: {:?}", import.notes);
        let import = caddy(&lines, Output::Text);
        assert!(import.files.is_empty() && refusals(&import) > 0, "{lines}: {:?}", import.notes);
        assert!(!import.toml.contains("auth_users"), "{lines}: {}", import.toml);
    }
}

#[test]
fn passwords_of_caddy_that_no_rule_asks_for_are_refused() {
    let hash = USERS.trim().strip_prefix("max:").unwrap();
    let users = format!("{{\nmax {hash}\n}}");
    for lines in [
        "basic_auth /a/*".to_owned(),
        "basic_auth /a/* {\nmax secret\n}".to_owned(),
        format!("basic_auth /a/* {{\nmax {hash} x\n}}"),
        format!("basic_auth /a/* {{\nmax {hash}\nmax {hash}\n}}"),
        format!("basic_auth /a/* {{\n{{x}} {hash}\n}}"),
        format!("basic_auth /a/* argon2id {users}"),
        format!("basic_auth /a/* bcrypt {{x}} {users}"),
        format!("@x {{\npath /a/*\nremote_ip 10.0.0.0/8\n}}\nbasic_auth @x {users}"),
        format!("@x {{\npath /a/*\nheader Host x\n}}\nbasic_auth @x {users}"),
        format!("@x {{\npath /a/*\nnot file\n}}\nbasic_auth @x {users}"),
    ] {
        let import = caddy(&lines, Output::Folder);
        assert_eq!(refusals(&import), 1, "{lines}: {:?}", import.notes);
        assert_has(&import, "path = \"/a/*\"\ndeny = [\"all\"]");
        assert!(import.files.is_empty(), "{lines}");
    }
}
