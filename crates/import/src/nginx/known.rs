//! Directives that are not translated, and what is known of them: those that are dropped without a
//! note, with the reason, and what the notes about others say.

use crate::directive::Directive;

/// Directives that are dropped without a note, because no visitor and no log would show them.
pub(super) struct Group {
    /// What they are, as docs/import.md lists it.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the page with it"))]
    pub name: &'static str,
    /// Their names; one with `*` at its end is for all that begin so.
    pub directives: &'static [&'static str],
}

/// All that is dropped without a note. What changes responses, limits or logs is not among it.
pub(super) const SILENT: &[Group] = &[
    // The processes here have settings of their own, and other needs.
    Group {
        name: "nginx's processes, and what they start with",
        directives: &[
            "daemon",
            "env",
            "load_module",
            "pcre_jit",
            "pid",
            "thread_pool",
            "timer_resolution",
            "worker_connections",
            "worker_cpu_affinity",
            "worker_priority",
            "worker_processes",
            "worker_rlimit_core",
            "worker_rlimit_nofile",
        ],
    },
    // How bytes go through memory and files, which gives the same bytes.
    Group {
        name: "buffers, temporary files, caches of open files, how files are read and sent",
        directives: &[
            "aio",
            "client_body_buffer_size",
            "client_body_temp_path",
            "client_header_buffer_size",
            "connection_pool_size",
            "directio",
            "open_file_cache*",
            "output_buffers",
            "postpone_output",
            "read_ahead",
            "request_pool_size",
            "sendfile",
            "sendfile_max_chunk",
            "ssl_buffer_size",
            "tcp_nodelay",
            "tcp_nopush",
        ],
    },
    // Sizes of tables inside nginx.
    Group {
        name: "sizes of hash tables",
        directives: &[
            "map_hash_*",
            "proxy_headers_hash_*",
            "server_names_hash_*",
            "types_hash_*",
            "variables_hash_*",
        ],
    },
    // PHP runs in the server: there is no way to tune, and scripts are found without help.
    Group {
        name: "the way to php-fpm and its addresses, with `fastcgi_index` and \
            `fastcgi_split_path_info`",
        directives: &[
            "fastcgi_buffer_size",
            "fastcgi_buffering",
            "fastcgi_buffers",
            "fastcgi_busy_buffers_size",
            "fastcgi_connect_timeout",
            "fastcgi_index",
            "fastcgi_keep_conn",
            "fastcgi_max_temp_file_size",
            "fastcgi_next_upstream",
            "fastcgi_request_buffering",
            "fastcgi_send_timeout",
            "fastcgi_socket_keepalive",
            "fastcgi_split_path_info",
            "fastcgi_temp_file_write_size",
            "fastcgi_temp_path",
            "upstream",
        ],
    },
    // The page says under "What differs" that responses are compressed in any case.
    Group {
        name: "compression",
        directives: &[
            "brotli_comp_level",
            "brotli_min_length",
            "brotli_static",
            "brotli_types",
            "gzip_buffers",
            "gzip_comp_level",
            "gzip_disable",
            "gzip_http_version",
            "gzip_min_length",
            "gzip_proxied",
            "gzip_static",
            "gzip_types",
            "gzip_vary",
        ],
    },
    // These browsers are not in use any more.
    Group {
        name: "browsers of the last century (`keepalive_disable`, `msie_padding`)",
        directives: &["keepalive_disable", "msie_padding"],
    },
    // Connections are closed so that clients see the last response.
    Group {
        name: "how connections are closed",
        directives: &[
            "lingering_close",
            "lingering_time",
            "lingering_timeout",
            "reset_timedout_connection",
        ],
    },
    // Redirects to a folder name no host; nothing is looked up to serve files and PHP.
    Group {
        name: "hosts in redirects to folders, and name servers",
        directives: &[
            "port_in_redirect",
            "resolver",
            "resolver_timeout",
            "server_name_in_redirect",
        ],
    },
    // What nginx says of its own doing, when it is looked for mistakes.
    Group {
        name: "what nginx says of its own steps",
        directives: &[
            "limit_conn_log_level",
            "limit_req_log_level",
            "log_subrequest",
            "rewrite_log",
            "uninitialized_variable_warn",
        ],
    },
    // No exchange of keys that would need parameters; sessions are resumed in any case; server push
    // has been given up by browsers.
    Group {
        name: "parameters of Diffie-Hellman, the order of cipher suites, the caches of TLS \
            sessions, server push",
        directives: &[
            "http2_push_preload",
            "ssl_dhparam",
            "ssl_prefer_server_ciphers",
            "ssl_session_cache",
            "ssl_session_timeout",
            "ssl_trusted_certificate",
        ],
    },
];

/// Directives with the one value that asks for what Tokamak does anyway.
const AS_HERE: &[(&str, &str)] = &[
    ("absolute_redirect", "off"),
    ("autoindex_exact_size", "off"),
    ("autoindex_format", "html"),
    ("autoindex_localtime", "off"),
    ("brotli", "on"),
    ("etag", "on"),
    ("fastcgi_ignore_client_abort", "off"),
    ("gzip", "on"),
    ("http2", "on"),
    ("http3", "off"),
    ("http3_hq", "off"),
    ("ignore_invalid_headers", "on"),
    ("limit_rate", "0"),
    ("limit_rate_after", "0"),
    ("log_not_found", "on"),
    ("merge_slashes", "on"),
    ("recursive_error_pages", "off"),
    ("server_tokens", "off"),
    ("ssi", "off"),
    ("ssl_early_data", "off"),
    ("ssl_session_tickets", "on"),
    ("ssl_stapling", "off"),
    ("ssl_stapling_verify", "off"),
    ("underscores_in_headers", "off"),
];

/// Whether a directive may be dropped without a note.
pub(super) fn is_silent(directive: &Directive) -> bool {
    let name = &*directive.name;
    let fits = |own: &&str| match own.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *own,
    };
    let is_as_here = |(own, value): &(&str, &str)| {
        name == *own && directive.args.len() == 1 && directive.arg(0).eq_ignore_ascii_case(value)
    };
    SILENT.iter().any(|group| group.directives.iter().any(&fits)) || AS_HERE.iter().any(is_as_here)
}

/// Why what answers in place of files and PHP is refused, and what to do instead.
pub(super) fn instead(name: &str) -> &'static str {
    match name {
        "empty_gif" => {
            "no picture is made up; put a GIF of one pixel at that path, and delete the line and \
                the rule that refuses it"
        }
        "stub_status" | "status" => "see `admin`, which says how the server is doing",
        "flv" | "mp4" => "files are sent from a byte, and not from a second; delete the line",
        "proxy_pass" => "only that of a location is translated",
        _ => "Tokamak serves files, PHP and services of HTTP; nothing else answers here",
    }
}

/// Why what may refuse requests closes its block, and what to do instead.
pub(super) fn guard(name: &str) -> &'static str {
    match name {
        "valid_referers" => {
            "it may refuse requests by their `Referer`; write a rule with `header` and `deny`"
        }
        _ => "it may refuse requests, and there is no such rule",
    }
}

/// What to write in place of a directive, where that is known.
pub(super) fn advice(name: &str) -> &'static str {
    match name {
        "limit_req_zone" | "limit_conn_zone" => {
            "only the key `$binary_remote_addr` is translated; see `limit_by`"
        }
        "brotli" | "gzip" => "responses are compressed; see `compression` of a site or a route",
        "fastcgi_read_timeout" => "see `request_timeout` of [site.pool]",
        "fastcgi_cache"
        | "fastcgi_cache_path"
        | "fastcgi_cache_key"
        | "fastcgi_cache_valid"
        | "fastcgi_cache_bypass"
        | "fastcgi_no_cache"
        | "fastcgi_cache_use_stale" => "see `cache = true`, which obeys the application's headers",
        "map" | "geo" | "split_clients" | "set" => "there are no variables; see Lua scripts",
        "absolute_redirect" => "redirects to folders are relative",
        "autoindex_exact_size" => "lists of folders have rounded sizes",
        "autoindex_format" => "lists of folders are pages of HTML",
        "autoindex_localtime" => "lists of folders have times in UTC",
        "header_filter_by_lua_block"
        | "body_filter_by_lua_block"
        | "log_by_lua_block"
        | "init_by_lua_block" => "see the Lua scripts of a site",
        "charset" => "a charset is a name, not a variable; see `charset` of a site",
        "etag" => "files are always sent with an `ETag`",
        "fastcgi_ignore_client_abort" => "see `ignore_user_abort` of PHP",
        "http2" => "see `http2.enabled`, which is for all sites",
        "http2_max_concurrent_streams" => "see `http2.streams`",
        "http3" | "http3_hq" => "HTTP/3 is not spoken",
        "ignore_invalid_headers" => {
            "applications get no field with other characters than letters, digits and dashes"
        }
        "keepalive_requests" => "only connections of HTTP/2 have such a limit, `http2.requests`",
        "large_client_header_buffers" => "see `limits.head` and `limits.headers`",
        "limit_rate" | "limit_rate_after" => "responses are sent as fast as the client takes them",
        "log_not_found" => "the error log has missing files, too",
        "max_ranges" => "no setting says how many ranges a client may ask for",
        "merge_slashes" => "double slashes of a path are always one",
        "recursive_error_pages" => "an error page that fails has no error page",
        "server_tokens" => "responses have no `Server`; see `set_headers`",
        "ssi" => "commands of SSI are sent as they stand in a page",
        "ssl_ciphers" | "ssl_ecdh_curve" | "ssl_conf_command" => {
            "cipher suites and groups are fixed; docs/certificates.md lists them"
        }
        "ssl_early_data" => "requests in early data are not accepted",
        "ssl_session_ticket_key" => "see `tls.redis`, by which several nodes share these keys",
        "ssl_session_tickets" => "clients get tickets, with keys that change",
        "ssl_stapling" | "ssl_stapling_verify" => "no OCSP response is sent with a certificate",
        "underscores_in_headers" => "applications do not get fields with underscores",
        "worker_shutdown_timeout" => "see `timeouts.drain`, of at most a day",
        _ => "not known",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_of_imports_lists_what_is_silent() {
        let page = include_str!("../../../../docs/import.md");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for group in SILENT {
            assert!(page.contains(group.name), "docs/import.md lacks: {}", group.name);
        }
    }

    #[test]
    fn no_directive_is_in_two_places() {
        let mut seen = BTreeSet::new();
        let silent = SILENT.iter().flat_map(|group| group.directives);
        for name in silent.chain(AS_HERE.iter().map(|(name, _)| name)) {
            assert!(seen.insert(name), "{name}");
        }
        // A note says why another value makes no difference.
        for (name, _) in AS_HERE {
            assert_ne!(advice(name), "not known", "{name}");
        }
    }
}
