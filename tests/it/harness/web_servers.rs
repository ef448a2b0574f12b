//! Apache and lighttpd in front of a FastCGI socket, set up as their manuals say.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::peer::installed;
use super::process::Process;
use super::setup::{Places, is_root};

/// Apache with mod_proxy_fcgi, which keeps its connections.
pub(super) fn start_apache(places: &Places, socket: &Path, address: SocketAddr) -> Process {
    let (top, root) = (places.top().display(), places.root());
    let (root, socket) = (root.display(), socket.display());
    let user = if is_root() { "User www-data\nGroup www-data" } else { "" };
    let modules: String = ["mpm_event", "authz_core", "dir", "mime", "proxy", "proxy_fcgi"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let text = format!(
        r#"{modules}ServerRoot "{top}"
PidFile "{top}/apache.pid"
DefaultRuntimeDir "{top}"
ErrorLog "{log}"
LogLevel warn
ServerName localhost
Listen {address}
MaxKeepAliveRequests 0
TypesConfig /etc/mime.types
{user}
StartServers 1
MinSpareThreads 1
DocumentRoot "{root}"
<Directory "{root}">
  AllowOverride None
  Require all granted
</Directory>
DirectoryIndex index.php index.html
<FilesMatch "\.php$">
  SetHandler "proxy:unix:{socket}|fcgi://localhost"
</FilesMatch>
<Proxy "fcgi://localhost" enablereuse=on max=8>
</Proxy>
"#,
        log = places.log().display()
    );
    let configuration = places.top().join("apache.conf");
    fs::write(&configuration, text).unwrap();
    let arguments = ["-f", configuration.to_str().unwrap(), "-DFOREGROUND"].map(String::from);
    Process::start(&installed("apache2"), &arguments, &[], &places.log())
}

/// lighttpd, which closes each connection.
pub(super) fn start_lighttpd(places: &Places, socket: &Path, address: SocketAddr) -> Process {
    let (root, state) = (places.root(), places.state());
    let (root, state, socket) = (root.display(), state.display(), socket.display());
    let user = if is_root() {
        "server.username = \"www-data\"\nserver.groupname = \"www-data\""
    } else {
        ""
    };
    let text = format!(
        r#"server.modules = ("mod_fastcgi")
server.bind = "{ip}"
server.port = {port}
server.document-root = "{root}"
server.upload-dirs = ("{state}")
index-file.names = ("index.php", "index.html")
static-file.exclude-extensions = (".php")
fastcgi.server = (".php" => (("socket" => "{socket}")))
{user}
"#,
        ip = address.ip(),
        port = address.port()
    );
    let configuration = places.top().join("lighttpd.conf");
    fs::write(&configuration, text).unwrap();
    let arguments = ["-D", "-f", configuration.to_str().unwrap()].map(String::from);
    Process::start(&installed("lighttpd"), &arguments, &[], &places.log())
}
