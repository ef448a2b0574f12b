//! Remembers scripts that were found recently, so that a busy script costs no system call. Missing
//! files are not remembered: a new file must be found immediately.

use std::collections::HashMap;
use std::sync::Arc;

use super::Script;

/// How long a script is assumed to be still there. If it is gone, PHP itself answers "file not
/// found", so a second is harmless, and saves nearly all of the system calls. In nanoseconds.
const FRESH: u64 = 1_000_000_000;
/// Most scripts remembered: more than any application calls by name. Above it, all are forgotten.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Cache {
    scripts: HashMap<Arc<[u8]>, (Script, u64)>,
}

impl Cache {
    pub(super) fn get(&self, name: &[u8], now: u64) -> Option<Script> {
        let (script, found) = self.scripts.get(name)?;
        (now.saturating_sub(*found) < FRESH).then(|| script.clone())
    }

    /// Remembers a script under its path within the site.
    pub(super) fn put(&mut self, path: Arc<[u8]>, script: Script, now: u64) {
        if self.scripts.len() >= MOST && !self.scripts.contains_key(&path) {
            self.scripts.clear();
        }
        self.scripts.insert(path, (script, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(name: &str) -> Script {
        Script::named(std::path::Path::new(name).into(), name.as_bytes())
    }

    #[test]
    fn entries_live_for_a_second() {
        let mut cache = Cache::default();
        let now = tokamak_cost::coarse();
        cache.put(b"/a.php"[..].into(), script("/a.php"), now);
        assert_eq!(cache.get(b"/a.php", now), Some(script("/a.php")));
        assert_eq!(cache.get(b"/a.php", now + FRESH - 1), Some(script("/a.php")));
        assert_eq!(cache.get(b"/a.php", now + FRESH), None);
        assert_eq!(cache.get(b"/b.php", now), None);
        cache.put(b"/a.php"[..].into(), script("/a.php"), now + FRESH);
        assert!(cache.get(b"/a.php", now + FRESH).is_some(), "found again");
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut cache = Cache::default();
        let now = tokamak_cost::coarse();
        for number in 0..3 * MOST {
            let name = format!("/{number}.php");
            cache.put(name.as_bytes().into(), script(&name), now);
            assert!(cache.scripts.len() <= MOST);
        }
        assert!(cache.get(format!("/{}.php", 3 * MOST - 1).as_bytes(), now).is_some());
    }
}
