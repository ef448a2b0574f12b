//! Apache's `ProxyPass` beside PHP, files and sections: the service is asked for the same.

use super::serve;
use crate::import::proxies::{start_service, with_fields};
use crate::import::{Desk, differs, status};

/// What services behind Apache say of their requests.
const TOLD: &str =
    "host=$http_host for=$http_x_forwarded_for cookie=$http_cookie me=$http_x_me user=$http_x_user";

/// A site with these lines.
fn site(lines: &str) -> String {
    format!(
        "<VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
         DirectoryIndex index.php index.html\n<Directory $TOP/site>\n  AllowOverride All\n  \
         Require all granted\n</Directory>\n{lines}\n</VirtualHost>"
    )
}

#[test]
fn services_beside_php() {
    let files = [
        "index.php",
        "a.txt",
        "api/secret.txt",
        "apix.txt",
        "notes.bak",
        "app/files/b.txt",
        "match/a.txt",
    ];
    let mut desk = Desk::new(&files);
    let service = start_service(&mut desk, TOLD);
    desk.write(
        "site/.htaccess",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n\
         Redirect 301 /moved /index.php\n",
    );
    let lines = r#"ProxyTimeout 20
RequestHeader set X-Me server
RequestHeader unset X-User
Redirect /api/old http://site.test/new
<Files "*.bak">
  Require all denied
</Files>
ProxyPass /app/files !
ProxyPass /app http://SERVICE/app timeout=30 connectiontimeout=500ms retry=0
ProxyPass /app/later http://SERVICE/later
ProxyPass /api/ http://SERVICE/base/
ProxyPassReverse /api/ http://SERVICE/base/
ProxyPassMatch ^/match/(.*)$ http://SERVICE/x/$1
ProxyPassMatch ^/v[0-9]+/(.*)$ http://SERVICE/v/$1
ProxyPass /socket unix:$TOP/service.sock|http://localhost/s
ProxyPass /pool balancer://pool/p
<Proxy balancer://pool>
  BalancerMember http://SERVICE loadfactor=2
  BalancerMember http://127.0.0.1:1 status=D
  ProxySet lbmethod=byrequests
</Proxy>
<Location /in>
  ProxyPass http://SERVICE/in
  ProxyPreserveHost On
  RequestHeader set X-User in
  Header set X-Answer in
</Location>
<Location /api/closed>
  Require all denied
</Location>
RewriteEngine On
RewriteRule ^/rw/(.*)$ http://SERVICE/rewritten/$1 [P,L]
RewriteRule ^/to/(.*)$ /api/$1 [PT]"#;
    let written = serve(&mut desk, &site(&lines.replace("SERVICE", &service)), 3);
    for part in [
        "read_timeout = \"30s\"",
        "read_timeout = \"20s\"",
        "connect_timeout = \"500ms\"",
        "REFUSED: `proxypassmatch ^/v[0-9]+/(.*)$",
        "left out: `proxypass /app/later",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }
    desk.compare(&[
        status(200, "/"),
        status(200, "/a.txt"),
        status(200, "/some/page?x=y"),
        status(403, "/notes.bak"),
        status(301, "/moved"),
        status(200, "/api/"),
        status(200, "/api/users?page=2&a=%20b"),
        status(200, "/api/a.php/b"),
        status(200, "/api/notes.bak"),
        status(200, "/api/secret.txt"),
        status(200, "/api/old"),
        status(200, "//api//users"),
        status(403, "/api/closed/a"),
        status(403, "/api/x/../closed"),
        with_fields(status(200, "/api/users")),
        status(200, "/api/users").sending(2000),
        status(200, "/apix.txt"),
        status(200, "/API/secret.txt/../../a.txt"),
        status(200, "/app"),
        status(200, "/app/users"),
        status(200, "/app/later"),
        status(200, "/app/files/b.txt"),
        status(200, "/appx"),
        status(200, "/match/a.txt"),
        with_fields(status(200, "/in/x")),
        status(200, "/socket/a?b"),
        status(200, "/pool/a"),
        status(200, "/rw/a/b?c"),
        status(200, "/to/x?y=z"),
        // A route has the path without its slash, too, and an expression is refused.
        differs(301, 404, "/api"),
        differs(200, 404, "/v1/users"),
    ]);
    desk.compare_fields(vec![status(200, "/in/x"), status(200, "/api/x")]);
}

#[test]
fn a_service_is_all_of_a_site_but_for_some_files() {
    let files = ["index.php", "robots.txt", "static/a.css", "secret.txt", "static/no/a.txt"];
    let mut desk = Desk::new(&files);
    desk.write("media/m.txt", "media");
    let service = start_service(&mut desk, TOLD);
    let lines = r#"Alias /media $TOP/media
<Directory $TOP/media>
  Require all granted
</Directory>
ProxyPreserveHost On
ProxyPass /static/no http://SERVICE/no
ProxyPass /static !
ProxyPass /media/ !
ProxyPassMatch ^/robots\.txt(/|$) !
ProxyPass / http://SERVICE/
ProxyPassReverse / http://SERVICE/
<Proxy *>
  Order deny,allow
  Allow from all
</Proxy>
<Location />
  RequestHeader set X-Me server
</Location>"#;
    serve(&mut desk, &site(&lines.replace("SERVICE", &service)), 0);
    desk.compare(&[
        status(200, "/"),
        status(200, "/index.php?x"),
        status(200, "/secret.txt"),
        status(200, "/a/b/"),
        with_fields(status(200, "/no/user")),
        status(200, "/robots.txt"),
        status(200, "/static/a.css"),
        status(404, "/static/none"),
        status(200, "/static/no/a.txt"),
        status(200, "/media/m.txt"),
        status(404, "/media/none"),
    ]);
}

#[test]
fn only_some_may_ask_a_service() {
    let mut desk = Desk::new(&["index.html", "closed/a.txt"]);
    let service = start_service(&mut desk, TOLD);
    let lines = r#"ProxyPass /app http://SERVICE/app
ProxyPass /open http://SERVICE/open
<Proxy http://SERVICE/app*>
  Require ip 192.0.2.0/24
</Proxy>
<Directory $TOP/site>
  Require all denied
</Directory>"#;
    serve(&mut desk, &site(&lines.replace("SERVICE", &service)), 0);
    desk.compare(&[
        status(403, "/index.html"),
        status(403, "/closed/a.txt"),
        status(403, "/app/x"),
        status(200, "/open/x"),
    ]);
}

#[test]
fn a_folder_leads_to_a_service_what_is_no_file() {
    let mut desk = Desk::new(&["a.txt", "folder/index.html", "closed/a.txt"]);
    let service = start_service(&mut desk, TOLD);
    desk.write("site/closed/.htaccess", "Require all denied\n");
    let rewrite = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)$ http://SERVICE/$1 [P,L]\n";
    desk.write("site/.htaccess", &rewrite.replace("SERVICE", &service));
    serve(&mut desk, &site("ProxyPreserveHost On"), 0);
    desk.compare(&[
        status(200, "/a.txt"),
        status(200, "/folder/index.html"),
        // Apache asks the service for `index.php`, the first name of `DirectoryIndex`.
        differs(200, 200, "/folder/"),
        status(200, "/none/x?a=b"),
        status(403, "/closed/a.txt"),
        status(403, "/closed/none"),
    ]);
}

#[test]
fn a_site_without_documents_is_a_service() {
    let mut desk = Desk::new(&["index.html"]);
    let service = start_service(&mut desk, TOLD);
    let lines = "<VirtualHost $ADDRESS>\nServerName site.test\nProxyPreserveHost On\n\
        ProxyPass /app http://SERVICE\n</VirtualHost>";
    let written = serve(&mut desk, &lines.replace("SERVICE", &service), 0);
    assert!(written.contains("mode = \"fastcgi\""), "{written}");
    desk.compare(&[
        status(200, "/app"),
        status(200, "/app/x/y?z"),
        differs(403, 404, "/index.html"),
    ]);
}
