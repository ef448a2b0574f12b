//! nginx's `proxy_pass` beside PHP, files and other locations: the service is asked for the same.

use std::path::Path;

use super::nginx::serve;
use super::{Desk, Row, differs, same, status};
use crate::harness::{Process, eventually, free_address};

/// What services behind nginx say of their requests.
const TOLD: &str = "host=$http_host for=$http_x_forwarded_for real=$http_x_real_ip \
    cookie=$http_cookie me=$http_x_me user=$http_x_user";

/// Starts a service, which is an nginx that says what it is asked for, and what of it is `told`;
/// gives its address. It listens on `service.sock`, too.
pub(super) fn start_service(desk: &mut Desk, told: &str) -> String {
    let address = free_address();
    let text = format!(
        "daemon off;\npid $TOP/service.pid;\nworker_processes 1;\nevents {{ }}\nhttp {{\n\
         access_log off;\nclient_body_temp_path $TOP/sbody;\nfastcgi_temp_path $TOP/sfastcgi;\n\
         proxy_temp_path $TOP/sproxy;\nuwsgi_temp_path $TOP/suwsgi;\n\
         scgi_temp_path $TOP/sscgi;\nserver {{ listen {address}; \
         listen unix:$TOP/service.sock; merge_slashes off;\n\
         location / {{ return 200 'service $request_method $request_uri {told}\\n'; }} }}\n}}\n"
    );
    let file = desk.write("service.conf", &text);
    let (top, name) = (desk.path("").display().to_string(), file.display().to_string());
    desk.start(Path::new("/usr/sbin/nginx"), &["-p", &top, "-c", &name, "-e", "stderr"], &[]);
    let listens = || {
        let ended = desk.processes.iter_mut().find_map(Process::ended);
        assert!(ended.is_none(), "{ended:?}: {}", desk.log());
        std::net::TcpStream::connect(address).ok().map(drop)
    };
    eventually(std::time::Duration::from_secs(20), listens).expect("the service listens");
    address.to_string()
}

/// A request with fields that a client makes up.
pub(super) fn with_fields(row: Row) -> Row {
    row.with("Cookie", "a=b").with("X-Me", "client").with("X-User", "root")
}

#[test]
fn services_beside_php() {
    let files =
        ["index.php", "other.php", "a.txt", "api/secret.txt", "apix.txt", "app/files/b.txt"];
    let mut desk = Desk::new(&files);
    let service = start_service(&mut desk, TOLD);
    let server = r"upstream app { server SERVICE; keepalive 4; }
server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    index index.php;
    proxy_set_header Host $host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $remote_addr;
    location / { try_files $uri $uri/ /index.php?$args; }
    location ^~ /api/ { proxy_pass http://app; proxy_http_version 1.1; }
    location ^~ /base/ { proxy_pass http://app/other/; }
    location ^~ /app/ {
        proxy_set_header Host app.example;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header Cookie '';
        proxy_set_header X-Me server;
        proxy_pass http://app;
    }
    location ^~ /app/files/ { try_files $uri =404; }
    location ^~ /app/closed/ { allow 192.0.2.0/24; deny all; proxy_pass http://app; }
    location ^~ /open/ {
        rewrite ^/open/(.*)$ /taken/$1 break;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_pass http://SERVICE;
    }
    location ~ ^/v[0-9]/ { proxy_pass http://app; }
    location ~ \.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET; }
}";
    let written = serve(&mut desk, &server.replace("SERVICE", &service), 3);
    assert!(!written.contains("mode ="), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/a.txt"),
        status(200, "/some/page?x=y"),
        status(200, "/other.php?x"),
        status(404, "/none.php"),
        status(200, "/api/"),
        status(200, "/api/users?page=2&a=%20b"),
        status(200, "/api/a.php"),
        status(200, "/api/a.php/b"),
        status(200, "/api/secret.txt"),
        status(200, "/api/%7euser"),
        with_fields(status(200, "/api/users")),
        status(200, "/api/users").sending(2000),
        status(301, "/api"),
        status(301, "/api?a=b"),
        status(200, "/apix.txt"),
        status(200, "/base/a/b?c"),
        status(200, "/base/"),
        with_fields(status(200, "/app/users")),
        status(200, "/app/files/b.txt"),
        status(404, "/app/files/none"),
        status(403, "/app/closed/a"),
        status(403, "/app/x/../closed/a"),
        status(200, "/open/a/b?c"),
        same("/openx"),
        // An expression is refused, and so is the name of the folder alone.
        differs(200, 404, "/v1/users"),
    ]);
}

#[test]
fn a_service_is_all_of_a_site_but_for_some_files() {
    let files =
        ["index.php", "robots.txt", "static/a.css", "static/a.php", "secret.txt", "pics/a.png"];
    let mut desk = Desk::new(&files);
    desk.write("media/m.txt", "media");
    let service = start_service(&mut desk, TOLD);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    location / {
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-User $remote_user;
        proxy_pass http://SERVICE;
    }
    location /static/ { expires 1h; }
    location = /robots.txt { }
    location /media/ { alias $TOP/media/; }
    location ~ /\.ht { deny all; }
    location ~ \.png$ { expires 1h; }
}";
    let written = serve(&mut desk, &server.replace("SERVICE", &service), 3);
    assert!(written.contains("mode = \"fastcgi\""), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/index.php?x"),
        status(200, "/secret.txt"),
        status(200, "/a/b/"),
        with_fields(same("/no/user")),
        status(200, "/robots.txt"),
        status(200, "/static/a.css"),
        status(404, "/static/none"),
        status(200, "/media/m.txt"),
        status(404, "/media/none"),
        status(403, "/.htaccess"),
        status(403, "/a/.ht"),
        // nginx sends the source of scripts.
        differs(200, 403, "/static/a.php"),
    ]);
}

#[test]
fn a_service_is_asked_for_what_is_no_file() {
    let mut desk = Desk::new(&["a.txt", "index.html", "folder/index.html"]);
    let service = start_service(&mut desk, TOLD);
    let server = r"server {
    listen $ADDRESS;
    server_name site.test;
    root $TOP/site;
    location / { try_files $uri @app; }
    location @app {
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_pass http://SERVICE;
    }
}";
    serve(&mut desk, &server.replace("SERVICE", &service), 0);
    desk.compare(&[
        status(200, "/a.txt"),
        status(200, "/"),
        status(200, "/folder/"),
        status(200, "/folder"),
        status(200, "/folder/index.html"),
        status(200, "/none?a=b"),
    ]);
}
