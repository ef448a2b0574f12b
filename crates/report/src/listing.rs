//! What a worker holds at one moment: a forest of named things, as `c/heap_dump.c` writes it.

use std::collections::HashMap;

/// Root of the numbers of the heaps.
pub const MEMORY: &str = "memory";
const HEAP: &str = "PHP heap";

/// How a name continues its parent's path; the letters of `c/heap_dump.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Style {
    /// A kind of things.
    #[default]
    Root,
    /// As it stands.
    Plain,
    /// A global variable, or one that a closure has bound.
    Variable,
    /// A property of an object.
    Property,
    /// A static property of a class.
    Static,
    /// A key of an array.
    Key,
    /// A number in an array.
    Index,
    /// A function.
    Function,
    /// A function of a class.
    Method,
    /// A variable of a function.
    Local,
}

impl Style {
    fn from_letter(letter: &str) -> Option<Style> {
        Some(match letter {
            "r" => Style::Root,
            "p" => Style::Plain,
            "v" => Style::Variable,
            "o" => Style::Property,
            "s" => Style::Static,
            "k" => Style::Key,
            "i" => Style::Index,
            "f" => Style::Function,
            "m" => Style::Method,
            "l" => Style::Local,
            _ => return None,
        })
    }
}

/// One thing.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Where it belongs; a root has none.
    pub parent: Option<usize>,
    /// How its name continues its parent's path.
    pub style: Style,
    /// Its name there.
    pub name: String,
    /// Own bytes, without what it leads to.
    pub size: u64,
    /// Equal as long as its own content is.
    pub digest: u64,
    /// Its number among PHP's objects; 0: it is none.
    pub handle: u32,
    /// It contains what only a request can have brought.
    pub foreign: bool,
    /// What it leads to.
    pub children: Vec<usize>,
    /// [`Node::size`] of it and all below.
    pub total: u64,
    /// [`Node::digest`] of it and all below.
    pub whole: u64,
    /// [`Node::foreign`], of it or anything below.
    pub any_foreign: bool,
}

/// All there is at one moment.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    nodes: Vec<Node>,
}

impl Listing {
    /// Reads a worker's answer; [`None`]: it is not one.
    pub fn read(text: &[u8]) -> Option<Listing> {
        let mut listing = Listing::default();
        for line in String::from_utf8_lossy(text).lines() {
            let mut fields = line.splitn(7, '\t');
            let parent: i64 = fields.next()?.parse().ok()?;
            let size = fields.next()?.parse().ok()?;
            let digest = u64::from_str_radix(fields.next()?, 16).ok()?;
            let handle = fields.next()?.parse().ok()?;
            let foreign = fields.next()? == "t";
            let style = Style::from_letter(fields.next()?)?;
            let parent = usize::try_from(parent).ok();
            let id = listing.push(parent, style, fields.next()?)?;
            listing.nodes[id] =
                Node { size, digest, handle, foreign, ..std::mem::take(&mut listing.nodes[id]) };
        }
        listing.sum_up();
        Some(listing)
    }

    /// Adds a kind of things.
    pub fn add_root(&mut self, name: &str) -> usize {
        self.push(None, Style::Root, name).expect("a root has no parent")
    }

    /// Adds a thing below a root. After the last one, [`Listing::sum_up`].
    pub fn add(&mut self, root: usize, name: &str, size: u64, content: &str) {
        let digest = content.bytes().fold(1, |sum, byte| mix(sum, byte.into()));
        if let Some(id) = self.push(Some(root), Style::Plain, name) {
            (self.nodes[id].size, self.nodes[id].digest) = (size, digest);
        }
    }

    fn push(&mut self, parent: Option<usize>, style: Style, name: &str) -> Option<usize> {
        let id = self.nodes.len();
        if let Some(parent) = parent {
            self.nodes.get_mut(parent)?.children.push(id);
        }
        self.nodes.push(Node { parent, style, name: name.to_owned(), ..Node::default() });
        Some(id)
    }

    /// Makes the sums true again. Parents stand before their children, so the last ones come first
    /// here.
    pub fn sum_up(&mut self) {
        for node in &mut self.nodes {
            (node.total, node.whole, node.any_foreign) = (node.size, node.digest, node.foreign);
        }
        for id in (0..self.nodes.len()).rev() {
            let node = &self.nodes[id];
            let name = node.name.bytes().fold(node.style as u64, |sum, byte| mix(sum, byte.into()));
            let (total, whole, foreign) = (node.total, mix(name, node.whole), node.any_foreign);
            if let Some(parent) = node.parent {
                let parent = &mut self.nodes[parent];
                parent.total += total;
                // A sum: the order of things is no difference.
                parent.whole = parent.whole.wrapping_add(whole);
                parent.any_foreign |= foreign;
            }
        }
    }

    /// How many things it names.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// One of them.
    pub fn node(&self, id: usize) -> &Node {
        &self.nodes[id]
    }

    /// The kinds of things.
    pub fn roots(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|id| self.nodes[*id].parent.is_none())
    }

    /// The kind with this name.
    pub fn root(&self, name: &str) -> Option<usize> {
        self.roots().find(|id| self.nodes[*id].name == name)
    }

    /// What a node leads to, by name.
    pub fn children(&self, id: usize) -> HashMap<(Style, &str), usize> {
        let children = self.nodes[id].children.iter();
        children
            .map(|child| ((self.nodes[*child].style, &self.nodes[*child].name[..]), *child))
            .collect()
    }

    /// Bytes that PHP's memory manager has given out.
    pub fn heap(&self) -> u64 {
        let heap = self
            .root(MEMORY)
            .and_then(|root| self.children(root).get(&(Style::Plain, HEAP)).copied());
        heap.map_or(0, |id| self.nodes[id].size)
    }

    /// The kind of a thing, and its name as a PHP developer would write it.
    pub fn path(&self, id: usize) -> (String, String) {
        let node = &self.nodes[id];
        let Some(parent) = node.parent else { return (node.name.clone(), String::new()) };
        let (kind, before) = self.path(parent);
        let name = &node.name;
        let path = match node.style {
            Style::Root | Style::Plain if before.is_empty() => name.clone(),
            Style::Root | Style::Plain => format!("{before} {name}"),
            Style::Variable if before.is_empty() => format!("${name}"),
            Style::Variable => format!("{before} use ${name}"),
            Style::Property => format!("{before}->{name}"),
            Style::Static => format!("{before}::${name}"),
            Style::Key => format!("{before}['{name}']"),
            Style::Index => format!("{before}[{name}]"),
            Style::Function => format!("{name}()"),
            Style::Method => format!("{before}::{name}()"),
            Style::Local => format!("{before} ${name}"),
        };
        (kind, path)
    }
}

fn mix(sum: u64, value: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Not the same for both: equal ones would make nothing of each other.
    (sum.wrapping_mul(ODD) ^ value).rotate_left(29).wrapping_mul(ODD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-1\t0\t0\t0\t-\tr\tglobals\n\
        -1\t0\t0\t0\t-\tr\tmemory\n\
        1\t4096\t0\t0\t-\tp\tPHP heap\n\
        0\t100\ta\t1\t-\tv\tkernel\n\
        3\t50\tb\t2\t-\to\tcontainer\n\
        4\t30\tc\t3\tt\tk\tlogger\n";

    #[test]
    fn sums_and_paths() {
        let listing = Listing::read(TEXT.as_bytes()).unwrap();
        assert_eq!(listing.path(5), ("globals".into(), "$kernel->container['logger']".into()));
        assert_eq!(
            (listing.node(3).total, listing.node(0).total, listing.heap()),
            (180, 180, 4096)
        );
        assert!(
            listing.node(0).any_foreign && !listing.node(3).foreign && !listing.node(2).any_foreign
        );
    }

    #[test]
    fn the_order_of_things_is_no_difference() {
        let whole = |order: [&str; 2]| {
            let mut listing = Listing::default();
            let root = listing.add_root("process");
            for name in order {
                listing.add(root, name, 1, name);
            }
            listing.sum_up();
            listing.node(root).whole
        };
        assert_eq!(whole(["a", "b"]), whole(["b", "a"]));
        assert_ne!(whole(["a", "b"]), whole(["a", "c"]));
    }

    #[test]
    fn nonsense_is_no_listing() {
        for text in [
            "x",
            "-1\t0\t0\t0\t-\tr",
            "7\t0\t0\t0\t-\tp\tchild of nobody",
            "-1\t0\t0\t0\t-\tz\tname",
            "!",
        ] {
            assert!(Listing::read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
