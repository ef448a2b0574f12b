//! Options back to TOML: the effective configuration for `tokamak check --print`, and the sample
//! with every default. Both are written from the rows, so neither can miss an option.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::model::{
    Cache, CertificateFiles, Condition, Conditions, FileCharset, HeaderChanges, Mercure, Mode,
    Multiplex, Pool, PoolSize, Protocol, Route, Rule, Satisfy, Server, Site, Spawn, Template, Tls,
    TokenKey, Trace, Upstream,
};
use crate::option::{self, GROUPS, Manager, Reload, Row, Section, Values};
use crate::origin::{Given, Origin};
use crate::raw::{Raw, RawSite, Repeated};
use crate::value::{
    Auto, Charset, Codings, Count, Direct, KeyText, Nothing, Off, Settings, Share, Size, Text,
};

impl Server {
    /// The effective configuration as a `tokamak.toml` that means the same anywhere on this
    /// machine, but for secrets: comments say which are set.
    pub fn to_toml(&self) -> String {
        let raw = to_raw(self);
        let mut out = String::new();
        for group in GROUPS {
            if let Some(table) = group.rows.first().and_then(|row| raw.table(row.section)) {
                write_group(&mut out, group.heading, group.rows, table, false);
            }
        }
        let mut list = |heading: &str, rows: &'static [Row], values: &dyn Values| {
            write_group(&mut out, heading, rows, values, false);
        };
        for upstream in &raw.upstreams {
            list("[[upstream]]", option::Upstream::ROWS, &upstream.values);
        }
        for site in &raw.sites {
            list("[[site]]", option::Site::ROWS, &site.site);
            list("[site.pool]", option::Pool::ROWS, &site.pool);
            list("[site.mercure]", option::Mercure::ROWS, &site.mercure);
            for route in &site.routes {
                list("[[site.route]]", option::Route::ROWS, &route.values);
            }
            for rule in &site.rules {
                list("[[site.rule]]", option::Rule::ROWS, &rule.values);
            }
        }
        out
    }
}

/// A `tokamak.toml` with every option at its default, explained; options without a default stand in
/// comments.
pub fn sample() -> String {
    let raw = Raw::new(None);
    let site = RawSite::new(Origin::Default);
    let (upstream, route) = (option::Upstream::defaults(), option::Route::defaults());
    let rule = option::Rule::defaults();
    let mut out = String::new();
    for group in GROUPS {
        let Some(section) = group.rows.first().map(|row| row.section) else { continue };
        let values: &dyn Values = match section {
            "site" => &site.site,
            "site.pool" => &site.pool,
            "site.mercure" => &site.mercure,
            "upstream" => &upstream,
            "site.route" => &route,
            "site.rule" => &rule,
            section => match raw.table(section) {
                Some(table) => table,
                None => continue,
            },
        };
        let mut text = String::new();
        write_group(&mut text, group.heading, group.rows, values, true);
        // One of these that says nothing would mean nothing.
        if matches!(group.heading, "[[upstream]]" | "[[site.route]]" | "[[site.rule]]") {
            text = text.replace("\n# ", "\n").replace('\n', "\n# ");
            text = format!("{}\n", text.trim_end_matches([' ', '#', '\n']));
        }
        out.push_str(&text);
    }
    out
}

/// The options that differ and take effect only at the next start, by their keys.
pub fn restart_needed(old: &Server, new: &Server) -> Vec<String> {
    let (old, new) = (to_raw(old).top, to_raw(new).top);
    // A test says that all of these stand at the top.
    let rows = option::Top::ROWS.iter().filter(|row| row.reload == Reload::Restart);
    rows.filter(|row| !old.agrees(&new, row.name)).map(Row::key).collect()
}

fn write_group(
    out: &mut String,
    heading: &str,
    rows: &[Row],
    values: &dyn Values,
    explained: bool,
) {
    if !heading.is_empty() {
        let _ = writeln!(out, "\n{heading}");
    }
    for row in rows {
        if explained {
            write_comment(out, row.about);
        }
        let _ = match values.show(row.name) {
            Some(value) => writeln!(out, "{} = {value}", row.name),
            None if explained => writeln!(out, "# {} = \"\"", row.name),
            None => Ok(()),
        };
        for name in values.hidden(row.name) {
            let dot = if name.is_empty() { "" } else { "." };
            let _ = writeln!(out, "# {}{dot}{} is set, not shown", row.name, name.escape_debug());
        }
    }
}

/// Writes words as comment lines of at most 100 characters.
fn write_comment(out: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split(' ') {
        if line.len() + 1 + word.len() > 100 {
            let _ = writeln!(out, "{line}");
            line.truncate(1);
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{line}");
}

fn plain<T>(value: T) -> Given<T> {
    Given { value, origin: Origin::Default }
}

fn count(number: usize) -> Count {
    Count(number as u64)
}

fn text(value: &Option<String>) -> Given<Option<Text>> {
    plain(value.clone().map(Text))
}

fn paths<'a>(values: impl IntoIterator<Item = &'a PathBuf>) -> Given<Vec<Text>> {
    plain(values.into_iter().map(|path| Text(path.to_string_lossy().into_owned())).collect())
}

fn certificates(files: &[CertificateFiles]) -> Given<Vec<Text>> {
    paths(files.iter().map(|files| &files.certificate))
}

fn keys(files: &[CertificateFiles]) -> Given<Vec<Text>> {
    paths(files.iter().map(|files| &files.key))
}

/// The opposite of `resolve`: what one would have to type. The struct literals make the compiler
/// ask for each option.
fn to_raw(server: &Server) -> Raw {
    Raw {
        file: None,
        top: option::Top {
            listen: plain(server.listen.clone()),
            listen_tls: plain(server.listen_tls.clone()),
            // It is spelled out in what it stands for.
            domain: plain(Vec::new()),
            state_dir: plain(Auto::Is(server.state_dir.clone())),
            temp_dir: plain(server.temp_dir.clone()),
            loops: plain(Auto::Is(count(server.loops))),
            user: text(&server.user),
            group: text(&server.group),
            control: plain(server.control.clone()),
            admin: plain(server.admin.as_ref().map(|admin| admin.address.clone())),
            admin_token: plain(server.admin.as_ref().and_then(|admin| admin.token.clone())),
            trusted_proxies: plain(server.proxies.trusted.clone()),
            trusted_headers: plain(server.proxies.headers.clone()),
            proxy_protocol: plain(server.proxies.protocol.clone()),
            request_ids: plain(server.request_ids),
            early_hints: plain(server.early_hints),
            resolver: plain(server.resolver.clone()),
            pid_file: plain(server.pid_file.clone()),
        },
        tls: raise_tls(&server.tls),
        acme: option::Acme {
            email: text(&server.acme.email),
            directory: plain(server.acme.directories.iter().cloned().map(Text).collect()),
            eab: plain(server.acme.eab.clone()),
            challenge: plain(server.acme.challenges.clone()),
            dns_hook: plain(server.acme.dns_hook.clone()),
            ask: plain(server.acme.on_demand.as_ref().map(|ask| Text(ask.url.clone()))),
            ask_names: match &server.acme.on_demand {
                Some(ask) => plain(count(ask.names)),
                None => option::Acme::defaults().ask_names,
            },
        },
        limits: option::Limits {
            head: plain(Size(server.limits.head as u64)),
            headers: plain(count(server.limits.headers)),
            body: plain(Size(server.limits.body)),
            buffer: plain(Size(server.limits.buffer as u64)),
            spool: plain(Size(server.limits.spool)),
            send_rate: plain(Size(server.limits.send_rate)),
            connections: plain(count(server.limits.connections)),
            client_rate: plain(server.limits.client.rate),
            client_burst: plain(Count(server.limits.client.burst.into())),
            client_connections: plain(Count(server.limits.client.connections.into())),
            client_dry_run: plain(server.limits.client.dry_run),
        },
        http2: option::Http2 {
            enabled: plain(server.http2.enabled),
            streams: plain(count(server.http2.streams)),
            requests: plain(count(server.http2.requests)),
            resets: plain(count(server.http2.resets)),
            control_frames: plain(count(server.http2.control_frames)),
            window: plain(Size(server.http2.window as u64)),
            connection_window: plain(Size(server.http2.connection_window as u64)),
        },
        http3: option::Http3 {
            enabled: plain(server.http3.enabled),
            streams: plain(count(server.http3.streams)),
            requests: plain(count(server.http3.requests)),
            resets: plain(count(server.http3.resets)),
            control_frames: plain(count(server.http3.control_frames)),
            window: plain(Size(server.http3.window as u64)),
            connection_window: plain(Size(server.http3.connection_window as u64)),
            send_window: plain(Size(server.http3.send_window as u64)),
        },
        timeouts: option::Timeouts {
            head: plain(server.timeouts.head),
            body: plain(server.timeouts.body),
            idle: plain(server.timeouts.idle),
            send: plain(server.timeouts.send),
            tunnel: plain(server.timeouts.tunnel),
            drain: plain(server.timeouts.drain),
            drain_delay: plain(server.timeouts.drain_delay),
            watchdog: plain(server.timeouts.watchdog),
        },
        log: option::Log {
            access: plain(
                server.log.access.as_ref().map_or(Off::Word, |log| Off::Is(log.path.clone())),
            ),
            access_format: match &server.log.access {
                Some(log) => plain(log.format.clone()),
                None => option::Log::defaults().access_format,
            },
            error: plain(server.log.error.clone()),
        },
        lua: option::Lua {
            time: plain(server.lua.time),
            total: plain(server.lua.total),
            memory: plain(Size(server.lua.memory as u64)),
            shared: plain(
                server
                    .lua
                    .shared
                    .iter()
                    .map(|(name, size)| (name.clone(), Size(*size as u64)))
                    .collect(),
            ),
        },
        cache: raise_cache(&server.cache),
        trace: raise_trace(&server.trace),
        upstreams: server.upstreams.iter().map(raise_upstream).collect(),
        sites: server.sites.iter().map(|site| raise_site(site, &server.upstreams)).collect(),
    }
}

fn raise_tls(tls: &Tls) -> option::Tls {
    let (unset, redis) = (option::Tls::defaults(), tls.redis.as_ref());
    option::Tls {
        auto: plain(tls.auto),
        certificate: certificates(&tls.certificates),
        key: keys(&tls.certificates),
        minimum: plain(tls.minimum),
        client_auth: plain(tls.client_auth),
        client_ca: plain(tls.client_ca.clone()),
        unknown_name: plain(tls.unknown_name),
        redis: plain(redis.map(|redis| Direct(redis.server.clone()))),
        redis_password: plain(redis.and_then(|redis| redis.password.clone())),
        redis_database: redis
            .map_or(unset.redis_database, |redis| plain(Count(redis.database.into()))),
        redis_secret: plain(tls.redis_secret.clone()),
        redis_prefix: redis.map_or(unset.redis_prefix, |redis| plain(Text(redis.prefix.clone()))),
        redis_timeout: redis.map_or(unset.redis_timeout, |redis| plain(redis.timeout)),
    }
}

fn raise_cache(cache: &Cache) -> option::Cache {
    let (unset, tier) = (option::Cache::defaults(), cache.tier.as_ref());
    option::Cache {
        memory: plain(Size(cache.memory as u64)),
        largest: plain(Size(cache.largest as u64)),
        wait: plain(cache.wait),
        redis: plain(tier.map(|tier| Direct(tier.server.clone()))),
        redis_password: plain(tier.and_then(|tier| tier.password.clone())),
        redis_database: tier
            .map_or(unset.redis_database, |tier| plain(Count(tier.database.into()))),
        redis_prefix: tier.map_or(unset.redis_prefix, |tier| plain(Text(tier.prefix.clone()))),
        redis_timeout: tier.map_or(unset.redis_timeout, |tier| plain(tier.timeout)),
    }
}

fn raise_trace(trace: &Trace) -> option::Trace {
    let (unset, export) = (option::Trace::defaults(), trace.export.as_ref());
    option::Trace {
        context: plain(trace.context),
        sample: plain(Share(trace.sample)),
        timing_secret: plain(trace.timing_secret.clone()),
        export: plain(export.map(|export| Text(export.url.clone()))),
        export_headers: plain(export.map(|export| export.headers.clone()).unwrap_or_default()),
        export_rate: export.map_or(unset.export_rate, |export| plain(Count(export.rate.into()))),
        export_timeout: export.map_or(unset.export_timeout, |export| plain(export.timeout)),
    }
}

fn raise_mercure(mercure: Option<&Mercure>) -> option::Mercure {
    let unset = option::Mercure::defaults();
    let Some(mercure) = mercure else { return unset };
    let redis = mercure.nodes.as_ref();
    let key = |key: &Option<TokenKey>| plain(key.as_ref().map(|key| KeyText(key.key.clone())));
    let algorithm =
        |key: &Option<TokenKey>, unset| key.as_ref().map_or(unset, |key| plain(key.algorithm));
    option::Mercure {
        enabled: plain(true),
        publisher_key: key(&mercure.publisher),
        publisher_algorithm: algorithm(&mercure.publisher, unset.publisher_algorithm),
        subscriber_key: key(&mercure.subscriber),
        subscriber_algorithm: algorithm(&mercure.subscriber, unset.subscriber_algorithm),
        anonymous: plain(mercure.anonymous),
        origins: plain(mercure.origins.iter().cloned().map(Text).collect()),
        history: plain(count(mercure.history)),
        history_size: plain(Size(mercure.history_size as u64)),
        subscribers: plain(count(mercure.subscribers)),
        topics: plain(count(mercure.topics)),
        update_size: plain(Size(mercure.update_size as u64)),
        redis: plain(redis.map(|redis| Direct(redis.server.clone()))),
        redis_password: plain(redis.and_then(|redis| redis.password.clone())),
        redis_database: redis
            .map_or(unset.redis_database, |redis| plain(Count(redis.database.into()))),
        redis_prefix: redis.map_or(unset.redis_prefix, |redis| plain(Text(redis.prefix.clone()))),
        redis_timeout: redis.map_or(unset.redis_timeout, |redis| plain(redis.timeout)),
        heartbeat: plain(mercure.heartbeat),
    }
}

fn raise_upstream(upstream: &Upstream) -> Repeated<option::Upstream> {
    let (spawn, check, unset) =
        (upstream.spawn.as_ref(), upstream.check.as_ref(), option::Upstream::defaults());
    let proxy = match &upstream.protocol {
        Protocol::FastCgi => None,
        Protocol::Http(proxy) => Some(proxy),
    };
    let tls = proxy.and_then(|proxy| proxy.tls.as_ref());
    let pair = tls.and_then(|tls| tls.certificate.as_ref());
    let values = option::Upstream {
        name: plain(Some(Text(upstream.name.clone()))),
        address: plain(upstream.addresses.clone()),
        protocol: plain(Auto::Is(upstream.protocol.name())),
        host: plain(proxy.and_then(|proxy| proxy.host.clone()).map(Text)),
        headers: plain(proxy.map(|proxy| proxy.headers.clone()).unwrap_or_default()),
        forwarded: plain(proxy.map(|proxy| proxy.forwarded).unwrap_or_default()),
        request_buffering: plain(proxy.is_none_or(|proxy| proxy.request_buffering)),
        tls_ca: plain(tls.and_then(|tls| tls.ca.clone())),
        tls_name: text(&tls.and_then(|tls| tls.name.clone())),
        tls_certificate: plain(pair.map(|pair| pair.certificate.clone())),
        tls_key: plain(pair.map(|pair| pair.key.clone())),
        spawn: plain(spawn.map(command).unwrap_or_default()),
        processes: spawn.map_or(unset.processes, |spawn| plain(count(spawn.processes))),
        shared: plain(spawn.is_some_and(|spawn| spawn.shared)),
        directory: plain(spawn.map(|spawn| spawn.directory.clone())),
        env: plain(spawn.map(|spawn| spawn.env.clone()).unwrap_or_default()),
        inherit_env: spawn.map_or(unset.inherit_env, |spawn| plain(spawn.inherit_env)),
        user: text(&spawn.and_then(|spawn| spawn.user.clone())),
        group: text(&spawn.and_then(|spawn| spawn.group.clone())),
        stop_signal: spawn.map_or(unset.stop_signal, |spawn| plain(spawn.stop_signal)),
        stop_timeout: spawn.map_or(unset.stop_timeout, |spawn| plain(spawn.stop_timeout)),
        resolve: plain(upstream.resolve.map_or(Auto::Word, Auto::Is)),
        balance: plain(upstream.balance),
        affinity: plain(upstream.affinity.clone()),
        spill: plain(upstream.spill),
        failures: plain(Count(upstream.health.failures.into())),
        failure_window: plain(upstream.health.window),
        pause: plain(upstream.health.pause),
        check: text(&check.map(|check| check.path.clone())),
        check_interval: check.map_or(unset.check_interval, |check| plain(check.interval)),
        check_timeout: check.map_or(unset.check_timeout, |check| plain(check.timeout)),
        check_status: check.map_or(unset.check_status, |check| plain(Count(check.status.into()))),
        check_rise: check.map_or(unset.check_rise, |check| plain(Count(check.rise.into()))),
        check_fall: check.map_or(unset.check_fall, |check| plain(Count(check.fall.into()))),
        check_params: plain(check.map(|check| check.params.clone()).unwrap_or_default()),
        connections: plain(match upstream.multiplex {
            Multiplex::WhenKept => Auto::Word,
            _ => Auto::Is(count(upstream.connections)),
        }),
        multiplex: plain(match upstream.multiplex {
            Multiplex::WhenKept => Auto::Word,
            asked => Auto::Is(asked == Multiplex::First),
        }),
        requests: plain(Count(upstream.requests)),
        idle: plain(upstream.idle),
        reuse: plain(upstream.reuse),
        queue: plain(count(upstream.queue)),
        queue_timeout: plain(upstream.timeouts.queue),
        connect_timeout: plain(upstream.timeouts.connect),
        send_timeout: plain(upstream.timeouts.send),
        first_byte_timeout: plain(upstream.timeouts.first_byte),
        read_timeout: plain(upstream.timeouts.read),
        head: plain(Size(upstream.head as u64)),
        params: plain(upstream.params.clone()),
        internal: internal(&upstream.internal),
    };
    Repeated { origin: Origin::Default, values }
}

/// Directories by their URL paths.
fn internal(directories: &BTreeMap<String, PathBuf>) -> Given<BTreeMap<String, String>> {
    let text = |(path, directory): (&String, &PathBuf)| {
        (path.clone(), directory.to_string_lossy().into_owned())
    };
    plain(directories.iter().map(text).collect())
}

/// The program and its arguments.
fn command(spawn: &Spawn) -> Vec<Text> {
    let program = spawn.program.to_string_lossy().into_owned();
    [program].into_iter().chain(spawn.arguments.iter().cloned()).map(Text).collect()
}

fn raise_route(route: &Route, upstreams: &[Upstream]) -> Repeated<option::Route> {
    let path = if route.path.is_empty() { "/" } else { &route.path };
    let name = |index: usize| Text(upstreams[index].name.clone());
    let values = option::Route {
        path: plain(Some(Text(path.to_owned()))),
        upstream: plain(route.upstream.map(name)),
        upstream_path: plain(route.upstream_path.clone().map(Text)),
        authorizer: plain(Auto::Is(
            route.authorizer.map_or(Nothing::Word, |authorizer| Nothing::Is(name(authorizer))),
        )),
        filter: plain(route.filter.as_ref().map(|filter| name(filter.upstream))),
        filter_extensions: plain(
            route
                .filter
                .iter()
                .flat_map(|filter| filter.extensions.iter().cloned().map(Text))
                .collect(),
        ),
        split: plain(route.split.clone()),
        script: plain(route.script.clone()),
        files: plain(route.files),
        lua_raw_url: paths(&route.lua.raw_url),
        lua_physical: paths(&route.lua.physical),
        lua_content: paths(&route.lua.content),
        lua_response: paths(&route.lua.response),
        lua_store: paths(&route.lua.store),
        cache: plain(Auto::Is(route.cache.is_on)),
        cache_lifetime: plain(Auto::Is(route.cache.lifetime)),
        cache_stale_while_revalidate: plain(Auto::Is(route.cache.while_revalidate)),
        cache_stale_if_error: plain(Auto::Is(route.cache.if_error)),
        cache_ignore: plain(Auto::Is(route.cache.ignore.clone())),
        cache_ignore_query: plain(Auto::Is(
            route.cache.ignore_query.iter().cloned().map(Text).collect(),
        )),
        compression: plain(Auto::Is(Codings(route.compression.codings.clone()))),
        compression_types: plain(Auto::Is(
            route.compression.types.iter().cloned().map(Text).collect(),
        )),
        compression_smallest: plain(Auto::Is(Size(route.compression.smallest as u64))),
        server_timing: plain(Auto::Is(route.server_timing)),
    };
    Repeated { origin: Origin::Default, values }
}

fn raise_rule(rule: &Rule) -> Repeated<option::Rule> {
    let texts = |values: &[String]| plain(values.iter().cloned().map(Text).collect::<Vec<Text>>());
    let path = |path: &String| Text(if path.is_empty() { "/".into() } else { path.clone() });
    let paths = |paths: &[String]| plain(paths.iter().map(path).collect::<Vec<Text>>());
    let template = |template: &Option<Template>| {
        plain(template.as_ref().map(|template| Text(template.text().to_owned())))
    };
    let condition = |all: &Option<Box<Conditions>>, one: fn(&Conditions) -> Option<&Condition>| {
        plain(all.as_deref().and_then(one).map(|own| Text(own.text())))
    };
    let named = |(name, own): &(String, Condition)| (name.clone(), own.text());
    let is_asked = rule.login.as_ref().is_some_and(|login| login.satisfy == Satisfy::Any);
    let has_status = rule.redirect.is_some() || (rule.refuses() && !is_asked);
    let unset = option::Rule::defaults();
    let HeaderChanges { set, add, remove, cache_control, expires, always, keeps_own } =
        &rule.headers;
    let values = option::Rule {
        path: paths(&rule.paths),
        pattern: plain(rule.pattern.as_ref().map(|pattern| Text(pattern.text().to_owned()))),
        and_pattern: plain(rule.and_patterns.iter().map(|own| Text(own.text())).collect()),
        if_file: plain(rule.if_file),
        extension: texts(&rule.extensions),
        content_type: texts(&rule.content_types),
        except: paths(&rule.except),
        method: condition(&rule.conditions, |own| own.method.as_ref()),
        query: condition(&rule.conditions, |own| own.query.as_ref()),
        header: plain(rule.conditions.iter().flat_map(|own| &own.headers).map(named).collect()),
        of_answer: plain(rule.of_answer),
        last: plain(rule.is_last),
        keep_own: plain(*keeps_own),
        unless_file: plain(rule.unless_file),
        folders_are_files: plain(rule.folders_are_files),
        redirect: template(&rule.redirect),
        rewrite: template(&rule.rewrite),
        status: plain(match has_status {
            true => Auto::Is(Count(rule.status.into())),
            false => Auto::Word,
        }),
        allow: plain(rule.allow.clone()),
        deny: plain(rule.deny.clone()),
        internal: plain(rule.internal),
        auth_users: plain(rule.login.as_ref().map(|login| login.users.clone())),
        auth_realm: plain(rule.login.as_ref().map(|login| Text(login.realm.clone()))),
        satisfy: rule.login.as_ref().map_or(unset.satisfy, |login| plain(login.satisfy)),
        scripts: paths(&rule.scripts),
        serve: plain(rule.serve),
        index_listing: plain(rule.index_listing),
        rate: plain(rule.limits.rate),
        burst: plain(Count(rule.limits.burst.into())),
        connections: plain(Count(rule.limits.connections.into())),
        limit_by: plain(rule.limits.by.clone()),
        limit_dry_run: plain(rule.limits.dry_run),
        body: plain(rule.body.map(Size)),
        log: plain(rule.is_logged),
        set_headers: plain(set.clone()),
        add_headers: plain(add.clone()),
        remove_headers: texts(remove),
        cache_control: text(cache_control),
        expires: plain(*expires),
        always: plain(*always),
    };
    Repeated { origin: Origin::Default, values }
}

fn raise_site(site: &Site, upstreams: &[Upstream]) -> RawSite {
    let texts = |values: &[String]| plain(values.iter().cloned().map(Text).collect::<Vec<Text>>());
    let front_controller = match &site.front_controller {
        Some(script) => Nothing::Is(Text(script.clone())),
        None => Nothing::Word,
    };
    RawSite {
        origin: Origin::Default,
        site: option::Site {
            host: texts(&site.hosts),
            listen: plain(site.listen.clone()),
            canonical_host: text(&site.canonical_host),
            certificate: certificates(&site.tls.certificates),
            key: keys(&site.tls.certificates),
            hsts: plain(site.tls.hsts.lifetime),
            hsts_subdomains: plain(site.tls.hsts.subdomains),
            hsts_preload: plain(site.tls.hsts.preload),
            https_redirect: plain(site.tls.redirect),
            https_port: plain(match site.tls.port {
                Some(port) => Auto::Is(Count(port.into())),
                None => Auto::Word,
            }),
            path: plain((!site.path.is_empty()).then(|| Text(site.path.clone()))),
            root: plain(Auto::<PathBuf>::Is(site.root.clone())),
            index: texts(&site.index),
            spool: plain(Size(site.spool)),
            index_listing: plain(site.index_listing),
            charset: plain(match &site.charset {
                FileCharset::UnlessNamed => Auto::Word,
                FileCharset::None => Auto::Is(Off::Word),
                FileCharset::Is(name) => Auto::Is(Off::Is(Charset(name.clone()))),
            }),
            access_log: plain(Auto::Is(
                site.access_log.as_ref().map_or(Off::Word, |log| Off::Is(log.path.clone())),
            )),
            access_format: plain(match &site.access_log {
                Some(log) => Auto::Is(log.format.clone()),
                None => Auto::Word,
            }),
            front_controller: plain(Auto::Is(front_controller)),
            front_controller_for: plain(site.front_controller_for.clone()),
            mode: plain(Auto::Is(site.mode)),
            php: text(&site.php),
            user: text(&site.user),
            group: text(&site.group),
            worker: plain(site.worker.clone()),
            concurrency: plain(match site.mode {
                Mode::Async => Auto::Is(Count(site.concurrency as u64)),
                _ => Auto::Word,
            }),
            boot: plain(site.boot.clone()),
            warm: texts(&site.warm),
            fallback: text(&site.fallback),
            upstream: plain(site.upstream.map(|index| Text(upstreams[index].name.clone()))),
            // The route that was made of it says so.
            files: plain(false),
            authorizer: plain(site.authorizer.map(|index| Text(upstreams[index].name.clone()))),
            lua_raw_url: paths(&site.lua.raw_url),
            lua_physical: paths(&site.lua.physical),
            lua_content: paths(&site.lua.content),
            lua_response: paths(&site.lua.response),
            lua_store: paths(&site.lua.store),
            cache: plain(site.cache.is_on),
            cache_lifetime: plain(site.cache.lifetime),
            cache_stale_while_revalidate: plain(site.cache.while_revalidate),
            cache_stale_if_error: plain(site.cache.if_error),
            cache_ignore: plain(site.cache.ignore.clone()),
            cache_ignore_query: texts(&site.cache.ignore_query),
            compression: plain(Codings(site.compression.codings.clone())),
            compression_types: texts(&site.compression.types),
            compression_smallest: plain(Size(site.compression.smallest as u64)),
            compression_cross_site: plain(site.compression.cross_site),
            internal: internal(&site.internal),
            error_pages: plain(site.error_pages.clone()),
            intercept_errors: plain(site.intercept_errors),
            keep: plain(site.keep.clone()),
            env: plain(site.env.clone()),
            inherit_env: plain(site.inherit_env),
            dumpable: plain(site.dumpable),
            count_calls: plain(site.count_calls),
            server_timing: plain(site.server_timing),
            php_value: plain(Settings(site.php_value.clone())),
            php_admin_value: plain(Settings(site.php_admin_value.clone())),
        },
        pool: raise_pool(&site.pool),
        mercure: raise_mercure(site.mercure.as_deref()),
        routes: site.routes.iter().map(|route| raise_route(route, upstreams)).collect(),
        rules: site.rules.iter().map(raise_rule).collect(),
    }
}

fn raise_pool(pool: &Pool) -> option::Pool {
    let unused = option::Pool::defaults();
    let is = |number: usize| plain(Auto::Is(count(number)));
    let (manager, start, min_spare, max_spare, idle) = match pool.size {
        PoolSize::Auto { .. } => {
            (Manager::Auto, unused.start, unused.min_spare, unused.max_spare, unused.idle)
        }
        PoolSize::Static { .. } => {
            (Manager::Static, unused.start, unused.min_spare, unused.max_spare, unused.idle)
        }
        PoolSize::Ondemand { idle, .. } => {
            (Manager::Ondemand, unused.start, unused.min_spare, unused.max_spare, plain(idle))
        }
        PoolSize::Dynamic { start, min_spare, max_spare, .. } => {
            (Manager::Dynamic, is(start), is(min_spare), is(max_spare), unused.idle)
        }
    };
    option::Pool {
        manager: plain(manager),
        workers: match pool.size {
            PoolSize::Auto { .. } => plain(Auto::Word),
            _ => is(pool.size.max()),
        },
        start,
        min_spare,
        max_spare,
        idle,
        queue: plain(count(pool.queue)),
        queue_timeout: plain(pool.queue_timeout),
        max_requests: plain(Count(pool.max_requests)),
        max_memory: plain(Size(pool.max_memory)),
        request_timeout: plain(pool.request_timeout),
        slow: plain(pool.slow),
    }
}
