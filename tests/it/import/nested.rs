//! nginx's locations within locations, with names, and beside folders that lie elsewhere.

use super::nginx::serve;
use super::{Desk, differs, status};

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
