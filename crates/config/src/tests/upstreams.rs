//! Upstreams, the routes to them, and applications that the server starts.

use super::*;

#[test]
fn upstreams_and_routes_are_found_by_name() {
    let place = Place::with(&["public/index.php"]);
    let text = r#"
        [[upstream]]
        name = "php"
        address = ["unix:run/php.sock", "10.0.0.1:9000"]
        connections = 4
        internal = { "/files" = "public" }
        [[upstream]]
        name = "app"
        address = "unix:/run/app.sock"
        [[site]]
        root = "public"
        upstream = "php"
        [[site.route]]
        path = "/"
        upstream = "app"
        [[site.route]]
        path = "/longer/"
        upstream = "php"
        split = ".pl"
        script = "app.pl"
        files = true
    "#;
    let server = place.load(text).unwrap();
    let [php, app] = &server.upstreams[..] else { panic!("two upstreams") };
    assert_eq!(
        php.addresses,
        [Endpoint::Unix(place.path("run/php.sock")), Endpoint::Tcp("10.0.0.1:9000".into())]
            .map(|endpoint| Address { scheme: Scheme::FastCgi, endpoint, weight: 1 })
    );
    assert_eq!((php.connections, app.connections), (4, 16));
    assert_eq!(php.internal, [("/files/".to_owned(), place.path("public"))].into());
    let site = &server.sites[0];
    assert_eq!((site.mode, site.upstream, site.has_workers()), (Mode::Fastcgi, Some(0), false));
    let route = |path: &str, upstream, split, script, files| Route {
        path: path.into(),
        upstream: Some(upstream),
        upstream_path: None,
        authorizer: None,
        filter: None,
        split,
        script,
        files,
        lua: Scripts::default(),
        cache: Caching::default(),
        compression: Compression::default(),
        server_timing: false,
    };
    assert_eq!(
        site.routes,
        [
            route("/longer", 0, Split::Extension(".pl".into()), Some(place.path("app.pl")), true),
            route("", 1, Split::Path, None, false),
        ]
    );
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
}

#[test]
fn authorizers_hold_for_all_below() {
    let place = Place::with(&["index.php"]);
    let text = r#"
        [[upstream]]
        name = "app"
        address = "unix:/app"
        [[upstream]]
        name = "guard"
        address = "unix:/guard"
        [[upstream]]
        name = "other"
        address = "unix:/other"
        [[site]]
        mode = "classic"
        authorizer = "guard"
        [[site.route]]
        path = "/login"
        authorizer = "none"
        [[site.route]]
        path = "/login/help/app"
        upstream = "app"
        [[site.route]]
        path = "/loginless"
        upstream = "app"
        [[site.route]]
        path = "/files/deep"
        filter = "app"
        filter_extensions = [".html", ".txt"]
        [[site.route]]
        path = "/files"
        authorizer = "other"
    "#;
    let server = place.load(text).unwrap();
    let site = &server.sites[0];
    assert_eq!(site.authorizer, Some(1));
    let guards: Vec<_> =
        site.routes.iter().map(|route| (route.path.as_str(), route.authorizer)).collect();
    assert_eq!(
        guards,
        [
            ("/login/help/app", None),
            ("/files/deep", Some(2)),
            ("/loginless", Some(1)),
            ("/login", None),
            ("/files", Some(2)),
        ]
    );
    let extensions = vec![".html".to_owned(), ".txt".to_owned()];
    assert_eq!(site.routes[1].filter, Some(Filter { upstream: 0, extensions }));
    assert_eq!(site.routes[1].upstream, None);
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
}

#[test]
fn an_application_to_start_is_found() {
    let place = Place::with(&["index.php"]);
    place.program("app/bin/run");
    place.program("bin/named");
    let text = format!(
        r#"
        [[upstream]]
        name = "one"
        spawn = ["bin/run", "--fast", "x y"]
        directory = "app"
        processes = 3
        user = "somebody"
        stop_signal = "usr1"
        [[upstream]]
        name = "two"
        spawn = "named"
        env = {{ PATH = "/nowhere:{}" }}
        inherit_env = false
        processes = 4
        shared = true
        "#,
        place.path("bin").display()
    );
    let server = place.load(&text).unwrap();
    let [one, two] = &server.upstreams[..] else { panic!("two upstreams") };
    assert!(one.addresses.is_empty());
    assert_eq!((one.connections, two.connections), (1, 4));
    let (one, two) = (one.spawn.as_ref().unwrap(), two.spawn.as_ref().unwrap());
    assert_eq!((&one.program, &one.directory), (&place.path("app/bin/run"), &place.path("app")));
    assert_eq!(one.arguments, ["--fast", "x y"]);
    assert_eq!((one.processes, one.sockets(), one.stop_signal), (3, 3, StopSignal::User1));
    assert_eq!((&two.program, &two.directory), (&place.path("bin/named"), &place.path("")));
    assert_eq!((two.processes, two.sockets(), two.inherit_env), (4, 1, false));
    let printed = server.to_toml();
    let mut expected = server.clone();
    for spawn in expected.upstreams.iter_mut().filter_map(|upstream| upstream.spawn.as_mut()) {
        spawn.env.clear(); // not shown, so not printed
    }
    assert_eq!(place.load(&printed).unwrap(), expected);
}

#[test]
fn a_program_is_looked_for_in_the_servers_own_path() {
    let place = Place::with(&["index.php"]);
    place.program("bin/named");
    place.write("tokamak.toml", "[[upstream]]\nname = \"a\"\nspawn = \"named\"");
    let mut request = place.request();
    let errors = lines(request.load_for(2));
    has(&errors, &["tokamak.toml:3: upstream.spawn", "there is no program `named` in PATH"]);
    request.environment = vec![("PATH".into(), place.path("bin").display().to_string())];
    let server = request.load_for(2).unwrap();
    assert_eq!(server.upstreams[0].spawn.as_ref().unwrap().program, place.path("bin/named"));
}

#[test]
fn invalid_upstreams_and_routes_are_errors() {
    let place = Place::with(&["index.php"]);
    for (text, parts) in [
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"/bin/sh\"\naddress = \"a:1\"",
            &[":4", "upstream.address", "made by the server"][..],
        ),
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"/bin/sh\"\ndirectory = \"none\"",
            &[":4", "upstream.directory", "is not a directory"],
        ),
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"./index.php\"",
            &[":3", "there is no program `./index.php` in"],
        ),
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"/bin/sh\"\ngroup = \"b\"",
            &[":4", "upstream.group", "set `user` too"],
        ),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\nprocesses = 2",
            &[":4", "upstream.processes", "only an application that is started here"],
        ),
        ("[[upstream]]\naddress = \"a:1\"", &["upstream.name", "not set"][..]),
        ("[[upstream]]\nname = \"a\"", &["upstream.address", "not set"]),
        ("[[upstream]]\nname = \"a\"\naddress = \"a\"", &[":3", "`a` is no address"]),
        ("[[upstream]]\nname = \"a\"\naddress = \"a:0\"", &["`a:0` is no address"]),
        ("[[upstream]]\nname = \"a\"\naddress = \"unix:\"", &["`unix:` is no address"]),
        ("[upstream]\nname = \"a\"", &["upstream", "`[[upstream]]`, with two brackets"]),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\n[[upstream]]\nname = \"a\"\naddress = \
                \"a:1\"",
            &[":5", "`a` is there twice"],
        ),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\ninternal = { x = \"/\" }",
            &["`x` must begin with `/`"],
        ),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\ninternal = { \"/x\" = \"none\" }",
            &["is not a directory"],
        ),
        ("[[site]]\nupstream = \"a\"", &["site.upstream", "there is no [[upstream]] `a`"]),
        (
            "[[upstream]]\nname = \"php\"\naddress = \"a:1\"\n[[site]]\nupstream = \"phq\"",
            &["did you mean `php`?"],
        ),
        (
            "[[site]]\nupstream = \"a\"\nmode = \"classic\"",
            &["only fastcgi mode sends scripts to an upstream"],
        ),
        ("[[site]]\n[[site.route]]\nupstream = \"a\"", &["site.route.path", "not set"]),
        ("[[site]]\n[[site.route]]\npath = \"/a\"", &["site.route.upstream", "not set"]),
        ("[[site]]\n[[site.route]]\npath = \"/a\"\nsplit = \"x\"", &["`x` is unknown; use path"]),
        ("[[site]]\n[[site.route]]\npath = \"/a\"\nupstream = \"x\"", &["no [[upstream]] `x`"]),
        ("[[site]]\n[[site.route]]\npath = \"a\"\nupstream = \"x\"", &["`a` must begin with `/`"]),
        ("[[site]]\n[[site.route]]\nroute = \"a\"", &["unknown key"]),
    ] {
        has(&place.errors(text), parts);
    }
}

#[test]
fn addresses_have_weights_and_requests_are_bound_to_them() {
    let place = Place::with(&["index.php"]);
    let text = r#"
        [[upstream]]
        name = "php"
        address = ["unix:run/php.sock", { address = "10.0.0.1:9000", weight = 3 }]
        balance = "least_busy"
        affinity = ["cookie:session", "header:X-User", "segment:2", "prefix:/[a-z]+", "query:id", "user", "client"]
        spill = true
        failures = 0
        pause = "250ms"
        check = "/ping?full"
        check_status = 204
        check_params = { HTTP_HOST = "a" }
    "#;
    let server = place.load(text).unwrap();
    let php = &server.upstreams[0];
    let addresses: Vec<(String, u32)> = php
        .addresses
        .iter()
        .map(|address| (address.endpoint.to_string(), address.weight))
        .collect();
    let socket = format!("unix:{}", place.path("run/php.sock").display());
    assert_eq!(addresses, [(socket, 1), ("10.0.0.1:9000".to_owned(), 3)]);
    assert_eq!((php.balance, php.spill), (Balance::LeastBusy, true));
    assert_eq!(php.affinity[1], Affinity::Header("x-user".into()));
    assert_eq!((php.health.failures, php.health.pause), (0, Duration::from_millis(250)));
    let check = php.check.as_ref().unwrap();
    assert_eq!((check.path.as_str(), check.status, check.fall), ("/ping?full", 204, 3));
    let again = place.load(&server.to_toml()).unwrap();
    let mut expected = server.upstreams;
    expected[0].check.as_mut().unwrap().params.clear(); // not shown, so not printed
    assert_eq!(again.upstreams, expected);
}

#[test]
fn errors_in_addresses_name_the_key() {
    let place = Place::with(&["index.php"]);
    let errors = place.errors(
        "[[upstream]]\nname = 'a'\naddress = ['unix:/s', 'unix:/s']\naffinity = \
            'cookies:a'\nspill = true\n\
         [[upstream]]\nname = 'b'\naddress = { address = '10.0.0.1', weigth = 1, weight = 0 }\n\
         affinity = ['segment:0', 'prefix:(', 'header:']\n\
         [[upstream]]\nname = 'c'\naddress = [{ weight = 2 }]\n\
         [[upstream]]\nname = 'd'\naddress = 'srv:a b'\n",
    );
    for parts in [
        &["tokamak.toml:4: upstream.affinity: `cookies:a` is unknown", "did you mean `cookie:`"][..],
        &["tokamak.toml:8: upstream.address.address: `10.0.0.1` is no address"],
        &["tokamak.toml:8: upstream.address.weigth: unknown key; did you mean `weight`?"],
        &[
            "tokamak.toml:8: upstream.address.weight: must be a whole number from 1 to 1000, not `0`",
        ],
        &["tokamak.toml:9: upstream.affinity: `0` is no number of a path's part"],
        &["tokamak.toml:9: upstream.affinity: `(` is no regular expression"],
        &["tokamak.toml:9: upstream.affinity: `header:` needs something behind the colon"],
        &["tokamak.toml:12: upstream.address: a table needs its `address`"],
        &["tokamak.toml:15: upstream.address: `srv:a b` is no address"],
    ] {
        has(&errors, parts);
    }
    let errors =
        place.errors("[[upstream]]\nname = 'a'\naddress = ['unix:/s', 'unix:/s']\nspill = true\n");
    let checks = place.errors(
        "[[upstream]]\nname = 'a'\naddress = 'unix:/s'\ncheck = 'ping'\n\
         [[upstream]]\nname = 'b'\naddress = 'srv:_a._tcp.b'\ncheck_params = { A = 'b' }\n",
    );
    has(&checks, &["tokamak.toml:4: upstream.check: `ping` must begin with `/`"]);
    has(&checks, &["tokamak.toml:8: upstream.check_params: nothing is checked; set `check`"]);
    assert_eq!(checks.len(), 2, "{checks:#?}");
    has(
        &errors,
        &["tokamak.toml:3: upstream.address: `unix:/s` is there twice", "give it a `weight`"],
    );
    has(&errors, &["tokamak.toml:4: upstream.spill: nothing binds requests to an address"]);
}

#[test]
fn applications_of_http_are_told_by_their_addresses() {
    let place = Place::with(&["index.html"]);
    let text = r#"
        [[upstream]]
        name = "node"
        address = ["http://127.0.0.1:3000", { address = "http://[::1]/", weight = 2 }]
        host = "inner"
        headers = { X-Token = "s3cret" }
        forwarded = "forwarded"
        [[upstream]]
        name = "local"
        address = "http+unix:run/app.sock"
        [[upstream]]
        name = "told"
        protocol = "http"
        address = "app:8080"
        [[site]]
        upstream = "node"
        files = true
        [[site.route]]
        path = "/api"
        upstream = "local"
        upstream_path = "/"
    "#;
    let server = place.load(text).unwrap();
    let [node, local, told] = &server.upstreams[..] else { panic!("three upstreams") };
    let at = |endpoint: Endpoint, weight| Address { scheme: Scheme::Http, endpoint, weight };
    assert_eq!(
        node.addresses,
        [at(Endpoint::Tcp("127.0.0.1:3000".into()), 1), at(Endpoint::Tcp("[::1]:80".into()), 2)]
    );
    let Protocol::Http(proxy) = &node.protocol else { panic!("it speaks HTTP") };
    assert_eq!((proxy.host.as_deref(), proxy.forwarded), (Some("inner"), Forwarded::Standard));
    assert_eq!(proxy.headers["x-token"].reveal(), "s3cret");
    assert_eq!(local.addresses, [at(Endpoint::Unix(place.path("run/app.sock")), 1)]);
    assert_eq!(told.addresses, [at(Endpoint::Tcp("app:8080".into()), 1)]);
    assert_eq!((node.connections, local.connections), (256, 256));
    let routes: Vec<_> = server.sites[0]
        .routes
        .iter()
        .map(|route| (route.name(), route.upstream, route.upstream_path.as_deref(), route.files))
        .collect();
    assert_eq!(routes, [("/api", Some(1), Some("/"), false), ("/", Some(0), None, true)]);
}

#[test]
fn what_one_protocol_does_not_have_is_refused() {
    let place = Place::with(&["index.html"]);
    let upstream = |lines: &str| format!("[[upstream]]\nname = \"a\"\n{lines}\n[[site]]\n");
    let fails = |text: String, expected: &str| {
        let problems = place.load(&text).unwrap_err().to_string();
        assert!(problems.contains(expected), "{text}\n{problems}");
        assert!(!problems.contains("s3cret"), "{problems}");
    };
    for (lines, expected) in [
        ("address = \"h2c://a\"", "`h2c` is no protocol of applications here"),
        ("address = [\"https://a\", \"http://a\"]", "is of another protocol than the others"),
        ("address = \"unix:/a\"\nprotocol = \"https\"", "write it as http+unix:/a"),
        ("address = \"srv:a\"\nprotocol = \"https\"", "set `tls_name`"),
        ("spawn = [\"/bin/true\"]\nprotocol = \"https\"", "is asked without TLS"),
        ("address = \"https://a\"\ntls_key = \"index.html\"", "needs its certificate"),
        ("address = \"https://a\"\ntls_ca = \"none.pem\"", "is not a file"),
        ("address = \"http://a\"\ntls_name = \"a\"", "tls_name: is for addresses with"),
        ("address = \"a:1\"\ntls_ca = \"a\"", "tls_ca: is for addresses with `https://`"),
        ("address = \"http://a/b\"", "has a path; leave it out"),
        ("address = \"http://\"", "names no host"),
        ("address = \"http://a:0\"", "names no host"),
        ("address = [\"http://a\", \"b:9000\"]", "is of another protocol than the others"),
        ("address = \"http://a\"\nprotocol = \"fastcgi\"", "is of another protocol"),
        ("address = \"http://a\"\nmultiplex = true", "multiplex: is for FastCGI"),
        ("address = \"http://a\"\nparams = { A = \"b\" }", "params: is for FastCGI"),
        ("address = \"a:9000\"\nhost = \"b\"", "host: is for HTTP"),
        ("address = \"a:9000\"\nheaders = { A = \"b\" }", "headers: is for HTTP"),
        ("address = \"a:9000\"\nforwarded = \"none\"", "forwarded: is for HTTP"),
        ("address = \"http://a\"\nhost = \"a b\"", "is no host"),
        ("address = \"http://a\"\nheaders = { \"A B\" = \"c\" }", "is no name of a header field"),
        ("address = \"http://a\"\nheaders = { Host = \"c\" }", "set `host`"),
        ("address = \"http://a\"\nheaders = { Upgrade = \"c\" }", "is set by the server"),
        ("address = \"http://a\"\nheaders = { A = \"s3cret\\nB\" }", "no header field may have"),
    ] {
        fails(upstream(lines), expected);
    }
    let http = upstream("address = \"http://a\"");
    fails(format!("{http}authorizer = \"a\""), "which has no such role");
    fails(format!("{http}mode = \"fastcgi\"\nfiles = true"), "is for an `upstream` of HTTP");
    let route = format!("{http}mode = \"fastcgi\"\n[[site.route]]\npath = \"/b\"\n");
    fails(format!("{route}filter = \"a\""), "which has no such role");
    fails(format!("{route}upstream = \"a\"\nupstream_path = \"b\""), "must begin with `/`");
    fails(format!("{route}cache = true\nupstream_path = \"/\""), "is for an `upstream` of HTTP");
}

#[test]
fn http_2_is_spoken_where_it_is_said() {
    let place = Place::with(&["index.html"]);
    let text = |lines: &str| format!("[[upstream]]\nname = \"a\"\nprotocol = \"http2\"\n{lines}\n");
    for (lines, scheme, connections) in [
        ("address = \"http://a\"", Scheme::Http, 16),
        ("address = \"a:8080\"", Scheme::Http, 16),
        ("address = \"http+unix:/a\"", Scheme::Http, 16),
        ("address = [\"https://a\", \"https://b\"]", Scheme::Https, 16),
        ("address = \"http://a\"\nconnections = 7", Scheme::Http, 7),
    ] {
        let text = format!("{}[[site]]\nupstream = \"a\"", text(lines));
        let server = place.load(&text).unwrap();
        let upstream = &server.upstreams[0];
        let Protocol::Http(proxy) = &upstream.protocol else { panic!("it speaks HTTP") };
        assert!(proxy.http2 && proxy.tls.is_some() == (scheme == Scheme::Https), "{lines}");
        assert!(upstream.addresses.iter().all(|address| address.scheme == scheme), "{lines}");
        assert_eq!(upstream.connections, connections, "{lines}");
        assert_eq!(place.load(&server.to_toml()).unwrap(), server, "{lines}");
    }
    let problems = |lines: &str| place.load(&format!("{}[[site]]", text(lines))).unwrap_err();
    for (lines, expected) in [
        ("address = [\"https://a\", \"http://b\"]", "is of another protocol than the others"),
        ("address = \"http://a\"\nmultiplex = true", "multiplex: is for FastCGI"),
    ] {
        assert!(problems(lines).to_string().contains(expected), "{lines}");
    }
}

#[test]
fn an_application_behind_tls_has_its_files() {
    let place = Place::with(&["ca.pem", "own.pem", "index.html"]);
    let text = r#"
        [[upstream]]
        name = "a"
        address = ["https://a", "https://b:8443"]
        tls_ca = "ca.pem"
        tls_name = "c"
        tls_certificate = "own.pem"
        [[site]]
        upstream = "a"
    "#;
    let server = place.load(text).unwrap();
    let [upstream] = &server.upstreams[..] else { panic!("one upstream") };
    let endpoints: Vec<String> =
        upstream.addresses.iter().map(|address| address.endpoint.to_string()).collect();
    assert_eq!(endpoints, ["a:443", "b:8443"]);
    let Protocol::Http(proxy) = &upstream.protocol else { panic!("it speaks HTTP") };
    let own = place.path("own.pem");
    let tls = UpstreamTls {
        ca: Some(place.path("ca.pem")),
        name: Some("c".into()),
        certificate: Some(CertificateFiles { certificate: own.clone(), key: own }),
    };
    assert_eq!(proxy.tls, Some(tls));
}

/// Who says how many connections there may be says how many requests there are at once.
#[test]
fn an_application_is_asked_by_itself_unless_its_connections_are_counted() {
    let place = Place::with(&["public/index.php"]);
    for (lines, expected, connections) in [
        ("address = 'a:1'", Multiplex::WhenKept, 16),
        ("address = 'a:1'\nmultiplex = 'auto'\nconnections = 'auto'", Multiplex::WhenKept, 16),
        ("spawn = ['/bin/true']\nprocesses = 3", Multiplex::WhenKept, 1),
        ("spawn = ['/bin/true']\nprocesses = 3\nshared = true", Multiplex::WhenKept, 3),
        ("address = 'a:1'\nconnections = 16", Multiplex::Never, 16),
        ("address = 'a:1'\nmultiplex = false", Multiplex::Never, 16),
        ("address = 'a:1'\nmultiplex = true", Multiplex::First, 16),
        ("address = 'a:1'\nmultiplex = true\nconnections = 4", Multiplex::First, 4),
        ("address = 'http://a'", Multiplex::Never, 256),
    ] {
        let text = format!(
            "[[upstream]]\nname = 'app'\n{lines}\n[[site]]\nroot = 'public'\nupstream = 'app'\n"
        );
        let server = place.load(&text).unwrap();
        let upstream = &server.upstreams[0];
        assert_eq!((upstream.multiplex, upstream.connections), (expected, connections), "{lines}");
        let printed = server.to_toml();
        assert_eq!(Place::with(&[]).load(&printed).unwrap(), server, "{printed}");
    }
}
