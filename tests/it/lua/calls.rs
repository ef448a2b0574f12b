//! Calls of scripts, straight-line for the script: to nginx, to Redis, to this server itself, and
//! to peers that behave badly. One event loop serves all of it, so whatever held it up would be
//! seen.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::servers::Scripted;
use crate::harness::{Connection, Process, eventually, free_address, get, in_parallel};
use crate::services::mariadb::PASSWORD;
use crate::services::redis::Redis;

/// nginx, as the service that is called.
struct Nginx {
    _process: Process,
    folder: TempDir,
    address: SocketAddr,
}

impl Nginx {
    /// Starts it with these lines in its server block, where `TOP` is its folder.
    fn start(lines: &str) -> Nginx {
        Nginx::start_in(folder(), lines)
    }

    fn start_in(folder: TempDir, lines: &str) -> Nginx {
        let address = free_address();
        let top = folder.path().to_str().unwrap();
        let text = format!(
            "daemon off; worker_processes 1; pid {top}/pid; error_log stderr; events {{}}\n\
             http {{ access_log off; client_body_temp_path {top}; proxy_temp_path {top}; \
             fastcgi_temp_path {top};\n\
             uwsgi_temp_path {top}; scgi_temp_path {top}; server {{ listen {address}; {} }} }}",
            lines.replace("TOP", top)
        );
        let configuration = folder.path().join("nginx.conf");
        fs::write(&configuration, text).unwrap();
        let arguments =
            ["-p", top, "-c", configuration.to_str().unwrap(), "-e", "stderr"].map(String::from);
        let log = folder.path().join("log");
        let process = Process::start(Path::new("/usr/sbin/nginx"), &arguments, &[], &log);
        let there = eventually(Duration::from_secs(20), || TcpStream::connect(address).ok());
        assert!(there.is_some(), "{}", fs::read_to_string(log).unwrap_or_default());
        Nginx { _process: process, folder, address }
    }
}

fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("tokamak-calls-").tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    folder
}

/// A peer that treats each connection like this, by its number. It ends with the test.
fn peer(treat: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let treat = Arc::new(treat);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let treat = treat.clone();
            thread::spawn(move || treat(number, stream));
        }
    });
    address
}

/// Reads a request without a body; nothing if the connection ends.
fn request_of(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

#[test]
fn http_requests_arrive_as_they_are_meant() {
    let nginx = Nginx::start(
        "location / { add_header X-Asked \"$request_method $request_uri $host $http_x_test \
            $content_length\";\n\
         add_header Set-Cookie a=1; add_header Set-Cookie b=2; return 200 'hello'; }\n\
         location /missing { return 404 'none'; }",
    );
    let service = nginx.address;
    let server = Scripted::answering(
        "",
        &[],
        &[
            (
                "get",
                &format!(
                    "local r, problem = tokamak.http.get('http://{service}/a%20b?c=d', {{ headers \
                        = {{ ['X-Test'] = 'x y' }} }})
                     return show(problem, r.status, r.body, r.headers['X-Asked'], \
                     r.headers['set-cookie'])"
                ),
            ),
            (
                "post",
                &format!(
                    "local r = tokamak.http.post('http://{service}', ('x'):rep(5000), {{ headers \
                        = {{ Host = 'other' }} }})
                     return show(r.headers['x-asked'])"
                ),
            ),
            (
                "missing",
                &format!(
                    "local r = tokamak.http.get('http://{service}/missing') return \
                show(r.status, r.body)"
                ),
            ),
            (
                "head",
                &format!(
                    "local r = tokamak.http.request {{ url = 'http://{service}/', method = 'HEAD' }} \
                    return show(r.status, #r.body)"
                ),
            ),
            // What another script of this server has received.
            (
                "body",
                "local r = tokamak.http.request { url = self .. '/echo', method = 'PUT', \
                body = 'a\\0b' } return show(#r.body, r.body)",
            ),
            (
                "echo",
                "if not lighty.r.req_body.collect then return 0 end return \
                show(lighty.r.req_body.get)",
            ),
        ],
    );
    let host = service.ip();
    let shown = server.shown("/get");
    assert_eq!(
        lines(&shown),
        ["nil", "200", "hello", &format!("GET /a%20b?c=d {host} x y"), "[a=1 b=2]"]
    );
    assert_eq!(server.shown("/post").trim(), "POST / other  5000");
    assert_eq!(server.shown("/missing"), "404\nnone");
    assert_eq!(server.shown("/head"), "200\n0");
    assert_eq!(server.shown("/body"), "3\na\0b");
}

#[test]
fn connections_are_kept() {
    let nginx = Nginx::start("keepalive_requests 4; location / { return 200 '$connection'; }");
    let script = format!("return show(tokamak.http.get('http://{}/').body)", nginx.address);
    let server = Scripted::answering("", &[], &[("ask", &script)]);
    let mut connections: Vec<String> = (0..12).map(|_| server.shown("/ask")).collect();
    connections.dedup();
    // nginx closes each after four requests.
    assert_eq!(connections.len(), 3, "{connections:?}");
}

/// The peer closes a kept connection instead of answering over it: what may be repeated is, once.
#[test]
fn a_closed_connection_costs_no_repeatable_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = peer(move |number, mut stream| {
        if request_of(&mut stream).is_some() {
            stream.write_all(FINE.as_bytes()).unwrap();
            // The second request of a connection is read, and then the connection is closed.
            if let Some(text) = request_of(&mut stream) {
                assert!(number < 2, "{text}");
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let url = format!("http://{service}/");
    let server = Scripted::answering(
        "",
        &[],
        &[
            (
                "get",
                &format!(
                    "local r, problem = tokamak.http.get('{url}') return show(r and r.body, problem)"
                ),
            ),
            (
                "post",
                &format!(
                    "local r, problem = tokamak.http.post('{url}', 'x') return show(r and r.body, \
                        problem)"
                ),
            ),
        ],
    );
    assert_eq!(server.shown("/get"), "fine\nnil");
    // The first connection is gone, the second answers.
    assert_eq!(server.shown("/get"), "fine\nnil");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // The second is gone as well, and a POST might have had its effect.
    let shown = server.shown("/post");
    assert!(shown.starts_with("nil\nthe connection broke"), "{shown}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn bad_peers_give_a_message() {
    let service = peer(|_, mut stream| {
        let Some(request) = request_of(&mut stream) else { return };
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let answer = match path.as_str() {
            "/garbage" => b"\0\xff what?\r\n\r\n".to_vec(),
            "/nothing" => Vec::new(),
            "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort".to_vec(),
            "/chunks" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n".to_vec(),
            "/lengths" => {
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc".to_vec()
            }
            "/claims" => b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n".to_vec(),
            "/head" => [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: y\r\n".repeat(100_000)].concat(),
            "/endless" => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while stream.write_all(&[b'x'; 65_536]).is_ok() {}
                return;
            }
            "/silent" => {
                let _ = stream.read(&mut [0]);
                return;
            }
            _ => FINE.as_bytes().to_vec(),
        };
        let _ = stream.write_all(&answer);
    });
    let nobody = free_address();
    let ask = format!(
        "local target = lighty.env['uri.query']
         local url = target:find(':', 1, true) and target or 'http://{service}' .. target
         local r, problem = tokamak.http.get(url, {{ timeout = 1, max_body = 100000 }})
         return show(r and r.body, problem)"
    );
    let server = Scripted::answering(
        "",
        &[],
        &[
            ("ask", &ask),
            (
                "header",
                &format!(
                    "return show(tokamak.http.get('http://{service}/', {{ headers = {{ \
                        [lighty.c.urldec(lighty.env['uri.query'])] = \
                        lighty.c.urldec(lighty.env['uri.query']) }} }}))"
                ),
            ),
            (
                "split",
                &format!(
                    "return show(tokamak.http.get('http://{service}/', {{ headers = {{ x = \
                        'a\\r\\nb: c' }} }}))"
                ),
            ),
            (
                "method",
                &format!(
                    "return show(tokamak.http.request {{ url = 'http://{service}/', method = 'GET \
                        / HTTP' }})"
                ),
            ),
            ("url", &format!("return show(tokamak.http.get('http://{service}/a\\r\\nX: y'))")),
        ],
    );
    for (target, message) in [
        ("/garbage", "the response is broken"),
        ("/nothing", "the connection broke"),
        ("/short", "the response is broken"),
        ("/chunks", "the response is broken"),
        ("/lengths", "the response is broken"),
        ("/claims", "more than 100000 bytes"),
        ("/head", "the response is broken"),
        ("/endless", "more than 100000 bytes"),
        ("/silent", "no response within 1s"),
        (&format!("http://{nobody}/"), "no connection to"),
        ("http://name.invalid/", "no connection to name.invalid:80"),
        ("https://127.0.0.1:1/", "no connection to 127.0.0.1:1"),
        ("ftp://127.0.0.1/", "neither http:// nor https://"),
        (&format!("http://good.example@{service}/"), "it has a user's name"),
        ("http:///x", "the URL cannot be asked"),
    ] {
        let shown = server.shown(&format!("/ask?{target}"));
        assert!(shown.starts_with("nil\n") && shown.contains(message), "{target}: {shown}");
    }
    assert_eq!(server.shown("/ask?/fine"), "fine\nnil");
    for name in ["Content-Length", "Transfer-Encoding", "Connection", "a b"] {
        let shown = server.shown(&format!("/header?{}", name.replace(' ', "%20")));
        assert!(shown.contains("cannot be sent"), "{name}: {shown}");
    }
    assert!(server.shown("/split").contains("cannot be sent"));
    assert!(server.shown("/method").contains("no such method"));
    assert!(server.shown("/url").contains("cannot be asked"));
}

/// A peer that refuses a body says so before it has read it, and closes the connection.
#[test]
fn an_answer_counts_before_the_body_is_sent() {
    let service = peer(|_, mut stream| {
        if request_of(&mut stream).is_some() {
            stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge").unwrap();
            // Not before the test is over: what has not been read would take the answer along.
            let _ = stream.shutdown(Shutdown::Write);
            thread::sleep(Duration::from_secs(20));
        }
    });
    let script = format!(
        "local r, problem = tokamak.http.post('http://{service}/', ('x'):rep(6e6))
         return show(r and r.status, r and r.body, problem)"
    );
    let server = Scripted::answering("", &[], &[("ask", &script)]);
    assert_eq!(server.shown("/ask"), "413\nlarge\nnil");
}

/// Bytes behind a response are not the answer to the next request, whether they come with it or
/// later.
#[test]
fn unasked_bytes_end_a_connection() {
    let service = peer(|number, mut stream| {
        while request_of(&mut stream).is_some() {
            let fine = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            match number {
                0 => stream.write_all(format!("{fine}{FINE}").as_bytes()).unwrap(),
                1 => {
                    stream.write_all(fine.as_bytes()).unwrap();
                    thread::sleep(Duration::from_millis(100));
                    stream.write_all(FINE.as_bytes()).unwrap();
                }
                _ => stream.write_all(fine.as_bytes()).unwrap(),
            }
        }
    });
    let script = format!(
        "local r, problem = tokamak.http.get('http://{service}/') tokamak.sleep(0.3) return \
            show(r and r.body, problem)"
    );
    let server = Scripted::answering("", &[], &[("ask", &script)]);
    for expected in ["0\nnil", "1\nnil", "2\nnil", "2\nnil"] {
        assert_eq!(server.shown("/ask"), expected);
    }
}

/// Ten scripts wait for answers that scripts of the same event loop give half a second later.
#[test]
fn a_slow_service_does_not_hold_up_others() {
    let server = Scripted::answering(
        "",
        &[],
        &[
            ("slow", "tokamak.sleep(1) return show('slow')"),
            ("ask", "return show(tokamak.http.get(self .. '/slow').body)"),
            (
                "both",
                "local function ask() return tokamak.http.get(self .. '/meet').body end
                      local got = tokamak.all { one = ask, other = ask } return show(got.one, \
                      got.other)",
            ),
            // Two are answered when both have asked.
            (
                "meet",
                "_G.here = (_G.here or 0) + 1 while _G.here < 2 do tokamak.sleep(0.01) end
                      return show('met')",
            ),
            ("late", "return show(tokamak.http.get(self .. '/slow', { timeout = 0.1 }))"),
        ],
    );
    let began = Instant::now();
    in_parallel(10, |_| assert_eq!(server.shown("/ask"), "slow"));
    assert!(began.elapsed() < Duration::from_secs(8), "one after the other: {:?}", began.elapsed());
    assert_eq!(server.shown("/both"), "met\nmet");
    assert_eq!(server.shown("/late"), "nil\nno response within 100ms");
}

/// A script whose client has gone, or whose time is up, asks nobody any longer.
#[test]
fn calls_end_with_their_script() {
    let (sender, events) = mpsc::channel();
    let service = peer(move |_, mut stream| {
        let _ = request_of(&mut stream);
        let _ = sender.send("asked");
        let _ = stream.read(&mut [0]);
        let _ = sender.send("left");
    });
    let next_event = || events.recv_timeout(Duration::from_secs(15));
    let script = format!("return show(tokamak.http.get('http://{service}/', {{ timeout = 60 }}))");
    let server = Scripted::answering("lua.total = \"60s\"", &[], &[("ask", &script)]);
    let mut client = Connection::open(server.address());
    client.send(get("/ask").header("Host", "test").bytes());
    assert_eq!(next_event(), Ok("asked"));
    drop(client);
    assert_eq!(next_event(), Ok("left"), "the call has ended with its client");
    drop(server);
    let server = Scripted::answering("lua.total = \"1s\"", &[], &[("ask", &script)]);
    let response = server.send("test", &get("/ask"));
    assert_eq!(response.status(), 503);
    assert_eq!(next_event(), Ok("asked"));
    assert_eq!(next_event(), Ok("left"), "the call has ended with its script");
}

#[test]
fn sockets_are_named_by_the_script_alone() {
    let nginx =
        Nginx::start("listen unix:TOP/socket; location / { return 200 '$host$request_uri'; }");
    let socket = nginx.folder.path().join("socket");
    fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let socket = socket.display();
    let server = Scripted::answering(
        "",
        &[],
        &[
            (
                "ask",
                &format!(
                    "return show(tokamak.http.get('http://app/x', {{ socket = '{socket}' }}).body)"
                ),
            ),
            (
                "none",
                "return show(tokamak.http.get('http://app/', { socket = '/nonexistent/socket' }))",
            ),
        ],
    );
    assert_eq!(server.shown("/ask"), "app/x");
    assert!(server.shown("/none").contains("no connection to /nonexistent/socket"));
}

#[test]
fn certificates_are_looked_at() {
    let folder = folder();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"])
        .args([
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder.path())
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let certificate = folder.path().join("cert.pem");
    let secure = free_address();
    let nginx = Nginx::start_in(
        folder,
        &format!(
            "listen {secure} ssl; ssl_certificate TOP/cert.pem; ssl_certificate_key TOP/key.pem;\n\
             location / {{ return 200 '$ssl_protocol $connection'; }}"
        ),
    );
    let port = secure.port();
    let scripts = [
        (
            "named",
            format!(
                "local r, problem = tokamak.http.get('https://localhost:{port}/') return show(r \
                    and r.body, problem)"
            ),
        ),
        (
            "other",
            format!(
                "local r, problem = tokamak.http.get('https://127.0.0.1:{port}/') return show(r \
                    and r.body, problem)"
            ),
        ),
        (
            "clear",
            format!(
                "local r, problem = tokamak.http.get('https://{}/') return show(r and r.body, \
                    problem)",
                nginx.address
            ),
        ),
    ];
    let scripts = scripts.each_ref().map(|(name, text)| (*name, text.as_str()));
    let trust = [("SSL_CERT_FILE".to_owned(), certificate.display().to_string())];
    let server = Scripted::answering("", &trust, &scripts);
    let first = server.shown("/named");
    assert!(first.starts_with("TLSv1.") && first.ends_with("\nnil"), "{first}");
    assert_eq!(server.shown("/named"), first, "the connection is kept");
    assert!(server.shown("/other").starts_with("nil\nno connection to"), "for another name");
    assert!(server.shown("/clear").starts_with("nil\nno connection to"), "no TLS");
    // Whom the system does not know it does not trust.
    let server = Scripted::answering("", &[], &scripts);
    assert!(server.shown("/named").starts_with("nil\nno connection to"));
}

/// This server asks itself, without a socket: files, scripts, PHP.
#[test]
fn the_server_is_asked_by_itself() {
    let server = Scripted::answering(
        "[[site]]\nhost = \"php\"\nroot = \"TOP/scripts\"",
        &[],
        &[
            (
                "file",
                "local r = tokamak.fetch('/page.html') return show(r.status, \
                r.headers['Content-Type'], r.body)",
            ),
            ("missing", "local r = tokamak.fetch('/none.html') return show(r.status)"),
            (
                "script",
                "local r = tokamak.fetch('/echo?a=b', { body = 'text', headers = { \
                ['X-Test'] = 'x' } })
                        return show(r.status, r.body)",
            ),
            (
                "echo",
                "if not lighty.r.req_body.collect then return 0 end
                      return show(lighty.r.req_attr['request.method'], \
                      lighty.r.req_attr['uri.query'], lighty.r.req_body.get,
                          lighty.request['X-Test'], lighty.request['Host'], \
                          lighty.env['request.remote-ip'])",
            ),
            (
                "php",
                "local r = tokamak.fetch('/page.php?n=7', { method = 'PUT', body = 'hello', \
                headers = { Host = 'php' } })
                     return show(r.status, r.headers['x-powered'], r.body)",
            ),
            (
                "again",
                "local r, problem = tokamak.fetch('/again') return show(r and r.body or \
                problem)",
            ),
            ("large", "return show(tokamak.fetch('/page.html', { max_body = 3 }))"),
            (
                "short",
                "local r = tokamak.fetch('/length.php?length=9', { headers = { Host = 'php' \
                } }) return show(r.status)",
            ),
            (
                "long",
                "local r = tokamak.fetch('/length.php?length=3', { headers = { Host = 'php' \
                } })
                      return show(r.status, r.body)",
            ),
            ("slow", "tokamak.sleep(5)"),
            ("late", "return show(tokamak.fetch('/slow', { timeout = 0.1 }))"),
            ("url", "return show(tokamak.fetch('http://elsewhere/'))"),
            ("split", "return show(tokamak.fetch('/', { headers = { a = 'b\\r\\nc: d' } }))"),
        ],
    );
    fs::write(
        server.script("page").with_extension("php"),
        "<?php header('X-Powered: yes'); echo $_SERVER['REQUEST_METHOD'], ' ', $_GET['n'], ' ', \
         file_get_contents('php://input'), ' ', $_SERVER['REMOTE_ADDR'];",
    )
    .unwrap();
    fs::write(
        server.script("length").with_extension("php"),
        "<?php header('Content-Length: ' . $_GET['length']); echo 'hello';",
    )
    .unwrap();
    let page = server.send("test", &get("/page.html")).text();
    assert_eq!(server.shown("/file"), format!("200\ntext/html\n{page}"));
    assert_eq!(server.shown("/missing"), "404");
    assert_eq!(server.shown("/script"), "200\nPOST\na=b\ntext\nx\ntest\n127.0.0.1");
    assert_eq!(server.shown("/php"), "200\nyes\nPUT 7 hello 127.0.0.1");
    assert_eq!(server.shown("/again"), "requests are made for each other without end");
    assert_eq!(server.shown("/large"), "nil\nthe response has more than 3 bytes");
    assert_eq!(server.shown("/short"), "502");
    assert_eq!(server.shown("/long"), "200\nhel");
    assert_eq!(server.shown("/late"), "nil\nno response within 100ms");
    assert!(server.shown("/url").contains("cannot be asked"), "{}", server.shown("/url"));
    assert!(server.shown("/split").contains("'a' cannot be sent"));
}

fn redis_of(redis: &Redis) -> String {
    format!("local redis = tokamak.redis {{ port = {}, password = '{PASSWORD}' }} ", redis.port())
}

#[test]
fn redis_answers() {
    let redis = Redis::start();
    let open = redis_of(&redis);
    let port = redis.port();
    let script = |text: &str| format!("{open} {text}");
    let scripts = [
        (
            "values",
            script(
                "return show(redis:set('a', 'x\\0y'), redis:get('a'), redis:incr('n'), \
            redis:incrby('n', 41),
            redis:rpush('l', 1, 2, 3), redis:lrange('l', 0, -1), redis:hset('h', 'k', 0.5), \
            redis:hgetall('h'), redis:get('none'),
            #redis:mget('a', 'none', 'n'), redis:mget('none')[1] == tokamak.null, \
            redis:eval('return {1, {2}}', 0))",
            ),
        ),
        (
            "wrong",
            script(
                "local value, problem = redis:incr('l') return show(value, problem, \
            redis:nonsense())",
            ),
        ),
        (
            "pipeline",
            script(
                "return show(redis:pipeline { { 'set', 'p', 1 }, { 'incr', 'l' }, { \
            'get', 'p' } })",
            ),
        ),
        (
            "transaction",
            script(
                "return show(redis:transaction { { 'incr', 't' }, { 'incr', 't' } \
            }, redis:get('t'))",
            ),
        ),
        ("broken", script("return show(redis:transaction { { 'incr', 't' }, { 'nonsense' } })")),
        ("block", script("return show(redis:blpop('l', 0))")),
        ("multi", script("return show(redis:multi())")),
        (
            "database",
            format!(
                "local other = tokamak.redis {{ port = {port}, password = \
            '{PASSWORD}', database = 3 }}
            other:set('where', 'three') {open} return show(other:get('where'), redis:get('where'))"
            ),
        ),
        ("stranger", format!("return show(tokamak.redis('127.0.0.1:{port}'):get('a'))")),
        (
            "password",
            format!(
                "return show(tokamak.redis {{ port = {port}, password = 'wrong' \
            }}:get('a'))"
            ),
        ),
        (
            "nobody",
            format!("return show(tokamak.redis('127.0.0.1:{}'):get('a'))", free_address().port()),
        ),
    ];
    let server = Scripted::answering(
        "",
        &[],
        &scripts.each_ref().map(|(name, text)| (*name, text.as_str())),
    );
    assert_eq!(
        lines(&server.shown("/values")),
        ["OK", "x\0y", "1", "42", "3", "[1 2 3]", "1", "[k 0.5]", "nil", "3", "true", "[1 [2]]"]
    );
    let wrong = server.shown("/wrong");
    assert!(
        wrong.starts_with("nil\nWRONGTYPE ") && wrong.contains("\nnil\nERR unknown command"),
        "{wrong}"
    );
    let pipeline = server.shown("/pipeline");
    assert!(
        pipeline.starts_with("[OK [false WRONGTYPE ") && pipeline.ends_with("] 1]"),
        "{pipeline}"
    );
    assert_eq!(server.shown("/transaction"), "[1 2]\n2");
    assert!(server.shown("/broken").starts_with("nil\nEXECABORT"), "{}", server.shown("/broken"));
    assert!(
        server.shown("/block").contains("BLPOP is not for a connection that all requests share")
    );
    assert!(server.shown("/multi").contains("use transaction"));
    assert_eq!(server.shown("/database"), "three\nnil");
    assert!(server.shown("/stranger").starts_with("nil\nNOAUTH"));
    assert!(
        server.shown("/password").contains("no connection to 127.0.0.1"),
        "{}",
        server.shown("/password")
    );
    assert!(server.shown("/nobody").contains("no connection to 127.0.0.1"));
}

#[test]
fn all_requests_share_one_connection_to_redis() {
    let redis = Redis::start();
    let open = redis_of(&redis);
    let ask = format!(
        "{open} local n = redis:incr('n') tokamak.sleep(0.05) return show(n, redis:get('n') ~= nil)"
    );
    let count =
        format!("{open} return show((redis:info('clients'):match('connected_clients:(%d+)')))");
    let server = Scripted::answering("", &[], &[("ask", &ask), ("count", &count)]);
    in_parallel(64, |_| assert!(server.shown("/ask").ends_with("\ntrue")));
    assert_eq!(server.shown("/count"), "1");
}

/// A server that was started anew is asked over a new connection, without a message to anybody.
#[test]
fn a_restarted_redis_is_found_again() {
    let redis = Redis::start();
    let (open, port) = (redis_of(&redis), redis.port());
    let script = format!("{open} local value, problem = redis:ping() return show(value, problem)");
    let server = Scripted::answering("", &[], &[("ask", &script)]);
    assert_eq!(server.shown("/ask"), "PONG\nnil");
    drop(redis);
    assert!(server.shown("/ask").starts_with("nil\nno connection to"), "{}", server.shown("/ask"));
    let _redis = Redis::start_on(port);
    assert_eq!(server.shown("/ask"), "PONG\nnil");
}

#[test]
fn a_redis_that_talks_nonsense_or_nothing_gives_a_message() {
    let nonsense = peer(|_, mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let silent =
        peer(|_, mut stream| while stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {});
    let script = |peer: SocketAddr| {
        format!("return show(tokamak.redis {{ port = {}, timeout = 0.3 }}:get('a'))", peer.port())
    };
    let server = Scripted::answering(
        "",
        &[],
        &[("nonsense", &script(nonsense)), ("silent", &script(silent))],
    );
    for _ in 0..2 {
        let shown = server.shown("/nonsense");
        assert!(shown.starts_with("nil\n") && shown.len() > 6, "{shown}");
        assert_eq!(server.shown("/silent"), "nil\nno reply within 300ms");
    }
}

#[test]
fn files_are_read() {
    let folder = folder();
    let top = folder.path().display().to_string();
    fs::write(folder.path().join("file"), b"some\0thing").unwrap();
    fs::set_permissions(
        folder.path().join("file"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    let made = Command::new("mkfifo").args(["-m", "666", &format!("{top}/pipe")]).status().unwrap();
    assert!(made.success());
    let script =
        format!("return show(tokamak.file.read('{top}/' .. (lighty.env['uri.query'] or ''), 10))");
    let server = Scripted::answering("", &[], &[("ask", &script)]);
    assert_eq!(server.shown("/ask?file"), "some\0thing");
    fs::write(folder.path().join("file"), b"some more things").unwrap();
    assert!(server.shown("/ask?file").ends_with("/file: it has more than 10 bytes"));
    assert!(server.shown("/ask?none").contains("/none: No such file"));
    assert!(server.shown("/ask?pipe").ends_with("/pipe: it is no file"));
    assert!(server.shown("/ask").contains("it is no file"));
}

#[test]
fn the_last_stage_may_wait_too() {
    let nginx = Nginx::start("location / { return 200 'remote'; }");
    let script =
        format!("lighty.header['X-Called'] = tokamak.http.get('http://{}/').body", nginx.address);
    let server = Scripted::tokamak(&[("deny", super::servers::Hook::Response)]);
    fs::write(server.script("deny"), script).unwrap();
    let called = eventually(Duration::from_secs(20), || {
        let response = server.send("deny", &get("/page.html"));
        response.header("x-called").map(str::to_owned)
    });
    assert_eq!(called.as_deref(), Some("remote"), "{}", server.log());
}
