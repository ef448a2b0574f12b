//! Invented `server` blocks of nginx, from lines as they stand in the files of many sites.

mod known;
mod shapes;

use std::path::{Path, PathBuf};

use super::dice::Dice;
use super::{Desk, Peer, is_root};

/// nginx.
pub(super) const PEER: Peer = Peer {
    language: "nginx",
    site,
    start,
    known: known::DIFFERENCES,
    openings: &[
        "index files answer all methods",
        "a condition for the query of a whole server is asked for the client's alone",
        "an error page behind a password is left out",
        "a folder whose name begins with a dot is none for `!-d`",
    ],
};

fn start(desk: &mut Desk, sites: &str) -> PathBuf {
    let user = if is_root() { "user www-data;" } else { "" };
    let text = format!(
        "{user}\ndaemon off;\npid $TOP/nginx.pid;\nworker_processes 1;\nevents {{ }}\nhttp {{\n\
         include /etc/nginx/mime.types;\naccess_log off;\nclient_body_temp_path $TOP/body;\n\
         fastcgi_temp_path $TOP/fastcgi;\nproxy_temp_path $TOP/proxy;\n\
         uwsgi_temp_path $TOP/uwsgi;\nscgi_temp_path $TOP/scgi;\n{}{sites}}}\n",
        shapes::MAPS
    );
    let file = desk.write("nginx.conf", &text);
    let (top, name) = (desk.path("").display().to_string(), file.display().to_string());
    let program = std::env::var("TOKAMAK_NGINX").unwrap_or("/usr/sbin/nginx".to_owned());
    desk.start(Path::new(&program), &["-p", &top, "-c", &name, "-e", "stderr"], &[]);
    file
}

/// What runs scripts.
const RUNS: &str = "include /etc/nginx/fastcgi.conf; fastcgi_pass unix:$SOCKET;";

/// What asks for a password, which no request has.
const LOGIN: &str = "auth_basic office; auth_basic_user_file $TOP/users;";

fn site(dice: &mut Dice, _: &Desk, number: usize) -> String {
    let name = super::name(number);
    let mut lines = vec![
        "listen $ADDRESS".to_owned() + ";",
        format!("server_name {name};"),
        "root $TOP/site;".to_owned(),
        dice.pick(&["index index.php;", "index index.php index.html;", "index index.html;"])
            .to_string(),
    ];
    if dice.one_in(4) {
        lines.push("add_header X-Site yes;".to_owned());
    }
    if dice.one_in(8) {
        lines.push("autoindex on;".to_owned());
    }
    if dice.one_in(5) {
        lines.push("rewrite ^/blog/(.*)$ /news/$1 permanent;".to_owned());
    }
    if dice.one_in(6) {
        lines.push("rewrite ^/p/([0-9]+)$ /other.php?id=$1 last;".to_owned());
    }
    if dice.one_in(8) {
        let conditions = [
            "if ($query_string ~ \"b=\") { return 403; }",
            "if ($request_method = POST) { return 403; }",
            "if ($uri ~ \"^/data/\") { return 404; }",
            "if ($http_x_bad = yes) { return 403; }",
        ];
        lines.push(dice.pick(&conditions).to_string());
    }
    if dice.one_in(6) {
        let pages = [
            "error_page 404 /page.html;",
            "error_page 404 /index.php;",
            "error_page 404 = /index.php;",
            "error_page 404 =200 /page.html;",
            "error_page 403 =404 /page.html;",
            "error_page 403 404 /docs/guide.html;",
        ];
        lines.push(dice.pick(&pages).to_string());
    }
    if dice.one_in(8) {
        lines.push("fastcgi_intercept_errors on;".to_owned());
    }
    if dice.one_in(25) {
        lines.push(LOGIN.to_owned());
    }
    if dice.one_in(3) {
        lines.extend(shapes::before(dice));
    }
    let mut locations = if dice.one_in(3) { shapes::main(dice) } else { main(dice) };
    locations.extend(if dice.one_in(4) { shapes::scripts(dice) } else { scripts(dice) });
    for _ in 0..dice.below(6) {
        let other = match dice.below(7) {
            0 => closed(dice),
            1 => deep(dice),
            2 | 3 => shapes::other(dice),
            _ => other(dice),
        };
        // Two of the same are an error.
        let head = |line: &str| {
            let head = line.split(" {").next().unwrap_or_default();
            head.replace("^~ ", "")
        };
        if locations.iter().all(|own| head(own) != head(&other)) {
            locations.push(other);
        }
    }
    // Expressions are asked in their order.
    dice.shuffle(&mut locations);
    lines.extend(locations);
    let lines: Vec<String> = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!("server {{\n{}}}\n", lines.concat())
}

/// `location /`, perhaps with one that it names.
fn main(dice: &mut Dice) -> Vec<String> {
    let all: [&[&str]; 8] = [
        &["location / { try_files $uri $uri/ /index.php?$args; }"],
        &["location / { try_files $uri $uri/ /index.php$is_args$args; }"],
        &["location / { try_files $uri /index.php?$args; }"],
        &["location / { try_files $uri $uri/ =404; }"],
        &[
            "location / { try_files $uri $uri/ @front; }",
            "location @front { rewrite ^/(.*)$ /index.php?q=$1 last; }",
        ],
        &["location / { if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; } }"],
        &["location / { }"],
        &[],
    ];
    dice.pick(&all).iter().map(|line| (*line).to_owned()).collect()
}

/// The locations that run scripts.
fn scripts(dice: &mut Dice) -> Vec<String> {
    let only = "try_files $uri =404; ";
    let more = match dice.below(4) {
        0 => only,
        1 => "add_header X-Script yes; ",
        2 => "if (!-f $document_root$fastcgi_script_name) { return 404; } ",
        _ => "",
    };
    let refuse = "location ~ \\.php$ { return 404; }".to_owned();
    match dice.below(9) {
        0..=3 => vec![format!("location ~ \\.php$ {{ {more}{RUNS} }}")],
        4 => vec![format!(
            "location ~ [^/]\\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; {RUNS} \
             fastcgi_param PATH_INFO $fastcgi_path_info; }}"
        )],
        5 => vec![
            format!(
                "location ~ ^/index\\.php(/|$) {{ fastcgi_split_path_info ^(.+\\.php)(/.*)$; \
                 {RUNS} internal; }}"
            ),
            refuse,
        ],
        6 => vec![format!("location ~ ^/index\\.php$ {{ {RUNS} }}"), refuse],
        7 => vec![format!("location = /index.php {{ {RUNS} }}"), refuse],
        _ => vec![format!("location ~ ^/(index|other)\\.php$ {{ {more}{RUNS} }}")],
    }
}

/// One of the other locations.
fn other(dice: &mut Dice) -> String {
    let sends = ["expires 1h;", "add_header X-Static yes;", "log_not_found off;", ""];
    let static_files =
        ["try_files $uri =404;", "try_files $uri /index.php?$args;", "access_log off;", ""];
    let refuses = ["deny all;", "return 403;", "return 404;", "allow 192.0.2.0/24; deny all;"];
    let refuses = *dice.pick(&refuses);
    let prefixes =
        ["location /uploads/", "location ^~ /uploads/", "location /admin", "location /data/"];
    match dice.below(16) {
        0 | 1 => format!(
            "location ~* \\.(png|css|txt)$ {{ {} {} }}",
            dice.pick(&sends),
            dice.pick(&static_files)
        ),
        2 => format!("location = /robots.txt {{ {} }}", dice.pick(&sends)),
        3 => format!("{} {{ {refuses} }}", dice.pick(&prefixes)),
        4 => format!("location ~* ^/(?:uploads|img)/.*\\.php$ {{ {refuses} }}"),
        5 => format!("location ~ /\\. {{ {refuses} }}"),
        6 => "location /uploads/ { location ~ \\.php$ { deny all; } }".to_owned(),
        7 => "location ^~ /uploads/ { }".to_owned(),
        8 => "location /admin/ { try_files $uri $uri/ /admin/index.php?$args; }".to_owned(),
        9 => "location /docs/ { add_header X-Docs yes; try_files $uri $uri/ =404; }".to_owned(),
        10 => "location = /gone { return 410; }".to_owned(),
        11 => "location /old { return 301 /docs/; }".to_owned(),
        12 => "location ^~ /data/ { internal; }".to_owned(),
        13 => format!("location ^~ /admin/ {{ {LOGIN} location ~ \\.php$ {{ {RUNS} }} }}"),
        14 => format!("location /docs/ {{ {LOGIN} }}"),
        _ => format!("location = /info.php {{ {refuses} }}"),
    }
}

/// A location that asks for a password, or for an address instead.
fn closed(dice: &mut Dice) -> String {
    let any =
        ["satisfy any; allow 192.0.2.0/24; deny all;", "satisfy any; allow 127.0.0.1; deny all;"];
    let any = if dice.one_in(3) { *dice.pick(&any) } else { "" };
    let runs = format!("location ~ \\.php$ {{ {RUNS} }}");
    match dice.below(8) {
        0 => format!("location ^~ /admin/ {{ {any} {LOGIN} {runs} }}"),
        1 => format!("location /admin/ {{ {any} {LOGIN} try_files $uri $uri/ /index.php?$args; }}"),
        2 => format!("location ~ ^/admin/.*\\.php$ {{ {any} {LOGIN} {RUNS} }}"),
        3 => format!("location = /info.php {{ {any} {LOGIN} {RUNS} }}"),
        4 => {
            format!("location /docs/ {{ {LOGIN} location /docs/guide.html {{ auth_basic off; }} }}")
        }
        5 => format!(
            "location ^~ /docs/ {{ {any} {LOGIN} location ~ \\.html$ {{ expires 1h; }} {runs} }}"
        ),
        6 => format!("location ~ ^/(?:admin|data)/ {{ {any} {LOGIN} }}"),
        _ => format!("location /data {{ {any} {LOGIN} add_header X-Data yes; }}"),
    }
}

/// A location with others in it, with a name, or for a folder that lies elsewhere.
fn deep(dice: &mut Dice) -> String {
    let runs_file = "include /etc/nginx/fastcgi.conf; fastcgi_param SCRIPT_FILENAME \
        $request_filename; fastcgi_pass unix:$SOCKET;";
    match dice.below(13) {
        0 => "location /manual/ { alias $TOP/site/docs/; }".to_owned(),
        1 => "location ^~ /manual/ { alias $TOP/site/docs/; }".to_owned(),
        2 => format!(
            "location ^~ /manual/ {{ alias $TOP/site/docs/; location ~ \\.php$ {{ {runs_file} }} }}"
        ),
        3 => "location /pics { alias $TOP/site/img; expires 1h; }".to_owned(),
        4 => "location ^~ /pics/ { alias $TOP/site/img/; location ~ \\.php$ { deny all; } }"
            .to_owned(),
        5 => "location /docs/ { location ~ \\.html$ { add_header X-Html yes; } }".to_owned(),
        6 => "location /uploads/ { location ~* \\.png$ { expires 1h; add_header Cache-Control \
            public; } location ~ \\.php$ { return 403; } }"
            .to_owned(),
        7 => "location /sub/ { error_page 404 = @missing; } location @missing { return 410; }"
            .to_owned(),
        8 => "location ^~ /css/ { expires max; try_files $uri =404; }".to_owned(),
        9 => "location = /pics/a.png { expires 1h; }".to_owned(),
        10 => "location ^~ /pics/deep/ { }".to_owned(),
        11 => format!(
            "location ~ ^/other\\.php(/|$) {{ fastcgi_split_path_info ^(.+\\.php)(/.*)$; {RUNS} }}"
        ),
        _ => "location ~* \\.(?:png|css|html)$ { expires 7d; add_header Cache-Control public; }"
            .to_owned(),
    }
}
