//! Each site has a user of its own, and its scripts get at nothing of another site.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Kind, Server, Setup, eventually, get, is_root, post};
use crate::operate::{configuration, configure, reload, status};
use crate::supervise::{children, status_line};

/// Two sites of the same files, with this mode, in which each has a user of every Debian.
fn sites(mode: &str, lines: &str) -> String {
    let site = |user: &str| {
        format!(
            "[[site]]\nhost = \"{user}.example\"\nroot = \"$ROOT\"\nuser = \"{user}\"\n\
                mode = \"{mode}\"\npool.workers = 1\n{lines}\n\
                env.STATE = \"$STATE\"\nphp_value.\"session.save_path\" = \"$STATE\"\n\
                php_admin_value.upload_tmp_dir = \"$STATE\"\nphp_value.\"apc.enabled\" = \"1\"\n"
        )
    };
    format!("{}{}", site("games"), site("news"))
}

/// What a site has made.
fn own(server: &Server, user: &str) -> Value {
    let request = get("/users/own.php").header("Host", &format!("{user}.example"));
    server.send(&request).expect(200).json()
}

/// The ways by which the first user's scripts get at what the second has.
fn reach(server: &mut Server, user: &str, made: &Value) -> Value {
    let text = |name: &str| match &made[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let names = ["user", "pid", "parent", "file", "session", "socket", "upload", "key"];
    let mut query: Vec<String> = names.map(|name| format!("{name}={}", text(name))).to_vec();
    query.push(format!("control={}", configuration(server).with_file_name("control").display()));
    query.push(format!("server={}", server.main_process().pid()));
    let request = get(&format!("/users/reach.php?{}", query.join("&")))
        .header("Host", &format!("{user}.example"));
    server.send(&request).expect(200).json()
}

const UPLOAD: &str = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n\
    secret\r\n--b--\r\n";

fn are_apart(mode: &str, lines: &str) {
    if !is_root() {
        return; // Nobody else can start processes of several users.
    }
    let mut server = Setup::new(Kind::Classic).sites(&sites(mode, lines)).start();
    let key = configuration(&server).with_file_name("key.pem");
    fs::write(&key, "a key").expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is root's");
    let (games, mut news) = (own(&server, "games"), own(&server, "news"));
    for (user, made) in [("games", &games), ("news", &news)] {
        assert_eq!(made["user"], user);
        let home = if user == "news" { "/var/spool/news" } else { "/usr/games" };
        assert_eq!(made["home"], home);
    }
    let upload = post("/users/own.php", "multipart/form-data; boundary=b", UPLOAD)
        .header("Host", "news.example");
    let mut uploading = server.connect();
    uploading.send(upload.bytes());
    let path = eventually(Duration::from_secs(20), || {
        fs::read_to_string(server.state_file("upload")).ok().filter(|path| !path.is_empty())
    });
    news["upload"] = path.expect("an upload under way").into();
    news["key"] = key.to_str().expect("text").into();

    let reached = reach(&mut server, "games", &news);
    assert_eq!(reached["reached"], Value::Array(vec![]), "{mode}");
    assert_eq!(reached["looked into"], serde_json::json!(["child"]), "{mode}");
    fs::write(server.state_file("looked"), "").expect("a file");
    uploading.response().expect(200);

    // Its own it does get at, so the ways work.
    let mut games = own(&server, "games");
    games["key"] = news["key"].clone();
    games["upload"] = games["file"].clone();
    let reached = reach(&mut server, "games", &games);
    let own_ways = [
        "apcu",
        "file",
        "folder",
        "semaphores",
        "session",
        "session of its id",
        "shared memory",
        "signal",
        "signal to the zygote",
        "socket",
        "upload",
    ];
    assert_eq!(reached["reached"], serde_json::json!(own_ways), "{mode}");
}

#[test]
fn classic_sites_are_apart() {
    are_apart("classic", "");
}

/// The application's own state, too, that the boot has left in its image.
#[test]
fn sealed_sites_are_apart() {
    are_apart("sealed", "boot = \"$ROOT/hello.php\"");
}

#[test]
fn asynchronous_sites_are_apart() {
    are_apart("async", "worker = \"$ROOT/worker.php\"");
}

/// As a service does that is never root: the capabilities stay with the supervisor.
#[test]
fn a_service_with_capabilities_changes_users() {
    if !is_root() {
        return;
    }
    let capabilities = &["setuid", "setgid", "kill", "net_bind_service"];
    let setup = Setup::new(Kind::Classic).sites(&sites("classic", ""));
    let mut server = setup.service_of("daemon", capabilities).start();
    for user in ["games", "news"] {
        assert_eq!(own(&server, user)["user"], user);
    }
    let supervisor = server.main_process().pid().into();
    let front = status(&server)["front_pid"].as_u64().expect("a front");
    let uid = |user: &str| tokamak_sys::process::find_user(user).expect("a user").0.to_string();
    assert_eq!(status_line(supervisor, "Uid")[0], uid("daemon"));
    assert_eq!(status_line(front, "Uid")[0], uid("www-data"));
    let zygotes = children(supervisor, "zygote");
    let users: Vec<String> =
        zygotes.iter().map(|zygote| status_line(*zygote, "Uid").swap_remove(0)).collect();
    assert_eq!(users, [uid("games"), uid("news")]);
    for pid in zygotes.iter().copied().chain([front]) {
        for set in ["CapInh", "CapEff", "CapAmb"] {
            assert_eq!(status_line(pid, set), ["0000000000000000"], "{pid} {set}");
        }
        // At most what guards a process from others of its user, which it cannot make use of.
        let kept = u64::from_str_radix(&status_line(pid, "CapPrm")[0], 16).expect("a set");
        assert_eq!(kept & 0xe0, 0, "none to change users or to end processes");
    }
    // It can end what it has started.
    crate::operate::kill("STOP", zygotes[0]);
    reload(&server).expect("new zygotes");
    assert_eq!(own(&server, "games")["user"], "games");
}

/// A user that the server cannot change to is refused, rather than that another one runs the site.
#[test]
fn a_server_that_cannot_change_users_says_so() {
    if !is_root() {
        return;
    }
    let tables = sites("classic", "").replace("user = \"games\"", "user = \"daemon\"");
    let tables = tables.replace("user = \"news\"", "user = \"daemon\"");
    let server = Setup::new(Kind::Classic).sites(&tables).service_of("daemon", &[]).start();
    assert_eq!(own(&server, "games")["user"], "daemon", "it is that user already");

    configure(&server, "user = \"daemon\"", "user = \"news\"");
    let answer = reload(&server).expect_err("it is no root");
    assert!(answer.contains("CAP_SETUID") && answer.contains("games.example"), "{answer}");
    configure(&server, "user = \"news\"", "user = \"no-such-user\"");
    let answer = reload(&server).expect_err("there is none");
    assert!(answer.contains("there is no user \"no-such-user\""), "{answer}");
    assert_eq!(own(&server, "news")["user"], "daemon", "the old one serves");
}

/// Some of the capabilities are not enough to change users, and too much for a script.
#[test]
fn a_service_with_some_capabilities_passes_none_on() {
    if !is_root() {
        return;
    }
    let tables = "[[site]]\nroot = \"$ROOT\"\nmode = \"classic\"\npool.workers = 1\n";
    for capabilities in [&["setuid", "setgid"][..], &["net_bind_service"], &["setuid", "kill"]] {
        let setup = Setup::new(Kind::Classic).sites(tables).service_of("daemon", capabilities);
        let mut server = setup.start();
        assert_eq!(server.text("/users/become.php"), "[false,false,false]", "{capabilities:?}");
        let front = status(&server)["front_pid"].as_u64().expect("a front");
        let worker = status(&server)["pools"][0]["workers"][0]["pid"].as_u64().expect("a worker");
        let zygote = children(server.main_process().pid().into(), "zygote")[0];
        for (pid, set) in [(front, "CapPrm"), (worker, "CapPrm"), (zygote, "CapAmb")] {
            assert_eq!(status_line(pid, set), ["0000000000000000"], "{capabilities:?} {pid}");
        }
    }
}
