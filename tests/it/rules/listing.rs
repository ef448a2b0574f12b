//! Lists of folders: what is in them, and what never is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use crate::harness::{Kind, Request, Server, Setup, check, get, row};

const LINES: &str = r#"
index_listing = true
[[site.rule]]
path = ["/files/denied", "/files/denied.txt"]
deny = "all"
[[site.rule]]
path = "/files/private"
auth_users = "users"
[[site.rule]]
path = "/files/closed"
index_listing = false
[[site.rule]]
path = "/uploads"
serve = "files"
"#;

/// `max` has the password `geheim`.
const USER: &str = "max:$2y$05$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16\n";

/// Files that are listed, files that must not be, and some that strangers named; and the folder
/// with the file of users.
fn start() -> (Server, TempDir) {
    let users = tempfile::tempdir().unwrap();
    let file = users.path().join("users");
    fs::write(&file, USER).unwrap();
    fs::set_permissions(users.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let lines = LINES.replace("\"users\"", &format!("\"{}\"", file.display()));
    let server = Setup::new(Kind::Classic).site("sites/static").site_line(&lines).start();
    fill(&server.places.root());
    (server, users)
}

fn fill(root: &Path) {
    let files = root.join("files");
    let folders = ["b", "A", "denied", "private", "closed", ".git", "index", "empty", "dir.inc"];
    for folder in folders {
        fs::create_dir_all(files.join(folder)).unwrap();
    }
    fs::create_dir_all(root.join("uploads")).unwrap();
    let names: [&[u8]; 18] = [
        b"files/a b.txt",
        b"files/z.txt",
        b"files/denied.txt",
        b"files/.hidden",
        b"files/run.php",
        b"files/x.inc",
        b"files/x.php~",
        b"files/denied/a.txt",
        b"files/index/index.html",
        b"files/<script>alert(1)<",
        b"files/\"onmouseover='x'.txt",
        b"files/line\nbreak.txt",
        b"files/javascript:alert(1)",
        b"files/what?#%41.txt",
        b"files/\xff\xfe.bin",
        b"files/unreadable.txt",
        b"uploads/evil.php",
        b"uploads/a.png",
    ];
    for name in names {
        fs::write(root.join(OsStr::from_bytes(name)), "0123456789").unwrap();
    }
    fs::set_permissions(files.join("unreadable.txt"), PermissionsExt::from_mode(0o000)).unwrap();
    symlink("z.txt", files.join("link.txt")).unwrap();
    symlink("nowhere", files.join("dangling.txt")).unwrap();
    symlink("b", files.join("linked")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(files.join("socket")).unwrap();
}

/// The links of a page, in their order.
fn links(page: &str) -> Vec<&str> {
    page.split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn what_clients_could_get_is_listed() {
    let (server, _users) = start();
    let response = server.get("/files/").expect(200);
    let page = response.text();
    let expected = [
        "./../",
        "./A/",
        "./b/",
        "./dir.inc/",
        "./empty/",
        "./index/",
        "./linked/",
        "./%22onmouseover%3D%27x%27.txt",
        "./%3Cscript%3Ealert%281%29%3C",
        "./a%20b.txt",
        "./javascript%3Aalert%281%29",
        "./link.txt",
        "./run.php",
        "./what%3F%23%2541.txt",
        "./z.txt",
        "./%FF%FE.bin",
    ];
    assert_eq!(links(&page), expected, "{page}");
    assert!(page.contains("<h1>Index of /files/</h1>"), "{page}");
    assert!(page.contains(">z.txt</a></td><td>10 B</td><td>20"), "{page}");
    assert!(!page.contains("<script") && !page.contains("\"onmouseover"), "{page}");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(response.header(name), Some(value));
    }
    let policy = response.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");

    // Each link leads to what it names.
    for link in &expected[1..] {
        let target = format!("/files/{}", link.trim_start_matches("./"));
        server.get(&target).expect(200);
    }
    check(
        &server,
        vec![
            row("no slash", get("/files?a=b")).status(301).header("location", "/files/?a=b"),
            row("an index file", get("/files/index/")).body("0123456789"),
            row("closed", get("/files/closed/")).status(404),
            row("denied", get("/files/denied/")).status(403),
            row("with a password", get("/files/private/")).status(401),
            row("an empty folder", get("/files/empty/")).contains("<a href=\"./../\">"),
            row("no such folder", get("/files/none/")).status(404),
            row("hidden", get("/files/.git/")).status(404),
            row("a file as a folder", get("/files/z.txt/")).status(404),
            row("posted", Request::new("POST", "/files/").body("x")).status(405),
            row("options", Request::new("OPTIONS", "/files/"))
                .status(204)
                .header("allow", "GET, HEAD, OPTIONS"),
        ],
    );
    let uploads = server.get("/uploads/").expect(200).text();
    assert_eq!(links(&uploads), ["./../", "./a.png"], "no script runs there");
    let private = server.send(&get("/files/private/").basic_auth("max:geheim"));
    assert!(private.expect(200).text().contains("Index of /files/private/"));
    let head = server.send(&Request::new("HEAD", "/files/")).expect(200);
    assert_eq!(head.header("content-length"), Some(&*page.len().to_string()));
    assert!(head.body.is_empty());
}

#[test]
fn large_folders_are_not_listed_whole() {
    let (server, _users) = start();
    let folder = server.places.root().join("large");
    fs::create_dir(&folder).unwrap();
    for number in 0..2_005 {
        fs::write(folder.join(format!("{number:04}")), "").unwrap();
    }
    fs::create_dir(folder.join("zoo")).unwrap();
    let page = server.get("/large/").expect(200).text();
    let links = links(&page);
    assert_eq!((links.len(), links[1], links[2]), (2_001, "./zoo/", "./0000"));
    assert_eq!(links[2_000], "./1998");
    assert!(page.contains("<p>6 more are not listed.</p>"), "{page}");
    // The event loop has answered others meanwhile, and goes on.
    server.get("/files/z.txt").expect(200);
}

#[test]
fn a_mounted_folder_is_listed_by_its_own_setting() {
    let folder = tempfile::tempdir().unwrap();
    super::readable(folder.path());
    fs::create_dir_all(folder.path().join("sub dir/deep")).unwrap();
    fs::write(folder.path().join("sub dir/a.txt"), "a").unwrap();
    let site = format!(
        "[[site]]\npath = \"/m\"\nroot = \"{}\"\nmode = \"classic\"\npool.workers = 1\n\
         index_listing = true\n\
         [[site.rule]]\npath = \"/moved\"\nrewrite = \"/sub dir/\"\n",
        folder.path().display()
    );
    let server = Setup::new(Kind::Classic).site("sites/static").more(&site).start();
    let page = |target: &str| server.get(target).expect(200).text();
    let top = page("/m/");
    assert_eq!(links(&top), ["./sub%20dir/"], "the folder around is another site's");
    assert!(top.contains("<h1>Index of /m/</h1>"), "{top}");
    assert_eq!(links(&page("/m/sub%20dir/")), ["./../", "./deep/", "./a.txt"]);
    let moved = ["/m/sub%20dir/../", "/m/sub%20dir/deep/", "/m/sub%20dir/a.txt"];
    assert_eq!(links(&page("/m/moved")), moved, "relative links would lead elsewhere");
    let slash = server.get("/m/sub%20dir").expect(301);
    assert_eq!(slash.header("location"), Some("/m/sub%20dir/"));
    fs::create_dir(server.places.root().join("of-site")).unwrap();
    server.get("/of-site/").expect(404);
}

#[test]
fn no_folder_is_listed_where_a_front_controller_answers() {
    let lines = "index_listing = true\n[[site.rule]]\npath = \"/images\"\nserve = \"existing\"";
    let server = super::wiki(Kind::Classic, lines);
    check(
        &server,
        vec![
            row("the front controller", get("/skins/")).contains("index /skins/"),
            row("without it", get("/images/")).contains("<a href=\"./a.png\">a.png</a>"),
        ],
    );
}
