//! What Lua scripts say to the cache.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use super::{Site, asking, page, page_with, status};
use crate::harness::eventually;
use crate::services::mariadb::PASSWORD;
use crate::services::redis::Redis;

/// A site whose requests a script sees before the cache is asked, with its folder; `/tell` is for
/// another script.
fn saying(script: &str, teller: &str) -> (Site, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("say.lua"), script.replace("FOLDER", &folder.path().display().to_string()))
        .unwrap();
    fs::write(path("tell.lua"), teller).unwrap();
    let say = format!("lua_raw_url = [\"{}\"]", path("say.lua"));
    let tell =
        format!("route = [{{ path = \"/tell\", lua_raw_url = [\"{}\"] }}]", path("tell.lua"));
    (Site::with(&[&say, &tell]), folder)
}

const TELL: &str = "local c, q = tokamak.cache, lighty.r.req_attr['uri.query']
    local name, value = q:match('^(%w+)=(.*)$')
    local answer
    if name == 'find' then
        local kept = c.find(value)
        answer = kept and ('%d %d %d'):format(kept.status, kept.ttl, kept.length) or 'nothing'
    else
        answer = c.purge { [name] = value }
    end
    lighty.r.resp_body.set(tostring(answer))
    return 200";

#[test]
fn keys_lifetimes_and_tags() {
    let script = "local v = (lighty.r.req_attr['uri.query'] or ''):match('v=(%w+)')
        tokamak.cache.set { key = 'page ' .. tostring(v), lifetime = 60, tags = { 'pages' } }";
    let (site, _folder) = saying(script, TELL);
    let runs = |query: &str| site.get(&page_with(query, &["Cache-Control: private"])).text();
    assert_eq!([runs("v=a"), runs("v=a&x=1"), runs("v=b")], ["run 1", "run 1", "run 2"]);
    assert_eq!(site.get("/tell?find=page%20a").text(), "nothing", "the script decodes nothing");
    assert_eq!(site.get("/tell?find=nothing").text(), "nothing");
    assert_eq!(site.get("/tell?tag=pages").text(), "2");
    assert_eq!([runs("v=a"), runs("v=b"), runs("v=a")], ["run 3", "run 4", "run 3"]);
}

#[test]
fn a_script_may_look_and_purge() {
    let (site, _folder) = saying("tokamak.cache.set { key = 'k', lifetime = 60 }", TELL);
    assert_eq!(site.get("/tell?find=k").text(), "nothing");
    assert_eq!(site.get(&page(&[])).text(), "run 1");
    let answer = site.get("/tell?find=k").text();
    assert!(answer == "200 60 5" || answer == "200 59 5", "{answer}");
    assert_eq!(site.get("/tell?key=k").text(), "1");
    assert_eq!(site.get(&page(&[])).text(), "run 2");
}

#[test]
fn a_script_may_answer_from_the_cache() {
    let tell = "return tokamak.cache.answer(lighty.r.req_attr['uri.query']) or 404";
    let (site, _folder) = saying("tokamak.cache.set { key = 'k', lifetime = 60 }", tell);
    let target = page(&["X-Kind: news", "ETag: \"a\""]);
    assert_eq!(site.get(&target).text(), "run 1");
    site.get("/tell?other").expect(404);
    let answer = site.get("/tell?k").expect(200);
    assert_eq!(
        (answer.text().as_str(), answer.header("x-kind")),
        ("run 1", Some("news")),
        "{answer}"
    );
    assert!(
        answer.header("age").is_some() && status(&answer).starts_with("Tokamak; hit"),
        "{answer}"
    );
    let known = site.send(&asking("/tell?k", &[("If-None-Match", "\"a\"")])).expect(304);
    assert_eq!((known.text().as_str(), site.runs()), ("", 1));
}

#[test]
fn urls_are_purged() {
    let (site, _folder) = saying("tokamak.cache.set { lifetime = 60 }", TELL);
    let runs = || site.get("/page.php?x").text();
    assert_eq!([runs(), runs()], ["run 1", "run 1"]);
    assert_eq!(site.get("/tell?url=http://other.test/page.php?x").text(), "0");
    assert_eq!(site.get("/tell?prefix=http://localhost/page.php").text(), "1");
    assert_eq!(runs(), "run 2");
}

#[test]
fn some_requests_are_not_for_the_cache() {
    let script = "local r = lighty.r
        if r.req_header['X-Bypass'] then tokamak.cache.set { bypass = true }
        elseif r.req_header['X-Never'] then tokamak.cache.set { lifetime = 0 } end";
    let (site, _folder) = saying(script, TELL);
    let target = page(&["Cache-Control: max-age=60"]);
    let ask = |field: &str| site.send(&asking(&target, &[(field, "1")]));
    assert_eq!(ask("X-Never").text(), "run 1");
    assert_eq!(ask("X-Plain").text(), "run 2");
    let bypassed = ask("X-Bypass");
    assert_eq!((bypassed.text().as_str(), status(&bypassed)), ("run 3", "Tokamak; fwd=bypass"));
    assert_eq!(ask("X-Plain").text(), "run 2");
}

#[test]
fn a_page_is_older_than_its_sources() {
    let script =
        "tokamak.cache.set { lifetime = 60 } tokamak.cache.depends { files = 'FOLDER/source' }";
    let (site, folder) = saying(script, TELL);
    let source = folder.path().join("source");
    let target = page(&["ETag: \"a\""]);
    let runs = || site.get(&target).text();
    assert_eq!([runs(), runs()], ["run 1", "run 2"], "a file that is not there");
    for turn in 3..=5 {
        fs::write(&source, "new").unwrap();
        // More than the clock of the file system is behind.
        sleep(Duration::from_millis(50));
        let expected = format!("run {turn}");
        assert_eq!([runs(), runs(), runs()], [&expected[..]; 3]);
    }
}

/// Times may stand in Redis, for several servers; the script waits for it.
#[test]
fn a_page_is_older_than_a_time_in_redis() {
    let redis = Redis::start();
    let server = format!(
        "tokamak.redis {{ host = '127.0.0.1', port = {}, password = '{PASSWORD}' }}",
        redis.port()
    );
    let script = format!(
        "tokamak.cache.set {{ lifetime = 60 }} tokamak.cache.depends {{ keys = 'changed', memory \
            = {server} }}"
    );
    let tell = format!(
        "local s, ns = lighty.c.hrtime() assert({server}:set('changed', s + ns / 1e9) == 'OK') \
            return 204"
    );
    let (site, _folder) = saying(&script, &tell);
    let runs = || site.get(&page(&[])).text();
    assert_eq!([runs(), runs()], ["run 1", "run 1"]);
    site.get("/tell").expect(204);
    sleep(Duration::from_millis(50));
    assert_eq!([runs(), runs()], ["run 2", "run 2"]);
}

#[test]
fn stale_pages_are_used_as_long_as_a_script_says() {
    let script =
        "tokamak.cache.set { lifetime = 1, stale_while_revalidate = 60, stale_if_error = 60 }";
    let (site, _folder) = saying(script, TELL);
    let runs = || site.get(&page(&[])).text();
    assert_eq!(runs(), "run 1");
    sleep(Duration::from_millis(1100));
    assert_eq!(runs(), "run 1");
    eventually(Duration::from_secs(20), || (runs() == "run 2").then_some(()))
        .expect("it is fetched anew");
}

/// Once for each response that is kept, not for each that is sent.
#[test]
fn a_script_judges_what_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let script = "local r, cache = lighty.r, tokamak.cache
        print('judging ' .. r.req_item.http_status)
        if r.resp_header['X-Kind'] == 'news' then
            cache.set { lifetime = 60, tags = r.resp_header['X-Kind'] }
            r.resp_header['Set-Cookie'] = nil
            r.resp_header['X-Kept'] = 'yes'
        else
            cache.set { bypass = true }
        end
        return 99";
    let path = folder.path().join("store.lua");
    fs::write(&path, script).unwrap();
    let site = Site::with(&[&format!("lua_store = [\"{}\"]", path.display())]);
    let news = page(&["X-Kind: news", "Set-Cookie: a=b"]);
    for _ in 0..3 {
        let response = site.get(&news).expect(200);
        assert_eq!(
            (response.text().as_str(), response.header("x-kept")),
            ("run 1", Some("yes")),
            "{response}"
        );
        assert_eq!(response.header("set-cookie"), None);
    }
    let other = page(&["Cache-Control: max-age=60"]);
    assert_eq!([(); 3].map(|()| site.get(&other).text()), ["run 2", "run 3", "run 4"]);
    let judged = || site.0.log().matches("(lua-print) judging 200").count();
    let all = eventually(Duration::from_secs(20), || (judged() >= 4).then_some(()));
    assert!(all.is_some() && judged() == 4, "{}", site.0.log());
}
