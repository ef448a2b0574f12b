//! The files for TLS towards applications: read here, because the front may not, and given to each
//! front when it starts.

use tokamak_config::{Protocol, Server, Upstream, UpstreamTls};
use tokamak_tls::ClientFiles;

use crate::certificates::{read_authorities, read_pair};

/// The files of each application of a configuration, in its order.
///
/// # Errors
/// Fails with the first file that cannot be used.
pub fn read(server: &Server) -> Result<Vec<ClientFiles>, String> {
    let named = |upstream: &Upstream| {
        files_of(upstream).map_err(|problem| format!("upstream {}: {problem}", upstream.name))
    };
    server.upstreams.iter().map(named).collect()
}

fn files_of(upstream: &Upstream) -> Result<ClientFiles, String> {
    let Protocol::Http(proxy) = &upstream.protocol else { return Ok(ClientFiles::default()) };
    let Some(UpstreamTls { ca, certificate, .. }) = &proxy.tls else {
        return Ok(ClientFiles::default());
    };
    Ok(ClientFiles {
        authorities: ca.as_deref().map(read_authorities).transpose()?,
        pair: certificate.as_ref().map(read_pair).transpose()?,
    })
}
