//! WordPress in an image of itself, at each depth: whatever visitors and editors do, every page is
//! the one that classic mode gives at the same moment, with the same files and the same database.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Kind, Request, Response, Server, Setup, eventually, get, post, tests};
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::visitor::Visitor;
use crate::wordpress::{PACKAGE, between, choose_readable_addresses, install, log_in};

/// The blog's host name, served from the image; and the one by which classic mode answers.
const BLOG: &str = "blog.example";
const CLASSIC: &str = "classic.example";

/// Longest wait for a new image. The server pauses between two, longer and longer if they follow
/// each other fast.
const PATIENCE: Duration = Duration::from_secs(150);

/// What is compared after each change.
const PAGES: &[&str] = &[
    "/",
    "/page/2/",
    "/2020/criticality/",
    "/2020/no-such-post/",
    "/sample-page/",
    "/?p=1",
    "/?s=criticality",
    "/?utm_source=letter",
    "/?unknown=1",
    "/category/uncategorized/",
    "/tag/none/",
    "/author/editor/",
    "/feed/",
    "/comments/feed/",
    "/?feed=atom",
    "/robots.txt",
    "/wp-sitemap.xml",
    "/wp-sitemap-posts-post-1.xml",
    "/wp-json/",
    "/wp-json/wp/v2/posts?per_page=1",
    "/wp-login.php",
    "/wp-admin/",
];

/// What an editor sees beside it.
const EDITORS_PAGES: &[&str] = &[
    "/wp-admin/index.php",
    "/wp-admin/edit.php",
    "/wp-admin/profile.php",
    "/wp-admin/load-styles.php?c=0&dir=ltr&load%5B%5D=common",
];

#[test]
fn core() {
    a_blog_changes("core");
}

#[test]
fn plugins() {
    a_blog_changes("plugins");
}

#[test]
fn loaded() {
    a_blog_changes("loaded");
}

struct Blog {
    server: Server,
    database: MariaDb,
    root: PathBuf,
    _cache: TempDir,
}

fn a_blog_changes(depth: &str) {
    let blog = Blog::start(depth);
    let mut editor = blog.visitor();
    install(&mut editor, BLOG);
    log_in(&mut editor, BLOG);
    choose_readable_addresses(&mut editor);
    let number = save(
        &mut editor,
        "posts",
        json!({"title": "Criticality", "slug": "criticality", "date": "2020-02-02T12:00:00", "status": "publish"}),
    );
    blog.serves_from_an_image();
    blog.agrees(&mut editor);

    // Each change shows in the very next request, whatever the image holds.
    let title = |title: &str| json!({"title": title});
    save(&mut editor, "settings", title("Plasma"));
    blog.shows("/", "<title>Plasma");
    save(&mut editor, &format!("posts/{number}"), title("Supercritical"));
    blog.shows("/2020/criticality/", "Supercritical");
    save(&mut editor, "users/1", json!({"name": "Marie"}));
    blog.shows("/author/editor/", "Marie");
    blog.agrees(&mut editor);

    // The theme's templates are in the image; what an editor makes of one is in the database.
    let ours = "<!-- wp:paragraph --><p>Our own page</p><!-- /wp:paragraph -->";
    let theme = blog
        .database
        .query("SELECT option_value FROM blog.wp_options WHERE option_name = 'stylesheet'");
    let template = &format!("templates/{theme}//single");
    assert!(!blog.visitor().get("/2020/criticality/").text().contains("Our own page"));
    save(&mut editor, template, json!({"content": ours}));
    blog.shows("/2020/criticality/", "Our own page");
    blog.agrees(&mut editor);

    switch(&mut editor, "/wp-admin/plugins.php", "action=activate&amp;plugin=motto.php");
    blog.shows("/", "<p>Motto: boot once</p>");
    blog.agrees(&mut editor);
    blog.serves_from_an_image();
    blog.shows("/", "<p>Motto: boot once</p>");
    blog.database
        .query("UPDATE blog.wp_options SET option_value = 'serve one' WHERE option_name = 'motto'");
    blog.shows("/", "<p>Motto: serve one</p>");

    switch(&mut editor, "/wp-admin/themes.php", "action=activate&amp;stylesheet=plain");
    blog.shows("/", "<h1>Plain</h1>");
    let content = json!({"sidebar": "side", "instance": {"raw": {"content": "<p>the widget</p>"}}});
    save(&mut editor, "widgets/block-2", content);
    blog.shows("/", "the widget");
    blog.agrees(&mut editor);
    blog.serves_from_an_image();
    blog.agrees(&mut editor);

    switch(&mut editor, "/wp-admin/plugins.php", "action=deactivate&amp;plugin=motto.php");
    assert!(!blog.visitor().get("/").text().contains("Motto"));

    // New code makes a new image.
    let functions = blog.root.join("wp-content/themes/plain/functions.php");
    let code = fs::read_to_string(&functions).unwrap().replace("Plain", "Plainer");
    fs::write(&functions, code).unwrap();
    // Classic mode looks at a file again after opcache.revalidate_freq, two seconds.
    let is_new = |host| {
        let mut visitor = blog.visitor();
        visitor.call(host);
        visitor.get("/").text().contains("<h1>Plainer</h1>")
    };
    let updated = || (is_new(BLOG) && is_new(CLASSIC)).then_some(());
    eventually(PATIENCE, updated).expect("the new code runs");
    blog.serves_from_an_image();
    blog.agrees(&mut editor);
    assert!(!blog.server.log().contains("no connection is kept"), "{}", blog.server.log());
}

impl Blog {
    fn start(depth: &str) -> Blog {
        let database = MariaDb::start();
        database.create("blog");
        let cache = tempfile::Builder::new().prefix("tokamak-wordpress-").tempdir().unwrap();
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let boot = tests().join("../examples/wordpress/boot.php");
        let server = Setup::new(Kind::Sealed)
            .site(PACKAGE)
            .front_controller("index.php")
            .boot(boot.to_str().expect("the path is text"))
            .fallback(CLASSIC)
            .line("timeouts.drain = \"30s\"")
            .env("WORDPRESS_DEPTH", depth)
            .env("WORDPRESS_URL", &format!("http://{BLOG}"))
            .env("WORDPRESS_CACHE", cache.path().join("parts").to_str().expect("the path is text"))
            .start();
        let root = server.places.root();
        let content = root.join("wp-content");
        for directory in ["mu-plugins", "themes/plain"] {
            fs::create_dir_all(content.join(directory)).unwrap();
        }
        let site = tests().join("sites/wordpress");
        for (name, to) in [
            ("report.php", "mu-plugins/report.php"),
            ("image.php", "mu-plugins/image.php"),
            ("motto.php", "plugins/motto.php"),
            ("plain/style.css", "themes/plain/style.css"),
            ("plain/index.php", "themes/plain/index.php"),
            ("plain/functions.php", "themes/plain/functions.php"),
        ] {
            fs::copy(site.join(name), content.join(to)).unwrap();
        }
        fs::set_permissions(&content, fs::Permissions::from_mode(0o777)).unwrap();
        let template = fs::read_to_string(site.join("wp-config.php")).unwrap();
        let settings = template
            .replace("@DATABASE@", &format!("127.0.0.1:{}", database.port()))
            .replace("@PASSWORD@", PASSWORD)
            // Both host names lead to the same blog.
            .replacen(
                "<?php",
                &format!(
                    "<?php\n$_SERVER['HTTP_HOST'] = '{BLOG}';\ndefine('DISABLE_WP_CRON', true);"
                ),
                1,
            );
        fs::write(root.join("wp-config.php"), settings).unwrap();
        Blog { server, database, root, _cache: cache }
    }

    fn visitor(&self) -> Visitor {
        let mut visitor = Visitor::of(self.server.address);
        visitor.call(BLOG);
        visitor.keep_no_connection();
        visitor
    }

    /// Waits until there is an image that is up to date.
    fn serves_from_an_image(&self) {
        let made = || (self.visitor().get("/").header("x-image") == Some("yes")).then_some(());
        eventually(PATIENCE, made)
            .unwrap_or_else(|| panic!("no image serves; the log:\n{}", self.server.log()));
    }

    /// The page that a stranger gets, from whomever it comes.
    fn shows(&self, target: &str, text: &str) {
        let page = self.visitor().get(target).text();
        assert!(page.contains(text), "{target} lacks {text}: {page}");
    }

    /// Strangers and the editor get what classic mode gives.
    fn agrees(&self, editor: &mut Visitor) {
        for target in PAGES {
            compare(&mut self.visitor(), target);
        }
        for target in PAGES.iter().chain(EDITORS_PAGES) {
            compare(editor, target);
        }
    }
}

fn compare(visitor: &mut Visitor, target: &str) {
    let here = visitor.get(target);
    visitor.call(CLASSIC);
    let there = visitor.get(target);
    visitor.call(BLOG);
    assert_eq!(here.status(), there.status(), "{target}");
    assert_eq!(headers(&here), headers(&there), "{target}: {here}");
    let (here, there) = (timeless(here.text()), timeless(there.text()));
    let difference = here.lines().zip(there.lines()).find(|(here, there)| here != there);
    assert!(here == there, "{target}: {difference:?}, {} and {} bytes", here.len(), there.len());
}

/// What tells one page from another: not when and by whom it was made, and of a new session only
/// that there is one.
fn headers(response: &Response) -> Vec<(String, String)> {
    let mut headers: Vec<_> = response.head.headers.clone();
    headers.retain_mut(|(name, value)| {
        name.make_ascii_lowercase();
        if name == "set-cookie" {
            value.truncate(value.find('=').unwrap_or(value.len()));
        }
        // A long page has a length only if it was whole before its head had to go.
        let framing = ["connection", "content-length", "transfer-encoding"];
        !framing.contains(&name.as_str())
            && !["date", "x-image", "expires"].contains(&name.as_str())
    });
    headers.sort();
    headers
}

/// The page without the time, and without the password that it proposes.
fn timeless(mut page: String) -> String {
    for (before, after) in [("\"time\":\"", "\""), ("data-pw=\"", "\"")] {
        let mut from = 0;
        while let Some(at) = page[from..].find(before) {
            from += at + before.len();
            let len = page[from..].find(after).expect("the value ends");
            page.replace_range(from..from + len, "");
        }
    }
    page
}

/// Stores something over the REST interface, as the editor's pages do; its number, if it has one.
fn save(editor: &mut Visitor, what: &str, value: Value) -> String {
    let nonce = editor.get("/wp-admin/admin-ajax.php?action=rest-nonce").expect(200).text();
    let request: Request =
        post(&format!("/wp-json/wp/v2/{what}"), "application/json", value.to_string());
    let stored = editor.send(request.header("X-WP-Nonce", &nonce));
    assert!([200, 201].contains(&stored.status()), "{what}: {stored}");
    stored.json()["id"].to_string()
}

/// Follows a link of an administrator's page.
fn switch(editor: &mut Visitor, page: &str, link: &str) {
    let text = editor.get(page).expect(200).text();
    let found = text.find(link).unwrap_or_else(|| panic!("no {link} in {page}: {text}"));
    let nonce = between(&text[found..], "_wpnonce=", "\"");
    let target = format!("{page}?{}&_wpnonce={nonce}", link.replace("&amp;", "&"));
    editor.send(get(&target)).expect(302);
}
