//! Caddy with php-fpm, beside Tokamak.

mod services;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Desk, differs, same, status};

/// Starts Caddy with this site, and Tokamak with what was imported from it.
#[track_caller]
fn serve(desk: &mut Desk, site: &str, exit_status: i32) -> String {
    desk.start_fpm();
    let port = desk.theirs.port();
    let file = start(desk, &format!("http://site.test:{port} {{\n{site}\n}}\n"));
    desk.serve_imported("caddy", &file, exit_status)
}

/// Starts Caddy with these sites.
pub(super) fn start(desk: &mut Desk, sites: &str) -> PathBuf {
    let text = format!("{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}}\n{sites}");
    let file = desk.write("Caddyfile", &text);
    let arguments = ["run", "--adapter", "caddyfile", "--config", file.to_str().unwrap()];
    // Caddy keeps what it knows below its home.
    let home = [("HOME".to_owned(), desk.path("").display().to_string())];
    let program = std::env::var("TOKAMAK_CADDY").unwrap_or("/usr/bin/caddy".to_owned());
    desk.start(Path::new(&program), &arguments, &home);
    file
}

#[test]
fn an_application_with_refusals_and_moved_pages() {
    let mut desk = Desk::new(&[
        "index.php",
        "admin/index.php",
        "admin/a.txt",
        "uploads/picture.png",
        "uploads/evil.php",
        "vendor/autoload.php",
        "office/a.txt",
        "here/a.txt",
        "notes.bak",
        "private/a.txt",
        "style.css",
        "hidden/a.txt",
    ]);
    let site = r"	root * $TOP/site
	encode gzip
	php_fastcgi unix/$SOCKET
	file_server {
		hide hidden *.bak
	}
	header X-Frame-Options DENY
	redir /old /new permanent
	redir /older/page /new?x=y 308
	@move path_regexp blog ^/blog/([0-9]+)$
	redir @move /news/{http.regexp.blog.1}
	rewrite /about /index.php?page=about
	@refused path /vendor/* /uploads/*.php *.lock
	respond @refused 403
	@office {
		path /office/*
		not remote_ip 10.0.0.0/8 192.0.2.1
	}
	respond @office 403
	@here {
		path /here/*
		remote_ip 10.0.0.0/8
	}
	abort @here
	error /missing/* 404
	basicauth /private/* {
		max $2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG
	}
	reverse_proxy /api/* h2c://127.0.0.1:1";
    let written = serve(&mut desk, site, 3);
    assert!(written.contains("REFUSED: `reverse_proxy /api/*"), "{written}");
    // Hashes of passwords are for nobody else.
    let users = desk.path(".htpasswd-1").metadata().unwrap();
    assert_eq!(users.permissions().mode() & 0o777, 0o600);
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page?a=b"),
        status(200, "/none.php"),
        status(200, "/style.css"),
        // Tokamak redirects folders as nginx does.
        differs(308, 301, "/admin"),
        status(200, "/admin/"),
        status(200, "/admin/a.txt"),
        status(301, "/old"),
        status(308, "/older/page?z"),
        status(302, "/blog/12"),
        status(200, "/blog/x"),
        same("/index.php/x"),
        status(200, "/uploads/picture.png"),
        status(403, "/uploads/evil.php"),
        status(403, "/UPLOADS/evil.php"),
        differs(200, 403, "/uploads/evil.php/x"),
        status(403, "/vendor/autoload.php"),
        status(403, "//vendor/autoload.php"),
        status(403, "/x/../vendor/autoload.php"),
        status(403, "/%76endor/autoload.php"),
        status(403, "/composer.lock"),
        status(403, "/office/a.txt"),
        status(403, "//office/./a.txt"),
        status(200, "/here/a.txt"),
        status(404, "/missing/x"),
        status(404, "/hidden/a.txt"),
        status(404, "/notes.bak"),
        status(401, "/private/a.txt"),
        status(401, "/%70rivate//a.txt"),
        status(401, "/private/none"),
        status(200, "/private/a.txt").by_max(),
        status(401, "/private/a.txt").with("Authorization", "Basic bWF4Om9wZW4gc2VzYW1"),
        differs(502, 404, "/api/x"),
    ]);
}

#[test]
fn files_alone_and_what_each_handle_answers() {
    let mut desk = Desk::new(&["index.html", "a/b.txt", "script.php", "closed/a.txt"]);
    for name in ["docs/a.txt", "docs/deep/b.txt", "docs/index.html", "docs/script.php"] {
        desk.write(name, name);
    }
    let site = r"	root * $TOP/site
	handle /closed/* {
		respond 403
	}
	handle /api/* {
		reverse_proxy h2c://127.0.0.1:1
	}
	handle_path /manual/* {
		root * $TOP/docs
		file_server
	}
	respond /manual/deep/* 403
	handle {
		try_files {path} {path}/ /index.html
		file_server
	}";
    let written = serve(&mut desk, site, 3);
    assert!(written.contains("REFUSED: `reverse_proxy h2c://127.0.0.1:1`"), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/a/b.txt"),
        status(200, "/some/page"),
        status(403, "/closed/a.txt"),
        status(403, "/a/../%63losed//a.txt"),
        // Caddy sends the source of scripts where nothing runs them.
        differs(200, 403, "/script.php"),
        differs(502, 404, "/api/x"),
        status(200, "/manual/a.txt"),
        status(200, "/manual/x/..//%61.txt"),
        status(200, "/manual/"),
        status(404, "/manual/none"),
        // Caddy asks `handle_path` before `respond`.
        differs(200, 403, "/manual/deep/b.txt"),
        // For Caddy the folder's name alone is a page of the site.
        differs(200, 301, "/manual"),
        differs(200, 403, "/manual/script.php"),
    ]);
}

#[test]
fn folders_are_listed_where_they_were() {
    let mut desk = Desk::new(&[
        "a/a.txt",
        "index/index.html",
        "plain/a.txt",
        "secret/a.txt",
        "a/hidden/b.txt",
    ]);
    desk.write("other/a.txt", "a");
    let site = "root * $TOP/site\nhandle /plain/* {\nfile_server\n}\n\
        handle_path /m/* {\nroot * $TOP/other\nfile_server browse\n}\n\
        respond /secret/* 403\nfile_server {\nbrowse\nhide hidden\n}";
    // A note says that `respond` is for more.
    serve(&mut desk, site, 3);
    desk.compare(&[
        differs(200, 200, "/"),
        differs(200, 200, "/a/"),
        status(200, "/a/a.txt"),
        status(404, "/a/hidden/"),
        status(200, "/index/"),
        differs(404, 403, "/plain/"),
        status(200, "/plain/a.txt"),
        status(403, "/secret/"),
        differs(200, 200, "/m/"),
        status(404, "/none/"),
    ]);
}

#[test]
fn conditions_choose_what_answers() {
    let mut desk = Desk::new(&[
        "index.php",
        "admin/index.php",
        "admin/a.txt",
        "static/a.css",
        "static/a.php",
        "wiki/doku.php",
        "vendor/ok.css",
        "vendor/a.txt",
        "config/a.txt",
        "page.html",
        "folder/a.txt",
    ]);
    let site = r"	root * $TOP/site
	@page {
		not file {path}
		not path /wp-admin/* /admin/* /static/* /wiki/*
	}
	rewrite @page /index.php?page=1&{query}
	@files not path /static/*
	php_fastcgi @files unix/$SOCKET {
		env PHP_VALUE memory_limit=100M
		trusted_proxies private_ranges
	}
	file_server
	handle /admin/* {
		try_files {path} {path}/ /admin/index.php?{query}
		php_fastcgi unix/$SOCKET
		file_server
	}
	handle /wiki/* {
		rewrite * /wiki/doku.php?id={path}
		php_fastcgi unix/$SOCKET
	}
	@closed {
		path /vendor/* /config*
		not path *.css
	}
	error @closed 404
	@robot {
		header User-Agent *Robot*
		not header X-Key open
	}
	respond @robot 403
	@write {
		path /page.html
		method POST
	}
	respond @write 403
	@moved query old=*
	redir @moved /new
	@later file /closed.html
	respond @later 503
	@made {
		file
		path *.css
	}
	header @made Cache-Control public";
    let written = serve(&mut desk, site, 3);
    assert!(!written.contains("REFUSED"), "{written}");
    assert!(written.contains("memory_limit"), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/some/page?a=b"),
        status(200, "/index.php/x"),
        status(200, "/folder/"),
        status(200, "/page.html"),
        status(200, "/admin/"),
        status(200, "/admin/a.txt"),
        status(200, "/admin/none?x=y"),
        // Slashes in a query stay as they are.
        differs(200, 200, "/wiki/some/page"),
        status(200, "/static/a.css"),
        status(404, "/static/none"),
        differs(200, 403, "/static/a.php"),
        status(200, "/vendor/ok.css"),
        status(404, "/vendor/a.txt"),
        status(404, "/config/a.txt"),
        status(403, "/page.html").sending(1),
        status(403, "/page.html").with("User-Agent", "a Robot"),
        status(200, "/page.html").with("User-Agent", "a Robot").with("X-Key", "open"),
        status(302, "/page.html?old=1"),
        status(200, "/page.html?older=1"),
        status(200, "/none.css"),
    ]);
}
