//! `tokamak capacity`: the knee of a server whose capacity is known, and what ends it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Kind, Process, Server, Setup, eventually, free_address, program};

fn capacity(url: &str, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["180", program().to_str().unwrap(), "capacity", url])
        .args(arguments)
        .output()
        .unwrap()
}

/// The report as JSON, and the exit status.
fn report(url: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let Output { status, stdout, stderr } = capacity(url, &[&["--json"], arguments].concat());
    let text = String::from_utf8(stdout).unwrap();
    let value = serde_json::from_str(&text);
    let value =
        value.unwrap_or_else(|e| panic!("{e}: {text}\n{}", String::from_utf8_lossy(&stderr)));
    (value, status.code())
}

/// A site whose page waits for as many milliseconds as it is told, with two workers.
fn server() -> Server {
    Setup::new(Kind::Classic).site("sites/capacity").workers(2).start()
}

#[test]
fn two_workers_of_which_each_request_takes_20_ms_serve_100_a_second() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let url = format!("http://{}/?ms=20", server.address);
    let page_name = page.to_str().unwrap();
    let flags = ["--p90", "500ms", "--for", "60s", "--step", "2s", "--html", page_name];
    let control = server.places.top().join("control");
    let (found, status) =
        report(&url, &[&flags[..], &["--control", control.to_str().unwrap()]].concat());
    assert_eq!(status, Some(0), "{found:#}");
    let (peak, beyond) = (found["peak"].as_f64().unwrap(), found["beyond"].as_f64().unwrap());
    // Nothing on earth makes it more than 100; a machine that compiles meanwhile makes it less.
    assert!((45.0..=112.0).contains(&peak) && peak < beyond, "{found:#}");
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("<svg") && html.contains("workers") && !html.contains("src="), "{html}");
    // Where other programs fill the machine, the workers wait for those.
    let last = &found["trials"].as_array().unwrap().last().unwrap()["cpu"];
    let used = |by: &str| last[by].as_f64().unwrap();
    if used("machine") - used("server") - used("generator") < 0.5 * used("cores") {
        assert_eq!(found["ends"].as_str(), Some("workers"), "{found:#}");
        assert!(found["why"].as_str().unwrap().contains("workers"), "{found:#}");
    }
}

#[test]
fn a_bound_that_no_request_keeps_is_said_so() {
    let server = server();
    let flags = ["--p50", "20ms", "--for", "20s", "--step", "1s"];
    let (found, status) = report(&format!("http://{}/?ms=100", server.address), &flags);
    assert_eq!((found["peak"].as_f64(), status), (None, Some(1)), "{found:#}");
    assert!(found["alone_seconds"].as_f64().unwrap() > 0.09, "{found:#}");
}

#[test]
fn the_highest_rate_is_not_exceeded_and_what_held_there_is_at_least() {
    let server = server();
    let url = format!("http://{}/", server.address);
    let flags = ["--p90", "5s", "--max-rate", "20", "--for", "30s", "--step", "1s"];
    let output = capacity(&url, &flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for expected in ["at least 20.0/s with 90 % within 5.00 s", "● the bound holds", "it ends by"]
    {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_noticed_before_the_search() {
    let url = format!("http://{}/", free_address());
    let output = capacity(&url, &["--html", "/proc/missing/report.html"]);
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{wrong}");
    assert!(wrong.contains("/proc/missing/report.html: No such file"), "{wrong}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_cannot_be_measured_is_named_and_nothing_is_printed() {
    let server = server();
    let nobody = format!("http://{}/", free_address());
    for (url, said) in [
        (format!("http://{}/wrong.php", server.address), "status 500"),
        (format!("http://{}/away.php", server.address), "a redirect"),
        (nobody, "connection refused"),
        (format!("https://{}/", server.address), "it speaks no TLS here"),
    ] {
        let output = capacity(&url, &["--json"]);
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{url}: {wrong}");
        assert!(wrong.contains(said) && output.stdout.is_empty(), "{url}: {wrong}");
    }
}

/// A key, and a certificate for 127.0.0.1 that it has signed itself, for a server or an authority.
fn certificate(folder: &Path, kind: &str) -> String {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=tests", "-keyout", "key.pem"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-out", "certificate.pem"])
        .args(["-addext", &format!("basicConstraints=critical,{kind}")])
        .current_dir(folder)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
    folder.join("certificate.pem").to_str().unwrap().to_owned()
}

/// nginx that speaks TLS for a server.
fn with_tls(folder: &Path, behind: SocketAddr) -> (Process, SocketAddr) {
    let (address, top) = (free_address(), folder.display());
    let text = format!(
        "daemon off; pid {top}/nginx.pid; error_log stderr;\nevents {{}}\nhttp {{\n  access_log \
         off;\n  client_body_temp_path {top}/body; proxy_temp_path {top}/proxy;\n  \
         fastcgi_temp_path {top}/fastcgi; uwsgi_temp_path {top}/uwsgi; scgi_temp_path {top}/scgi;\n  \
         server {{ listen {address} ssl; ssl_certificate certificate.pem; ssl_certificate_key \
         key.pem;\n    location / {{ proxy_pass http://{behind}; }} }}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
    let top = folder.to_str().unwrap();
    let arguments = ["-p", top, "-c", "nginx.conf", "-e", "stderr"].map(String::from);
    let log = folder.join("log");
    let nginx = Process::start(Path::new("/usr/sbin/nginx"), &arguments, &[], &log);
    let listens = || std::net::TcpStream::connect(address).ok();
    let started = eventually(Duration::from_secs(20), listens);
    assert!(started.is_some(), "{}", fs::read_to_string(log).unwrap_or_default());
    (nginx, address)
}

#[test]
fn forms_are_posted_over_tls_to_a_server_whose_certificate_is_trusted() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let trusted = certificate(folder.path(), "CA:FALSE");
    let (_nginx, address) = with_tls(folder.path(), server.address);
    let form = folder.path().join("form");
    fs::write(&form, "thing=tea").unwrap();
    let url = format!("https://{address}/order.php");
    let flags = ["--p90", "5s", "--max-rate", "20", "--for", "30s", "--step", "1s"];
    let flags = [&flags[..], &["--data", form.to_str().unwrap()]].concat();
    for trust in [&["--cacert", &trusted][..], &["--insecure"]] {
        let (found, status) = report(&url, &[&flags[..], trust].concat());
        assert_eq!((found["peak"].as_f64(), status), (Some(20.0), Some(0)), "{found:#}");
    }
    for (more, said) in [
        (&[][..], "invalid peer certificate"),
        (&["--insecure", "--method", "PUT"], "status 400"),
        (&["--cacert", "/proc/missing"], "/proc/missing: "),
    ] {
        let output = capacity(&url, &[&flags[..], more].concat());
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(wrong.contains(said) && output.stdout.is_empty(), "{said} is not in: {wrong}");
    }
}

#[test]
fn an_authority_that_is_shown_as_a_server_is_named() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let trusted = certificate(folder.path(), "CA:TRUE");
    let (_nginx, address) = with_tls(folder.path(), server.address);
    let output = capacity(&format!("https://{address}/"), &["--cacert", &trusted]);
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{wrong}");
    assert!(wrong.contains("shows the certificate of an authority"), "{wrong}");
}

#[test]
fn a_page_that_computes_beside_programs_that_fill_the_machine_is_named_as_cpu() {
    let mut server = server();
    let folder = tempfile::tempdir().unwrap();
    // They take the machine from this server, but not from the servers of other tests.
    let cores = std::thread::available_parallelism().unwrap().get();
    let arguments = ["-n", "5", "sh", "-c", "while :; do :; done"].map(str::to_owned);
    let hog = |_| Process::start(Path::new("nice"), &arguments, &[], &folder.path().join("log"));
    let _others: Vec<Process> = (0..4 * cores).map(hog).collect();
    let group = server.main_process().pid().to_string();
    let renice = Command::new("renice").args(["-n", "10", "-g", &group]).output().unwrap();
    assert!(renice.status.success(), "{renice:?}");
    let url = format!("http://{}/compute.php", server.address);
    // On a slow machine the requests before the first rate take all of a short time.
    let tried = ["4s", "60s"].into_iter().find_map(|time| {
        let (found, _) = report(&url, &["--p90", "1ms", "--for", time, "--step", "1s"]);
        (!found["trials"].as_array().unwrap().is_empty()).then_some(found)
    });
    let found = tried.expect("a rate is tried");
    assert_eq!(found["ends"].as_str(), Some("CPU"), "{found:#}");
    assert!(found["why"].as_str().unwrap().contains("Other programs use most"), "{found:#}");
}

/// What ends nginx with php-fpm, of which so many children serve this page.
fn ends_of_the_peer(children: usize, page: &str) -> Value {
    let mut server = Setup::new(Kind::Peer).site("sites/capacity").workers(children).start();
    let fpm = server.first_process().pid().to_string();
    let url = format!("http://{}/{page}", server.address);
    let flags = ["--p90", "300ms", "--for", "120s", "--step", "3s", "--pid", &fpm];
    let (found, status) = report(&url, &flags);
    assert_eq!(status, Some(0), "{found:#}");
    found
}

#[test]
fn two_children_of_php_fpm_that_wait_are_named_as_workers() {
    let found = ends_of_the_peer(2, "?ms=50");
    // Two children that wait for 50 ms serve 40 requests a second; in a trial fewer than its rate
    // may come by chance.
    assert!(found["peak"].as_f64().unwrap() < 60.0, "{found:#}");
    let trials = found["trials"].as_array().unwrap();
    let mut broken = trials.iter().filter(|trial| trial["holds"].as_bool() == Some(false));
    // Where other programs take the whole machine, it may be what ends php-fpm.
    let has_room = |trial: &Value| {
        let [machine, cores] = ["machine", "cores"].map(|key| trial["cpu"][key].as_f64().unwrap());
        machine < 0.85 * cores
    };
    if broken.all(has_room) {
        assert_eq!(found["ends"].as_str(), Some("workers"), "{found:#}");
    }
}

#[test]
fn children_of_php_fpm_that_compute_are_named_as_cpu() {
    let found = ends_of_the_peer(2, "compute.php");
    // Where other programs take most of the machine, php-fpm has no CPU to use up.
    let has_its_share = |trial: &Value| {
        let [machine, server] = ["machine", "server"].map(|key| trial["cpu"][key].as_f64());
        server.unwrap() > 0.35 * machine.unwrap()
    };
    let trials = found["trials"].as_array().unwrap();
    let mut broken = trials.iter().filter(|trial| trial["holds"].as_bool() == Some(false));
    if broken.all(has_its_share) {
        assert_eq!(found["ends"].as_str(), Some("CPU"), "{found:#}");
    }
}
