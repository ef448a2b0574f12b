//! Writes a description as a `tokamak.toml`.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use crate::model::{
    Action, COMBINED, Description, Headers, Most, Route, Rule, Serve, Site, Upstream,
};
use crate::note::Note;

/// Columns of the file's comments.
const COLUMNS: usize = 96;

/// The file, with the notes as comments at its top.
pub(crate) fn write(description: &Description, notes: &[Note]) -> String {
    let mut document = DocumentMut::new();
    server(document.as_table_mut(), description);
    let upstreams: ArrayOfTables = description.upstreams.iter().map(upstream).collect();
    if !upstreams.is_empty() {
        document.insert("upstream", Item::ArrayOfTables(upstreams));
    }
    let mut sites = ArrayOfTables::new();
    for site in &description.sites {
        let listen: Vec<String> = match description.divides_addresses {
            true => site.listen.iter().map(|listen| listen.address.clone()).collect(),
            false => Vec::new(),
        };
        sites.push(self::site(site, &site.hosts, &listen));
        for mount in &site.mounts {
            sites.push(self::site(mount, &site.hosts, &listen));
        }
    }
    if !sites.is_empty() {
        document.insert("site", Item::ArrayOfTables(sites));
    }
    let mut text = String::from("# Written by `tokamak import`.\n");
    if !notes.is_empty() {
        text.push_str("# Not translated as it stands; look at each line before you serve this:\n");
    }
    notes.iter().for_each(|note| comment(&mut text, &note.to_string()));
    text.push('\n');
    text.push_str(&document.to_string());
    text
}

fn comment(text: &mut String, note: &str) {
    let mut line = String::from("# -");
    for word in note.split(' ') {
        if line.chars().count() + word.chars().count() >= COLUMNS {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

fn server(table: &mut Table, description: &Description) {
    let listen = description.sites.iter().flat_map(|site| &site.listen);
    let all: BTreeSet<_> = listen.collect();
    let of = |tls: bool| {
        let own = all.iter().filter(|listen| listen.tls == tls);
        own.map(|listen| listen.address.clone()).collect::<BTreeSet<_>>()
    };
    let (plain, secure) = (of(false), of(true));
    if !all.is_empty() {
        // An empty list would not switch the default address off by itself.
        table.insert("listen", value(array(plain.iter().cloned())));
    }
    if !secure.is_empty() {
        table.insert("listen_tls", value(array(secure.iter().cloned())));
    }
    let proxied = all.iter().filter(|listen| listen.proxy_protocol);
    list(table, "proxy_protocol", &proxied.map(|it| it.address.clone()).collect::<Vec<_>>());
    list(table, "trusted_proxies", &description.trusted_proxies);
    if !description.trusted_proxies.is_empty() {
        let field = description.names_by_field.then(|| "x-forwarded-for".to_owned());
        table.insert("trusted_headers", value(array(field)));
    }
    text(table, "user", description.user.as_ref());
    text(table, "group", description.group.as_ref());
    if description.only_tls13 {
        part(table, "tls").insert("minimum", value("1.3"));
    }
    if description.automatic {
        let tls = part(table, "tls");
        tls.insert("auto", value(true));
        // As it is where certificates come by themselves: there is none for other names.
        tls.insert("unknown_name", value("refuse"));
    }
    if let Some(bytes) = description.body {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).min(1024 << 30);
        part(table, "limits").insert("body", value(bytes));
    }
    for (key, seconds) in &description.timeouts {
        part(table, "timeouts").insert(key, value(format!("{seconds}s")));
    }
    if let Some((file, format)) = &description.access_log {
        part(table, "log").insert("access", value(file));
        if format != COMBINED {
            part(table, "log").insert("access_format", value(format));
        }
    }
    if let Some(log) = &description.error_log {
        part(table, "log").insert("error", value(log));
    }
}

fn part<'a>(table: &'a mut Table, name: &str) -> &'a mut Table {
    let part = table.entry(name).or_insert_with(|| Item::Table(Table::new()));
    part.as_table_mut().expect("only tables have these names")
}

fn upstream(upstream: &Upstream) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix(format!("\n# {}\n", upstream.place));
    table.insert("name", value(&upstream.name));
    let addresses = upstream.addresses.iter().map(|(address, weight)| match weight {
        1 => Value::from(address),
        weight => {
            let mut entry = InlineTable::new();
            entry.insert("address", Value::from(address));
            entry.insert("weight", Value::from(i64::from(*weight)));
            Value::from(entry)
        }
    });
    let addresses: Vec<Value> = addresses.collect();
    match &addresses[..] {
        [only] => table.insert("address", Item::Value(only.clone())),
        _ => table.insert("address", value(addresses.into_iter().collect::<Array>())),
    };
    if upstream.asks_least_busy {
        table.insert("balance", value("least_busy"));
    }
    text(&mut table, "affinity", upstream.affinity.as_ref());
    text(&mut table, "check", upstream.check.as_ref());
    for (key, own) in &upstream.tls {
        table.insert(key, value(own));
    }
    for (key, number) in &upstream.numbers {
        table.insert(key, value(i64::from(*number)));
    }
    text(&mut table, "host", upstream.host.as_ref());
    if !upstream.headers.is_empty() {
        table.insert("headers", value(inline(&upstream.headers)));
    }
    if upstream.gets_bodies_at_once {
        table.insert("request_buffering", value(false));
    }
    if upstream.hides_clients {
        table.insert("forwarded", value("none"));
    }
    for (key, duration) in &upstream.timeouts {
        let text = match duration.subsec_millis() {
            0 => format!("{}s", duration.as_secs()),
            _ => format!("{}ms", duration.as_millis()),
        };
        table.insert(key, value(text));
    }
    table
}

fn site(site: &Site, hosts: &[String], listen: &[String]) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix(format!("\n# {}\n", site.place));
    list(&mut table, "host", hosts);
    list(&mut table, "listen", listen);
    text(&mut table, "path", site.path.as_ref());
    text(&mut table, "root", site.root.as_ref());
    if site.runs_no_php {
        table.insert("mode", value("fastcgi"));
    }
    if let Some(index) = &site.index {
        table.insert("index", value(array(index.iter().cloned())));
    }
    if site.index_listing {
        table.insert("index_listing", value(true));
    }
    text(&mut table, "charset", site.charset.as_ref());
    if let Some((file, format)) = &site.access_log {
        table.insert("access_log", value(file));
        if format != COMBINED {
            table.insert("access_format", value(format));
        }
    }
    let front = site.front_controller.as_deref().unwrap_or("none");
    table.insert("front_controller", value(front));
    let leftovers: Vec<_> = site.front_controller_for.iter().map(|it| (*it).to_owned()).collect();
    if site.front_controller.is_some() {
        list(&mut table, "front_controller_for", &leftovers);
    }
    list(&mut table, "certificate", &site.certificate);
    list(&mut table, "key", &site.key);
    if site.https_redirect {
        table.insert("https_redirect", value(true));
    }
    if let Some(hsts) = &site.hsts {
        table.insert("hsts", value(hsts.duration()));
        if hsts.subdomains {
            table.insert("hsts_subdomains", value(true));
        }
        if hsts.preload {
            table.insert("hsts_preload", value(true));
        }
    }
    if site.intercept_errors && !site.error_pages.is_empty() {
        table.insert("intercept_errors", value(true));
    }
    let mut entries = |name: &str, entries: &BTreeMap<String, String>| {
        if !entries.is_empty() {
            table.insert(name, value(inline(entries)));
        }
    };
    entries("error_pages", &site.error_pages);
    entries("internal", &site.internal);
    entries("env", &site.env);
    entries("php_value", &site.php_value);
    entries("php_admin_value", &site.php_admin_value);
    let routes: ArrayOfTables = site.routes.iter().map(route).collect();
    if !routes.is_empty() {
        table.insert("route", Item::ArrayOfTables(routes));
    }
    let rules: ArrayOfTables = site.rules.iter().map(rule).collect();
    if !rules.is_empty() {
        table.insert("rule", Item::ArrayOfTables(rules));
    }
    table
}

fn route(route: &Route) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix(format!("\n# {}\n", route.place));
    table.insert("path", value(if route.path.is_empty() { "/" } else { &*route.path }));
    match &route.upstream {
        Some(name) => drop(table.insert("upstream", value(name))),
        // A route that says nothing else is an error; the site has no authorizer anyway.
        None => drop(table.insert("authorizer", value("none"))),
    }
    text(&mut table, "upstream_path", route.upstream_path.as_ref());
    if route.files {
        table.insert("files", value(true));
    }
    table
}

fn rule(rule: &Rule) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix(format!("\n# {}\n", rule.place));
    text(&mut table, "path", rule.scope.path.as_ref());
    text(&mut table, "pattern", rule.scope.pattern.as_ref());
    list(&mut table, "and_pattern", &rule.scope.and);
    list(&mut table, "content_type", &rule.content_types);
    list(&mut table, "except", &rule.except);
    if rule.unless_file {
        table.insert("unless_file", value(true));
    }
    if rule.if_file {
        table.insert("if_file", value(true));
    }
    if !rule.folders_are_files && (rule.unless_file || rule.if_file) {
        table.insert("folders_are_files", value(false));
    }
    text(&mut table, "method", rule.conditions.method.as_ref());
    text(&mut table, "query", rule.conditions.query.as_ref());
    if !rule.conditions.headers.is_empty() {
        table.insert("header", value(inline(&rule.conditions.headers)));
    }
    match &rule.action {
        Some(Action::Redirect { to, status }) => {
            table.insert("redirect", value(to));
            table.insert("status", value(i64::from(*status)));
        }
        Some(Action::Rewrite(to)) => {
            table.insert("rewrite", value(to));
        }
        Some(Action::Refuse { allow, deny, status }) => {
            list(&mut table, "allow", allow);
            list(&mut table, "deny", deny);
            if *status != 403 {
                table.insert("status", value(i64::from(*status)));
            }
        }
        Some(Action::Login(login)) => {
            list(&mut table, "allow", &login.free);
            table.insert("auth_users", value(&login.users));
            text(&mut table, "auth_realm", login.realm.as_ref());
            if !login.free.is_empty() {
                table.insert("satisfy", value("any"));
            }
        }
        None => {}
    }
    list(&mut table, "scripts", &rule.scripts);
    match rule.serve {
        Serve::All => {}
        Serve::Existing => drop(table.insert("serve", value("existing"))),
        Serve::Files => drop(table.insert("serve", value("files"))),
    }
    if let Some(lists) = rule.index_listing {
        table.insert("index_listing", value(lists));
    }
    if let Some(limit) = &rule.limit {
        match &limit.most {
            Most::Rate { rate, burst } => {
                table.insert("rate", value(rate));
                table.insert("burst", value(i64::from(*burst)));
            }
            Most::Connections(most) => drop(table.insert("connections", value(i64::from(*most)))),
        }
        if limit.dry_run {
            table.insert("limit_dry_run", value(true));
        }
    }
    if let Some(bytes) = rule.body {
        table.insert("body", value(i64::try_from(bytes).unwrap_or(i64::MAX).min(1024 << 30)));
    }
    if rule.is_unlogged {
        table.insert("log", value(false));
    }
    let flags =
        [("internal", rule.internal), ("of_answer", rule.of_answer), ("last", rule.is_last)];
    for (name, is_set) in flags {
        if is_set {
            table.insert(name, value(true));
        }
    }
    headers(&mut table, &rule.headers);
    table
}

fn headers(table: &mut Table, headers: &Headers) {
    for (name, fields) in [("set_headers", &headers.set), ("add_headers", &headers.add)] {
        if !fields.is_empty() {
            table.insert(name, value(inline(fields)));
        }
    }
    list(table, "remove_headers", &headers.remove);
    text(table, "cache_control", headers.cache_control.as_ref());
    if let Some(seconds) = headers.expires {
        table.insert("expires", value(format!("{seconds}s")));
    }
    if headers.keeps_own {
        table.insert("keep_own", value(true));
    }
    if headers.always && !headers.is_empty() {
        table.insert("always", value(true));
    }
}

fn text(table: &mut Table, name: &str, text: Option<&String>) {
    if let Some(text) = text {
        table.insert(name, value(text));
    }
}

fn list(table: &mut Table, name: &str, items: &[String]) {
    if !items.is_empty() {
        table.insert(name, value(array(items.iter().cloned())));
    }
}

fn array(items: impl IntoIterator<Item = String>) -> Array {
    items.into_iter().map(Value::from).collect()
}

fn inline(entries: &BTreeMap<String, String>) -> InlineTable {
    entries.iter().map(|(name, text)| (name, Value::from(text))).collect()
}
