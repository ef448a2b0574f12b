//! Starts nginx in front of php-fpm, as Debian sets them up: the behaviour that applications
//! expect. Or in front of `tokamak fpm`, with the same configuration.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ports::free_address;
use super::process::{Process, eventually};
use super::server::Server;
use super::setup::{Image, Kind, Places, Setup, WebServer, is_root};
use super::{tokamak, web_servers};

pub(super) fn start(setup: &Setup, places: Places) -> Server {
    start_behind(setup, places, |places, socket, address| match setup.web_server {
        WebServer::Nginx | WebServer::NginxThatKeeps => start_nginx(setup, places, socket, address),
        WebServer::Apache => web_servers::start_apache(places, socket, address),
        WebServer::Lighttpd => web_servers::start_lighttpd(places, socket, address),
    })
}

/// Starts php-fpm, or what takes its place, and the web server in front of its socket.
pub(super) fn start_behind(
    setup: &Setup,
    places: Places,
    start_web_server: impl FnOnce(&Places, &Path, SocketAddr) -> Process,
) -> Server {
    let address = free_address();
    let (fpm, socket) = start_fpm(setup, &places);
    let web_server = start_web_server(&places, &socket, address);
    Server::new(setup.kind, address, vec![fpm, web_server], places)
}

fn start_nginx(setup: &Setup, places: &Places, socket: &Path, address: SocketAddr) -> Process {
    let site = places.top().join("nginx.conf");
    fs::write(&site, nginx_configuration(setup, places, socket, &address.to_string())).unwrap();
    let (top, site) = (places.top().to_str().unwrap(), site.to_str().unwrap());
    let arguments = ["-p", top, "-c", site, "-e", "stderr"].map(String::from);
    Process::start(&installed("nginx"), &arguments, &[], &places.log())
}

/// Starts php-fpm for the site; gives its socket too.
pub(super) fn start_fpm(setup: &Setup, places: &Places) -> (Process, PathBuf) {
    let socket = places.top().join("fpm.socket");
    let pool = places.top().join("fpm.conf");
    fs::write(&pool, fpm_configuration(setup, places, &socket)).unwrap();
    let (program, command) = match setup.kind {
        Kind::Fpm | Kind::FpmSealed => (tokamak::program(), Some("fpm")),
        _ => (php_fpm(), None),
    };
    let arguments = ["--nodaemonize", "--fpm-config", pool.to_str().unwrap()];
    let mut arguments: Vec<String> =
        command.into_iter().chain(arguments).map(String::from).collect();
    if setup.kind == Kind::FpmSealed {
        let pools = places.top().join("pools.toml");
        fs::write(&pools, sealed_pool(setup, places)).unwrap();
        arguments.extend(["--pools".to_owned(), pools.to_str().unwrap().to_owned()]);
    }
    let fpm = Process::start(&program, &arguments, &setup.server_environment, &places.log());
    // Its socket is there before anybody accepts from it.
    let said = || fs::read_to_string(places.log()).unwrap_or_default();
    eventually(Duration::from_secs(20), || {
        said().contains("ready to handle connections").then_some(())
    });
    (fpm, socket)
}

/// Debian's packages put both programs where the path of an ordinary user does not lead.
pub(super) fn installed(name: &str) -> PathBuf {
    let program = Path::new("/usr/sbin").join(name);
    assert!(program.exists(), "{} is missing: run scripts/setup test", program.display());
    program
}

/// php-fpm of the PHP that this machine has.
pub fn php_fpm() -> PathBuf {
    let found =
        ["php-fpm8.5", "php-fpm8.4", "php-fpm8.2"].map(|name| Path::new("/usr/sbin").join(name));
    let program = found.iter().find(|program| program.exists());
    program.expect("php-fpm is missing: run scripts/setup test").clone()
}

/// What Tokamak is told of the pool beyond php-fpm's configuration.
fn sealed_pool(setup: &Setup, places: &Places) -> String {
    let root = setup.document_root(places);
    let script = match &setup.image {
        Image::Worker => format!("worker = {}", tokamak::quoted_path(&root.join(&setup.worker))),
        Image::Boot(script) => format!("boot = {}", tokamak::quoted_path(&root.join(script))),
        Image::Bare => String::new(),
    };
    let warm: Vec<String> = setup.warm.iter().map(|target| tokamak::quoted(target)).collect();
    let (root, warm) = (tokamak::quoted_path(&root), warm.join(", "));
    format!(
        "[[pool]]\nname = \"tests\"\nroot = {root}\nmode = \"sealed\"\n{script}\nwarm = [{warm}]\n"
    )
}

fn fpm_configuration(setup: &Setup, places: &Places, socket: &Path) -> String {
    let mut text = format!(
        "[global]\nerror_log = /dev/stderr\ndaemonize = no\n[tests]\nlisten = {}\nlisten.mode = \
            0666\n\
         pm = static\npm.max_children = {}\ncatch_workers_output = yes\ndecorate_workers_output = \
         no\n",
        socket.display(),
        setup.workers.expect("php-fpm asks for a number")
    );
    if is_root() {
        text.push_str("user = www-data\ngroup = www-data\n");
    }
    setup.fpm_lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
    let mut table = |kind: &str, entries: &[(String, String)]| {
        for (name, value) in entries {
            writeln!(text, "{kind}[{name}] = \"{value}\"").unwrap();
        }
    };
    table("php_value", &setup.all_php_values(places));
    table("php_admin_value", &setup.all_php_admin_values(places));
    table("env", &setup.all_environment(places));
    text
}

fn nginx_configuration(setup: &Setup, places: &Places, socket: &Path, address: &str) -> String {
    let top = places.top().display();
    let user = if is_root() { "user www-data;" } else { "" };
    let socket = socket.display();
    let (pass, keep) = match setup.web_server {
        WebServer::NginxThatKeeps => ("kept".to_owned(), "fastcgi_keep_conn on;"),
        _ => (format!("unix:{socket}"), ""),
    };
    let missing = match &setup.front_controller {
        Some(script) => format!("/{script}$is_args$args"),
        None => "=404".into(),
    };
    let sites = std::iter::once(("localhost".to_string(), setup.document_root(places)));
    let more = setup
        .more_sites
        .iter()
        .enumerate()
        .map(|(i, site)| (site.host.clone(), places.more_root(i)));
    let mut servers = String::new();
    for (host, root) in sites.chain(more) {
        let root = root.display();
        write!(
            servers,
            r"
  server {{
    listen {address};
    server_name {host};
    root {root};
    index index.php index.html;
    location / {{ try_files $uri $uri/ {missing}; }}
    location ~ /\. {{ return 404; }}
    location ~ \.php(/|$) {{
      fastcgi_split_path_info ^(.+?\.php)(/.*)$;
      if (!-f $document_root$fastcgi_script_name) {{ return 404; }}
      set $path_info $fastcgi_path_info;
      fastcgi_param PATH_INFO $path_info;
      fastcgi_index index.php;
      include /etc/nginx/fastcgi.conf;
      fastcgi_pass {pass};
      {keep}
    }}
  }}"
        )
        .unwrap();
    }
    format!(
        "{user}
daemon off;
pid {top}/nginx.pid;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  access_log off;
  client_max_body_size 64m;
  client_body_temp_path {top}/nginx-body;
  fastcgi_temp_path {top}/nginx-fastcgi;
  proxy_temp_path {top}/nginx-proxy;
  uwsgi_temp_path {top}/nginx-uwsgi;
  scgi_temp_path {top}/nginx-scgi;
  upstream kept {{ server unix:{socket}; keepalive 4; }}
{servers}
}}
"
    )
}
