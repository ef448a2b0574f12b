//! What the boot read that another visitor, or another boot, would find otherwise.

use std::collections::BTreeSet;

use crate::listing::Listing;

/// The kind under which a worker lists them: see `c/boot_reads.c`.
const ROOT: &str = "read at boot";

/// One such read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootRead {
    /// Whether it is the request, the time, random numbers, the environment or a shared cache.
    pub kind: String,
    /// As it stands in the source: `time()`, `$_GET['page']`.
    pub what: String,
    /// The file in which it stands; of a long path only the end.
    pub file: String,
    /// The line.
    pub line: String,
}

/// All of them, by kind.
pub fn boot_reads(listing: &Listing) -> Vec<BootRead> {
    let kinds = listing.root(ROOT).map_or(&[][..], |root| &listing.node(root).children[..]);
    let reads = kinds.iter().flat_map(|kind| {
        let kind = listing.node(*kind);
        kind.children.iter().filter_map(|read| parse(&kind.name, &listing.node(*read).name))
    });
    reads.collect()
}

/// Who holds a persistent connection of the boot, which requests find closed: see
/// `c/persistent.c`. Each once.
pub fn held_connections(listing: &Listing) -> Vec<String> {
    const ROOT: &str = "persistent connections of the boot";
    let holders = listing.root(ROOT).map_or(&[][..], |root| &listing.node(root).children[..]);
    let names: BTreeSet<_> = holders.iter().map(|id| listing.node(*id).name.clone()).collect();
    names.into_iter().collect()
}

fn parse(kind: &str, text: &str) -> Option<BootRead> {
    let (what, place) = text.split_once(" at ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some(BootRead {
        kind: kind.to_owned(),
        what: what.to_owned(),
        file: file.to_owned(),
        line: line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_listed_with_their_kind_and_place() {
        let text = "-1\t0\t0\t0\t-\tr\tread at boot\n\
            0\t0\t0\t0\t-\tp\ttime\n\
            1\t0\t0\t0\t-\tp\tnew DateTime at /srv/my shop/a:b.php:12\n";
        let listing = Listing::read(text.as_bytes()).unwrap();
        let place = ("/srv/my shop/a:b.php", "12");
        let [read] = &boot_reads(&listing)[..] else { panic!("one read") };
        assert_eq!((&read.kind[..], &read.what[..]), ("time", "new DateTime"));
        assert_eq!((&read.file[..], &read.line[..]), place);
        assert_eq!(boot_reads(&Listing::default()), []);
    }

    #[test]
    fn a_holder_of_connections_is_listed_once() {
        let text = "-1\t0\t0\t0\t-\tr\tpersistent connections of the boot\n\
            0\t8\t0\t0\t-\tp\tan object of the class PDO\n\
            0\t8\t0\t0\t-\tp\tan object of the class PDO\n";
        let listing = Listing::read(text.as_bytes()).unwrap();
        assert_eq!(held_connections(&listing), ["an object of the class PDO"]);
    }
}
