//! Invented sites of Apache with `.htaccess` files, from lines as they stand in those of many.

mod known;

use std::path::PathBuf;

use super::dice::Dice;
use super::{Desk, Peer, documents};

/// Apache.
pub(super) const PEER: Peer =
    Peer { language: "apache", site, start, known: known::DIFFERENCES, openings: known::OPENINGS };

/// What asks for a password.
const LOGIN: &str = "AuthType Basic\nAuthName office\nAuthUserFile $TOP/users\nRequire valid-user";

fn start(desk: &mut Desk, sites: &str) -> PathBuf {
    desk.write("tool/index.php", super::SCRIPT);
    desk.write("tool/libraries/a.php", super::SCRIPT);
    desk.write("tool/a.css", "page.html");
    super::super::apache::start(desk, sites)
}

/// A site, with its documents and their `.htaccess` files.
fn site(dice: &mut Dice, desk: &Desk, number: usize) -> String {
    let folder = format!("s{number}");
    documents(desk, &folder);
    let overridden: [(&str, &[&str]); 5] =
        [("uploads", &UPLOADS), ("admin", &ADMIN), ("docs", &DOCS), ("data", &DATA), ("old", &OLD)];
    for (name, own) in overridden {
        if dice.one_in(4) {
            desk.write(&format!("{folder}/{name}/.htaccess"), &filled(dice.pick::<&str>(own)));
        }
    }
    let mut lines = Vec::new();
    if dice.one_in(2) {
        lines.push(*dice.pick(&FRONT));
    }
    for _ in 0..dice.below(4) {
        lines.push(*dice.pick(&OVERRIDES));
    }
    if !lines.is_empty() {
        dice.shuffle(&mut lines);
        desk.write(&format!("{folder}/.htaccess"), &filled(&lines.join("\n")));
    }
    let root = format!("$TOP/{folder}");
    let options = dice.pick(&[
        "",
        "Options FollowSymLinks\n",
        "Options -Indexes\n",
        "Options Indexes FollowSymLinks\n",
    ]);
    let index = dice.pick(&["index.php", "index.php index.html", "index.html index.php"]);
    let mut own = Vec::new();
    for _ in 0..dice.below(5) {
        let line = *dice.pick(&LINES);
        if !own.contains(&line) {
            own.push(line);
        }
    }
    let own = filled(&own.join("\n")).replace("$ROOT", &root);
    format!(
        "<VirtualHost $ADDRESS>\nServerName {}\nDocumentRoot {root}\nDirectoryIndex {index}\n\
         <Directory {root}>\nAllowOverride All\nRequire all granted\n{options}</Directory>\n\
         {own}\n</VirtualHost>\n",
        super::name(number)
    )
}

fn filled(text: &str) -> String {
    format!("{}\n", text.replace("$LOGIN", LOGIN))
}

/// What leads to the front controller.
const FRONT: [&str; 11] = [
    "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
     RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
     RewriteRule . /index.php [L]\n</IfModule>",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\n\
     RewriteRule ^ %1 [L,R=301]\nRewriteCond %{REQUEST_FILENAME} !-d\n\
     RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
     RewriteRule ^(.*)$ index.php?q=$1 [L,QSA]",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -s [OR]\n\
     RewriteCond %{REQUEST_FILENAME} -l [OR]\nRewriteCond %{REQUEST_FILENAME} -d\n\
     RewriteRule ^.*$ - [L]\nRewriteRule ^.*$ index.php [L]",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
     RewriteRule ^(.*)$ /index.php/$1 [L]",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
     RewriteCond %{REQUEST_URI} !\\.(png|css|txt)$ [NC]\nRewriteRule ^ index.php [L]",
    "RewriteEngine On\nRewriteRule ^(data|old)/ - [F,L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
     RewriteRule ^ index.php [QSA,L]",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule ^ - [L]\n\
     RewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteRule ^ index.php [L]",
    "RewriteEngine On\nRewriteRule ^(.+)$ - [E=ROUTE:$1,C]\n\
     RewriteRule ^news/ index.php?news=1 [L]\nRewriteCond %{ENV:ROUTE} !^p/\n\
     RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
     RewriteRule ^(.+)$ index\\.php?route=%{ENV:ROUTE} [L,QSA]",
    "FallbackResource /index.php",
    "DirectoryIndex index.php\nFallbackResource /index.php\nErrorDocument 404 /index.php",
];

/// Other lines of a site's own `.htaccess`.
const OVERRIDES: [&str; 47] = [
    "RewriteEngine On\nRewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]",
    "SetEnvIfNoCase User-Agent evilbot bad\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "SetEnvIf X-Forwarded-Proto ^http$ plain\n<RequireAll>\nRequire all granted\n\
     Require not env plain\n</RequireAll>",
    "<LimitExcept GET POST>\nDeny from all\n</LimitExcept>",
    "<If \"%{HTTP_USER_AGENT} =~ /EvilBot/ || %{REQUEST_METHOD} == 'DELETE'\">\n\
     Require all denied\n</If>",
    "<If \"%{QUERY_STRING} =~ /^a=/ && %{REQUEST_URI} =~ m#^/(docs|p)/#\">\n\
     Require all denied\n</If>",
    "<FilesMatch \"^[^.]+\\.(txt|md)$\">\nRequire all denied\n</FilesMatch>",
    "<FilesMatch \"(?i)(\\.ini|(?<!robots)\\.txt)\">\nRequire all denied\n</FilesMatch>",
    "RewriteEngine On\nRewriteRule ^(?!docs|admin)(\\.?[^.]+)$ - [F]",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule \\.(php|png)$ - [F]",
    "RewriteEngine On\nRewriteCond %{DOCUMENT_ROOT}/%{REQUEST_URI} !-f\n\
     RewriteRule ^news/ index.php [L]",
    "<FilesMatch \"^\\.|^(?!docs)[^.]+$|\\.(?!css|png|php|html)[^.]*$\">\nRequire all denied\n\
     </FilesMatch>",
    "<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>\n\
     <FilesMatch \"^(index|other)\\.php$\">\nRequire all granted\n</FilesMatch>",
    "Require all granted\n<LimitExcept GET>\nRequire all denied\n</LimitExcept>",
    "SetEnvIf X-Forwarded-Proto ^https$ safe\n<Files info.php>\nRequire env safe\n</Files>",
    "<If \"%{QUERY_STRING} =~ /a=/\">\nRedirect 302 /docs /news\n</If>",
    "RewriteEngine On\nRewriteCond %{ENV:REDIRECT_STATUS} !=200\nRewriteRule ^data/ - [F]",
    "RewriteEngine On\nRewriteCond %{THE_REQUEST} \\s/+index\\.php[\\s?]\n\
     RewriteRule ^index\\.php$ / [R=301,L]",
    "RewriteEngine On\nRewriteRule !\\.(txt|css)$ - [C]\nRewriteRule ^p/(.*)$ /docs/$1 [L]",
    "Options -Indexes",
    "Options +Indexes",
    "DirectoryIndex index.html index.php",
    "Header set X-Site yes",
    "Header always set X-Frame-Options DENY",
    "Header unset X-Own",
    "<FilesMatch \"\\.(png|css)$\">\nHeader set Cache-Control \"public, max-age=3600\"\n</FilesMatch>",
    "<FilesMatch \"\\.php$\">\nHeader set X-Script yes\n</FilesMatch>",
    "<Files robots.txt>\nHeader set X-Robots yes\n</Files>",
    "<FilesMatch \"\\.(?:txt|md)$\">\nRequire all denied\n</FilesMatch>",
    "<Files \"info.php\">\nRequire all denied\n</Files>",
    "<Files info.php>\nOrder allow,deny\nDeny from all\n</Files>",
    "<FilesMatch \"^\\.\">\nRequire all denied\n</FilesMatch>",
    "<Files ~ \"^(other|notes)\\.\">\nDeny from all\n</Files>",
    "<Files tool.php>\n$LOGIN\n</Files>",
    "ExpiresActive On\nExpiresByType image/png \"access plus 1 hour\"",
    "ExpiresActive On\nExpiresByType text/css A600\nExpiresDefault \"access plus 1 day\"",
    "ErrorDocument 404 /page.html",
    "ErrorDocument 403 /page.html",
    "ErrorDocument 404 \"nothing here\"",
    "Redirect gone /gone",
    "Redirect 301 /old/page.html /docs/guide.html",
    "RedirectMatch 404 /\\.git",
    "RewriteEngine On\nRewriteRule ^blog/(.*)$ /news/$1 [R=301,L]",
    "RewriteEngine On\nRewriteRule ^p/([0-9]+)/?$ other.php?id=$1 [L,QSA]",
    "RewriteEngine On\nRewriteRule (^|/)\\.(?!well-known) - [F]",
    "RewriteEngine On\nRewriteCond %{REQUEST_METHOD} ^(PUT|DELETE)$\nRewriteRule ^ - [F]",
    "RewriteEngine On\nRewriteCond %{QUERY_STRING} b=\nRewriteRule ^ - [F,L]",
];

const UPLOADS: [&str; 6] = [
    "<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>",
    "<FilesMatch \"\\.(?i:php|phtml)$\">\nSetHandler none\n</FilesMatch>",
    "SetHandler none",
    "RewriteEngine On\nRewriteRule \\.php$ - [F]",
    "Options -Indexes -ExecCGI\n<Files *.php>\nDeny from all\n</Files>",
    "Header set X-Uploads yes\nHeader set Content-Disposition attachment",
];

const ADMIN: [&str; 5] = [
    "$LOGIN",
    "$LOGIN\nHeader set Cache-Control private",
    "<FilesMatch \"\\.php$\">\n$LOGIN\n</FilesMatch>",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]",
    "<RequireAny>\nRequire ip 192.0.2.0/24\nRequire all denied\n</RequireAny>",
];

const DOCS: [&str; 5] = [
    "Options +Indexes\nDirectoryIndex guide.html",
    "Header set X-Docs yes\nExpiresActive On\nExpiresDefault \"access plus 1 hour\"",
    "Require all denied",
    "<Files guide.html>\nRequire all granted\n</Files>\nRequire all denied",
    "RewriteEngine On\nRewriteRule ^(.*)\\.html$ run.php?page=$1 [L]",
];

const DATA: [&str; 6] = [
    "Deny from all\n<Files secret.txt>\nAllow from all\n</Files>",
    "Require all denied\n<FilesMatch \"\\.txt$\">\nRequire all granted\n</FilesMatch>",
    "Require all denied",
    "Deny from all",
    "Order deny,allow\nDeny from all\nAllow from 192.0.2.1",
    "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
     <IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>",
];

const OLD: [&str; 3] = [
    "RewriteEngine On\nRewriteRule ^(.*)$ /docs/$1 [R=301,L]",
    "RewriteEngine Off",
    "RewriteEngine On\nRewriteRule ^page\\.html$ /docs/guide.html [L]",
];

/// Lines of the site itself.
const LINES: [&str; 37] = [
    "<DirectoryMatch \"/\\.(git|svn)\">\nRequire all denied\n</DirectoryMatch>",
    "<Directory $TOP/*/uploads>\nHeader set X-Uploads yes\n<Files *.php>\nRequire all denied\n</Files>\n</Directory>",
    "<DirectoryMatch \"^$ROOT/(admin|docs)/\">\nHeader set X-Inner yes\n</DirectoryMatch>",
    "<Directory $ROOT/data>\nRequire all denied\n</Directory>",
    "<Directory $ROOT/data>\nOrder deny,allow\nDeny from all\n</Directory>",
    "<Directory $ROOT/uploads>\n<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>\n</Directory>",
    "<Directory $ROOT/uploads>\n<FilesMatch \"(?i)\\.php$\">\nSetHandler none\n</FilesMatch>\nAllowOverride None\n</Directory>",
    "<Directory $ROOT/docs>\nOptions -Indexes\nHeader set X-Docs yes\n</Directory>",
    "<Directory $ROOT/docs>\nAllowOverride None\nDirectoryIndex guide.html\n</Directory>",
    "<Directory $ROOT/admin>\n$LOGIN\n</Directory>",
    "<Directory $ROOT/admin>\nAllowOverride None\nFallbackResource /admin/index.php\n</Directory>",
    "<Directory $ROOT/empty>\nOptions +Indexes\n</Directory>",
    "<Location /admin>\n$LOGIN\n</Location>",
    "<Location /admin/>\nRequire ip 192.0.2.0/24\n</Location>",
    "<Location /data>\nRequire all denied\n</Location>",
    "<Location /docs>\nHeader set X-Location yes\n</Location>",
    "<LocationMatch \"^/(data|docs)/.*\\.(txt|html)$\">\nRequire all denied\n</LocationMatch>",
    "<LocationMatch \"\\.(png|css)$\">\nHeader set X-Static yes\n</LocationMatch>",
    "<LocationMatch \"/\\.\">\nRequire all denied\n</LocationMatch>",
    "<Files notes.txt>\nRequire all denied\n</Files>",
    "<FilesMatch \"\\.(txt|html)$\">\nHeader set Cache-Control max-age=60\n</FilesMatch>",
    "<FilesMatch \"^(info|tool)\\.php$\">\n$LOGIN\n</FilesMatch>",
    "Alias /tool $TOP/tool\n<Directory $TOP/tool>\nRequire all granted\n</Directory>\n\
     <Directory $TOP/tool/libraries>\nRequire all denied\n</Directory>",
    "Alias /manual $ROOT/docs",
    "Alias /pics/ $ROOT/img/",
    "Redirect permanent /old /docs/",
    "Redirect gone /gone",
    "Redirect 302 /news http://other.test/news",
    "RedirectMatch 301 ^/blog/(.*)$ /news/$1",
    "RedirectMatch 404 /\\.git",
    "ErrorDocument 404 /index.php",
    "ErrorDocument 403 /docs/guide.html",
    "ExpiresActive On\nExpiresByType image/png \"access plus 1 hour\"\nExpiresByType text/html \"access plus 0 seconds\"",
    "Header set X-Site yes",
    "RewriteEngine On\nRewriteRule ^/p/([0-9]+)$ /other.php?id=$1 [L,QSA]",
    "RewriteEngine On\nRewriteRule ^/data/ - [F]",
    "ProxyPassMatch ^/(.*\\.php(/.*)?)$ unix:$SOCKET|fcgi://localhost$ROOT/",
];
