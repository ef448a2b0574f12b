//! What is freed is freed once. Without sanitizers (scripts/test-sanitizers) most of this passes
//! anyway.

use tokamak_sys::control::Status;

use crate::harness::*;

#[test]
fn what_a_request_said_about_itself_is_freed_once_though_the_script_ends_after_it() {
    for header in [None, Some("Basic dXNlcjpwYXNzd29yZA=="), Some("Digest username=\"user\"")] {
        let mut site = Site::worker(
            "<?php while (tokamak_handle_request(fn() => print get_current_user())) {}",
            &[],
        );
        let mut ask = post("/", "application/octet-stream", b"some bytes");
        if let Some(value) = header {
            ask = ask.header("Authorization", value);
        }
        assert_eq!(site.ask(ask).status, 200);
        site.producer.segment().retire(0);
        assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    }
}

/// What docs/sealed.md says of PHP's heap ("as it is") and of all else that a request takes
/// ("zero"), asked by what alone can see it: code in C. If the heap is cleared one day, the page
/// has to say so.
#[test]
fn code_in_c_finds_an_earlier_requests_memory_in_phps_heap_and_nowhere_else() {
    let code = r#"<?php
        $c = FFI::cdef('void *_emalloc(size_t size); void *malloc(size_t size); void free(void *at);
            void *mmap(void *at, size_t size, int may, int how, int fd, long offset);
            int munmap(void *at, size_t size);');
        const SIZE = 1 << 20;
        $mapped = $c->mmap(null, SIZE, 3, 0x22, -1, 0);
        $allocated = $c->malloc(100000);
        if (isset($_GET['leave'])) {
            for ($i = 0; $i < 1200; $i++) { $kept[] = str_repeat($_GET['leave'], 55); }
            FFI::memcpy($mapped, str_repeat($_GET['leave'], SIZE), SIZE);
            FFI::memcpy($allocated, str_repeat($_GET['leave'], 100000), 100000);
        } else {
            $secret = strrev($_GET['look']);
            $is_in = fn ($at, $size) => str_contains(FFI::string($at, $size), $secret);
            $heap = false;
            for ($i = 0; $i < 1200; $i++) { $heap = $is_in($c->_emalloc(1000), 1000) || $heap; }
            $found = [$heap, $is_in($allocated, 100000), trim(FFI::string($mapped, SIZE), "\0") !== ''];
        }
        $c->munmap($mapped, SIZE);
        $c->free($allocated);
        echo json_encode($found ?? 'left');"#;
    for (mode, boot) in [("classic", ""), ("sealed", "%root%/boot.php")] {
        if mode == "sealed" && !can_be_sealed() {
            continue;
        }
        let mut settings = vec![("mode", mode), ("ini.ffi.enable", "1")];
        settings.extend(Some(("boot", boot)).filter(|_| mode == "sealed"));
        let mut site = Site::start(&[("a.php", code), ("boot.php", "<?php")], &settings, 1);
        assert_eq!(site.get("/a.php?leave=secret-of-another.").text(), "\"left\"", "{mode}");
        let found = site.get("/a.php?look=.rehtona-fo-terces").text();
        let (heap, elsewhere) = found.split_once(',').unwrap_or_default();
        assert_eq!(heap, "[true", "{mode}: {found} {}", site.log());
        if mode == "sealed" {
            assert_eq!(elsewhere, "false,false]");
        } else {
            assert!(elsewhere.ends_with(",false]"), "{found}");
        }
    }
}
