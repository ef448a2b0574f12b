//! phpMyAdmin below a path of another site.

use super::{configuration, keeps_back};
use crate::harness::{Kind, Setup, check, get, row};

#[test]
fn it_is_mounted_beside_a_site() {
    let tables = configuration("phpmyadmin.toml", ("blog", "$ROOT"));
    let tables = tables.replace("[[site]]", "[[site]]\npool.workers = 2");
    let server = Setup::new(Kind::Classic).site("sites/rules/wiki").sites(&tables).start();
    let title = "phpMyAdmin</title>";
    check(
        &server,
        vec![
            row("the site", get("/")).contains("index /"),
            row("its pages", get("/phpmyadminx")).contains("index /phpmyadminx"),
            row("no slash", get("/phpmyadmin?lang=de"))
                .status(301)
                .header("location", "/phpmyadmin/?lang=de"),
            row("the log-in page", get("/phpmyadmin/?lang=de"))
                .contains(title)
                .contains("lang=\"de\"")
                .contains("id=\"login_form\""),
            row("by its script", get("/phpmyadmin/index.php?route=/")).contains(title),
            row("a style", get("/phpmyadmin/themes/pmahomme/css/theme.css"))
                .header("cache-control", "max-age=604800"),
            row("its script for messages", get("/phpmyadmin/js/messages.php?l=de"))
                .contains("var Messages"),
            row("a missing one", get("/phpmyadmin/js/none.js")).status(404),
            row("not of the site", get("/themes/pmahomme/css/theme.css")).contains("index /themes"),
        ],
    );
    keeps_back(
        &server,
        "/phpmyadmin",
        &[
            "/libraries/config.default.php",
            "/templates/error/generic.twig",
            "/sql/create_tables.sql",
            "/setup/index.php",
            "/vendor/autoload.php",
        ],
    );
    // The site's own pages, and not the tool's, have this name in other case.
    let other = server.text("/PHPMYADMIN/templates/error/generic.twig");
    assert!(other.starts_with("index /PHPMYADMIN/"), "{other}");
}
