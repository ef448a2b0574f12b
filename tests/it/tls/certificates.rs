//! Certificates and keys: which one a client gets, new files, wrong files, and where keys are not.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{Folder, Secured, secured, secured_in};
use crate::harness::{Kind, Setup, eventually, is_root, program};
use crate::supervise::children;

/// The name of the certificate that a client gets, if it gets any.
fn shown(secured: &Secured, name: Option<&str>) -> Option<String> {
    let flags = name.map_or(vec!["-noservername"], |name| vec!["-servername", name]);
    let printed = secured.s_client(&flags, "");
    let subject = printed.lines().find_map(|line| line.strip_prefix("subject="))?;
    subject.split("CN = ").nth(1).map(str::to_owned)
}

#[test]
fn names_have_their_certificates() {
    for (unknown, other) in [("default", Some("of_all")), ("refuse", None)] {
        let folder = Folder::new();
        folder.certificate("localhost", &["localhost"]);
        folder.certificate("of_all", &["first.example", "*.wild.example"]);
        folder.certificate("beside", &["beside.example"]);
        folder.openssl(&["genpkey", "-algorithm", "ed25519", "-out", "common.key"]);
        common(&folder, "common.key", "common.example");
        let files = ["of_all", "beside", "common"];
        let list = |ending: &str| {
            let path = |file: &str| folder.path(&format!("{file}.{ending}"));
            format!("{:?}", files.map(path))
        };
        let lines = [
            format!("tls.certificate = {}", list("pem")),
            format!("tls.key = {}", list("key")),
            format!("tls.unknown_name = \"{unknown}\""),
        ];
        let lines = lines.each_ref().map(String::as_str);
        let secured = secured_in(folder, Setup::new(Kind::Classic), &lines, &[]);
        for (name, expected) in [
            (Some("localhost"), Some("localhost")),
            (Some("LOCALHOST"), Some("localhost")),
            (Some("first.example"), Some("of_all")),
            (Some("beside.example"), Some("beside")),
            (Some("common.example"), Some("common.example")),
            (Some("a.wild.example"), Some("of_all")),
            (Some("a.b.wild.example"), other),
            (Some("unknown.example"), other),
            (None, other),
        ] {
            assert_eq!(shown(&secured, name).as_deref(), expected, "{name:?}, {unknown}");
        }
    }
}

#[test]
fn new_files_are_used_and_broken_ones_are_not() {
    let secured = secured(Kind::Classic, &[], &[]);
    let takes = |expected: &str| {
        let is_shown = || (shown(&secured, None)? == expected).then_some(());
        eventually(Duration::from_secs(30), is_shown).expect("the new certificate is used");
    };
    let copy = |from: &str, ending: &str| {
        let to = secured.folder.path(&format!("localhost.{ending}"));
        fs::copy(secured.folder.path(&format!("{from}.{ending}")), to).unwrap();
    };
    secured.folder.certificate("second", &["localhost"]);
    secured.folder.certificate("third", &["localhost"]);
    takes("localhost");
    copy("second", "pem");
    copy("second", "key");
    takes("second");
    secured.server.log_line(&["new certificate in use", "localhost.pem"]);
    // A key that does not fit.
    copy("third", "key");
    let line = secured.server.log_line(&["certificate not taken", "localhost.key"]);
    assert!(line.contains("does not fit") && line.contains("stays in use"), "{line}");
    assert_eq!(shown(&secured, None).as_deref(), Some("second"));
    copy("third", "pem");
    takes("third");
    // No file at all, and back again.
    fs::rename(secured.folder.path("localhost.pem"), secured.folder.path("away")).unwrap();
    secured.server.log_line(&["certificate not taken", "localhost.pem", "No such file"]);
    assert_eq!(shown(&secured, None).as_deref(), Some("third"));
    fs::rename(secured.folder.path("away"), secured.folder.path("localhost.pem")).unwrap();
    let log = secured.server.log();
    assert!(!log.contains("reload"), "without a reload: {log}");
    assert!(!log.contains("PRIVATE KEY"), "{log}");
}

#[test]
fn wrong_files_are_explained() {
    let folder = Folder::new();
    folder.certificate("one", &["localhost"]);
    folder.certificate("two", &["localhost"]);
    folder.openssl(&[
        "pkey",
        "-in",
        "one.key",
        "-aes256",
        "-passout",
        "pass:x",
        "-out",
        "locked.key",
    ]);
    fs::write(folder.path("empty"), "").unwrap();
    fs::write(folder.path("index.html"), "").unwrap();
    let long = "-----BEGIN CERTIFICATE-----\nMIIB!!!\n-----END CERTIFICATE-----\n";
    fs::write(folder.path("damaged"), long).unwrap();
    expired(&folder);
    common(&folder, "one.key", "common.example");
    for (certificate, key, expected) in [
        ("one.pem", "one.key", &["configuration is good", "https://127.0.0.1:1"][..]),
        ("one.pem", "two.key", &["two.key", "does not fit"]),
        ("one.pem", "locked.key", &["locked.key", "encrypted", "openssl pkey"]),
        ("one.pem", "empty", &["empty", "no key"]),
        ("one.pem", "one.pem", &["one.pem", "no key"]),
        ("empty", "one.key", &["empty", "no certificate"]),
        ("damaged", "one.key", &["damaged", "is damaged"]),
        ("missing", "one.key", &["tokamak.toml:3: tls.certificate", "is not a file"]),
        ("common.pem", "one.key", &["for CN=common.example has no subjectAltName", "is good"]),
        ("old.pem", "one.key", &["has expired", "old.pem", "configuration is good"]),
    ] {
        let text = format!(
            "listen_tls = [\"127.0.0.1:1\"]\n[tls]\ncertificate = [\"{certificate}\"]\nkey = \
             [\"{key}\"]\n"
        );
        fs::write(folder.path("tokamak.toml"), text).unwrap();
        let output =
            Command::new(program()).arg("check").current_dir(folder.path("")).output().unwrap();
        let all = [&output.stdout[..], &output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        for part in expected {
            assert!(all.contains(part), "{certificate} {key}: {part} is not in {all}");
        }
        assert_eq!(output.status.success(), all.contains("configuration is good"), "{all}");
    }
}

/// Makes `common.pem` for a key, with a name where only old programs look for it.
fn common(folder: &Folder, key: &str, name: &str) {
    let subject = format!("/CN={name}");
    folder.openssl(&["req", "-x509", "-key", key, "-subj", &subject, "-out", "common.pem"]);
}

/// Makes `old.pem`, which ended in 2020, for the key `one.key`.
fn expired(folder: &Folder) {
    let settings = "[ca]\ndefault_ca = own\n[own]\ndatabase = index\nnew_certs_dir = .\nserial = \
        serial\nx509_extensions = more\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n[more]\n\
        basicConstraints = CA:FALSE\n";
    fs::write(folder.path("ca.cnf"), settings).unwrap();
    fs::write(folder.path("index"), "").unwrap();
    fs::write(folder.path("serial"), "01").unwrap();
    folder.openssl(&["req", "-new", "-key", "one.key", "-subj", "/CN=old", "-out", "old.csr"]);
    let common = ["ca", "-batch", "-selfsign", "-config", "ca.cnf", "-keyfile", "one.key"];
    let dates = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"];
    let files = ["-notext", "-in", "old.csr", "-out", "old.pem"];
    folder.openssl(&[&common[..], &dates, &files].concat());
}

#[test]
fn keys_are_nowhere_but_where_they_are_used() {
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    let mut secured = secured_in(folder, Setup::new(Kind::Sealed).workers(1), &[], &[]);
    assert!(secured.text("/hello.php", &[]).contains("Hello"));
    let key = fs::read_to_string(secured.folder.path("localhost.key")).unwrap();
    let middle = key.lines().nth(1).unwrap().to_owned();
    secured.folder.openssl(&["pkey", "-in", "localhost.key", "-outform", "DER", "-out", "der"]);
    let der = fs::read(secured.folder.path("der")).unwrap();
    // The private number of a P-256 key in PKCS#8.
    let number = der[36..68].to_vec();
    let printed = Command::new(program())
        .args(["check", "--print", "--config"])
        .arg(secured.server.state_file("").parent().unwrap().join("tokamak.toml"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.contains("localhost.key"), "the path is shown: {printed}");
    assert!(!printed.contains(&middle), "{printed}");
    assert!(!secured.server.log().contains(&middle));
    if !is_root() {
        return; // Nobody else may look into processes.
    }
    let supervisor = secured.server.main_process().pid();
    let zygotes = children(supervisor.into(), "zygote");
    assert!(!zygotes.is_empty());
    let mut workers = Vec::new();
    for zygote in &zygotes {
        let list = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap();
        workers.extend(list.split_whitespace().map(|pid| pid.parse::<u64>().unwrap()));
    }
    assert!(!workers.is_empty());
    // The way to look is right: the supervisor has read the file.
    assert!(has(supervisor.into(), middle.as_bytes()), "the supervisor has the key");
    for pid in zygotes.into_iter().chain(workers) {
        for (form, what) in [("text", middle.as_bytes()), ("number", &number)] {
            assert!(!has(pid, what), "the {form} of the key is in process {pid}");
        }
    }
}

/// Whether the memory of a process that it may write has these bytes.
fn has(pid: u64, what: &[u8]) -> bool {
    // In Python, because this program is built without optimisation.
    let script = "import sys\n\
        what = bytes.fromhex(sys.argv[2])\n\
        memory = open(f'/proc/{sys.argv[1]}/mem', 'rb', 0)\n\
        for line in open(f'/proc/{sys.argv[1]}/maps'):\n    \
            place, rights = line.split()[:2]\n    \
            if not rights.startswith('rw'): continue\n    \
            start, end = (int(number, 16) for number in place.split('-'))\n    \
            try:\n        \
                memory.seek(start)\n        \
                part = memory.read(end - start)\n    \
            except OSError: continue\n    \
            if what in part: print('found'); break\n";
    let hex: String = what.iter().map(|byte| format!("{byte:02x}")).collect();
    let output =
        Command::new("python3").args(["-c", script, &pid.to_string(), &hex]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout.starts_with(b"found")
}

#[test]
fn an_open_connection_outlives_new_certificates() {
    let secured = secured(Kind::Classic, &[], &[]);
    secured.folder.certificate("second", &["localhost"]);
    let script = "import socket, ssl, sys, time\n\
        context = ssl.create_default_context(cafile=sys.argv[2])\n\
        host, port = sys.argv[1].split(':')\n\
        plain = socket.create_connection((host, int(port)), 30)\n\
        tls = context.wrap_socket(plain, server_hostname='localhost')\n\
        def ask():\n    \
            tls.sendall(b'GET /hello.php HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n    \
            assert tls.recv(4096).startswith(b'HTTP/1.1 200'), 'no answer'\n\
        ask()\n\
        print('open', flush=True)\n\
        sys.stdin.readline()\n\
        ask()\n\
        print(tls.version(), flush=True)\n";
    let mut client = Command::new("timeout")
        .args(["60", "python3", "-c", script, &secured.address.to_string()])
        .arg(secured.folder.path("localhost.pem"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(client.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    for ending in ["pem", "key"] {
        let from = secured.folder.path(&format!("second.{ending}"));
        fs::rename(from, secured.folder.path(&format!("localhost.{ending}"))).unwrap();
    }
    let is_shown = || (shown(&secured, None)? == "second").then_some(());
    eventually(Duration::from_secs(30), is_shown).expect("the new certificate is used");
    drop(client.stdin.take());
    assert_eq!(lines.next().unwrap().unwrap(), "TLSv1.3");
    assert!(client.wait().unwrap().success());
}
