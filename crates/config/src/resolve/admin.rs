//! The admin listener.

use super::Reader;
use crate::model::{Admin, AdminAddress};
use crate::option;

impl Reader<'_> {
    /// The admin listener, if there is to be one.
    pub(super) fn admin(&mut self, top: &option::Top) -> Option<Admin> {
        let token = top.admin_token.value.clone();
        let origin = top.admin_token.origin;
        self.check_length("", "admin_token", &top.admin_token);
        let Some(address) = &top.admin.value else {
            if token.is_some() {
                self.report("", "admin_token", origin, "is for `admin`, which is not set".into());
            }
            return None;
        };
        let address = match address {
            AdminAddress::Unix(path) => AdminAddress::Unix(self.absolute(path, top.admin.origin)),
            AdminAddress::Tcp(address) => {
                if !address.ip().is_loopback() && token.is_none() {
                    let problem =
                        format!("{address} can be reached from other machines: set `admin_token`");
                    self.report("", "admin", top.admin.origin, problem);
                }
                AdminAddress::Tcp(*address)
            }
        };
        Some(Admin { address, token })
    }
}
