use proptest::prelude::*;

use super::*;

fn lookup(name: &str) -> Option<String> {
    (name == "HOME_OF").then(|| "/srv".to_string())
}

fn read(line: &str) -> Vec<Statement> {
    parse(line, &lookup).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn entry(name: &str, value: &str) -> Vec<Statement> {
    vec![Statement::Entry { name: name.into(), value: Some(value.into()) }]
}

fn item(name: &str, key: &str, value: &str) -> Vec<Statement> {
    vec![Statement::Item { name: name.into(), key: key.into(), value: value.into() }]
}

#[test]
fn values() {
    let table = [
        ("pid = run/php.pid", "run/php.pid"),
        ("pid=run/php.pid ; where", "run/php.pid"),
        ("  pid\t=\t run/php.pid  \t", "run/php.pid"),
        ("pid = a b  c", "a b  c"),
        ("pid =", ""),
        ("pid = ; nothing", ""),
        ("pid = yes", "1"),
        ("pid = On ", "1"),
        ("pid = TRUE", "1"),
        ("pid = no", ""),
        ("pid = none", ""),
        ("pid = Off;", ""),
        ("pid = null", ""),
        ("pid = only", "only"),
        ("pid = no.php", "no.php"),
        ("pid = \"on\"", "on"),
        ("pid = 'on'", "on"),
        ("pid = -1", "-1"),
        ("pid = 10s", "10s"),
        ("pid = 127.0.0.1:9000", "127.0.0.1:9000"),
        ("pid = [::1]:9000", "[::1]:9000"),
        ("pid = \"a;b\"", "a;b"),
        ("pid = \"a \\\"b\\\" \\\\ \\$ \\n\"", "a \"b\" \\ $ \\n"),
        ("pid = \"C:\\path\\\"", "C:\\path\\"),
        ("pid = 'a\\'", "a\\"),
        ("pid = \"a\" b 'c'", "ab c"),
        ("pid = ${HOME_OF}/x", "/srv/x"),
        ("pid = \"in ${HOME_OF} too\"", "in /srv too"),
        ("pid = ${UNKNOWN}", ""),
        ("pid = /run/$pool.sock", "/run/$pool.sock"),
        ("pid = $HOSTNAME", "$HOSTNAME"),
        ("pid = cost$", "cost$"),
        ("pid = E_ALL & ~E_NOTICE", "32759"),
        ("pid = 1|2", "3"),
        ("pid = (1 | 4) ^ 5", "0"),
        ("pid = !0", "1"),
        ("pid = ~~7", "7"),
        ("pid = %R - %u %t \"%m %r\"", "%R - %u %t%m %r"),
        (
            "pid = \"%R - %u %t \\\"%m %r%Q%q\\\" %s %f %{mili}d %{kilo}M %C%%\"",
            "%R - %u %t \"%m %r%Q%q\" %s %f %{mili}d %{kilo}M %C%%",
        ),
        ("pid = ä€𝄞", "ä€𝄞"),
        ("pid = a\\=b", "a\\"),
        ("pid = x\0y", "x"),
    ];
    for (line, value) in table {
        if line.contains("\\=") {
            assert!(parse(line, &lookup).is_err(), "{line}");
            continue;
        }
        assert_eq!(read(line), entry("pid", value), "{line}");
    }
}

#[test]
fn items() {
    assert_eq!(read("env[HOSTNAME] = $HOSTNAME"), item("env", "HOSTNAME", "$HOSTNAME"));
    assert_eq!(
        read("php_admin_value[ memory_limit ] = 32M"),
        item("php_admin_value", "memory_limit ", "32M")
    );
    assert_eq!(read("access.suppress_path[] = /ping"), item("access.suppress_path", "", "/ping"));
    assert_eq!(read("php_flag['a b'] = on"), item("php_flag", "a b", "1"));
    assert_eq!(read("env[${HOME_OF}] = \"x\""), item("env", "/srv", "x"));
    assert_eq!(read("env[E_ALL]=x"), item("env", "32767", "x"));
}

#[test]
fn sections() {
    assert_eq!(read("[global]"), [Statement::Section("global".into())]);
    assert_eq!(read("[ www ] "), [Statement::Section(" www ".into())]);
    assert_eq!(read("[\"a b\"]"), [Statement::Section("a b".into())]);
    assert_eq!(read("[on]"), [Statement::Section("on".into())]);
    assert_eq!(read("[]"), [Statement::Section(String::new())]);
    let two = read("[www] user = www-data");
    assert_eq!(two[0], Statement::Section("www".into()));
    assert_eq!(two[1..], entry("user", "www-data")[..]);
}

#[test]
fn nothing_and_names_alone() {
    for line in ["", "   ", "\t", "; comment", "  ; comment", "\r"] {
        assert_eq!(read(line), [], "{line:?}");
    }
    assert_eq!(read("pid"), [Statement::Entry { name: "pid".into(), value: None }]);
    assert_eq!(read("# pid "), [Statement::Entry { name: "# pid".into(), value: None }]);
    // PHP's scanner does not know an empty string in these quotes.
    let quote = Statement::Entry { name: "'".into(), value: None };
    assert_eq!(read("pid = ''"), [entry("pid", ""), vec![quote]].concat());
    assert_eq!(read("\u{feff}[www]"), [Statement::Section("www".into())]);
    assert_eq!(read("pid = x\r"), entry("pid", "x"));
}

#[test]
fn syntax_errors_name_the_unexpected_token() {
    let table = [
        ("= x", "'='"),
        ("[www", "end of file"),
        ("env[A", "end of file"),
        ("env[A] x", "'x'"),
        ("pid = a = b", "'='"),
        ("pid = \"open", "end of file"),
        ("pid = on off", "a false value"),
        ("pid = (1", "end of line"),
        ("pid = 1 |", "end of line"),
        ("pid = ${A", "end of file"),
        ("yes = x", "a true value"),
        ("{", "'{'"),
        ("pid = 'open", "'''"),
        ("pid = x 'open", "'''"),
    ];
    for (line, unexpected) in table {
        let error = parse(line, &lookup).expect_err(line);
        assert_eq!(error.to_string(), format!("syntax error, unexpected {unexpected}"), "{line}");
    }
    let deep = format!("pid = {}", "(".repeat(100_000));
    assert!(parse(&deep, &lookup).is_err());
}

#[test]
fn numbers_as_atoi_takes_them() {
    for (text, number) in [
        ("", 0),
        ("x", 0),
        (" 12x", 12),
        ("-3", -3),
        ("+4", 4),
        ("99999999999", i32::MAX),
        ("-99999999999", i32::MIN),
    ] {
        assert_eq!(leading_number(text), number, "{text}");
    }
}

proptest! {
    #[test]
    fn any_line_is_read_or_refused(line in "\\PC*") {
        let _ = parse(&line, &lookup);
    }

    #[test]
    fn any_line_of_special_characters_is_read_or_refused(line in "[a \\t\\[\\]=\"'${}\\\\;|&^~()!\\r\\n0no\u{0}é]{0,40}") {
        let _ = parse(&line, &lookup);
    }

    #[test]
    fn a_quoted_value_comes_back(value in "[^\"'\\\\$\0\r\n]*") {
        prop_assert_eq!(read(&format!("name = \"{value}\"")), entry("name", &value));
    }
}
