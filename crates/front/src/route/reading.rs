//! For which pages a request could be, judged by its path alone: before anything is looked for on
//! the disk, as limits want it.

use smallvec::SmallVec;

use super::{Router, is_below, path};
use tokamak_config::Split;

/// A path that an application, or this server, could read in the one of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The path within the site.
    pub path: Vec<u8>,
    /// Whether the front controller reads it so: then it is the page of this path.
    pub is_of_front_controller: bool,
}

/// What can be read in a path. Most paths have nothing in them.
pub type Readings = SmallVec<[Reading; 1]>;

impl Router {
    /// What else could be read in a [clean] path: what follows the name of a script, from the root
    /// and from the folder of the script, because a framework serves `/login` for
    /// `/index.php/login`, too; and the index files of a folder.
    ///
    /// [clean]: super::clean
    pub fn readings(&self, clean: &[u8]) -> Readings {
        let mut readings = Readings::new();
        let mut add = |path: Vec<u8>, is_of_front_controller| {
            readings.push(Reading { path, is_of_front_controller });
        };
        if clean.ends_with(b"/") {
            self.index.iter().for_each(|name| add([clean, name.as_bytes()].concat(), false));
        }
        let route = self.routes.iter().find(|route| is_below(clean, &route.path));
        let extension = route.and_then(|route| match &route.split {
            Split::Extension(extension) => Some(extension.as_bytes()),
            _ => None,
        });
        let of_route =
            extension.into_iter().flat_map(|extension| path::extension_ends(clean, extension));
        for end in path::script_ends(clean).chain(of_route) {
            let (name, info) = clean.split_at(end);
            if info.is_empty() {
                continue;
            }
            let is_front_controller = self.front_controller.as_deref() == Some(name);
            add(info.to_vec(), is_front_controller);
            if let Some(folder @ 1..) = memchr::memrchr(b'/', name) {
                add([&name[..folder], info].concat(), is_front_controller);
            }
        }
        readings
    }
}
