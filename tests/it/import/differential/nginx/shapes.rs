//! Lines of public files that are rarer than those of most sites.

use super::super::dice::Dice;
use super::RUNS;

/// What of a request a `map` looks at, before all servers.
pub(super) const MAPS: &str = "map $http_user_agent $is_robot { default 0; ~*(evil|bad)bot 1; }\n\
    map $request_method $writes { default 0; POST 1; PUT 1; DELETE 1; }\n\
    map $query_string $is_odd { default \"\"; ~q= yes; }\n\
    map $host $frames { default SAMEORIGIN; }\n";

/// Lines before all locations: conditions, above all.
const BEFORE: [&str; 17] = [
    "if ($http_user_agent ~* (evil|bad)bot) { return 403; }",
    "if ($http_user_agent = \"\") { return 403; }",
    "if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }",
    "if ($request_method !~ ^(GET|HEAD)$) { return 403; }",
    "if (-f $document_root/maintenance.html) { return 503; }",
    "if (!-f $document_root/page.html) { return 503; }",
    "if (-f $document_root/page.html) { return 503; }",
    "if ($http_x_forwarded_proto = http) { return 301 https://$host$request_uri; }",
    "set $bad 0; if ($query_string ~ \"q=\") { set $bad 1; } if ($bad = 1) { return 403; }",
    "set $bad \"\"; if ($is_robot) { set $bad yes; } if ($bad) { return 410; }",
    "if ($is_robot) { return 403; }",
    "if ($writes = 1) { return 403; }",
    "if ($is_odd = yes) { return 404; }",
    "if ($request_uri ~* \"^(.*/)index\\.php/(.*)\") { return 307 $1$2; }",
    "if ($request_uri ~ \"/uploads/.*\\.php\") { return 403; }",
    "add_header X-Frame-Options $frames;",
    "rewrite ^/(?!index|other|admin|docs)([a-z]+)\\.do$ /other.php?do=$1 last;",
];

/// Some of the lines before all locations.
pub(super) fn before(dice: &mut Dice) -> Vec<String> {
    (0..dice.below(3)).map(|_| (*dice.pick(&BEFORE)).to_owned()).collect()
}

/// `location /`, perhaps with one that it names.
pub(super) fn main(dice: &mut Dice) -> Vec<String> {
    let all: [&[&str]; 21] = [
        &["location / { try_files $uri $uri/ /index.php; }"],
        &["location / { index index.php; try_files $uri $uri/ /index.php; }"],
        &["location / { try_files $uri $uri/ /index.php?q=$uri&$args; }"],
        &["location / { try_files $uri /index.php?q=$uri; }"],
        &["location / { try_files $uri $uri/ /index.php$request_uri; }"],
        &["location / { try_files $uri $uri/index.php /index.php?$args; }"],
        &["location / { try_files $uri $uri.html /index.php?$args; }"],
        &["location / { try_files $uri /docs/index.html /index.php?$args; }"],
        &["location / { try_files /missing.html $uri $uri/ /index.php?$args; }"],
        &["location / { try_files /docs$uri /docs$uri/ /index.php?$args; }"],
        &["location / { try_files $uri @php; }", "location @php { $FRONT }"],
        &["location / { try_files $uri $uri/ @php; }", "location @php { $FRONT }"],
        &["location / { if (!-f $request_filename) { rewrite ^ /index.php last; } }"],
        &["location / { if (!-e $request_filename) { rewrite ^/(.+)$ /index.php?q=$1 last; } }"],
        &["location / { if (!-d $request_filename) { rewrite ^/(.*)/$ /$1 permanent; } }"],
        &["location / { rewrite ^/(?!index|other|admin|docs)(.*)$ /index.php?q=$1 last; }"],
        &["location / { rewrite ^/(.*)$ /docs/$1 break; }"],
        &["location / { error_page 404 = /index.php; }"],
        &[
            "location / { try_files $uri $uri/ /index.php?$args; location ~ \\.html$ { expires 1h; } }",
        ],
        &["location / { try_files $uri =404; location = /index.php { $RUNS } }"],
        &["location / { index guide.html index.php; }"],
    ];
    let lines = dice.pick(&all).iter();
    lines.map(|line| line.replace("$FRONT", FRONT).replace("$RUNS", RUNS)).collect()
}

/// What runs one script for all paths.
const FRONT: &str = "include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME \
    $document_root/index.php; fastcgi_param SCRIPT_NAME /index.php; fastcgi_pass unix:$SOCKET;";

/// The locations that run scripts.
pub(super) fn scripts(dice: &mut Dice) -> Vec<String> {
    const REFUSE: &str = "location ~ \\.php$ { return 404; }";
    let named = "location ~ ^(?<script_name>.+?\\.php)(?<path_info>/.*)?$ { try_files $script_name \
        =404; include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME \
        $document_root$script_name; fastcgi_param PATH_INFO $path_info; fastcgi_pass \
        unix:$SOCKET; }";
    let all: [&[&str]; 13] = [
        &[named],
        &["location ~ ^/admin/.*\\.php$ { $RUNS }", REFUSE],
        &["location ~ ^/(?:index|admin/tool)\\.php(?:$|/) { $RUNS }", REFUSE],
        &["location ~* \\.ph(p|tml)$ { $RUNS }"],
        &["location ~ \\.php { $RUNS }"],
        &["location /index.php { $RUNS }"],
        &["location ~ ^/(index|.+/index)\\.php$ { $RUNS }", REFUSE],
        &["location ~ \\.php$ { try_files $uri /index.php?$args; $RUNS }"],
        &["location ~ \\.php$ { if (!-f $request_filename) { return 404; } $RUNS }"],
        &["location ~ \\.php$ { location ~ ^/uploads/ { deny all; } $RUNS }"],
        &["location ~ \\.php$ { location ~ \\..*/.*\\.php$ { return 403; } $RUNS }"],
        &["location ~ \\.php$ { $RUNS }", "location = /index.php { deny all; }"],
        &["location ~ \\.php$ { $RUNS }", "location = /index.php { return 404; }"],
    ];
    dice.pick(&all).iter().map(|line| line.replace("$RUNS", RUNS)).collect()
}

/// One of the other locations.
pub(super) fn other(dice: &mut Dice) -> String {
    let all = [
        "location /admin/ { }",
        "location /admin { index index.php; }",
        "location /docs { index guide.html; }",
        "location /docs/ { autoindex on; }",
        "location /uploads { autoindex on; location ~ \\.php$ { return 403; } }",
        "location ~ ^/docs/.*(?<!\\.png)$ { add_header X-Plain yes; }",
        "location ~ /\\.(?!well-known).* { deny all; }",
        "location ~* ^/(\\.|uploads/).*\\.php$ { deny all; }",
        "location ~* \\.(txt|log|html)$ { deny all; }",
        "location = /notes.txt { allow all; access_log off; }",
        "location /front { try_files _ /index.php?to=$uri&$args; }",
        "location /data { try_files $uri /docs/index.html; }",
        "location /sub { rewrite ^/sub/(.*)$ /docs/$1 last; }",
        "location /old/ { rewrite ^ /docs$request_uri permanent; }",
        "location /admin/ { location ~ \\.php$ { $RUNS } location ~ \\.css$ { deny all; } }",
        "location /img/ { if ($writes) { return 403; } }",
        "location /css/ { if ($http_user_agent ~ bot) { return 404; } expires 1h; }",
        "location ~ ^/old/(?=page) { deny all; }",
        "location ~ ^/(?!index\\.php).*\\.php$ { return 404; }",
        "location /data/ { error_page 404 = /index.php?q=$uri; }",
    ];
    dice.pick(&all).replace("$RUNS", RUNS)
}
