//! Caddy's `reverse_proxy` beside PHP, files and other directives: the service is asked for the
//! same.

use super::serve;
use crate::import::proxies::{start_service, with_fields};
use crate::import::{Desk, differs, status};

/// What services behind Caddy say of their requests.
const TOLD: &str = "host=$http_host for=$http_x_forwarded_for proto=$http_x_forwarded_proto \
    cookie=$http_cookie me=$http_x_me user=$http_x_user";

#[test]
fn services_beside_php() {
    let files = ["index.php", "a.txt", "api/secret.txt", "API/b.txt", "apix.txt", "other/a.txt"];
    let mut desk = Desk::new(&files);
    let service = start_service(&mut desk, TOLD);
    let site = r"	root * $TOP/site
	php_fastcgi unix/$SOCKET
	file_server
	respond /api/closed* 403
	reverse_proxy /api/* SERVICE {
		transport http {
			dial_timeout 2s
			response_header_timeout 1m30s
			read_timeout 40s
			write_timeout 500ms
			keepalive 30s
		}
		header_up X-Me server
		header_up -X-User
		header_up X-Real-IP {remote_host}
		header_up X-Forwarded-Proto {scheme}
		header_down X-Answer api
		header_down -Server
	}
	@both path /both /both/*
	reverse_proxy @both http://SERVICE {
		header_up Host app.test
		header_up X-User {header.X-Other}
		lb_policy round_robin
		lb_try_duration 5s
		flush_interval -1
	}
	reverse_proxy /pre* SERVICE
	reverse_proxy /exact SERVICE
	@post method POST
	reverse_proxy @post https://SERVICE
	handle_path /strip/* {
		reverse_proxy unix/$TOP/service.sock
	}
	handle /base/* {
		request_header X-Me handle
		rewrite * /v1{uri}
		reverse_proxy SERVICE
	}
	route /route/* {
		basicauth /route/private/* {
			max $2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG
		}
		reverse_proxy SERVICE
	}
	handle_path /guarded/* {
		basicauth {
			max $2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG
		}
		reverse_proxy SERVICE
	}
	handle_path /part/* {
		basicauth /closed/* {
			max $2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG
		}
		reverse_proxy SERVICE
	}";
    let written = serve(&mut desk, &site.replace("SERVICE", &service), 3);
    for part in [
        "connect_timeout = \"2s\"",
        "first_byte_timeout = \"90s\"",
        "read_timeout = \"40s\"",
        "send_timeout = \"500ms\"",
        "REFUSED: `reverse_proxy @post\n",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }
    desk.compare(&[
        status(200, "/"),
        status(200, "/a.txt"),
        status(200, "/some/page?x=y"),
        status(200, "/api/"),
        status(200, "/api/users?page=2&a=%20b"),
        status(200, "/api/%7euser"),
        status(200, "/api/a.php/b"),
        status(200, "/api/secret.txt"),
        status(403, "/api/closed"),
        status(403, "/api/closed/x"),
        status(403, "/api/x/../closed"),
        with_fields(status(200, "/api/users")),
        status(200, "/apix.txt"),
        with_fields(status(200, "/both")),
        status(200, "/both/x"),
        status(200, "/pre"),
        status(200, "/pre/x"),
        status(200, "/exact"),
        status(200, "/strip/"),
        status(200, "/strip/x?y"),
        with_fields(status(200, "/base/x?y")),
        status(200, "/route/x"),
        status(401, "/route/private/x"),
        status(401, "/guarded/x"),
        status(200, "/guarded/x").by_max(),
        status(200, "/other/a.txt"),
        differs(502, 404, "/some/page").sending(10),
        // What is asked of the path behind the prefix is not translated.
        differs(401, 404, "/part/closed/x"),
        // A route has the path without its slash, too, and what is below it.
        differs(200, 404, "/api"),
        differs(200, 404, "/prefix"),
        differs(200, 404, "/exact/x"),
        // Caddy compares paths in upper and lower case alike.
        differs(200, 404, "/API/b.txt"),
    ]);
    desk.compare_fields(vec![status(200, "/api/x")]);
}

#[test]
fn a_service_has_what_no_handle_has() {
    let files = ["index.php", "robots.txt", "static/a.css", "static/a.php", "secret.txt", "a.png"];
    let mut desk = Desk::new(&files);
    desk.write("media/m.txt", "media");
    let service = start_service(&mut desk, TOLD);
    let site = r"	root * $TOP/site
	handle /static/* {
		file_server
	}
	handle /robots.txt {
		file_server
	}
	handle_path /media/* {
		root * $TOP/media
		file_server
	}
	handle /api/* {
		reverse_proxy SERVICE {
			header_up X-Me api
		}
	}
	handle {
		reverse_proxy SERVICE
	}";
    serve(&mut desk, &site.replace("SERVICE", &service), 0);
    desk.compare(&[
        status(200, "/"),
        status(200, "/index.php?x"),
        status(200, "/secret.txt"),
        status(200, "/a.png"),
        with_fields(status(200, "/no/user")),
        status(200, "/api/x"),
        status(200, "/robots.txt"),
        status(200, "/static/a.css"),
        status(404, "/static/none"),
        status(200, "/media/m.txt"),
        status(404, "/media/none"),
        // Caddy sends the source of scripts.
        differs(200, 403, "/static/a.php"),
    ]);
}

#[test]
fn a_service_has_what_is_no_file() {
    let mut desk = Desk::new(&["a.txt", "folder/index.html", "b/c.txt"]);
    let service = start_service(&mut desk, TOLD);
    let site = r"	root * $TOP/site
	@missing not file
	reverse_proxy @missing SERVICE
	file_server";
    serve(&mut desk, &site.replace("SERVICE", &service), 0);
    desk.compare(&[
        status(200, "/a.txt"),
        status(200, "/b/c.txt"),
        status(200, "/none/x?a=b"),
        status(200, "/folder/index.html"),
        status(200, "/"),
    ]);
}

#[test]
fn a_site_without_documents_is_a_service() {
    let mut desk = Desk::new(&["index.html"]);
    let service = start_service(&mut desk, TOLD);
    let site = r"	basicauth /closed/* {
		max $2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG
	}
	reverse_proxy SERVICE";
    let written = serve(&mut desk, &site.replace("SERVICE", &service), 0);
    assert!(written.contains("mode = \"fastcgi\""), "{written}");
    desk.compare(&[
        status(200, "/"),
        status(200, "/a/b?c=d"),
        status(200, "/index.html"),
        status(401, "/closed/x"),
        status(200, "/closed/x").by_max(),
    ]);
}
