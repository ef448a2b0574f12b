//! What the files of applications say in ways of their own.

use super::super::{Desk, differs, same, status};
use super::serve;

/// A site whose `.htaccess` files are read.
const SITE: &str = "<VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
    DirectoryIndex index.php\n<Directory $TOP/site>\nAllowOverride All\nRequire all granted\n\
    </Directory>\n</VirtualHost>";

#[test]
fn all_paths_are_led_into_a_folder() {
    let mut desk = Desk::new(&[
        "app/secret.txt",
        "docs/a.txt",
        "web/index.php",
        "web/css/a.css",
        "web/old/b.txt",
        "composer.json",
    ]);
    desk.write(
        "site/.htaccess",
        "RewriteEngine On\nRewriteRule ^gone/ - [G]\nRewriteRule ^$ web/ [L]\n\
         RewriteRule (.*) web/$1 [L]\n<FilesMatch \"\\.lock$\">\nRequire all denied\n\
         </FilesMatch>\nHeader set X-Root yes\n",
    );
    desk.write("site/app/.htaccess", "Require all denied\n");
    desk.write(
        "site/web/.htaccess",
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} ^/web/old/\nRewriteRule ^ - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\n\
         RewriteRule ^ %1 [L,R=301]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n",
    );
    let written = serve(&mut desk, SITE, 0);
    assert!(written.contains("/site/web\""), "{written}");
    desk.compare(&[
        // The script is `/index.php`, and with Apache `/web/index.php`.
        differs(200, 200, "/"),
        differs(200, 200, "/page?a=b"),
        differs(200, 200, "/composer.json"),
        differs(200, 200, "/docs/a.txt"),
        differs(200, 200, "/web/page"),
        status(200, "/css/a.css"),
        status(200, "/web/css/a.css"),
        status(301, "/web"),
        status(301, "/page/"),
        status(403, "/app/secret.txt"),
        status(403, "/app/none"),
        status(403, "/old/b.txt"),
        status(403, "/composer.lock"),
        status(403, "/css/none.lock"),
        status(410, "/gone/a"),
    ]);
    desk.compare_fields(vec![same("/css/a.css"), same("/")]);
}

#[test]
fn chains_and_variables_lead_to_a_script() {
    let mut desk = Desk::new(&["index.php", "a.txt", "shop/index.php", "shop/a.css", "shop/x.ini"]);
    desk.write(
        "site/.htaccess",
        "RewriteEngine On\nRewriteRule ^(.+)$ - [E=ROUTE:$1,C]\n\
         RewriteRule ^internal/ index.php?missing=1 [L]\nRewriteCond %{REQUEST_FILENAME} -f\n\
         RewriteRule !\\.(php|ini)$ - [NC,C]\nRewriteRule .* - [L]\n\
         RewriteCond %{ENV:ROUTE} !^private/\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\n\
         RewriteRule ^(.+)$ index\\.php?route=%{ENV:ROUTE} [L,QSA]\n",
    );
    desk.write(
        "site/shop/.htaccess",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_URI} (.*/shop)\nRewriteRule ^(.*)$ %1/index.php/$1 [L]\n\
         <FilesMatch \"^[^.]+$|\\.(?!css|php)[^.]*$\">\nRequire all denied\n</FilesMatch>\n",
    );
    serve(&mut desk, SITE, 3);
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page?a=b"),
        status(200, "/internal/page"),
        status(200, "/a.txt"),
        status(404, "/private/page"),
        status(200, "/shop/a.css"),
        status(200, "/shop/none.css"),
        status(403, "/shop/x.ini"),
        status(403, "/shop/none"),
        same("/index.php?a=b"),
    ]);
}

#[test]
fn methods_variables_and_redirects_below_an_alias() {
    let mut desk = Desk::new(&["open/a.php", "half/a.php", "key/a.txt", "if/a.txt", "if/b.txt"]);
    desk.write("lib/a.txt", "a");
    let site = "<VirtualHost $ADDRESS>\nServerName site.test\nDocumentRoot $TOP/site\n\
        Alias /lib $TOP/lib\nRedirect 301 /lib/old /new\nRedirectMatch 302 ^/lib/m/(.*)$ /n/$1\n\
        <Directory $TOP>\nRequire all granted\n</Directory>\n\
        <Directory $TOP/site/open>\nRequire all granted\n<LimitExcept GET>\nRequire all denied\n\
        </LimitExcept>\n</Directory>\n\
        <Directory $TOP/site/half>\nRequire all denied\n<LimitExcept POST>\n\
        Require all granted\n</LimitExcept>\n</Directory>\n\
        <Directory $TOP/site/key>\nSetEnvIf User-Agent reader known\nRequire env known\n\
        </Directory>\n<Directory $TOP/site/if>\n<If \"%{QUERY_STRING} =~ /away/\">\n\
        Redirect 302 /if /else\n</If>\n<If \"! -f %{REQUEST_FILENAME}\">\nRequire all denied\n\
        </If>\n</Directory>\n</VirtualHost>";
    serve(&mut desk, site, 0);
    desk.compare(&[
        status(200, "/lib/a.txt"),
        status(301, "/lib/old"),
        status(301, "/lib/old/a?b=c"),
        status(302, "/lib/m/a"),
        status(404, "/lib/older"),
        status(200, "/open/a.php"),
        status(200, "/open/a.php").sending(3),
        status(200, "/half/a.php"),
        status(403, "/half/a.php").sending(3),
        status(403, "/key/a.txt"),
        status(200, "/key/a.txt").with("User-Agent", "a reader"),
        status(200, "/if/a.txt"),
        status(302, "/if/a.txt?go=away"),
        status(403, "/if/none.txt"),
    ]);
}
