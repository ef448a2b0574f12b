//! The environment in `$_SERVER` and `getenv()`: made into an array once, and still each request's
//! own.

use crate::harness::*;

const LOOK: &str = "<?php echo json_encode([$_SERVER['POOL_VARIABLE'], $_SERVER['NEW'] ?? null, \
    getenv()['POOL_VARIABLE'], getenv()['NEW'] ?? null]);";

/// A site of each mode that runs the script of the path; none of them names `$_SERVER` before that.
fn in_every_mode(scripts: &[(&str, &str)]) -> Vec<Site> {
    let worker = "<?php while (tokamak_handle_request(function () { \
        require __DIR__ . $_GET['script']; })) {}";
    let mut scripts = scripts.to_vec();
    scripts.push(("worker.php", worker));
    ["classic", "worker", "sealed"]
        .into_iter()
        .filter(|mode| *mode != "sealed" || can_be_sealed())
        .map(|mode| {
            let mut settings = vec![("mode", mode)];
            if mode != "classic" {
                settings.push(("script", "%root%/worker.php"));
            }
            Site::start(&scripts, &settings, 1)
        })
        .collect()
}

fn text(site: &mut Site, script: &str) -> String {
    site.get(&format!("{script}?script={script}")).text()
}

#[test]
fn a_change_before_the_array_is_made_is_in_it_and_in_no_later_one() {
    let change = "<?php putenv('POOL_VARIABLE=other'); putenv('NEW=1'); \
        require __DIR__ . '/look.php';";
    for mut site in in_every_mode(&[("change.php", change), ("look.php", LOOK)]) {
        assert_eq!(text(&mut site, "/change.php"), r#"["other","1","other","1"]"#);
        for _ in 0..2 {
            let expected = r#"["from the pool",null,"from the pool",null]"#;
            assert_eq!(text(&mut site, "/look.php"), expected);
        }
    }
}

#[test]
fn what_a_script_does_to_the_texts_is_its_own() {
    let edit = "<?php $all = &$_SERVER; $all['POOL_VARIABLE'][0] = 'F'; \
        $all['POOL_VARIABLE'] .= '!'; $part = &$all['GATEWAY_INTERFACE']; $part[0] = 'X'; \
        $all['NEW'] = 'n'; unset($all['FCGI_ROLE'], $all['REQUEST_METHOD']); ksort($all); \
        echo json_encode([$all['POOL_VARIABLE'], $part, isset($all['FCGI_ROLE'])]);";
    let look = "<?php echo json_encode([$_SERVER['POOL_VARIABLE'], $_SERVER['GATEWAY_INTERFACE'], \
        $_SERVER['NEW'] ?? null, $_SERVER['FCGI_ROLE'], $_SERVER['REQUEST_METHOD'], \
        getenv()['POOL_VARIABLE'], array_key_first($_SERVER) !== 'CONTENT_LENGTH']);";
    for mut site in in_every_mode(&[("edit.php", edit), ("look.php", look)]) {
        for _ in 0..2 {
            assert_eq!(text(&mut site, "/edit.php"), r#"["From the pool!","XGI\/1.1",false]"#);
            let expected =
                r#"["from the pool","CGI\/1.1",null,"RESPONDER","GET","from the pool",true]"#;
            assert_eq!(text(&mut site, "/look.php"), expected);
        }
    }
}

/// As PHP has it: numbers are numbers, some names are left out, and the request counts more.
#[test]
fn the_boots_environment_is_that_of_the_requests() {
    let script = "<?php putenv('BOOT=1'); putenv('SERVER_NAME=boot'); putenv('7=seven'); \
        putenv('a.b=1'); for ($i = 0; $i < 200; $i++) { putenv(\"MANY_$i=$i\"); }
        while (tokamak_handle_request(function () {
            putenv('BOOT=2');
            echo json_encode([$_SERVER['BOOT'], $_SERVER['SERVER_NAME'], $_SERVER[7], \
            isset($_SERVER['a.b']), $_SERVER['MANY_199'], getenv()['BOOT'], $_SERVER['HTTP_X'], \
            getenv()['SERVER_NAME']]);
        })) {}";
    for mode in ["worker", "sealed"].into_iter().filter(|mode| *mode == "worker" || can_be_sealed())
    {
        let settings = [("mode", mode), ("script", "%root%/worker.php")];
        let mut site = Site::start(&[("worker.php", script)], &settings, 1);
        for header in ["a", "b"] {
            let expected =
                format!(r#"["1","test.site","seven",false,"199","2","{header}","test.site"]"#);
            assert_eq!(site.ask(get("/").header("X", header)).text(), expected);
        }
    }
}

#[test]
fn an_input_filter_sees_the_environment_too() {
    let settings = [("mode", "classic"), ("ini.filter.default", "special_chars")];
    let script = "<?php echo $_SERVER['POOL_VARIABLE'], ' ', $_SERVER['HTTP_X'];";
    let mut site = Site::start(&[("a.php", script)], &settings, 1);
    for _ in 0..2 {
        assert_eq!(site.ask(get("/a.php").header("X", "<")).text(), "from the pool &#60;");
    }
}
