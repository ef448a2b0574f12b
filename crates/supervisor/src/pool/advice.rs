//! What the log says at start about a configuration that works, but not as it was meant.

use tokamak_config::{Mode, Site};

/// What is missing from this site.
pub fn for_site(site: &Site) -> Option<&'static str> {
    let is_empty = site.mode == Mode::Sealed && site.worker.is_none() && site.boot.is_none();
    is_empty.then_some(
        "sealed mode with neither worker nor boot is no faster than classic mode: set one of them \
            to the script \
         that boots the application",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn sealed_mode_without_boot_gets_an_advice() {
        let mut site = crate::settings::tests::server(Path::new("/srv/site")).sites.remove(0);
        assert_eq!(for_site(&site), None);
        site.mode = Mode::Sealed;
        assert!(for_site(&site).unwrap().contains("no faster than classic mode"));
        site.boot = Some("/srv/site/boot.php".into());
        assert_eq!(for_site(&site), None);
    }
}
