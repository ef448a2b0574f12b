//! MediaWiki with SQLite.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{configuration, keeps_back, open_to_all};
use crate::harness::{Kind, Server, Setup, check, get, post, row};

/// Where Debian's package has the application.
const PACKAGE: &str = "/usr/share/mediawiki";

/// What a wiki's operator sets; and the server's address, which the test does not know yet.
const SETTINGS: &str = r#"
$wgServer = 'http://' . $_SERVER['HTTP_HOST'];
$wgArticlePath = '/wiki/$1';
$wgEnableUploads = true;
"#;

/// A wiki and its server.
struct Wiki {
    server: Server,
    _folder: TempDir,
}

/// Puts the package into a folder, by links, and installs a wiki there.
fn install(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let (root, database) = (folder.join("root"), folder.join("database"));
    for made in [&root, &database, &root.join("images/deleted"), &root.join("cache")] {
        fs::create_dir_all(made).unwrap();
    }
    for entry in fs::read_dir(PACKAGE).expect("the package mediawiki is installed") {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if !["LocalSettings.php", "images", "config", "cache"].iter().any(|own| name == *own) {
            symlink(entry.path(), root.join(name)).unwrap();
        }
    }
    let installed = Command::new("timeout")
        .args(["120", "php", "maintenance/install.php", "--dbtype", "sqlite", "--dbname", "wiki"])
        .arg("--dbpath")
        .arg(&database)
        .arg("--confpath")
        .arg(&root)
        .args(["--scriptpath", "", "--server", "http://localhost"])
        .args(["--pass", "correct horse 4 battery", "Wiki", "Admin"])
        .env("MW_INSTALL_PATH", &root)
        .current_dir(&root)
        .output()
        .expect("php runs");
    assert!(installed.status.success(), "{installed:?}");
    let settings = root.join("LocalSettings.php");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{text}{SETTINGS}")).unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(root.join("images/x.php"), "<?php echo 'ran';").unwrap();
    fs::write(root.join("images/x.phtml"), "<?php echo 'ran';").unwrap();
    fs::write(root.join("images/x.png"), "a picture").unwrap();
    fs::write(root.join("images/deleted/x.png"), "deleted").unwrap();
    for writable in [&database, &root.join("images"), &root.join("cache")] {
        open_to_all(writable);
    }
}

fn start() -> Wiki {
    let folder = tempfile::Builder::new().prefix("tokamak-mediawiki-").tempdir().unwrap();
    install(folder.path());
    let root = folder.path().join("root");
    let tables = configuration("mediawiki.toml", ("wiki", root.to_str().unwrap()));
    let path = root.display();
    let tables = tables.replacen(
        "[[site]]",
        &format!("[[site]]\nenv.MW_INSTALL_PATH = '{path}'\npool.workers = 2"),
        1,
    );
    Wiki { server: Setup::new(Kind::Classic).sites(&tables).start(), _folder: folder }
}

#[test]
fn pages_have_any_name_and_only_its_scripts_run() {
    // In this order, so that the server ends first.
    let Wiki { _folder, server } = start();
    let missing = |name, target: &str, title: &str| {
        row(name, get(target)).status(404).contains(format!("<title>{title} - Wiki</title>"))
    };
    check(
        &server,
        vec![
            row("the first page", get("/wiki/Main_Page")).contains("<title>Wiki</title>"),
            missing("like a script", "/wiki/Test.php", "Test.php"),
            missing("and below", "/wiki/Foo.php/bar", "Foo.php/bar"),
            missing("hidden", "/wiki/.hidden", ".hidden"),
            missing("encoded", "/wiki/K%C3%BChlung", "Kühlung"),
            missing("with a query", "/wiki/None?action=view", "None"),
            missing("PATH_INFO", "/index.php/Some_page", "Some page"),
            row("the root", get("/"))
                .status(301)
                .header("location", "http://localhost/wiki/Main_Page"),
            row("styles", get("/load.php?modules=site.styles&only=styles")),
            row("its API", get("/api.php?action=query&meta=siteinfo&format=json"))
                .json("/query/general/sitename", "Wiki"),
            row("another, with PATH_INFO", get("/rest.php/v1/page/Main_Page/bare"))
                .json("/title", "Main Page"),
            row("its pictures for members", get("/img_auth.php/x.png"))
                .status(403)
                .contains("<title>Access denied</title>"),
            row("a thumbnail", get("/thumb.php?f=None.png&w=10"))
                .status(404)
                .contains("Error generating thumbnail"),
            row("a search description", get("/opensearch_desc.php")),
            row("a style sheet", get("/resources/assets/poweredby_mediawiki_88x31.png"))
                .header("cache-control", "max-age=604800"),
            row("a picture", get("/images/x.png"))
                .body("a picture")
                .header("x-content-type-options", "nosniff"),
            row("a missing one", get("/images/y.png")).status(404),
            row("a script of no list", get("/autoload.php")).status(403),
            row("and behind it", get("/autoload.php/index.php")).status(403),
        ],
    );
    keeps_back(
        &server,
        "",
        &[
            "/maintenance/update.php",
            "/maintenance/tables.json",
            "/includes/Setup.php",
            "/languages/Language.php",
            "/vendor/autoload.php",
            "/cache/x",
            "/mw-config/index.php",
            "/images/deleted/x.png",
            "/images/x.php",
            "/images/x.phtml",
            "/images/x.php/y",
            "/LocalSettings.php",
            "/LocalSettings.php~",
            "/resources/Resources.php",
            "/skins/Vector/includes/Hooks.php",
            "/extensions/Cite/src/Cite.php",
        ],
    );
    // An edit, which needs that the application sees its own addresses.
    let token = server.get("/api.php?action=query&meta=tokens&format=json").expect(200).json();
    assert_eq!(token["query"]["tokens"]["csrftoken"], "+\\", "{token}");
    let edit = "action=edit&title=Core.php&text=It+glows.&format=json&token=%2B%5C";
    let form = "application/x-www-form-urlencoded";
    let edited = server.send(&post("/api.php", form, edit)).expect(200).json();
    assert_eq!(edited["edit"]["result"], "Success", "{edited}");
    let page = server.text("/wiki/Core.php");
    assert!(page.contains("It glows."), "{page}");
}
