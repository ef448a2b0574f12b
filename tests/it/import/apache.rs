//! Apache with php-fpm, beside Tokamak.

mod applications;
mod services;

use std::path::{Path, PathBuf};

use super::{Desk, Row, differs, same, status};
use crate::harness::{Connection, get, is_root};

/// Starts Apache with this site, and Tokamak with what was imported from it.
#[track_caller]
fn serve(desk: &mut Desk, site: &str, exit_status: i32) -> String {
    desk.start_fpm();
    let file = start(desk, site);
    desk.serve_imported("apache", &file, exit_status)
}

/// Starts Apache with this site, whose scripts go to php-fpm.
pub(super) fn start(desk: &mut Desk, site: &str) -> PathBuf {
    let user = if is_root() { "User www-data\nGroup www-data" } else { "" };
    let modules = [
        "mpm_event",
        "authn_core",
        "authz_core",
        "authz_host",
        "auth_basic",
        "autoindex",
        "authn_file",
        "authz_user",
        "authz_groupfile",
        "access_compat",
        "alias",
        "dir",
        "env",
        "expires",
        "headers",
        "mime",
        "proxy",
        "proxy_balancer",
        "proxy_fcgi",
        "proxy_http",
        "lbmethod_byrequests",
        "slotmem_shm",
        "remoteip",
        "rewrite",
        "setenvif",
    ];
    let modules: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .collect();
    let main = format!(
        "{modules}ServerRoot \"$TOP\"\nPidFile \"$TOP/apache.pid\"\nDefaultRuntimeDir \"$TOP\"\n\
         ErrorLog \"$TOP/log\"\nServerName localhost\nListen $ADDRESS\nTypesConfig \
         /etc/mime.types\n{user}\nStartServers 1\n<Directory />\n  Require all denied\n\
         </Directory>\n<FilesMatch \"^\\.ht\">\n  Require all denied\n</FilesMatch>\n\
         <FilesMatch \"\\.php$\">\n  SetHandler \"proxy:unix:$SOCKET|fcgi://localhost\"\n\
         </FilesMatch>\n{site}\n"
    );
    let file = desk.write("apache.conf", &main);
    let arguments = ["-f", file.to_str().unwrap(), "-DFOREGROUND"];
    desk.start(Path::new("/usr/sbin/apache2"), &arguments, &[]);
    file
}

#[test]
fn wordpress_with_its_htaccess() {
    let mut desk = Desk::new(&[
        "index.php",
        "wp-login.php",
        "wp-config.php",
        "wp-admin/index.php",
        "wp-content/uploads/picture.png",
        "wp-content/uploads/evil.php",
        "private/a.txt",
    ]);
    desk.write(
        "site/.htaccess",
        "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
         RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\n\
         RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n\
         <Files wp-config.php>\n  Require all denied\n</Files>\n",
    );
    desk.write("site/private/.htaccess", "Deny from all\n");
    desk.write(
        "site/wp-content/uploads/.htaccess",
        "<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>\n",
    );
    let site = "<VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
        DirectoryIndex index.php\n<Directory $TOP/site>\n  AllowOverride All\n  \
        Require all granted\n</Directory>\n</VirtualHost>";
    serve(&mut desk, site, 0);
    desk.compare(&[
        status(200, "/"),
        status(200, "/2026/11/a-post/?a=b"),
        status(200, "/wp-login.php?x"),
        status(301, "/wp-admin"),
        status(200, "/wp-admin/"),
        status(200, "/none.php"),
        status(200, "/wp-content/uploads/picture.png"),
        status(403, "/wp-content/uploads/evil.php"),
        status(403, "//wp-content/./x/../uploads/evil%2ephp"),
        status(403, "/wp-content/uploads/evil.php/x"),
        status(403, "/wp-config.php"),
        status(403, "/wp-config.php/x"),
        status(403, "/private/a.txt"),
        status(403, "/%70rivate//a.txt"),
        status(403, "/private/"),
        status(403, "/.htaccess"),
        same("/index.php?a=b&c"),
    ]);
}

#[test]
fn an_alias_with_closed_folders_and_other_rules() {
    let mut desk = Desk::new(&["index.html", "a/b.txt", "staff/a.txt", "doku.php", "data/x.txt"]);
    desk.write("tool/index.php", super::SCRIPT);
    desk.write("tool/libraries/a.php", super::SCRIPT);
    desk.write("tool/a.css", "a");
    let site = r#"<VirtualHost $ADDRESS>
    ServerName site.test
    DocumentRoot $TOP/site
    DirectoryIndex index.html
    Alias /tool $TOP/tool
    AliasMatch ^/match(/.*)?$ $TOP/tool$1
    <Directory $TOP/site>
        Require all granted
    </Directory>
    <Directory $TOP/tool>
        Options SymLinksIfOwnerMatch
        DirectoryIndex index.php
        Require all granted
    </Directory>
    <Directory $TOP/tool/libraries>
        Require all denied
    </Directory>
    <Location /staff>
        AuthType Basic
        AuthName Staff
        AuthUserFile $TOP/none
        Require valid-user
    </Location>
    <Location /a>
        Require ip 192.0.2.0/24
    </Location>
    Redirect permanent /old /new
    RedirectMatch 404 /\.git
    RewriteEngine On
    RewriteRule ^/page/([a-z]+)$ /doku.php?id=$1 [QSA,L]
    RewriteRule ^/data/ - [F]
</VirtualHost>"#;
    let written = serve(&mut desk, site, 3);
    assert!(written.contains("REFUSED: `require valid-user`"), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(301, "/tool"),
        status(200, "/tool/"),
        status(200, "/tool/a.css"),
        status(403, "/tool/libraries/a.php"),
        status(403, "/tool/x/../libraries/a.php"),
        status(200, "/match/a.css"),
        status(200, "/match/"),
        status(403, "/match/libraries/a.php"),
        status(404, "/matches"),
        differs(401, 403, "/staff/a.txt"),
        status(403, "/a/b.txt"),
        status(301, "/old/x?y=z"),
        status(301, "/old"),
        status(404, "/.git/config"),
        // Apache tells PHP the path that was asked for as SCRIPT_NAME.
        differs(200, 200, "/page/about?lang=en"),
        status(403, "/data/x.txt"),
        status(404, "/none"),
    ]);
}

#[test]
fn what_folders_and_their_htaccess_files_refuse() {
    let mut desk = Desk::new(&[
        "index.html",
        "dump.sql",
        "private/a.txt",
        "blog/a.txt",
        "blog/vendor/a.txt",
        "blog/storage/a.txt",
        "shop/assets/a.txt",
        "shop/vendor/a.txt",
        "new/secret.txt",
        "new/public/a.txt",
        "plain/a.php",
        "plain/a.txt",
    ]);
    desk.write("site/blog/.htaccess", "RewriteEngine On\nRewriteRule ^vendor/|^storage/ - [F]\n");
    desk.write("site/shop/.htaccess", "RewriteEngine On\nRewriteRule !^assets/ - [F]\n");
    desk.write(
        "site/new/.htaccess",
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} !^/new/public/\n\
         RewriteRule ^(.*)$ public/$1 [L]\n",
    );
    desk.write("site/plain/.htaccess", "<FilesMatch \\.php$>\nSetHandler none\n</FilesMatch>\n");
    let site = r#"<VirtualHost $ADDRESS>
    ServerName site.test
    DocumentRoot "$TOP//site/"
    <Directory $TOP/site>
        Require all granted
    </Directory>
    <Directory $TOP/site/private/>
        Require all denied
    </Directory>
    <Directory $TOP/site/blog>
        AllowOverride All
    </Directory>
    <Directory $TOP/site/shop/>
        AllowOverride All
    </Directory>
    <Directory $TOP/site/new>
        AllowOverride FileInfo
    </Directory>
    <Directory $TOP/site/plain>
        AllowOverride All
    </Directory>
    <FilesMatch "^[^.]+\.(sql|bak)$">
        Require all denied
    </FilesMatch>
</VirtualHost>"#;
    serve(&mut desk, site, 0);
    desk.compare(&[
        status(200, "/index.html"),
        status(403, "/dump.sql"),
        status(403, "/private/a.txt"),
        status(200, "/blog/a.txt"),
        status(403, "/blog/vendor/a.txt"),
        status(403, "/blog/storage/a.txt"),
        status(403, "/shop/vendor/a.txt"),
        status(200, "/shop/assets/a.txt"),
        status(404, "/new/secret.txt"),
        status(200, "/new/a.txt"),
        // Apache sends the source.
        differs(200, 403, "/plain/a.php"),
        status(200, "/plain/a.txt"),
    ]);
}

#[test]
fn passwords() {
    let mut desk = Desk::new(&[
        "index.php",
        "login.php",
        "staff/a.txt",
        "staff/a.php",
        "staff/index.php",
        "older/a.txt",
        "max/a.txt",
        "office/a.txt",
        "away/a.txt",
        "both/a.txt",
        "group/a.txt",
    ]);
    desk.write("users", super::USERS);
    let settings = "AuthType Basic\nAuthName \"The staff\"\nAuthUserFile $TOP/users\n";
    for (folder, lines) in [
        ("staff", "Require valid-user"),
        ("older", "Order allow,deny\nAllow from all\nRequire valid-user"),
        ("max", "Require user ann max"),
        ("office", "Require ip 127.0.0.0/8\nRequire valid-user"),
        ("away", "<RequireAny>\nRequire ip 192.0.2.0/24\nRequire valid-user\n</RequireAny>"),
        ("both", "<RequireAll>\nRequire ip 192.0.2.0/24\nRequire valid-user\n</RequireAll>"),
        ("group", "Require group staff"),
    ] {
        desk.write(&format!("site/{folder}/.htaccess"), &format!("{settings}{lines}\n"));
    }
    desk.write(
        "site/.htaccess",
        &format!(
            "{settings}<Files login.php>\nRequire valid-user\n</Files>\nRewriteEngine On\n\
             RewriteCond %{{REQUEST_FILENAME}} !-f\nRewriteCond %{{REQUEST_FILENAME}} !-d\n\
             RewriteRule . /index.php [L]\n"
        ),
    );
    let site = "<VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
        DirectoryIndex index.php\n<Directory $TOP/site>\n  AllowOverride All\n  \
        Require all granted\n</Directory>\n</VirtualHost>";
    let written = serve(&mut desk, site, 3);
    assert!(written.contains("REFUSED: `require group staff`"), "{written}");
    let wrong = |row: Row| row.with("Authorization", "Basic bWF4Om9wZW4gc2VzYW1");
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page"),
        status(401, "/staff/a.txt"),
        status(401, "//staff/./x/../a%2etxt"),
        status(401, "/staff/a.php"),
        status(401, "/staff/"),
        status(401, "/staff/none"),
        status(401, "/older/a.txt"),
        status(401, "/max/a.txt"),
        status(401, "/login.php"),
        status(401, "/login.php/x"),
        wrong(status(401, "/staff/a.txt")),
        status(200, "/staff/a.txt").by_max(),
        status(200, "/staff/a.php?a=b").by_max(),
        status(200, "/staff/").by_max(),
        status(200, "/older/a.txt").by_max(),
        status(200, "/max/a.txt").by_max(),
        status(200, "/login.php?a").by_max(),
        status(200, "/office/a.txt"),
        status(401, "/away/a.txt"),
        status(200, "/away/a.txt").by_max(),
        status(403, "/both/a.txt"),
        status(403, "/both/a.txt").by_max(),
        differs(401, 403, "/group/a.txt"),
    ]);
}

#[test]
fn clients_behind_proxies() {
    let mut desk = Desk::new(&["office/a.txt", "all/a.txt"]);
    let site = "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1 10.0.0.0/8\n\
        <VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
        <Directory $TOP/site>\nRequire all granted\n</Directory>\n\
        <Directory $TOP/site/office>\nRequire ip 192.0.2.0/24\n</Directory>\n</VirtualHost>";
    serve(&mut desk, site, 0);
    super::forwarded(&desk);
}

#[test]
fn debians_phpmyadmin_is_a_mounted_site() {
    let desk = Desk::new(&[]);
    let output = desk.import("apache", Path::new("/etc/phpmyadmin/apache.conf"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let written = std::fs::read_to_string(desk.path("tokamak.toml")).unwrap();
    for part in [
        "path = \"/phpmyadmin\"",
        "root = \"/usr/share/phpmyadmin\"",
        "path = \"/libraries\"\ndeny = [\"all\"]",
        "path = \"/templates\"\ndeny = [\"all\"]",
        "open_basedir",
    ] {
        assert!(written.contains(part), "no {part} in {written}");
    }
}

#[test]
fn folders_are_listed_where_they_were() {
    let mut desk = Desk::new(&[
        "a/a.txt",
        "a/closed/b.txt",
        "a/htaccess/b.txt",
        "index/index.html",
        "refused/a.txt",
        "reset/a.txt",
    ]);
    desk.write("site/a/htaccess/.htaccess", "Options -Indexes\n");
    desk.write("tool/a.css", "a");
    desk.write("tool/listed/a.css", "a");
    let site = r#"<VirtualHost $ADDRESS>
    ServerName site.test
    DocumentRoot $TOP/site
    DirectoryIndex index.html
    Alias /tool $TOP/tool
    <Directory $TOP/site>
        Options Indexes FollowSymLinks
        AllowOverride All
        Require all granted
    </Directory>
    <Directory $TOP/site/a/closed>
        Options -Indexes
    </Directory>
    <Directory $TOP/site/reset>
        Options FollowSymLinks
    </Directory>
    <Directory $TOP/site/refused>
        Require all denied
    </Directory>
    <Directory $TOP/tool>
        Require all granted
    </Directory>
    <Directory $TOP/tool/listed>
        Options +Indexes
    </Directory>
</VirtualHost>"#;
    serve(&mut desk, site, 0);
    desk.compare(&[
        differs(200, 200, "/"),
        status(301, "/a"),
        differs(200, 200, "/a/"),
        status(200, "/a/a.txt"),
        status(403, "/a/closed/"),
        status(200, "/a/closed/b.txt"),
        status(403, "/a/htaccess/"),
        status(200, "/index/"),
        status(403, "/refused/"),
        status(403, "/reset/"),
        status(403, "/tool/"),
        differs(200, 200, "/tool/listed/"),
        status(404, "/none/"),
    ]);
}

/// Sections for names of files are for the file that answers in the end, also where the path goes
/// on behind its name.
#[test]
fn what_is_said_of_files_is_for_what_answers() {
    let mut desk = Desk::new(&["index.php", "a.css", "img/p.png", "uploads/a.txt"]);
    let said = "<?php header('Cache-Control: private'); header('Content-Type: image/png');";
    desk.write("site/own.php", said);
    desk.write("site/uploads/evil.php", "<?php echo 'RUNS';");
    desk.write(
        "site/uploads/.htaccess",
        "<FilesMatch \"\\.php$\">\nSetHandler none\n</FilesMatch>\n",
    );
    desk.write(
        "site/.htaccess",
        "DirectoryIndex index.php\nRedirect gone /old\nRedirectMatch 410 ^/tmp$\n\
         RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n\
         <FilesMatch \"\\.php$\">\nHeader set X-Frame-Options DENY\n</FilesMatch>\n\
         <FilesMatch \"\\.(png|css)$\">\nHeader set Cache-Control \"public, max-age=31536000\"\n\
         </FilesMatch>\nExpiresActive On\nExpiresByType image/png \"access plus 1 hour\"\n",
    );
    let site = "DocumentRoot $TOP/site\n<Directory $TOP/site>\nAllowOverride All\n\
        Require all granted\n</Directory>\n";
    serve(&mut desk, site, 0);
    let targets = ["/", "/account", "/private/photo.png", "/img/p.png", "/a.css", "/index.php/x"];
    desk.compare_fields(targets.map(same).into());
    desk.compare(&[
        status(410, "/old"),
        status(410, "/old/page"),
        status(410, "/tmp"),
        status(200, "/account"),
        status(200, "/uploads/a.txt"),
        differs(200, 403, "/uploads/evil.php"),
        differs(404, 403, "/uploads/evil.php/x"),
        differs(404, 403, "/uploads/evil.php/x.png"),
    ]);
    // Apache adds its lifetime to what the script says; here that stays as it is.
    let own = Connection::open(desk.ours).exchange(&get("/own.php").header("Host", "site.test"));
    assert_eq!(own.header("cache-control"), Some("private"));
}

/// Lines that stand in the files of many applications.
#[test]
fn the_idioms_of_htaccess_files_are_known() {
    let mut desk = Desk::new(&[
        "index.php",
        "robots.txt",
        "setup.ini",
        "other.txt",
        "css/app.css",
        "notes.md",
        "a.b.md",
        "data.git/.svn/entries",
        "inner/a.txt",
        "img/a.png",
        "page.html",
    ]);
    desk.write(
        "site/.htaccess",
        "<FilesMatch \"(?i)((\\.ini|\\.log|(?<!robots)\\.txt))\">\nRequire all denied\n</FilesMatch>\n\
         <FilesMatch \"^[^.]+\\.md$\">\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
         <IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n</FilesMatch>\n\
         RewriteEngine On\nRewriteRule ^(?!pages|inner)(\\.?[^.]+)$ - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule \\.(png|php)$ - [F]\n\
         RewriteCond %{HTTP_COOKIE} !session\nRewriteCond %{QUERY_STRING} ^$\n\
         RewriteCond %{DOCUMENT_ROOT}/cache/$1.html -f\nRewriteRule ^(.*)$ /cache/$1.html [L]\n\
         RewriteCond $0::%{REQUEST_URI} ^([^:]*+(?::[^:]*+)*?)::(/.+?)\\1$\n\
         RewriteRule .+ - [E=BASE:%2]\nRewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-f\n\
         RewriteRule .* %{ENV:BASE}index.php [NC,L]\n",
    );
    let site = "<VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
        DirectoryIndex index.php\n<Directory $TOP/*>\nAllowOverride All\nRequire all granted\n\
        </Directory>\n<DirectoryMatch \"^/.*/\\.(git|svn)/\">\nRequire all denied\n\
        </DirectoryMatch>\n<Directory ~ \"^$TOP/site/inner/\">\nRequire all denied\n</Directory>\n\
        AliasMatch ^/pics/(.+)\\.jpg$ $TOP/site/img/$1.png\nScriptAlias /cgi-bin/ $TOP/cgi/\n\
        </VirtualHost>";
    let written = serve(&mut desk, site, 3);
    assert!(written.contains("docs/cgi.md"), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/robots.txt"),
        status(403, "/other.txt"),
        status(403, "/setup.ini"),
        status(403, "/setup.ini/more"),
        status(200, "/css/app.css"),
        status(403, "/notes.md"),
        status(200, "/a.b.md"),
        status(200, "/page.html"),
        status(200, "/pages/one"),
        status(200, "/missing.html"),
        status(403, "/some/page"),
        status(403, "/data.git/.svn/entries"),
        status(403, "/inner/a.txt"),
        status(403, "/missing.png"),
        differs(200, 404, "/pics/a.jpg"),
    ]);
}

#[test]
fn rewrites_are_for_the_folders_and_scripts_that_apache_gives_them() {
    let mut desk = Desk::new(&[
        "index.php",
        "other.php",
        "uploads/a.png",
        "moved/page.html",
        "pages/a.html",
        "pages/show.php",
        "docs/guide.html",
        "docs/notes.txt",
        "secret/a.txt",
    ]);
    let front = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n";
    let behind = "RewriteRule ^page/(.*)$ other.php?id=$1 [L]\nRewriteRule ^secret/ - [F]\n";
    desk.write("site/.htaccess", &format!("{front}{behind}"));
    desk.write("site/uploads/.htaccess", "RewriteEngine Off\n");
    let on = |rule: &str| format!("RewriteEngine On\nRewriteRule {rule} [L]\n");
    desk.write("site/moved/.htaccess", &on("^page\\.html$ /pages/a.html"));
    desk.write("site/pages/.htaccess", &on("^(.*)\\.html$ show.php?page=$1"));
    desk.write("site/docs/.htaccess", "Options +Indexes\nDirectoryIndex guide.html\n");
    for script in ["index.php", "img/evil.php", "old/index.php"] {
        desk.write(&format!("proxied/{script}"), "<?php echo $_SERVER['SCRIPT_FILENAME'];");
    }
    desk.write("proxied/.htaccess", front);
    desk.write("proxied/old/.htaccess", &on("^(.*)$ index.php"));
    let site = |name: &str, own: &str| {
        let root = format!("$TOP/{}", name.trim_end_matches(".test"));
        format!(
            "<VirtualHost $ADDRESS>\nServerName {name}\nDocumentRoot {root}\n\
             DirectoryIndex index.php\n<Directory {root}>\nAllowOverride All\n\
             Require all granted\nOptions FollowSymLinks\n</Directory>\n{own}\n</VirtualHost>\n"
        )
    };
    let handing = "ProxyPassMatch ^/(.*\\.php(/.*)?)$ unix:$SOCKET|fcgi://localhost$TOP/proxied\n\
        Alias /pics/ $TOP/proxied/img/";
    let sites =
        site("site.test", "Alias /manual $TOP/site/secret") + &site("proxied.test", handing);
    let written = serve(&mut desk, &sites, 3);
    let proxied = |row| Row { host: "proxied.test", ..row };
    desk.compare(&[
        same("/some/page"),
        same("/page/12"),
        status(200, "/uploads/a.png"),
        status(404, "/uploads/missing.png"),
        same("/moved/page.html"),
        status(403, "/secret/a.txt"),
        status(403, "/manual/a.txt"),
        // Which index file a folder has of its own is not translated; it is not listed either.
        differs(200, 404, "/docs/"),
        proxied(same("/some/page")),
        proxied(same("/img/evil.php")),
        proxied(status(404, "/pics/evil.php")),
        proxied(status(404, "/missing.php")),
        proxied(status(404, "/old/missing.php")),
        proxied(same("/old/missing")),
    ]);
    assert!(written.contains("its rewrites are also for what is mounted"), "{written}");
}
