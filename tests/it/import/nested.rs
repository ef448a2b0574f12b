//! nginx's locations within locations, with names, and beside folders that lie elsewhere.

use super::nginx::serve;
use super::{Desk, Row, differs, status};

#[test]
fn an_application_with_paths_behind_its_scripts() {
    let files = [
        "index.php",
        "dav.php",
        "old/entry.php",
        "theme/a.css",
        ".well-known/acme/token",
        "data/secret.txt",
    ];
    let mut desk = Desk::new(&files);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    location ^~ /.well-known {
        location = /.well-known/dav { return 301 /dav.php/; }
        location /.well-known/acme { try_files $uri =404; }
        return 301 /index.php/known;
    }
    location ~ ^/(?:data|\.git)(?:$|/) { return 404; }
    location ~ \.php(?:$|/) {
        fastcgi_split_path_info ^(.+?\.php)(/.*)$;
        set $behind $fastcgi_path_info;
        try_files $fastcgi_script_name =404;
        include /etc/nginx/fastcgi.conf;
        fastcgi_param PATH_INFO $behind;
        fastcgi_pass unix:$SOCKET;
    }
    location ~ \.css$ { try_files $uri @front; }
    location / { try_files $uri $uri/ @front; }
    location @front { rewrite ^/(.*)$ /index.php/$1 last; }
}";
    serve(&mut desk, server, 0);
    desk.compare(&[
        status(200, "/"),
        status(200, "/index.php/a/b?c=d"),
        status(200, "/dav.php/files/"),
        status(404, "/none.php/files/"),
        status(200, "/some/page?a=b"),
        status(200, "/old/entry.php"),
        status(404, "/old/none.php"),
        status(200, "/theme/a.css"),
        status(200, "/theme/none.css"),
        status(301, "/.well-known/dav"),
        status(301, "/.well-known/other"),
        status(200, "/.well-known/acme/token"),
        status(404, "/.well-known/acme/none"),
        status(404, "/data/secret.txt"),
        status(404, "/data/none"),
    ]);
}

#[test]
fn a_folder_that_lies_elsewhere_beside_refusals_and_rewrites() {
    let files = ["index.php", "app/a.txt", "pictures/a.txt", "picsx", "app/index.php"];
    let mut desk = Desk::new(&files);
    for file in ["a.txt", "vendor/b.txt", "README"] {
        desk.write(&format!("elsewhere/{file}"), file);
    }
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    location /pics { alias $TOP/elsewhere; }
    location ~ /(vendor|README) { deny all; }
    location ~ ^/(?:app|bin)(?:$|/) { return 404; }
    location ~ \.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET; }
    rewrite ^/old/(.*)$ /pics/$1 last;
}";
    serve(&mut desk, server, 3);
    desk.compare(&[
        status(200, "/pics/a.txt"),
        status(403, "/pics/vendor/b.txt"),
        status(403, "/pics/README"),
        status(404, "/pics/none"),
        status(404, "/app/a.txt"),
        status(200, "/pictures/a.txt"),
        // nginx looks for it beside the folder.
        status(404, "/picsx"),
        // No rewrite leads there, and a note says so.
        differs(200, 404, "/old/a.txt"),
    ]);
}

#[test]
fn a_script_that_groups_of_the_expression_name() {
    let files = ["index.php", "pages/one.php", "upload/evil.php", "upload/a.png"];
    for (expression, file, info) in [
        (r"^(?<script>/.+\.php)(?<info>/.*)?$", "$script", "$info"),
        (r"^(.+?\.php)(/.*)?$", "$1", "$2"),
    ] {
        let mut desk = Desk::new(&files);
        let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    location / {
        try_files $uri $uri/ /index.php?$args;
        location ~ ^/upload/.*\.php { deny all; }
        location ~ EXPRESSION {
            try_files @NAMED@ =404;
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root@NAMED@;
            fastcgi_param SCRIPT_NAME @NAMED@;
            fastcgi_param PATH_INFO @BEHIND@;
            fastcgi_pass unix:$SOCKET;
        }
    }
}";
        let server = server.replace("EXPRESSION", expression);
        serve(&mut desk, &server.replace("@NAMED@", file).replace("@BEHIND@", info), 0);
        desk.compare(&[
            status(200, "/"),
            status(200, "/some/page?a=b"),
            status(200, "/index.php/a/b?c=d"),
            status(200, "/pages/one.php"),
            status(200, "/pages/one.php/more"),
            status(404, "/pages/none.php"),
            status(404, "/pages/none.php/more"),
            status(403, "/upload/evil.php"),
            status(403, "/upload/evil.php/more.png"),
            status(200, "/upload/a.png"),
        ]);
    }
}

#[test]
fn expressions_within_that_of_scripts_and_fields_of_nested_locations() {
    let files = [
        "index.php",
        "admin/index.php",
        "admin/a.css",
        "files/evil.php",
        "page.html",
        "deep/page.html",
        "blog/index.php",
        "blog/a.png",
        "blog/admin/a.png",
        "blog/admin/a.css",
        "a.png",
    ];
    let mut desk = Desk::new(&files);
    desk.write("users", super::USERS);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    add_header X-Site yes;
    if ($arg_debug) { return 404; }
    if ($cookie_robot = yes) { return 403; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.html$ { expires 1h; location ~ ^/deep/ { add_header X-Deep yes; } }
    location /blog/ {
        try_files $uri $uri/ /blog/index.php?$args;
        location /blog/admin/ { add_header X-Admin yes; }
        location ~ \.png$ { expires 1d; }
    }
    location ~ \.png$ { expires 7d; add_header Cache-Control public; }
    location ~ \.php$ {
        location ~ ^/admin/ {
            auth_basic office;
            auth_basic_user_file $TOP/users;
            include /etc/nginx/fastcgi.conf;
            fastcgi_pass unix:$SOCKET;
        }
        location ~ ^/(?:files|uploads)/ { deny all; }
        include /etc/nginx/fastcgi.conf;
        fastcgi_pass unix:$SOCKET;
    }
}";
    serve(&mut desk, server, 0);
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page?debug=0"),
        status(404, "/some/page?a=b&debug=1"),
        status(403, "/page.html").with("Cookie", "a=b; robot=yes"),
        status(200, "/page.html").with("Cookie", "a=b; robot=no"),
        status(401, "/admin/"),
        status(200, "/admin/").by_max(),
        status(401, "/admin/index.php"),
        status(200, "/admin/a.css"),
        status(403, "/files/evil.php"),
        status(200, "/blog/post"),
    ]);
    desk.compare_fields(vec![
        status(200, "/page.html"),
        status(200, "/deep/page.html"),
        status(200, "/blog/a.png"),
        status(200, "/blog/admin/a.png"),
        status(200, "/blog/admin/a.css"),
        status(200, "/a.png"),
        status(200, "/blog/post"),
        status(200, "/some/page"),
    ]);
}

#[test]
fn what_follows_a_script_where_another_one_answers_for_those_that_are_missing() {
    let mut desk = Desk::new(&["index.php", "pages/one.php"]);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    error_page 404 = /index.php;
    fastcgi_intercept_errors on;
    location / { try_files $uri /index.php; }
    location ~ ^(?<script>/.+?\.php)(?<info>/.*)?$ {
        try_files $script =404;
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$script;
        fastcgi_param SCRIPT_NAME $script;
        fastcgi_param PATH_INFO $info;
        fastcgi_pass unix:$SOCKET;
    }
}";
    serve(&mut desk, server, 0);
    desk.compare(&[
        status(200, "/pages/one.php"),
        status(200, "/pages/one.php/"),
        status(200, "/pages/one.php/more/yet"),
        status(200, "/pages/none.php"),
        status(200, "/none"),
    ]);
}

#[test]
fn names_of_a_site_that_a_condition_moves() {
    let files = ["index.php", "a.css"];
    for condition in [
        "if ($host != 'site.test') { rewrite ^/(.*)$ http://site.test/$1 permanent; }",
        "if ($host ~* ^www\\.(.*)$) { set $name $1; rewrite ^(.*)$ http://$name$1 permanent; }",
        "if ($host ~ ^www\\.(.+)$) { return 301 http://$1$request_uri; }",
    ] {
        let mut desk = Desk::new(&files);
        let server = r"server {
    listen $ADDRESS;
    server_name site.test www.site.test;
    root $TOP/site;
    index index.php;
    CONDITION
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET; }
}"
        .replace("CONDITION", condition);
        serve(&mut desk, &server, 0);
        let by_www = |row: Row| Row { host: "www.site.test", ..row };
        desk.compare(&[
            status(200, "/"),
            status(200, "/some/page?a=b"),
            status(200, "/a.css"),
            by_www(status(301, "/")),
            by_www(status(301, "/some/page?a=b")),
        ]);
    }
}
