//! Apache: sections of folders, paths and names of files, and `.htaccess` files in folders.
//!
//! A later or inner section may open what an outer one closes. Here rules add up, so what is
//! refused anywhere is refused.

mod access;
mod alias;
mod area;
mod condition;
mod denied;
mod directory;
mod expression;
mod field;
mod flags;
mod folder;
mod handler;
mod if_section;
mod lines;
mod listing;
mod log;
mod login;
mod name;
mod overriding;
mod parse;
mod proxy;
mod public_folder;
mod reach;
mod redirect;
mod remote;
mod rewrite;
mod rewriting;
mod section;
mod service;
mod setting;
#[cfg(test)]
mod tests;
mod unseen;
mod value;

use std::path::{Path, PathBuf};

use crate::directive::Directive;
use crate::model::{Description, Listen, Moved, Rule, Scope, Serve, Site};
use crate::note::Notes;
use crate::source::{Disk, Place, Unreadable};
use crate::validity;
use area::Area;
use folder::plain;
use login::{Changed, Settings};
use overriding::Overriding;
use proxy::Services;
use public_folder::PublicFolder;
use remote::Naming;
use unseen::Unseen;

/// Reads a configuration of Apache.
pub(crate) fn read(
    file: &Path,
    prefix: Option<&Path>,
    disk: &dyn Disk,
    notes: &mut Notes,
) -> Result<Description, Unreadable> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let prefix = prefix.map_or_else(|| prefix_of(&absolute, disk), Path::to_owned);
    let directives = parse::load(file, &prefix, disk)?;
    let mut description = Description::default();
    let naming = remote::naming(&directives);
    let hides_clients = naming == Naming::Unknown;
    if let Naming::Proxies(proxies) = naming {
        description.trusted_proxies = proxies;
        description.names_by_field = true;
    }
    let server_root = directives.iter().rfind(|it| it.name == "serverroot");
    let server_root = server_root.map_or(prefix.clone(), |root| prefix.join(root.arg(0)));
    let mut reader = Reader {
        description,
        disk,
        prefix,
        server_root,
        hides_clients,
        has_other_provider: login::has_other_provider(&directives),
        settings: Settings::default(),
        changed: Vec::new(),
        unexpired: Vec::new(),
        late: Vec::new(),
        setters: Vec::new(),
        of_server: Vec::new(),
        unseen: Unseen::default(),
        public_folder: None,
        services: Services::default(),
        notes,
    };
    let is_folder = absolute.file_name().is_some_and(|name| name == ".htaccess");
    match is_folder {
        true => reader.folder(&absolute, &directives),
        false => {
            reader.alone(&absolute);
            reader.main(file, &directives);
        }
    }
    Ok(reader.description)
}

/// The directory of the main file above a file.
fn prefix_of(file: &Path, disk: &dyn Disk) -> PathBuf {
    let main = main_of(file, disk);
    let main = main.as_deref().unwrap_or(file);
    main.parent().unwrap_or(Path::new("/")).to_owned()
}

/// The main file of the server to which a file belongs, by its usual names.
fn main_of(file: &Path, disk: &dyn Disk) -> Option<PathBuf> {
    let names = |folder: &Path| ["apache2.conf", "httpd.conf"].map(|name| folder.join(name));
    file.ancestors().skip(1).flat_map(names).find(|name| disk.is_file(name))
}

struct Reader<'a> {
    description: Description,
    disk: &'a dyn Disk,
    prefix: PathBuf,
    /// Where names of files of users start.
    server_root: PathBuf,
    /// Whether a proxy names the clients, so that its own address would be taken for theirs.
    hides_clients: bool,
    /// Whether passwords may be asked of something else than files.
    has_other_provider: bool,
    /// What the sections around say of passwords.
    settings: Settings,
    /// What sections of the site say of passwords without asking for one.
    changed: Vec<Changed>,
    /// Where `ExpiresActive Off` holds, in a part of the site.
    unexpired: Vec<Scope>,
    /// Redirects of folders, with the path under which their site is mounted.
    late: Vec<(Option<String>, Rule)>,
    /// What gives variables by what a request carries, in the site that is read.
    setters: Vec<Directive>,
    /// Where those of them stand that are for all of the server.
    of_server: Vec<Place>,
    /// What the rewrites of folders do not see, in the site that is read.
    unseen: Unseen,
    /// Where all paths are led in the site that is read, and not in its mounted folders.
    public_folder: Option<PublicFolder>,
    /// What leads to services in the site that is read.
    services: Services,
    notes: &'a mut Notes,
}

impl Reader<'_> {
    /// An `.htaccess`: the folder becomes a site.
    fn folder(&mut self, file: &Path, directives: &[Directive]) {
        let mut site = Site::new(Place::start(file));
        site.root = file.parent().map(|root| plain(&root.to_string_lossy()));
        let above = file.ancestors().skip(2).map(|folder| folder.join(".htaccess"));
        if let Some(other) = above.into_iter().find(|other| self.disk.is_file(other)) {
            let reason = format!("{} holds for this folder, too, and is not read", other.display());
            self.notes.left(&site.place, "", reason);
        }
        self.use_public_folder(Some(directives), &[], &mut site);
        if let Some(root) = &site.root {
            self.find_rewriting(root, &[], &Overriding::anywhere(), &site);
        }
        match self.public_folder.is_some() {
            true => self.around_public_folder(&mut site),
            false => {
                self.directives(directives, &Area::folder(Scope::default(), "/"), &mut site);
            }
        }
        if let Some(root) = site.root.clone() {
            // Apache reads those of the folders below it in the same way.
            let is_other = |other: &Path| other != file;
            self.overrides(&root, &is_other, &mut site);
        }
        self.conclude(&mut site);
        self.description.sites.push(site);
    }

    /// The file of one site: what the main file says of all sites is not in it.
    fn alone(&mut self, file: &Path) {
        if let Some(main) = main_of(file, self.disk).filter(|main| main != file) {
            let reason = format!(
                "what {} says of all sites, as of AllowOverride and of who may see a folder, is \
                not read; import that file instead",
                main.display()
            );
            self.notes.left(&Place::start(file), "", reason);
        }
    }

    fn main(&mut self, file: &Path, directives: &[Directive]) {
        let is_site = |it: &&Directive| it.name == "virtualhost";
        let rest: Vec<Directive> = directives.iter().filter(|it| !is_site(it)).cloned().collect();
        let has_root = |all: &[Directive]| all.iter().any(|it| it.name == "documentroot");
        let sites: Vec<&Directive> = directives.iter().filter(is_site).collect();
        if sites.is_empty() || has_root(&rest) {
            self.site(&Place::start(file), &[], &rest, &[]);
        }
        for site in sites {
            // What stands around all sites holds in each.
            self.site(&site.place, &site.args, site.inner(), &rest);
        }
    }

    fn site(
        &mut self,
        place: &Place,
        addresses: &[String],
        own: &[Directive],
        around: &[Directive],
    ) {
        let mut site = Site::new(place.clone());
        let all: Vec<Directive> = around.iter().chain(own).cloned().collect();
        let has = |name: &str, value: &str| {
            own.iter().any(|it| it.name == name && it.arg(0).eq_ignore_ascii_case(value))
        };
        let tls = has("sslengine", "on");
        for address in addresses {
            let address = match address.as_str() {
                text if text.starts_with("_default_:") => text.replacen("_default_", "*", 1),
                text => text.to_owned(),
            };
            match listen(&address) {
                Some(address) => {
                    let own = bound(&address, around).into_iter();
                    site.listen.extend(own.map(|address| Listen {
                        address,
                        tls,
                        proxy_protocol: false,
                    }));
                }
                None if matches!(&*address, "*" | "_default_") => {
                    self.notes.left(place, &address, "only addresses with a port");
                }
                None => {
                    let reason = "only addresses with a port are translated, and on others the \
                        site may not be served, so it is left out";
                    self.notes.refused(place, &address, reason);
                    return;
                }
            }
        }
        for directive in own {
            match &*directive.name {
                "servername" | "serveralias" => self.names(directive, &mut site),
                _ => {}
            }
        }
        if site.hosts.is_empty() && own.iter().any(|it| it.name == "servername") {
            self.notes.refused(place, "", "none of its names is translated, so it is left out");
            return;
        }
        for directive in &all {
            match &*directive.name {
                "documentroot" => site.root = Some(self.directory(directive.arg(0))),
                "sslcertificatefile" => site.certificate = vec![self.path(directive.arg(0))],
                "sslcertificatekeyfile" => site.key = vec![self.path(directive.arg(0))],
                _ => {}
            }
        }
        self.access_log(own, around, &mut site);
        self.use_public_folder(None, &all, &mut site);
        self.mounts(&all, &mut site);
        self.hands_scripts(&all, &mut site);
        self.services(around, own, &mut site);
        if let Some(moved) = self.moved(own, &site) {
            site.moved = Some(moved);
            self.description.sites.push(site);
            return;
        }
        self.directives(&all, &Area::server(), &mut site);
        self.conclude(&mut site);
        // A file with nothing but folders that are mounted, as packages bring.
        if site.root.is_none() && !site.mounts.is_empty() {
            self.description.sites.append(&mut site.mounts);
            return;
        }
        self.description.sites.push(site);
    }

    fn names(&mut self, directive: &Directive, site: &mut Site) {
        for name in &directive.args {
            let name = name.rsplit("://").next().unwrap_or(name);
            let name = name.split(':').next().unwrap_or(name);
            match validity::host(name) {
                Some(host) if !site.hosts.contains(&host) => site.hosts.push(host),
                Some(_) => {}
                None => {
                    let reason = "no name that is translated: only names, and `*.name`";
                    self.notes.left(&directive.place, name, reason);
                }
            }
        }
    }

    /// `Alias`: a folder that lies elsewhere is a site that is mounted.
    fn mounts(&mut self, directives: &[Directive], site: &mut Site) {
        for directive in directives.iter().filter(|it| it.name == "alias") {
            let path = directive.arg(0).trim_end_matches('/').to_owned();
            let folder = self.directory(directive.arg(1));
            if path.is_empty() || folder == "/" || self.disk.is_file(Path::new(&folder)) {
                let reason = "only a folder can lie elsewhere, so these paths are refused";
                self.notes.refused(&directive.place, &directive.line(), reason);
                let scope = Scope::path(directive.arg(0));
                site.rules.push(Rule::at(&directive.place, scope).refuse_all(404));
                continue;
            }
            let mut mount = Site::new(directive.place.clone());
            mount.path = Some(path);
            mount.root = Some(folder);
            site.mounts.push(mount);
        }
    }

    /// A site that only redirects to another one.
    fn moved(&mut self, own: &[Directive], site: &Site) -> Option<Moved> {
        if site.applications().next().is_some() {
            return None;
        }
        let redirect = own.iter().find(|it| it.name == "redirect")?;
        let (status, from, to) = match &redirect.args[..] {
            [from, to] => (302, from, to),
            [status, from, to] => (value::redirect_status(status)?, from, to),
            _ => return None,
        };
        if from != "/" {
            return None;
        }
        let (scheme, host) = to.split_once("://")?;
        let host = host.trim_end_matches('/');
        if host.contains(['/', '%', '$']) {
            return None;
        }
        match scheme {
            "https" if site.hosts == [host.to_owned()] => Some(Moved::Secure),
            "https" => Some(Moved::Host { scheme: "https", host: host.to_owned(), status }),
            "http" => Some(Moved::Host { scheme: "http", host: host.to_owned(), status }),
            _ => None,
        }
    }

    /// What holds for each site of Apache, if nothing else is said.
    fn conclude(&mut self, site: &mut Site) {
        self.setters.clear();
        self.of_server.clear();
        self.write_redirects(site);
        self.settle_public_folder(site);
        self.write_lifetimes(site);
        self.write_logins(site);
        self.write_expiry(site);
        listing::refuse_unlisted(site);
        site.mounts.iter_mut().for_each(listing::refuse_unlisted);
        self.refuse_unlisted(site);
        self.lead_on(site);
        for mount in &mut site.mounts {
            self.refuse_unlisted(mount);
            self.lead_on(mount);
        }
        let everything = Scope::default();
        let place = site.place.clone();
        // Debian's and Apache's own configurations have this for all folders.
        let hidden = Scope::pattern("/\\.ht");
        let has_fallback = site.rules.iter().any(|rule| rule.unless_file);
        site.rules.push(Rule::at(&place, hidden.clone()).refuse_all(403));
        if site.front_controller.is_none() && !has_fallback {
            site.rules.push(Rule::at(&place, everything.clone()).serve(Serve::Existing));
        }
        for mount in &mut site.mounts {
            let place = mount.place.clone();
            mount.rules.push(Rule::at(&place, hidden.clone()).refuse_all(403));
            if mount.front_controller.is_none() && mount.rules.iter().all(|it| !it.unless_file) {
                mount.rules.push(Rule::at(&place, everything.clone()).serve(Serve::Existing));
            }
        }
        self.leave_out_services(site);
    }

    fn path(&self, name: &str) -> String {
        self.prefix.join(name).to_string_lossy().into_owned()
    }

    fn directory(&self, name: &str) -> String {
        plain(&self.path(name))
    }
}

/// The addresses on which a site is reached that is for all addresses of a port: those of `Listen`.
fn bound(address: &str, around: &[Directive]) -> Vec<String> {
    let whole = || vec![address.to_owned()];
    let Some(port) = address.strip_prefix(':') else { return whole() };
    let listens = around.iter().filter(|it| it.name == "listen").map(|it| it.arg(0));
    let of_port = listens.filter(|own| own.rsplit(':').next() == Some(port));
    let bound: Option<Vec<String>> = of_port
        .map(|own| own.parse::<std::net::SocketAddr>().ok().filter(|it| !it.ip().is_unspecified()))
        .map(|own| own.map(|address| address.to_string()))
        .collect();
    bound.filter(|bound| !bound.is_empty()).unwrap_or_else(whole)
}

/// An address of `<VirtualHost>` as that of `tokamak.toml`.
fn listen(text: &str) -> Option<String> {
    match text.strip_prefix("*:") {
        Some(port) => port.parse::<u16>().ok().map(|port| format!(":{port}")),
        None => text.parse::<std::net::SocketAddr>().ok().map(|address| address.to_string()),
    }
}
