//! Front servers before `tokamak fpm`, or php-fpm, set up as their manuals say.

use super::front::{BOTH, Row, Site, Way};
use crate::harness::is_root;

/// The rows, in the table's order.
pub const ROWS: [Row; 6] = [
    Row {
        name: "Apache, FastCGI",
        package: "apache2-bin",
        way: Way::FastCgi,
        schemes: BOTH,
        commands: apache,
    },
    Row {
        name: "Caddy, FastCGI",
        package: "caddy",
        way: Way::FastCgi,
        schemes: BOTH,
        commands: caddy,
    },
    Row { name: "H2O, FastCGI", package: "h2o", way: Way::FastCgi, schemes: BOTH, commands: h2o },
    Row {
        name: "HAProxy, FastCGI",
        package: "haproxy",
        way: Way::FastCgi,
        schemes: BOTH,
        commands: haproxy,
    },
    Row {
        name: "lighttpd, FastCGI",
        package: "lighttpd",
        way: Way::FastCgi,
        schemes: BOTH,
        commands: lighttpd,
    },
    Row {
        name: "nginx, FastCGI",
        package: "nginx",
        way: Way::FastCgi,
        schemes: BOTH,
        commands: nginx,
    },
];

/// A command, from its words.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A line for a server that is to have Debian's user for web servers, which only root can give it.
fn user(line: &str) -> &str {
    if is_root() { line } else { "" }
}

/// Apache with these modules and lines, and the same over TLS.
pub fn apache_with(site: &Site, modules: &[&str], lines: &str) -> Vec<Vec<String>> {
    let modules = ["mpm_event", "authz_core", "ssl"].iter().chain(modules);
    let modules: String = modules
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .collect();
    let (top, at, secured) = (site.top(), site.at, site.secured);
    let user = user("User www-data\nGroup www-data");
    let text = format!(
        r#"{modules}ServerRoot "{top}"
PidFile "{top}/pid"
DefaultRuntimeDir "{top}"
ErrorLog "{top}/errors"
ServerName localhost
Listen {at}
Listen {secured}
{user}
StartServers 1
MinSpareThreads 1
{lines}
<VirtualHost {secured}>
  SSLEngine on
  SSLCertificateFile "{top}/shop.pem"
  SSLCertificateKeyFile "{top}/shop.key"
</VirtualHost>
"#
    );
    vec![words(&["apache2", "-DFOREGROUND", "-f", &site.file("apache.conf", &text)])]
}

/// Apache with mod_proxy_fcgi, which keeps its connections.
fn apache(site: &Site) -> Vec<Vec<String>> {
    let (root, socket) = (site.root.display(), site.socket.display());
    let lines = format!(
        r#"TypesConfig /etc/mime.types
DocumentRoot "{root}"
<Directory "{root}">
  Require all granted
</Directory>
DirectoryIndex index.php index.html
<FilesMatch "\.php$">
  SetHandler "proxy:unix:{socket}|fcgi://localhost"
</FilesMatch>
<Proxy "fcgi://localhost" enablereuse=on max=8>
</Proxy>"#
    );
    apache_with(site, &["dir", "mime", "proxy", "proxy_fcgi"], &lines)
}

/// Caddy with these lines of a site.
pub fn caddy_with(site: &Site, lines: &str) -> Vec<Vec<String>> {
    let (top, at, secured) = (site.top(), site.at.port(), site.secured.port());
    let text = format!(
        "{{\n admin off\n auto_https off\n}}\n(shop) {{\n bind 127.0.0.1\n {lines}\n}}\n\
         http://:{at} {{\n import shop\n}}\n\
         https://:{secured} {{\n tls {top}/shop.pem {top}/shop.key\n import shop\n}}\n"
    );
    let file = site.file("Caddyfile", &text);
    vec![words(&["caddy", "run", "--adapter", "caddyfile", "--config", &file])]
}

fn caddy(site: &Site) -> Vec<Vec<String>> {
    let (root, socket) = (site.root.display(), site.socket.display());
    caddy_with(site, &format!("root * {root}\n php_fastcgi unix/{socket}\n file_server"))
}

/// H2O with these lines of a configuration.
pub fn h2o_with(site: &Site, lines: &str) -> Vec<Vec<String>> {
    let (top, at, secured) = (site.top(), site.at.port(), site.secured.port());
    let text = format!(
        "num-threads: 1\nlisten:\n  host: 127.0.0.1\n  port: {at}\nlisten:\n  \
         host: 127.0.0.1\n  port: {secured}\n  ssl:\n    certificate-file: {top}/shop.pem\n    \
         key-file: {top}/shop.key\n{lines}\n"
    );
    vec![words(&["h2o", "-m", "worker", "-c", &site.file("h2o.conf", &text)])]
}

fn h2o(site: &Site) -> Vec<Vec<String>> {
    let (root, socket) = (site.root.display(), site.socket.display());
    let lines = format!(
        "file.custom-handler:\n  extension: .php\n  fastcgi.connect:\n    port: {socket}\n    \
         type: unix\nhosts:\n  shop.example:\n    paths:\n      /:\n        file.dir: {root}"
    );
    h2o_with(site, &lines)
}

/// HAProxy with these sections.
pub fn haproxy_with(site: &Site, text: &str) -> Vec<Vec<String>> {
    let defaults = "defaults\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n";
    vec![words(&[
        "haproxy",
        "-db",
        "-f",
        &site.file("haproxy.cfg", &format!("{defaults}{text}\n")),
    ])]
}

fn haproxy(site: &Site) -> Vec<Vec<String>> {
    let (root, socket, at) = (site.root.display(), site.socket.display(), site.at);
    let (secured, both) = (site.secured, site.path("both.pem"));
    let text = format!(
        "fcgi-app php\n  docroot {root}\n  index index.php\n  path-info ^(/.+\\.php)(/.*)?$\n\
         frontend web\n  mode http\n  bind {at}\n  bind {secured} ssl crt {both}\n  \
         default_backend php\n\
         backend php\n  mode http\n  use-fcgi-app php\n  server one unix@{socket} proto fcgi\n"
    );
    haproxy_with(site, &text)
}

/// lighttpd with these lines.
pub fn lighttpd_with(site: &Site, lines: &str) -> Vec<Vec<String>> {
    let (root, both) = (site.root.display(), site.path("both.pem"));
    let user = user("server.username = \"www-data\"\nserver.groupname = \"www-data\"");
    let text = format!(
        r#"server.bind = "{ip}"
server.port = {port}
server.document-root = "{root}"
server.upload-dirs = ("{uploads}")
server.modules += ("mod_openssl")
$SERVER["socket"] == "{secured}" {{
  ssl.engine = "enable"
  ssl.pemfile = "{both}"
}}
{lines}
{user}
"#,
        ip = site.at.ip(),
        port = site.at.port(),
        uploads = site.writable("uploads"),
        secured = site.secured,
    );
    vec![words(&["lighttpd", "-D", "-f", &site.file("lighttpd.conf", &text)])]
}

/// lighttpd, which closes each connection.
fn lighttpd(site: &Site) -> Vec<Vec<String>> {
    let lines = format!(
        r#"server.modules += ("mod_fastcgi")
index-file.names = ("index.php", "index.html")
static-file.exclude-extensions = (".php")
fastcgi.server = (".php" => (("socket" => "{socket}")))"#,
        socket = site.socket.display()
    );
    lighttpd_with(site, &lines)
}

/// nginx with these lines of its part for HTTP.
pub fn nginx_with(site: &Site, lines: &str) -> Vec<Vec<String>> {
    let top = site.top();
    let user = user("user www-data;");
    let text = format!(
        "{user}\ndaemon off;\npid {top}/pid;\nworker_processes 1;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_max_body_size 64m;\nssl_certificate {top}/shop.pem;\n\
         ssl_certificate_key {top}/shop.key;\nclient_body_temp_path {top}/t1;\n\
         proxy_temp_path {top}/t2;\nfastcgi_temp_path {top}/t3;\nuwsgi_temp_path {top}/t4;\n\
         scgi_temp_path {top}/t5;\n{lines}\n}}\n"
    );
    vec![words(&["nginx", "-p", &top, "-c", &site.file("nginx.conf", &text), "-e", "stderr"])]
}

/// nginx, which keeps its connections.
fn nginx(site: &Site) -> Vec<Vec<String>> {
    let (root, socket) = (site.root.display(), site.socket.display());
    let (at, secured) = (site.at, site.secured);
    let lines = format!(
        r"upstream php {{ server unix:{socket}; keepalive 8; }}
server {{
  listen {at};
  listen {secured} ssl;
  server_name shop.example;
  root {root};
  index index.php index.html;
  location ~ \.php(/|$) {{
    fastcgi_split_path_info ^(.+?\.php)(/.*)$;
    set $path_info $fastcgi_path_info;
    fastcgi_param PATH_INFO $path_info;
    include /etc/nginx/fastcgi.conf;
    fastcgi_pass php;
    fastcgi_keep_conn on;
  }}
}}"
    );
    nginx_with(site, &lines)
}
