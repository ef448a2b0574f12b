//! Sites that are mounted in others.

use std::fs;

use crate::harness::{Kind, Setup, check, get, row};

/// Says what it is told.
const INDEX: &str = r#"<?php
header('Content-Type: application/json');
if (isset($_GET['send'])) {
    header('X-Accel-Redirect: ' . $_GET['send']);
    exit;
}
$names = ['SCRIPT_NAME', 'PHP_SELF', 'PATH_INFO', 'DOCUMENT_ROOT', 'SCRIPT_FILENAME', 'REQUEST_URI',
    'DOCUMENT_URI', 'QUERY_STRING'];
$told = array_intersect_key($_SERVER, array_flip($names));
echo json_encode($told + ['limit' => ini_get('memory_limit'), 'who' => basename(__DIR__)]);
"#;

crate::harness::of_kinds!(
    a_folder_beside_a_site;
    classic: Classic, sealed: Sealed, worker: Worker
);

fn a_folder_beside_a_site(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    super::readable(folder.path());
    let top = folder.path().join("tool");
    for directory in ["sub", "libraries", "empty", "../protected"] {
        fs::create_dir_all(top.join(directory)).unwrap();
    }
    fs::write(top.join("index.php"), INDEX).unwrap();
    fs::write(top.join("sub/main.php"), INDEX).unwrap();
    fs::write(top.join("libraries/a.php"), INDEX).unwrap();
    fs::write(top.join("a.css"), "tool").unwrap();
    fs::write(folder.path().join("protected/a.txt"), "protected").unwrap();
    let site = format!(
        "[[site]]\npath = \"/tool\"\nroot = \"{}\"\nmode = \"classic\"\n\
         index = [\"main.php\", \"index.php\"]\nfront_controller = \"index.php\"\n\
         pool.workers = 1\nphp_admin_value.memory_limit = \"77M\"\n\
         error_pages.403 = \"/a.css\"\ninternal = {{ \"/protected\" = \"{}\" }}\n\
         [[site.rule]]\npath = \"/libraries\"\ndeny = \"all\"\n\
         [[site.rule]]\nscripts = [\"index.php\", \"sub/main.php\"]\n\
         [[site.rule]]\npath = \"/page\"\nrewrite = \"/index.php?page=1\"\n\
         [[site.rule]]\npath = \"/a.css\"\nset_headers = {{ X-Tool = \"yes\" }}\n",
        top.display(),
        folder.path().join("protected").display()
    );
    let setup = Setup::new(kind).site("sites/rules/wiki").front_controller("index.php");
    let server = setup.more(&site).start();
    let root = fs::canonicalize(&top).unwrap().display().to_string();
    let at = |name, target: &str| {
        let row = row(name, get(target)).json("/REQUEST_URI", target).json("/limit", "77M");
        row.json("/DOCUMENT_ROOT", root.as_str())
    };
    check(
        &server,
        vec![
            row("the site", get("/")).contains("index /"),
            row("no slash", get("/tool?a=b")).status(301).header("location", "/tool/?a=b"),
            at("its index", "/tool/")
                .json("/SCRIPT_NAME", "/tool/index.php")
                .json("/PHP_SELF", "/tool/index.php")
                .json("/SCRIPT_FILENAME", format!("{root}/index.php"))
                .json("/PATH_INFO", ""),
            at("PATH_INFO", "/tool/index.php/a?b")
                .json("/SCRIPT_NAME", "/tool/index.php")
                .json("/PATH_INFO", "/a")
                .json("/PHP_SELF", "/tool/index.php/a"),
            at("its front controller", "/tool/some/page")
                .json("/SCRIPT_NAME", "/tool/index.php")
                .json("/DOCUMENT_URI", "/tool/index.php"),
            at("its index names", "/tool/sub/").json("/SCRIPT_NAME", "/tool/sub/main.php"),
            row("a folder", get("/tool/sub")).status(301).header("location", "/tool/sub/"),
            at("a rewrite", "/tool/page?x")
                .json("/QUERY_STRING", "page=1&x")
                .json("/SCRIPT_NAME", "/tool/index.php"),
            row("a file", get("/tool/a.css")).body("tool").header("x-tool", "yes"),
            row("its rules", get("/tool/libraries/a.php")).status(403).body("tool"),
            row("in another spelling", get("/x/..//%74ool/Libraries/a.php")).status(403),
            row("not the site's", get("/libraries/a.php")).status(404),
            at("missing", "/tool/none").json("/who", "tool"),
            row("sent", get("/tool/?send=/protected/a.txt")).body("protected"),
            row("as clients see it", get("/tool/?send=/tool/protected/a.txt")).body("protected"),
            row("of its root", get("/tool/?send=/tool/a.css")).body("tool"),
            row("of the site around", get("/tool/?send=/index.php")).status(404),
            row("out of it", get("/tool/?send=/protected/../tool/index.php")).status(404),
            row("another name", get("/toolbox")).contains("index /toolbox"),
            row("out of it", get("/tool/../a.css")).contains("index /tool/../a.css"),
        ],
    );
}
