//! Settings of PHP as servers hand them to php-fpm: `PHP_VALUE` and `PHP_ADMIN_VALUE`.

use crate::model::Site;
use crate::note::Notes;
use crate::source::Place;

/// Adds the settings of a text, one a line.
pub(crate) fn add(notes: &mut Notes, place: &Place, text: &str, is_admin: bool, site: &mut Site) {
    for line in text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once('=') else {
            notes.left(place, line, "no setting of PHP");
            continue;
        };
        let (name, value) = (name.trim().to_owned(), value.trim().trim_matches('"'));
        if value.contains(['$', '{']) {
            let reason = "variables are not translated; write the value into `php_admin_value`";
            notes.left(place, line, reason);
            continue;
        }
        let (table, other) = match is_admin {
            true => (&mut site.php_admin_value, &mut site.php_value),
            false => (&mut site.php_value, &mut site.php_admin_value),
        };
        // `tokamak check` wants one of them; that which scripts cannot change counts.
        match is_admin {
            true => drop(other.remove(&name)),
            false if other.contains_key(&name) => continue,
            false => {}
        }
        let value = value.to_owned();
        if table.insert(name, value.clone()).is_some_and(|before| before != value) {
            let reason = "another location has another value; a site has one";
            notes.differs(place, line, reason);
        }
    }
}
