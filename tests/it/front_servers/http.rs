//! Front servers before `tokamak serve`, set up as `docs/behind-a-balancer.md` says.

use super::fastcgi::{
    apache_with, caddy_with, h2o_with, haproxy_with, lighttpd_with, nginx_with, words,
};
use super::front::{BOTH, Row, Site, Way};
use crate::balancer::recipes::recipes;
use crate::harness::is_root;

/// The rows, in the table's order.
pub const ROWS: [Row; 15] = [
    Row {
        name: "Apache, HTTP",
        package: "apache2-bin",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| apache(site, "http"),
    },
    Row {
        name: "Apache, HTTP/2",
        package: "apache2-bin",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| apache(site, "h2c"),
    },
    Row {
        name: "Caddy, HTTP",
        package: "caddy",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| caddy_with(site, &format!("reverse_proxy {}", site.plain)),
    },
    Row {
        name: "Caddy, HTTP/2",
        package: "caddy",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| caddy_with(site, &format!("reverse_proxy h2c://{}", site.plain)),
    },
    Row {
        name: "H2O, HTTP",
        package: "h2o",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| h2o_with(site, &recipe(site, "H2O", 0)),
    },
    Row {
        name: "HAProxy, HTTP",
        package: "haproxy",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| haproxy(site, ""),
    },
    Row {
        name: "HAProxy, HTTP/2",
        package: "haproxy",
        way: Way::Http,
        schemes: BOTH,
        commands: |site| haproxy(site, " proto h2"),
    },
    Row {
        name: "HAProxy, PROXY protocol",
        package: "haproxy",
        way: Way::Proxy,
        schemes: BOTH,
        commands: haproxy_that_passes_on,
    },
    Row {
        name: "Hitch, PROXY protocol",
        package: "hitch",
        way: Way::Proxy,
        schemes: &["https"],
        commands: hitch,
    },
    Row {
        name: "lighttpd, HTTP",
        package: "lighttpd",
        way: Way::Http,
        schemes: BOTH,
        commands: lighttpd,
    },
    Row { name: "nginx, HTTP", package: "nginx", way: Way::Http, schemes: BOTH, commands: nginx },
    Row {
        name: "Squid, HTTP",
        package: "squid",
        way: Way::Http,
        schemes: &["http"],
        commands: squid,
    },
    Row {
        name: "stunnel, PROXY protocol",
        package: "stunnel4",
        way: Way::Proxy,
        schemes: &["https"],
        commands: stunnel,
    },
    Row {
        name: "Varnish, HTTP",
        package: "varnish",
        way: Way::Http,
        schemes: &["http"],
        commands: |site| varnish(site, &recipe(site, "Varnish", 0)),
    },
    Row {
        name: "Varnish, PROXY protocol",
        package: "varnish",
        way: Way::Proxy,
        schemes: &["http"],
        commands: varnish_that_says_who_connects,
    },
];

/// A block of the page about balancers, with the addresses of this site.
fn recipe(site: &Site, heading: &str, number: usize) -> String {
    recipes(heading, site.plain, site.proxied).swap_remove(number)
}

fn apache(site: &Site, scheme: &str) -> Vec<Vec<String>> {
    let lines = recipe(site, "Apache", 0).replace("http:", &format!("{scheme}:"));
    let modules = ["headers", "proxy", "proxy_http", "http2", "proxy_http2"];
    apache_with(site, &modules, &lines)
}

/// HAProxy with words of its own for the server.
fn haproxy(site: &Site, server: &str) -> Vec<Vec<String>> {
    let bind =
        format!("bind {}\n    bind {} ssl crt {}", site.at, site.secured, site.path("both.pem"));
    let text = recipe(site, "HAProxy", 0)
        .replace("bind :80", &bind)
        .replace("X-Forwarded-Proto http", "X-Forwarded-Proto %[ssl_fc,iif(https,http)]")
        .replace(" check", &format!(" check{server}"));
    haproxy_with(site, &text)
}

fn haproxy_that_passes_on(site: &Site) -> Vec<Vec<String>> {
    let backend = recipe(site, "HAProxy", 1).replace("send-proxy-v2", "send-proxy-v2-ssl");
    let (at, secured, both) = (site.at, site.secured, site.path("both.pem"));
    let frontend = format!(
        "frontend web\n  mode tcp\n  bind {at}\n  bind {secured} ssl crt {both}\n  \
         default_backend tokamak\n"
    );
    haproxy_with(site, &(frontend + &backend))
}

/// Lines of stunnel that let clients without TLS come to what speaks it.
fn for_clients(site: &Site) -> String {
    format!("[clients]\nclient = yes\naccept = {}\nconnect = {}\n", site.at, site.secured)
}

fn stunnel_with(site: &Site, lines: &str) -> Vec<String> {
    words(&["stunnel4", &site.file("stunnel.conf", &format!("foreground = yes\npid =\n{lines}\n"))])
}

fn stunnel(site: &Site) -> Vec<Vec<String>> {
    let lines = recipe(site, "stunnel", 0)
        .replace("accept = 443", &format!("accept = {}", site.secured))
        .replace("/etc/stunnel/shop.pem", &site.path("both.pem"));
    vec![stunnel_with(site, &format!("{lines}\n{}", for_clients(site)))]
}

fn hitch(site: &Site) -> Vec<Vec<String>> {
    let listen = format!("[{}]:{}", site.secured.ip(), site.secured.port());
    let mut text = recipe(site, "Hitch", 0)
        .replace("[*]:443", &listen)
        .replace("/etc/hitch/shop.pem", &site.path("both.pem"));
    if !is_root() {
        text = text.replace("user = ", "# user = ");
    }
    let config = format!("--config={}", site.file("hitch.conf", &text));
    vec![words(&["hitch", &config]), stunnel_with(site, &for_clients(site))]
}

fn lighttpd(site: &Site) -> Vec<Vec<String>> {
    let (ip, port) = (site.plain.ip(), site.plain.port());
    let lines = format!(
        "server.modules += (\"mod_proxy\")\n\
         proxy.server = (\"\" => ((\"host\" => \"{ip}\", \"port\" => {port})))"
    );
    lighttpd_with(site, &lines)
}

fn nginx(site: &Site) -> Vec<Vec<String>> {
    let lines =
        recipe(site, "nginx", 0).replace("127.0.0.1:8080", &site.plain.to_string()).replace(
            "listen 443 ssl",
            &format!("listen {};\n    listen {} ssl", site.at, site.secured),
        );
    nginx_with(site, &lines)
}

fn squid(site: &Site) -> Vec<Vec<String>> {
    let lines =
        recipe(site, "Squid", 0).replace("http_port 80 ", &format!("http_port {} ", site.at));
    let text = format!(
        "{lines}\npid_filename none\ncache_log /dev/null\naccess_log none\npinger_enable off\n\
         netdb_filename none\nvisible_hostname shop\ncoredump_dir none\n\
         shutdown_lifetime 0 seconds\n"
    );
    vec![words(&["squid", "-N", "-f", &site.file("squid.conf", &text)])]
}

/// Varnish with this text in its language, for clients without TLS.
fn varnish(site: &Site, text: &str) -> Vec<Vec<String>> {
    let file = site.file("shop.vcl", &text.replace("\"https\"", "\"http\""));
    let own = ["varnishd", "-F", "-j", "none", "-s", "malloc,10m"];
    let place = ["-a", &site.at.to_string(), "-f", &file, "-n", &site.path("state")];
    vec![words(&[&own[..], &place].concat())]
}

fn varnish_that_says_who_connects(site: &Site) -> Vec<Vec<String>> {
    let (plain, proxied) = (site.plain.port().to_string(), site.proxied.port().to_string());
    let port = format!("\"{proxied}\";\n    .proxy_header = 2");
    let text = recipe(site, "Varnish", 0).replace(&format!("\"{plain}\""), &port);
    varnish(site, &text)
}
