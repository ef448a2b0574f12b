//! Other people's proxies in front, each set up by its lines in `docs/behind-a-balancer.md`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::balancer::in_front::start;
use crate::balancer::some;
use crate::harness::{Kind, Process, Server, Setup, free_address, installed, is_root};
use crate::layers::root;
use crate::tls::Folder;

/// The blocks of the page below this heading, with a server's addresses for the examples': the one
/// for HTTP, and the one for the PROXY protocol.
pub fn recipes(heading: &str, plain: SocketAddr, proxied: SocketAddr) -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/behind-a-balancer.md")).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    let section = rest.split("\n## ").next().unwrap();
    let blocks = section.split("\n```").skip(1).step_by(2);
    let here = |block: &str| {
        let (_, text) = block.split_once('\n').expect("the line of the language");
        text.replace("10.0.0.5:8080", &plain.to_string())
            .replace("10.0.0.5:8081", &proxied.to_string())
            .replace("[10.0.0.5]:8081", &format!("[{}]:{}", proxied.ip(), proxied.port()))
            .replace("10.0.0.5", &plain.ip().to_string())
            .replace("parent 8080", &format!("parent {}", plain.port()))
            .replace("\"8080\"", &format!("\"{}\"", plain.port()))
    };
    blocks.map(here).collect()
}

/// A server behind a proxy, and where that listens.
struct Front {
    server: Server,
    /// For PROXY headers.
    proxied: SocketAddr,
    at: SocketAddr,
    /// The proxy's files, which its own user may read.
    folder: Folder,
}

impl Front {
    fn new() -> Front {
        let proxied = free_address();
        let server = Setup::new(Kind::Classic)
            .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{proxied}\"]"))
            .line(&format!("proxy_protocol = \"{proxied}\"\ntrusted_proxies = \"127.0.0.1\""))
            .line("trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"]")
            .start();
        let folder = Folder::new();
        fs::set_permissions(folder.path(""), PermissionsExt::from_mode(0o755)).unwrap();
        Front { server, proxied, at: free_address(), folder }
    }

    /// Writes one of the proxy's files.
    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.folder.path(name), text).unwrap();
        self.path(name)
    }

    fn recipes(&self, heading: &str) -> Vec<String> {
        recipes(heading, self.server.address, self.proxied)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path(name).display().to_string()
    }

    /// A certificate with its key in one file.
    fn both(&self) -> String {
        self.folder.certificate("shop", &["shop.example"]);
        let read = |name: &str| fs::read_to_string(self.folder.path(name)).unwrap();
        self.file("both.pem", &(read("shop.pem") + &read("shop.key")))
    }

    fn start(&self, program: &Path, arguments: &[&str]) -> Process {
        start(program, arguments, &self.server, self.at)
    }

    /// What PHP is told of a client, also of one that makes fields up.
    #[track_caller]
    fn tells(&self, outer: &str, expected: &str) {
        let scheme = expected.split(' ').nth(1).unwrap();
        let other = if scheme == "https" { "http" } else { "https" };
        let forged = [
            "X-Forwarded-For: 6.6.6.6".to_owned(),
            format!("X-Forwarded-Proto: {other}"),
            "X-Forwarded-Host: evil.example".to_owned(),
            format!("Forwarded: for=6.6.6.6;proto={other}"),
        ];
        for fields in [&[][..], &forged] {
            let port = self.at.port();
            let mut curl = Command::new("curl");
            // The proxy's own address is trusted, so its clients need another one.
            curl.args(["-sSk", "-m", "30", "--noproxy", "*", "--interface", "127.0.0.2"]);
            curl.args(fields.iter().flat_map(|field| ["-H", field.as_str()]));
            curl.args(["-H", "Host: shop.example"]);
            // Proxies may keep what they have answered.
            let target = format!("/server.php?fields={}", fields.len());
            let output = curl.arg(format!("{outer}://127.0.0.1:{port}{target}")).output().unwrap();
            let vars = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
                panic!("{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()))
            });
            let vars = some(&vars, &["REMOTE_ADDR", "REQUEST_SCHEME", "HTTP_HOST"]);
            assert_eq!(vars, expected, "{fields:?}");
        }
    }
}

#[test]
fn apache_forwards_clients() {
    let Some(program) = installed("apache2") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("Apache")[..] else { panic!("one block") };
    let (folder, at) = (front.path(""), front.at);
    let modules = "/usr/lib/apache2/modules";
    let load = ["mpm_event", "authz_core", "proxy", "proxy_http", "headers"]
        .map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"))
        .concat();
    let text = format!(
        "ServerRoot {folder}\nPidFile {folder}/pid\nErrorLog {folder}/errors\nServerName shop\n\
         Listen {at}\nUser www-data\nGroup www-data\n{load}{recipe}\n"
    );
    let _apache = front.start(&program, &["-DFOREGROUND", "-f", &front.file("conf", &text)]);
    front.tells("http", "127.0.0.2 http shop.example");
}

#[test]
fn varnish_forwards_clients() {
    let Some(program) = installed("varnishd") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("Varnish")[..] else { panic!("one block") };
    let (file, at, state) = (front.file("vcl", recipe), front.at.to_string(), front.path("state"));
    let place = ["-a", &at, "-f", &file, "-n", &state];
    let _varnish =
        front.start(&program, &[&["-F", "-j", "none", "-s", "malloc,10m"][..], &place].concat());
    front.tells("http", "127.0.0.2 https shop.example");
}

#[test]
fn caddy_forwards_clients() {
    let Some(program) = installed("caddy") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("Caddy")[..] else { panic!("one block") };
    let port = front.at.port();
    let site = format!("http://shop.example:{port} {{\nbind 127.0.0.1\n");
    let recipe = recipe.replace("shop.example {", &site);
    let text = format!("{{\nadmin off\nauto_https off\n}}\n{recipe}\n");
    let file = front.file("Caddyfile", &text);
    // It keeps its configuration below its home.
    let (home, program) = (format!("HOME={}", front.path("")), program.display().to_string());
    let arguments = [&*home, &*program, "run", "--adapter", "caddyfile", "--config", &*file];
    let _caddy = front.start(Path::new("/usr/bin/env"), &arguments);
    front.tells("http", "127.0.0.2 http shop.example");
}

#[test]
fn squid_forwards_clients() {
    let Some(program) = installed("squid") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("Squid")[..] else { panic!("one block") };
    let recipe = recipe.replace("http_port 80 ", &format!("http_port {} ", front.at));
    let text = format!(
        "{recipe}\npid_filename none\ncache_log /dev/null\naccess_log none\npinger_enable off\n\
         netdb_filename none\nvisible_hostname shop\ncoredump_dir none\nshutdown_lifetime 0 seconds\n"
    );
    let _squid = front.start(&program, &["-N", "-f", &front.file("conf", &text)]);
    front.tells("http", "127.0.0.2 http shop.example");
}

#[test]
fn traffic_server_forwards_clients() {
    let Some(program) = installed("traffic_server") else { return };
    let front = Front::new();
    for recipe in front.recipes("Traffic Server") {
        let (name, text) = recipe.split_once('\n').expect("the file's name");
        front.file(name.trim_start_matches("# "), text);
    }
    let place = front.path("");
    let place = place.trim_end_matches('/');
    let own = ["sysconfdir", "localstatedir", "runtimedir", "logdir", "cachedir", "datadir"];
    let own = own.map(|name| format!("{name}: {place}\n")).concat();
    front.file(
        "runroot.yaml",
        &format!(
            "prefix: {place}\nexec_prefix: {place}\nincludedir: {place}\nbindir: /usr/bin\n\
             sbindir: /usr/sbin\nlibdir: /usr/lib/trafficserver\n\
             libexecdir: /usr/lib/trafficserver/modules\n{own}"
        ),
    );
    let allow =
        "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";
    front.file("ip_allow.yaml", allow);
    front.file("storage.config", "");
    let records = fs::read_to_string(front.folder.path("records.config")).unwrap();
    let port = front.at.port();
    let records = format!(
        "{records}\nCONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1\n\
         CONFIG proxy.config.http.cache.http INT 0\nCONFIG proxy.config.admin.user_id STRING #-1\n\
         CONFIG proxy.config.exec_thread.autoconfig INT 0\n\
         CONFIG proxy.config.exec_thread.limit INT 1\n"
    );
    front.file("records.config", &records);
    let _server = front.start(&program, &[&format!("--run-root={place}")]);
    front.tells("http", "127.0.0.2 http shop.example");
}

#[test]
fn h2o_forwards_clients() {
    let Some(program) = installed("h2o") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("H2O")[..] else { panic!("one block") };
    let port = front.at.port();
    let text = format!("num-threads: 1\nlisten:\n  host: 127.0.0.1\n  port: {port}\n{recipe}\n");
    let _h2o = front.start(&program, &["-m", "worker", "-c", &front.file("conf", &text)]);
    front.tells("http", "127.0.0.2 http shop.example");
}

#[test]
fn hitch_forwards_clients() {
    let Some(program) = installed("hitch") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("Hitch")[..] else { panic!("one block") };
    let mut text = recipe
        .replace("[*]:443", &format!("[127.0.0.1]:{}", front.at.port()))
        .replace("/etc/hitch/shop.pem", &front.both());
    if !is_root() {
        text = text.replace("user = ", "# user = ");
    }
    let _hitch = front.start(&program, &[&format!("--config={}", front.file("conf", &text))]);
    front.tells("https", "127.0.0.2 https shop.example");
}

#[test]
fn stunnel_forwards_clients() {
    let Some(program) = installed("stunnel4") else { return };
    let front = Front::new();
    let [recipe] = &front.recipes("stunnel")[..] else { panic!("one block") };
    let recipe = recipe
        .replace("accept = 443", &format!("accept = {}", front.at))
        .replace("/etc/stunnel/shop.pem", &front.both());
    let text = format!("foreground = yes\npid =\n{recipe}\n");
    let _stunnel = front.start(&program, &[&front.file("conf", &text)]);
    front.tells("https", "127.0.0.2 http shop.example");
}
