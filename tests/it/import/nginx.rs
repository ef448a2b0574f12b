//! nginx with php-fpm, beside Tokamak.

use std::path::Path;

use super::{Desk, differs, forwarded, same, status};
use crate::harness::{Connection, get, is_root};

/// Starts nginx with this `server` block, and Tokamak with what was imported from it.
#[track_caller]
pub(super) fn serve(desk: &mut Desk, server: &str, exit_status: i32) -> String {
    desk.start_fpm();
    let user = if is_root() { "user www-data;" } else { "" };
    let text = format!(
        "{user}\ndaemon off;\npid $TOP/nginx.pid;\nworker_processes 1;\nevents {{ }}\nhttp {{\n\
         include /etc/nginx/mime.types;\naccess_log off;\n\
         client_body_temp_path $TOP/body;\nfastcgi_temp_path $TOP/fastcgi;\n\
         proxy_temp_path $TOP/proxy;\nuwsgi_temp_path $TOP/uwsgi;\nscgi_temp_path $TOP/scgi;\n\
         {server}\n}}\n"
    );
    let file = desk.write("nginx.conf", &text);
    let (top, name) = (desk.path("").display().to_string(), file.display().to_string());
    let nginx = Path::new("/usr/sbin/nginx");
    desk.start(nginx, &["-p", &top, "-c", &name, "-e", "stderr"], &[]);
    desk.serve_imported("nginx", &file, exit_status)
}

#[test]
fn wordpress() {
    let files = [
        "index.php",
        "wp-login.php",
        "xmlrpc.php",
        "wp-admin/index.php",
        "wp-admin/css/admin.css",
        "wp-content/uploads/picture.png",
        "wp-content/uploads/evil.php",
        "readme.html",
        ".htaccess",
        "sub.dir/page.html",
    ];
    let mut desk = Desk::new(&files);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    location = /favicon.ico { log_not_found off; access_log off; }
    location ~ /\. { deny all; }
    location ~* /(?:uploads|files)/.*\.php$ { deny all; }
    location = /xmlrpc.php { deny all; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.php$ { include fastcgi.conf; fastcgi_pass unix:$SOCKET; }
    location ~* \.(js|css|png|jpg|ico)$ { expires max; log_not_found off; }
}";
    let server = server.replace("include fastcgi.conf", "include /etc/nginx/fastcgi.conf");
    // Missing files are in our error log.
    serve(&mut desk, &server, 3);
    desk.compare(&[
        status(200, "/"),
        status(200, "/?p=1"),
        status(200, "/2026/11/a-post/?a=b"),
        status(200, "/wp-login.php?x"),
        status(301, "/wp-admin"),
        status(200, "/wp-admin/"),
        status(200, "/wp-admin/css/admin.css"),
        status(404, "/wp-admin/css/none.css"),
        status(200, "/readme.html"),
        status(200, "/wp-content/uploads/picture.png"),
        status(403, "/wp-content/uploads/evil.php"),
        status(403, "//wp-content/./x/../uploads/evil%2ephp"),
        differs(200, 403, "/wp-content/uploads/evil.php/x"),
        status(403, "/.htaccess"),
        status(403, "/.git/config"),
        status(403, "/a/%2e./.env"),
        status(400, "/%2e/../.env"),
        status(403, "/xmlrpc.php"),
        differs(200, 403, "/xmlrpc.php/x"),
        status(404, "/none.php"),
        status(404, "/favicon.ico"),
        same("/index.php/x"),
        same("/index.php?a=b&c"),
        status(200, "/sub.dir/page.html"),
        status(200, "/readme.html/x"),
        status(400, "/%00"),
        status(400, "/../x"),
        // A folder without index file: the front controller is asked, nothing is listed.
        differs(403, 200, "/wp-content/"),
    ]);
}

#[test]
fn laravel() {
    let mut desk = Desk::new(&[
        "index.php",
        "robots.txt",
        "build/app.js",
        ".env",
        ".well-known/security.txt",
        "other.php",
    ]);
    let server = r#"server {
    listen $ADDRESS default_server;
    server_name site.test *.site.test;
    root "$TOP/site";
    add_header X-Frame-Options "SAMEORIGIN";
    add_header X-Content-Type-Options "nosniff" always;
    index index.php;
    charset utf-8;
    location / { try_files $uri $uri/ /index.php?$query_string; }
    location = /robots.txt { access_log off; log_not_found off; }
    location ~ ^/index\.php(/|$) {
        fastcgi_pass unix:$SOCKET;
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
        fastcgi_hide_header X-Powered-By;
    }
    location ~ /\.(?!well-known).* { deny all; }
}"#;
    let written = serve(&mut desk, server, 3);
    assert!(written.contains("always = true"), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/users/7?sort=name"),
        status(200, "/index.php?a"),
        status(200, "/robots.txt"),
        status(200, "/build/app.js"),
        status(200, "/.well-known/security.txt"),
        status(403, "/.env"),
        status(403, "/build/.env"),
        status(403, "/.%65nv"),
        status(403, "/.well"),
        // nginx sends its source.
        differs(200, 403, "/other.php"),
        // A folder without index file: nginx redirects, to a 403.
        differs(301, 200, "/build"),
    ]);
}

#[test]
fn mediawiki() {
    let mut desk = Desk::new(&[
        "index.php",
        "load.php",
        "api.php",
        "evil.php",
        "maintenance/run.php",
        "images/a.png",
        "images/deleted/b.png",
        "images/evil.php",
        "resources/a.js",
        "LocalSettings.txt",
    ]);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    location ~ ^/(index|load|api)\.php$ {
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
    location /images { location ~ \.php$ { deny all; } }
    location /images/deleted { deny all; }
    location ~ ^/(cache|includes|maintenance|languages|vendor)/ { deny all; }
    location ^~ /resources/ { expires 7d; }
    location = / { return 301 /wiki/Main_Page; }
    location /wiki/ { rewrite ^/wiki/(?<page>.*)$ /index.php; }
    location / { try_files $uri =404; }
}";
    let server = server.replace("(?<page>.*)", ".*");
    serve(&mut desk, &server, 0);
    desk.compare(&[
        status(301, "/"),
        status(200, "/wiki/Main_Page"),
        status(200, "/wiki/Test.php"),
        status(200, "/wiki/Foo.php/bar?action=edit"),
        status(200, "/load.php?modules=x"),
        status(200, "/api.php"),
        differs(200, 403, "/evil.php"),
        status(403, "/maintenance/run.php"),
        status(403, "//maintenance//run.php"),
        status(403, "/images/../maintenance/"),
        status(200, "/images/a.png"),
        status(403, "/images/deleted/b.png"),
        status(403, "/images/evil.php"),
        status(200, "/resources/a.js"),
        status(404, "/resources/none.js"),
        status(404, "/none"),
    ]);
}

#[test]
fn dokuwiki() {
    let mut desk = Desk::new(&[
        "doku.php",
        "lib/exe/fetch.php",
        "lib/exe/detail.php",
        "lib/tpl/a.css",
        "conf/users.auth.txt",
        "data/pages/a.txt",
        "install.php",
    ]);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index doku.php;
    client_max_body_size 15M;
    location ~ ^/lib.*\.(css|gif|png|ico|jpg)$ { expires 365d; }
    location / { try_files $uri $uri/ @dokuwiki; }
    location @dokuwiki {
        rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last;
        rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last;
        rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;
        rewrite ^/(.*) /doku.php?id=$1 last;
    }
    location ~ /(conf|bin|inc|vendor|data)/ { deny all; }
    location ~ /install\.php$ { return 404; }
    location ~ \.php$ {
        try_files $uri =404;
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
}";
    serve(&mut desk, server, 0);
    desk.compare(&[
        status(200, "/"),
        status(200, "/start?do=edit"),
        status(200, "/wiki/syntax"),
        status(200, "/_media/wiki/logo.png?w=100"),
        status(200, "/_detail/a"),
        status(200, "/_export/pdf/a/b"),
        status(200, "/doku.php?id=a"),
        status(200, "/lib/tpl/a.css"),
        status(403, "/conf/users.auth.txt"),
        status(403, "/CONF/../conf/users.auth.txt"),
        status(403, "/lib/..//data/pages/a.txt"),
        status(404, "/install.php"),
        status(404, "/%69nstall.php"),
    ]);
}

/// Lines of many public files that a list of scripts, or one rule, does not say.
#[test]
fn shapes_of_public_files() {
    let files = [
        "index.php",
        "tool.php",
        "deep/index.php",
        "page.phtml",
        "robots.txt",
        "notes.txt",
        "page.html",
        "style.css",
        "plain/a.css",
    ];
    let mut desk = Desk::new(&files);
    let server = r#"map $http_user_agent $is_robot { default 0; ~*(evil|bad)bot 1; }
server {
    listen $ADDRESS;
    server_name site.test;
    set $top $TOP;
    root $top/site;
    ssi on;
    set $is_wrong 0;
    if ($query_string ~ "union.*select") { set $is_wrong 1; }
    if ($is_wrong = 1) { return 403; }
    if ($is_robot) { return 403; }
    if (-f $document_root/maintenance) { return 503; }
    if ($request_uri ~* "^(.*/)index\.php/(.*)") { return 307 $1$2; }
    rewrite ^/(?!index|tool|deep)(.*)\.do$ /tool.php last;
    location = /robots.txt { allow all; }
    location ~* \.(txt|log)$ { deny all; }
    location ~ ^/plain/.*(?<!\.png)$ { add_header X-Plain yes; }
    location / { index index.php; try_files $uri $uri/ /index.php; }
    location /front { try_files _ /index.php?to=$uri&$args; }
    location ~* (index|tool)\.ph(p|tml)$ { $RUNS }
    location ~ \.php$ { return 404; }
}"#;
    let runs = "include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET;";
    serve(&mut desk, &server.replace("$RUNS", runs), 3);
    let robot = status(403, "/").with("User-Agent", "an EvilBot");
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page?x=1"),
        status(200, "/deep/"),
        status(200, "/tool.php?x=1"),
        status(404, "/other.php"),
        status(200, "/robots.txt"),
        status(403, "/notes.txt"),
        status(200, "/page.html"),
        status(200, "/style.css"),
        status(200, "/plain/a.css"),
        status(200, "/front/a?x=1"),
        status(200, "/a/b.do"),
        status(200, "/deep.do"),
        status(307, "/a/index.php/b?x=1"),
        status(403, "/?q=union+select"),
        robot,
    ]);
}

#[test]
fn bodies_are_limited_by_path() {
    let mut desk = Desk::new(&["index.php", "upload.php", "other.php"]);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    client_max_body_size 1k;
    send_timeout 20s;
    location / { try_files $uri $uri/ /index.php?$args; }
    location = /upload.php {
        client_max_body_size 10k;
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
    location ~ \.php$ {
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
}";
    let written = serve(&mut desk, server, 0);
    for part in ["[limits]\nbody = 1024", "body = 10240", "send = \"20s\""] {
        assert!(written.contains(part), "{written}");
    }
    desk.compare(&[
        status(200, "/page").sending(1000),
        status(413, "/page").sending(2000),
        status(413, "/index.php").sending(2000),
        status(200, "/upload.php").sending(10_240),
        status(413, "/upload.php").sending(10_241),
        status(413, "/other.php").sending(2000),
        status(200, "/other.php").sending(1024),
    ]);
}

#[test]
fn folders_that_lie_elsewhere_and_what_is_guarded() {
    let mut desk = Desk::new(&["index.html", "old.html", "staff/a.txt", "local/a.txt", "x.php"]);
    for (name, text) in [("tool/index.php", super::SCRIPT), ("tool/setup/a.php", super::SCRIPT)] {
        desk.write(name, text);
    }
    desk.write("tool/a.css", "a");
    desk.write("tool/.ht", "secret");
    let server = r#"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    rewrite ^/moved/(.*)$ /new/$1 permanent;
    location /old { return 302 /new?x=1; }
    location /tool/ {
        alias $TOP/tool/;
        index index.php;
        location ~ ^/tool/setup/ { deny all; }
        location ~ \.php$ {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $request_filename;
            fastcgi_pass unix:$SOCKET;
        }
    }
    location ~ /\.ht { deny all; }
    location /staff/ { auth_basic "Staff"; auth_basic_user_file $TOP/none; }
    location /local/ { allow 127.0.0.0/8; deny all; }
    location /elsewhere/ { allow 192.0.2.0/24; deny all; }
    location /app { proxy_pass http://127.0.0.1:1; }
    location = /health { return 200 "good"; }
}"#;
    let written = serve(&mut desk, server, 3);
    assert!(written.contains("REFUSED: `auth_basic Staff`"), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/local/a.txt"),
        status(403, "/elsewhere/a"),
        differs(401, 403, "/staff/a.txt"),
        differs(401, 403, "/%73taff//a.txt"),
        status(502, "/app"),
        // What only begins with the path of a route.
        differs(502, 404, "/application"),
        differs(200, 404, "/health"),
        status(301, "/moved/a%20b?c=d"),
        status(302, "/old"),
        status(302, "/old/a?b"),
        // nginx has nothing of that name; here it is redirected to the folder.
        differs(404, 301, "/tool"),
        status(200, "/tool/"),
        status(200, "/tool/index.php?a=b"),
        status(200, "/tool/a.css"),
        status(403, "/tool/setup/a.php"),
        status(403, "/tool/x/../setup/a.php"),
        status(403, "/tool/.ht"),
        status(404, "/none"),
        // nginx sends the source of scripts that no location runs.
        differs(200, 403, "/x.php"),
    ]);
}

#[test]
fn passwords() {
    let mut desk = Desk::new(&[
        "index.php",
        "login.php",
        "staff/a.txt",
        "staff/a.php",
        "staff/index.php",
        "office/a.txt",
        "away/a.txt",
        "both/a.txt",
        "here/a.txt",
        "mixed/a.txt",
        "mixed/off/a.txt",
        "mixed/all/a.txt",
    ]);
    desk.write("users", super::USERS);
    let server = r#"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    auth_basic_user_file $TOP/users;
    location ^~ /staff/ { auth_basic "Staff"; location ~ \.php$ { PHP } }
    location = /login.php { auth_basic "Login"; PHP }
    location /office/ { satisfy any; allow 127.0.0.0/8; deny all; auth_basic "Office"; }
    location /away/ { satisfy any; allow 192.0.2.0/24; deny all; auth_basic "Away"; }
    location /mixed/ {
        satisfy any;
        allow 192.0.2.0/24;
        deny all;
        auth_basic "Mixed";
        location /mixed/off/ { auth_basic off; }
        location /mixed/all/ { satisfy all; allow 127.0.0.0/8; deny all; }
    }
    location /both/ { allow 192.0.2.0/24; deny all; auth_basic "Both"; }
    location /here/ { allow 127.0.0.0/8; deny all; auth_basic "Here"; }
    location ^~ /none/ { auth_basic "None"; auth_basic_user_file $TOP/none; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.php$ { PHP }
}"#;
    let php = "include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET;";
    let written = serve(&mut desk, &server.replace("PHP }", &format!("{php} }}")), 3);
    assert!(written.contains("REFUSED: `auth_basic None`"), "{written}");
    let wrong = |row: super::Row| row.with("Authorization", "Basic bWF4Om9wZW4gc2VzYW1");
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page"),
        status(401, "/staff/a.txt"),
        status(401, "//staff/./x/../a%2etxt"),
        status(401, "/staff/a.php"),
        status(401, "/staff/"),
        status(401, "/staff/none"),
        status(401, "/login.php"),
        // Here a password is also that of what is below a path.
        differs(200, 401, "/login.php/x"),
        wrong(status(401, "/staff/a.txt")),
        status(200, "/staff/a.txt").by_max(),
        status(200, "/staff/a.php?a=b").by_max(),
        status(200, "/staff/").by_max(),
        status(404, "/staff/none").by_max(),
        status(200, "/login.php?a").by_max(),
        status(200, "/office/a.txt"),
        wrong(status(200, "/office/a.txt")),
        status(401, "/away/a.txt"),
        status(200, "/away/a.txt").by_max(),
        status(401, "/mixed/a.txt"),
        status(200, "/mixed/a.txt").by_max(),
        // Within it the address alone is asked for, and both.
        status(403, "/mixed/off/a.txt"),
        status(403, "/mixed/off/a.txt").by_max(),
        status(401, "/mixed/all/a.txt"),
        status(200, "/mixed/all/a.txt").by_max(),
        status(403, "/both/a.txt"),
        status(403, "/both/a.txt").by_max(),
        status(401, "/here/a.txt"),
        status(200, "/here/a.txt").by_max(),
        differs(401, 403, "/none/a.txt"),
        status(403, "/none/a.txt").by_max(),
    ]);
}

#[test]
fn a_password_for_the_whole_site_and_one_for_its_scripts() {
    let mut desk = Desk::new(&["index.php", "a.php", "a.txt", "open/a.txt", "404.html"]);
    desk.write("users", super::USERS);
    desk.write("tool/a.txt", "a");
    let server = r#"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    auth_basic "Staff";
    auth_basic_user_file $TOP/users;
    error_page 404 /404.html;
    location /tool/ { alias $TOP/tool/; }
    location /open/ { auth_basic off; }
    location ~ \.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET; }
}
server {
    listen $ADDRESS;
    server_name scripts.test;
    root $TOP/site;
    index index.php;
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.php$ {
        auth_basic "Scripts";
        auth_basic_user_file $TOP/users;
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
}"#;
    let written = serve(&mut desk, server, 3);
    assert!(written.contains("differs: `auth_basic off`"), "{written}");
    let scripts = |row: super::Row| super::Row { host: "scripts.test", ..row };
    desk.compare(&[
        status(401, "/a.txt"),
        status(401, "/a.php"),
        status(401, "/none"),
        status(401, "/tool/a.txt"),
        status(200, "/a.txt").by_max(),
        status(200, "/a.php").by_max(),
        status(404, "/none").by_max(),
        status(200, "/tool/a.txt").by_max(),
        differs(200, 401, "/open/a.txt"),
        scripts(status(200, "/a.txt")),
        // Whatever leads to a script is behind its password.
        scripts(status(401, "/a.php")),
        scripts(status(401, "/")),
        scripts(status(401, "/some/page")),
        scripts(status(200, "/").by_max()),
        scripts(status(200, "/some/page?a=b").by_max()),
    ]);
}

#[test]
fn limits_of_clients() {
    let mut desk = Desk::new(&["index.php", "login.php", "a.txt", "slow/a.txt", "open/a.txt"]);
    let server = r"limit_req_zone $binary_remote_addr zone=login:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
limit_conn_zone $binary_remote_addr zone=many:1m;
limit_req_status 429;
server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    limit_conn many 20;
    limit_conn_status 429;
    location = /login.php {
        limit_req zone=login burst=2 nodelay;
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
    location ^~ /slow/ { limit_req zone=slow; limit_req_status 503; }
    location ^~ /open/ { limit_req zone=slow burst=5; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET; }
}";
    let written = serve(&mut desk, server, 3);
    for part in ["left out: `limit_req zone=slow burst=5`", "429 with `Retry-After`, not 503"] {
        assert!(written.replace("\n#  ", "").contains(part), "no {part} in {written}");
    }
    desk.compare(&[
        status(200, "/login.php"),
        status(200, "//login.php?a"),
        status(200, "/login.php"),
        status(429, "/login.php"),
        status(429, "/%6cogin.php"),
        status(200, "/a.txt"),
        status(200, "/some/page"),
        status(200, "/slow/a.txt"),
        differs(503, 429, "/slow/a.txt"),
    ]);
}

#[test]
fn clients_behind_proxies() {
    let mut desk = Desk::new(&["office/a.txt", "all/a.txt"]);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    set_real_ip_from 127.0.0.1;
    set_real_ip_from 10.0.0.0/8;
    real_ip_header X-Forwarded-For;
    real_ip_recursive on;
    location /office/ { allow 192.0.2.0/24; deny all; }
}";
    serve(&mut desk, server, 0);
    forwarded(&desk);
}

#[test]
fn debians_own_site_and_configuration_are_read() {
    let desk = Desk::new(&[]);
    for file in ["/etc/nginx/sites-available/default", "/etc/nginx/nginx.conf"] {
        let _ = std::fs::remove_file(desk.path("tokamak.toml"));
        let output = desk.import("nginx", Path::new(file));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = output.status.code();
        assert!(matches!(status, Some(0 | 3)), "{file}: {said}");
        assert!(!said.contains("REFUSED"), "{file}: {said}");
    }
}

#[test]
fn folders_are_listed_where_they_were() {
    let files = [
        "index.php",
        "downloads/a.txt",
        "downloads/a/b.txt",
        "downloads/closed/a.txt",
        "downloads/private/a.txt",
        "downloads/index/index.html",
        "downloads/.hidden/a.txt",
        "open/in/deep/a.txt",
        "open/a.txt",
        "other/a.txt",
    ];
    let mut desk = Desk::new(&files);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php index.html;
    location / { try_files $uri $uri/ =404; }
    location /downloads/ { autoindex on; }
    location /downloads/closed/ { expires 1h; }
    location ~ /private/ { expires 1h; }
    location /open/ {
        autoindex on;
        autoindex_exact_size off;
        location /open/in/ { autoindex off; }
        location ~ \.txt$ { expires 1h; }
    }
    location ~ \.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET; }
}";
    serve(&mut desk, server, 0);
    desk.compare(&[
        status(200, "/"),
        status(301, "/downloads"),
        differs(200, 200, "/downloads/"),
        status(301, "/downloads/a"),
        differs(200, 200, "/downloads/a/"),
        status(200, "/downloads/a/b.txt"),
        status(200, "/downloads/index/"),
        status(403, "/downloads/closed/"),
        status(403, "/downloads/private/"),
        status(404, "/downloads/none/"),
        differs(200, 404, "/downloads/.hidden/"),
        differs(200, 200, "/open/"),
        status(403, "/open/in/"),
        status(403, "/open/in/deep/"),
        status(200, "/open/in/deep/a.txt"),
        status(403, "/other/"),
    ]);
}

#[test]
fn error_pages_replace_those_of_scripts() {
    let mut desk = Desk::new(&["index.php", "404.html", "401.html"]);
    let script = "<?php\nheader('WWW-Authenticate: Bearer');\nheader('Set-Cookie: a=b');\n\
        http_response_code((int) $_GET['status']);\necho 'its own page';\n";
    desk.write("site/fail.php", script);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    error_page 401 /401.html;
    error_page 404 /404.html;
    location / { try_files $uri $uri/ =404; }
    location ~ \.php$ {
        try_files $uri =404;
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
        fastcgi_intercept_errors on;
    }
}";
    serve(&mut desk, server, 0);
    for (target, body, cookie, challenge) in [
        ("/fail.php?status=404", "404.html", None, None),
        ("/fail.php?status=401", "401.html", None, Some("Bearer")),
        ("/fail.php?status=500", "its own page", Some("a=b"), Some("Bearer")),
        ("/none.php", "404.html", None, None),
    ] {
        for address in [desk.theirs, desk.ours] {
            let request = get(target).header("Host", "site.test");
            let response = Connection::open(address).exchange(&request);
            assert_eq!(response.text(), body, "{target} {address}: {response}");
            assert_eq!(response.header("set-cookie"), cookie, "{target} {address}");
            // nginx keeps it with 401 alone; here it stays wherever an application sends it.
            if response.status() != 404 {
                assert_eq!(response.header("www-authenticate"), challenge, "{target} {address}");
            }
        }
    }
}

/// The headers of a location are for what it answers in the end, and for nothing else.
#[test]
fn headers_are_those_of_the_location_that_answers() {
    let mut desk = Desk::new(&[
        "index.php",
        "other.php",
        "about.html",
        "a.txt",
        "img/p.png",
        "admin/index.php",
        "admin/logo.png",
        "open/x.png",
    ]);
    desk.write("users", super::USERS);
    let fastcgi = "include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET;";
    let server = r#"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    add_header X-Of site;
    location / { try_files $uri $uri/ /index.php$is_args$args; }
    location ^~ /admin/ {
        auth_basic staff;
        auth_basic_user_file $TOP/users;
        try_files $uri /admin/index.php$is_args$args;
        location ~ \.php$ { add_header Cache-Control no-store; FASTCGI }
    }
    location ^~ /open/ { location ~ \.png$ { add_header X-Of open; add_header X-Of twice; } }
    location ~* \.(png|css)$ {
        try_files $uri /index.php$is_args$args;
        expires 1y;
        add_header Cache-Control public;
    }
    location = /about.html { add_header X-Of about; }
    location ~ ^/index\.php(/|$) { add_header X-Of script; add_header X-Frame-Options DENY; FASTCGI }
    location ~ \.php$ { return 404; }
}"#;
    serve(&mut desk, &server.replace("FASTCGI", fastcgi), 0);
    let mut rows: Vec<_> = [
        "/",
        "/account",
        "/private/photo.png",
        "/sitemap.css?x=1",
        "/img/p.png",
        "/about.html",
        "/a.txt",
        "/open/x.png",
        "/index.php",
        "/index.php/account",
    ]
    .map(same)
    .into();
    for target in ["/admin/", "/admin/pay.png", "/admin/logo.png", "/admin/index.php"] {
        rows.push(same(target).by_max());
    }
    desk.compare_fields(rows);
    desk.compare(&[
        status(200, "/account?a=b"),
        status(200, "/private/photo.png"),
        status(200, "/admin/pay.png").by_max(),
        status(401, "/admin/pay.png"),
        status(404, "/other.php"),
    ]);
}
