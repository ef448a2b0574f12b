//! What is secret is shown nowhere: not by `check --print`, not by an error, not by `Debug`.

use super::{Place, has};
use crate::{AdminAddress, Endpoint, option, restart_needed};

/// A text that no message has by chance.
const SECRET: &str = "s3cr3t-0123456789-s3cr3t";

/// Who adds an option that holds a secret gives it a type that is not shown, and adds it here.
#[test]
fn these_options_are_secret() {
    let secret = option::rows().filter(|row| row.kind.is_secret());
    let keys: Vec<String> = secret.map(option::Row::key).collect();
    assert_eq!(
        keys,
        [
            "admin_token",
            "tls.redis_password",
            "tls.redis_secret",
            "acme.eab",
            "cache.redis_password",
            "trace.timing_secret",
            "trace.export_headers",
            "upstream.env",
            "upstream.check_params",
            "upstream.headers",
            "upstream.params",
            "site.env",
            "site.mercure.publisher_key",
            "site.mercure.subscriber_key",
            "site.mercure.redis_password",
        ]
    );
}

/// A name that sounds like a secret belongs to one.
#[test]
fn no_option_has_the_name_of_a_secret_and_is_shown() {
    for row in option::rows().filter(|row| !row.kind.is_secret()) {
        for sign in ["password", "secret", "token", "credential"] {
            assert!(!row.name.contains(sign), "{} is shown", row.key());
        }
    }
}

#[test]
fn none_is_printed() {
    let place = Place::with(&["index.php"]);
    place.program("run");
    let text = format!(
        r#"
        admin = "127.0.0.1:9080"
        admin_token = "{SECRET}"
        [tls]
        redis = "127.0.0.1:6379"
        redis_password = "{SECRET}"
        redis_secret = "{SECRET}"
        [cache]
        redis = "127.0.0.1:6379"
        redis_password = "{SECRET}"
        [trace]
        context = "begin"
        timing_secret = "{SECRET}"
        export = "http://127.0.0.1:4318"
        export_headers = {{ Authorization = "Bearer {SECRET}" }}
        [[upstream]]
        name = "a"
        spawn = ["./run"]
        check = "/ping"
        env = {{ "E\u001b" = "{SECRET}" }}
        params = {{ P = "{SECRET}" }}
        check_params = {{ C = "{SECRET}" }}
        [[site]]
        env = {{ DATABASE_URL = "mysql://u:{SECRET}@db/a", EMPTY = "" }}
        php_value = {{ memory_limit = "1G", "mysqli.default_pw" = "{SECRET}" }}
        php_admin_value = {{ "session.save_path" = "tcp://redis?auth={SECRET}", a = 1 }}
        [site.mercure]
        enabled = true
        publisher_key = "{SECRET}-{SECRET}"
        subscriber_key = "{SECRET}-{SECRET}"
        redis = "127.0.0.1:6379"
        redis_password = "{SECRET}"
        "#
    );
    let server = place.load(&text).unwrap();
    let printed = server.to_toml();
    assert!(!printed.contains(SECRET), "{printed}");
    for line in [
        "# admin_token is set, not shown",
        "# redis_password is set, not shown",
        "# redis_secret is set, not shown",
        "# timing_secret is set, not shown",
        "# export_headers.Authorization is set, not shown",
        r"# env.E\u{1b} is set, not shown",
        "# params.P is set, not shown",
        "# check_params.C is set, not shown",
        "# env.DATABASE_URL is set, not shown",
        "# env.EMPTY is set, not shown",
        "# php_value.mysqli.default_pw is set, not shown",
        "# publisher_key is set, not shown",
        "# subscriber_key is set, not shown",
        r#"php_value = { memory_limit = "1G" }"#,
        r#"php_admin_value = { a = "1" }"#,
    ] {
        assert!(printed.lines().any(|other| other == line), "{line}\n{printed}");
    }
    // What is printed is a whole configuration.
    place.load(&printed).unwrap();
    let mut secrets = server;
    (secrets.sites[0].php_value, secrets.sites[0].php_admin_value) = Default::default();
    assert!(!format!("{secrets:?}").contains(SECRET), "{secrets:?}");
}

#[test]
fn no_error_has_one() {
    let place = Place::with(&["index.php"]);
    for (text, key) in [
        ("admin_token = 3141592653", "admin_token"),
        ("admin_token = '31415'", "admin_token"),
        ("admin_token = '3141592653\\u0007'", "admin_token"),
        ("[cache]\nredis_password = 3141592653.5", "cache.redis_password"),
        ("[cache]\nredis_password = ['31415']", "cache.redis_password"),
        ("[cache]\nredis_password = 31415z", "not TOML"),
        ("[[site]]\nenv = 'A=31415'", "site.env"),
        ("[[site]]\nenv = { A = ['31415'] }", "site.env.A"),
        ("[[site]]\nenv = { A = \"31415\\u0000\" }", "site.env.A"),
        ("[[site]]\nphp_value = 31415", "site.php_value"),
        ("[[upstream]]\nparams = 31415", "upstream.params"),
        ("[[site]]\n[site.mercure]\npublisher_key = '31415'", "site.mercure.publisher_key"),
        (
            "[[site]]\n[site.mercure]\nenabled = true\nsubscriber_key = '31415'",
            "site.mercure.subscriber_key",
        ),
    ] {
        let errors = place.load(text).map(|_| ()).unwrap_err().to_string();
        assert!(errors.contains(key) && !errors.contains("31415"), "{text}: {errors}");
    }
}

/// The comparison sees what nobody else sees.
#[test]
fn another_token_needs_a_restart() {
    let place = Place::with(&["index.php"]);
    let with =
        |token: &str| place.load(&format!("admin = ':9080'\nadmin_token = '{token}'")).unwrap();
    assert_eq!(restart_needed(&with("0123456789abcdef"), &with(SECRET)), ["admin_token"]);
    assert!(restart_needed(&with(SECRET), &with(SECRET)).is_empty());
}

#[test]
fn one_socket_is_no_service() {
    let place = Place::with(&["index.php"]);
    has(&place.errors("admin = 'srv:a'"), &["tokamak.toml:1: admin: `srv:a` is not an address"]);
    has(&place.errors("[cache]\nredis = 'srv:a'"), &["cache.redis: `srv:a` is a service"]);
    let server = place.load("admin = 'localhost:9080'\n[cache]\nredis = 'a:1'").unwrap();
    let local = AdminAddress::Tcp("127.0.0.1:9080".parse().unwrap());
    assert_eq!(server.admin.as_ref().unwrap().address, local);
    assert_eq!(server.cache.tier.as_ref().unwrap().server, Endpoint::Tcp("a:1".into()));
    let printed = server.to_toml();
    assert_eq!(place.load(&printed).unwrap(), server, "{printed}");
}
