//! The tables of `lighty`, their names and their quirks.

use tokamak_lua::{Limits, Outcome, Stage};

use crate::harness::{Site, request, run, show};

#[test]
fn request_headers() {
    assert_eq!(
        show("return show(lighty.request.Host, lighty.r.req_header.hOST, lighty.request.nope)"),
        r#""example.org" "example.org" nil"#
    );
    assert_eq!(show("return show(lighty.request.Accept)"), r#""text/html, text/plain""#);
    assert_eq!(
        show(
            "local h = lighty.r.req_header h['X-A'] = 'b' local set = h['x-a'] h['X-A'] = nil \
                return show(set, h['x-a'])"
        ),
        r#""b" nil"#
    );
    let names = "local t = {} for k, v in pairs(lighty.request) do t[#t+1] = k .. '=' .. v end \
        return show(table.concat(t, '|'))";
    assert_eq!(show(names), r#""host=example.org|accept=text/html|accept=text/plain|cookie=id=7""#);
    let (_, memory) = run("local h = lighty.request \
                           h['Content-Length'] = '5' h.Connection = 'x' h['Transfer-Encoding'] = \
                           'x' h['Set-Cookie'] = 'x' \
                           h.Host = '' h['Bad Name'] = '1' h.X = 'a\\r\\nY: b' h.X = 'a\\nb'");
    assert_eq!(memory.request, request().request);
    assert_eq!(memory.log.len(), 3, "{:?}", memory.log);
    assert!(
        show("return show(pcall(function() lighty.request.X = {} end))")
            .contains(".lua:1: bad argument #3 to 'newindex' (string expected, got table)")
    );
    assert!(
        show("return show(pcall(function() return lighty.request[nil] end))")
            .contains("string expected, got nil")
    );
}

#[test]
fn response_headers() {
    let (_, memory) = run("local h = lighty.r.resp_header \
                           h['X-M'] = '1\\r\\nX-M: 2' h['Set-Cookie'] = 'a=1' h['Content-Length'] \
                           = '9' \
                           h.Gone = '1' h.Gone = '' h.Split = 'a\\r\\n\\r\\n<script>' \
                           lighty.header.Number = 5");
    assert_eq!(memory.header("x-m"), ["1", "2"]);
    assert_eq!(memory.header("set-cookie"), ["a=1"]);
    assert_eq!(memory.header("number"), ["5"]);
    for name in ["content-length", "gone", "split"] {
        assert!(memory.header(name).is_empty(), "{name}");
    }
    assert!(
        memory.log[0].contains(".lua:1: invalid char in response header field value for Split"),
        "{:?}",
        memory.log
    );
    assert_eq!(
        show("local h = lighty.r.resp_header h['X-M'] = '1\\r\\nX-M: 2' return show(h['X-M'])"),
        "\"1\\13\\\nX-M: 2\""
    );
    // The older table is a draft: what is in it is not a header before the script has ended.
    assert_eq!(
        show("lighty.header.A = '1' return show(lighty.r.resp_header.A, lighty.header.A)"),
        r#"nil "1""#
    );
}

#[test]
fn attributes() {
    assert_eq!(
        show(
            "local e = lighty.env return show(e['uri.path'], e['physical.path'], e['no.such'], \
                e['request.method'])"
        ),
        r#""/search" nil nil "GET""#
    );
    assert_eq!(
        show("lighty.env['uri.query'] = 'x' return show(lighty.r.req_attr['uri.query'])"),
        r#""x""#
    );
    assert_eq!(
        show("lighty.env['request.method'] = 'PUT' return show(lighty.env['request.method'])"),
        r#""GET""#
    );
    assert!(
        show("return show(pcall(function() lighty.env.foo = 'x' end))")
            .contains("couldn't store 'foo' in r.req_attr[]")
    );
    let wrong = show("return show(pcall(function() lighty.env['request.remote-addr'] = 'x' end))");
    assert!(wrong.contains("invalid addr: x"), "{wrong}");
    let count = "local n, none = 0, 0 for k, v in pairs(lighty.env) do n = n + 1 if v == nil then \
        none = none + 1 end end \
                 return show(n, none)";
    assert_eq!(show(count), "21 11");
}

#[test]
fn items_and_statistics() {
    assert_eq!(
        show("local i = lighty.r.req_item return show(i.bytes_in, i.keep_alive, i.start_time())"),
        "7 1 1700000000 42"
    );
    assert_eq!(run("lighty.r.req_item.keep_alive = -1").1.keep_alive, -1);
    assert_eq!(run("lighty.r.req_item.keep_alive = 5").1.keep_alive, 1);
    for bad in ["return i.foo", "i.http_status = 5", "i.keep_alive = 'x'"] {
        assert!(
            show(&format!("local i = lighty.r.req_item return show(pcall(function() {bad} end))"))
                .starts_with("false")
        );
    }
    assert_eq!(
        show(
            "local s = lighty.server.stats return show(s.uptime, s.clients_open, type(s.version))"
        ),
        r#"12 3 "string""#
    );
    assert!(
        show("return show(pcall(function() return lighty.server.stats.x end))").contains("invalid")
    );
    assert_eq!(
        show(
            "local s = lighty.status s['test.a'] = s['test.a'] + 2 s['test.a'] = s['test.a'] + 1 \
              return show(lighty.server.plugin_stats['test.a'], s['test.never'])"
        ),
        "3 0"
    );
    let several = show(
        "local t = {} for r in lighty.server.irequests() do t[#t + 1] = r.req_attr['uri.path'] \
            end return show(unpack(t))",
    );
    assert_eq!(several, r#""/search" "/other""#);
    let other = show(
        "local _, other for r in lighty.server.irequests() do other = r end local a, i = \
            other.req_attr, other.req_item \
         local n = 0 for k, v in pairs(other.req_header) do n = n + 1 end \
         assert(not pcall(function() a['uri.path'] = '/x' end) and not pcall(function() return \
         i.nothing end)) \
         return show(other.req_header['X-Kind'], i.bytes_out, i.start_time(), a['uri.query'], \
         other.resp_header.x, n)",
    );
    assert_eq!(other, r#""other" 70 5 nil nil 1"#);
}

#[test]
fn variables() {
    assert_eq!(
        show(
            "local e = lighty.req_env e.A = '1' e.B = '2' e.B = nil local n = 0 for k, v in \
                pairs(e) do n = n + 1 end \
              return show(lighty.r.req_env.A, e.B, n)"
        ),
        r#""1" nil 1"#
    );
}

#[test]
fn request_bodies() {
    assert_eq!(
        show(
            "local b = lighty.r.req_body assert(b.set('xyz')) assert(b.add{'1', 2}) \
              return show(b.collect, b.get, b.len, b.bytes_in, b.bytes_out, b.unspecified_len)"
        ),
        r#"true "xyz12" 5 5 0 false"#
    );
    let site = Site::new(
        Limits::default(),
        &[("test.lua", "if not lighty.r.req_body.collect then return 0 end return 200")],
    );
    let mut memory = request();
    memory.request_body = None;
    let (outcome, memory) = site.ask_at(Stage::RawUrl, "test.lua", memory);
    assert_eq!((outcome, memory.wants_body), (Outcome::GoOn, true));
    assert_eq!(site.ask("test.lua").0, Outcome::Answer(200));
    assert!(
        show("return show(pcall(function() return lighty.r.req_body.foo end))")
            .contains("invalid method or param")
    );
}

#[test]
fn what_is_read_only_stays() {
    for table in [
        "lighty.r",
        "lighty.c",
        "lighty.server",
        "lighty.r.req_body",
        "lighty.r.resp_body",
        "lighty.server.stats",
    ] {
        let said = show(&format!("return show(pcall(function() {table}.x = 1 end))"));
        assert!(said.contains("lua table is read-only"), "{table}: {said}");
    }
    for table in
        ["lighty", "lighty.r", "lighty.c", "lighty.request", "lighty.env", "getfenv(1)", "''"]
    {
        assert_eq!(
            show(&format!(
                "return show(getmetatable({table}), pcall(setmetatable, {table}, {{}}))"
            ))
            .split(' ')
            .next(),
            Some("false")
        );
    }
    // Anything else is a scratch pad for the run.
    assert_eq!(show("lighty.note = 5 return show(lighty.note, lighty.other)"), "5 nil");
}

#[test]
fn files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.html");
    std::fs::write(&path, "hello").expect("a writable folder");
    std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("a writable folder");
    let path = path.display();
    assert_eq!(
        show(&format!(
            "local s = lighty.stat('{path}') return show(s.is_file, s.is_dir, s.is_link, \
                s.st_size, s['content-type'], \
             select('#', s.st_mtim()), type(s.etag))"
        )),
        r#"true false false 5 "text/html" 2 "string""#
    );
    assert!(
        show(&format!("return show(pcall(function() return lighty.stat('{path}').foo end))"))
            .contains("invalid: foo")
    );
    assert_eq!(
        show("return show(lighty.c.stat('/nonexistent'), lighty.c.stat(''), lighty.c.stat(nil))"),
        "nil nil nil"
    );
    let (outcome, memory) =
        run(&format!("return lighty.c.stat('{path}')['http-response-send-file']"));
    assert_eq!((outcome, memory.text().as_str()), (Outcome::Answer(200), "hello"));
    assert_eq!(memory.header("content-type"), ["text/html"]);
    let folder = folder.path().display();
    assert_eq!(
        show(&format!(
            "local t = {{}} for n in lighty.c.readdir('{folder}') do t[#t+1] = n end \
                table.sort(t) return show(table.concat(t, ','))"
        )),
        r#""link,x.html""#
    );
    assert_eq!(
        show(&format!(
            "return show(lighty.c.readlink('{folder}/link') == '{path}', \
                lighty.c.readdir('/nonexistent'))"
        )),
        "true nil"
    );
    assert_eq!(
        show(&format!(
            "local lfs = require 'lfs' return show(lfs.attributes('{path}', 'mode'), \
                lfs.attributes('{folder}').mode, \
                       lfs.attributes('{path}').size, lfs.attributes('/nonexistent'))"
        )),
        r#""file" "directory" 5 nil "cannot obtain information from file '/nonexistent'" 2"#
    );
}

/// Every function of `lighty.c` is there, and comes through to what is calculated.
#[test]
fn calls() {
    for (call, result) in [
        ("c.md('md5', 'abc')", r#""900150983CD24FB0D6963F7D28E17F72""#),
        ("c.md('crc', 'abc')", "nil"),
        ("c.hmac('md5', 'k', 'abc')", r#""75972C9C6569F2F407752DDB02AC79DE""#),
        ("c.digest_eq('ab', 'AB')", "true"),
        ("c.secret_eq('a', 'b')", "false"),
        ("c.b64enc('ab')", r#""YWI""#),
        ("c.b64dec('YWI=')", r#""ab""#),
        ("c.b64urlenc('\\251\\252')", r#""-_w""#),
        ("c.b64urldec('-_w')", "\"\u{fffd}\u{fffd}\""),
        ("c.hexenc('a')", r#""61""#),
        ("c.hexdec('6x')", "nil"),
        ("c.hexdec('61')", r#""a""#),
        ("c.xmlenc('<')", r#""&#x3C;""#),
        ("c.urlenc('a b')", r#""a%20b""#),
        ("c.urldec('a%20b')", r#""a b""#),
        ("c.urlenc(12)", r#""12""#),
        ("c.urlenc_query({a = 'b c'})", r#""a=b+c""#),
        ("c.urlenc_query('x')", r#""""#),
        ("c.urldec_query('a=1&b=x+y').b", r#""x y""#),
        ("c.urlenc_normalize('/a/../%41')", r#""/A""#),
        ("c.fspath_simplify('/a/../b')", r#""/b""#),
        ("c.cookie_tokens('a=1; b=2').b", r#""2""#),
        ("table.concat(c.header_tokens('a;q=1'), '|')", r#""a|;|q|=|1""#),
        ("c.quotedenc('a')", "\"\\\"a\\\"\""),
        ("c.quoteddec('\"a\"')", r#""a""#),
        ("c.bsenc('\\1')", r#""\\u0001""#),
        ("c.bsenc_json('\\1')", r#""\\x01""#),
        ("c.bsdec('\\\\n')", "\"\\\n\""),
        ("c.time() > 1.7e9", "true"),
        ("c.hrtime() >= c.time()", "true"),
        ("select('#', c.hrtime())", "2"),
        ("c.rand() ~= c.rand()", "true"),
        ("c.readlink('/nonexistent')", "nil"),
    ] {
        assert_eq!(show(&format!("local c = lighty.c return show({call})")), result, "{call}");
    }
    let nothing = show(
        "local t = {} for name, call in next, lighty.c do t[#t+1] = name end table.sort(t) return \
            show(table.concat(t, ' '))",
    );
    assert_eq!(
        nothing,
        "\"b64dec b64enc b64urldec b64urlenc bsdec bsenc bsenc_json cookie_tokens digest_eq \
            fspath_simplify header_tokens \
         hexdec hexenc hmac hrtime md quoteddec quotedenc rand readdir readlink secret_eq stat \
         time urldec urldec_query urlenc \
         urlenc_normalize urlenc_query xmlenc\""
    );
    for name in [
        "b64dec",
        "b64enc",
        "bsdec",
        "bsenc",
        "hexdec",
        "hexenc",
        "quoteddec",
        "urldec",
        "urlenc",
        "xmlenc",
    ] {
        assert_eq!(
            show(&format!(
                "return show(lighty.c.{name}(), lighty.c.{name}(nil), lighty.c.{name}(''))"
            )),
            r#""" "" """#
        );
    }
}
