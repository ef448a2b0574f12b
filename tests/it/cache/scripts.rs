use super::{Site, asking, page_with, status};
use crate::harness::get;

/// One event loop, so that scripts count for all requests.
fn scripted() -> Site {
    Site::with(&[
        "loops = 1",
        "lua_raw_url = [\"site/lead.lua\"]",
        "lua_content = [\"site/made.lua\"]",
        "lua_response = [\"site/last.lua\"]",
    ])
}

#[test]
fn what_a_script_makes_is_kept() {
    let site = scripted();
    for turn in 1..=3 {
        let response = site.get("/made").expect(200);
        assert_eq!(response.text(), "made 1", "{response}");
        assert_eq!(status(&response).starts_with("Tokamak; hit"), turn > 1, "{response}");
        assert_eq!(response.header("age").is_some(), turn > 1, "{response}");
        // Those before and behind the cache see every request.
        assert_eq!(response.header("x-seen"), Some(turn.to_string().as_str()), "{response}");
        assert_eq!(response.head.all("x-lead").count(), 1, "{response}");
    }
}

#[test]
fn what_comes_from_an_application_behind_scripts_is_kept() {
    let site = scripted();
    let target =
        page_with("", &["Cache-Control: max-age=1, stale-while-revalidate=60", "ETag: \"a\""]);
    let first = site.get(&target).expect(200);
    assert!(status(&first).starts_with("Tokamak; fwd=miss; stored"), "{first}");
    let second = site.send(&asking(&target, &[("If-None-Match", "\"a\"")])).expect(304);
    assert_eq!((second.header("x-lead"), site.runs()), (Some("yes"), 1), "{second}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(site.get(&target).text(), "run 1");
    let new = || (site.get(&target).text() == "run 2").then_some(());
    crate::harness::eventually(std::time::Duration::from_secs(20), new)
        .expect("it is fetched behind scripts too");
    assert_eq!(site.runs(), 2);
}

#[test]
fn a_request_that_is_led_elsewhere_is_another_one() {
    let site = scripted();
    let target = page_with("say[]=PATH_INFO", &["Cache-Control: max-age=60"]);
    let group = |group: &str| site.send(&asking(&target, &[("X-Group", group)])).text();
    assert_eq!(
        [group("a"), group("b"), site.get(&target).text()],
        ["run 1 /a", "run 2 /b", "run 3 "]
    );
    assert_eq!(
        [group("a"), group("b"), site.get(&target).text()],
        ["run 1 /a", "run 2 /b", "run 3 "]
    );
}

#[test]
fn a_guard_stands_before_the_cache() {
    let guard = crate::fastcgi::backend::Backend::answering(|asked| {
        let is_known = asked.params.contains_key("HTTP_X_WORD");
        let answer =
            if is_known { "Status: 200 OK\r\n\r\n" } else { "Status: 403 Forbidden\r\n\r\n" };
        crate::fastcgi::backend::whole(answer)
    });
    for lines in [&[][..], &["lua_content = [\"site/made.lua\"]"]] {
        let setup = crate::harness::Setup::new(crate::harness::Kind::Classic)
            .site("cache")
            .site_line("cache = true");
        let setup = lines
            .iter()
            .fold(setup.site_line("authorizer = \"app\""), |setup, line| setup.site_line(line));
        let site = Site(setup.upstream(&format!("address = \"{}\"", guard.address)).start());
        let target = page_with("", &["Cache-Control: max-age=60"]);
        for run in 1..=2 {
            let response = site.send(&get(&target).header("X-Word", "x")).expect(200);
            assert_eq!(status(&response).starts_with("Tokamak; hit"), run > 1, "{response}");
            site.get(&target).expect(403);
        }
        assert_eq!(site.runs(), 1);
    }
}
