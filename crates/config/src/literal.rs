//! A value as it was typed, before anybody knows which type it should have. It hides from the
//! option types whether the value came from a TOML file or was a bare word of the command line or
//! environment.

use toml_edit::{Item, Value};

/// A value as typed.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// From the command line, the environment or the table of defaults: any type may read it.
    Word(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML float.
    Float(f64),
    /// A TOML boolean.
    Boolean(bool),
    /// A TOML array.
    List(Vec<Literal>),
    /// A TOML table. Tables inside it are part of the names: `opcache.enable = 1` is the entry
    /// `opcache.enable`.
    Table(Vec<KeyValue>),
    /// Something that no option takes, by its name.
    Other(&'static str),
}

/// One entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValue {
    /// Dotted name.
    pub name: String,
    /// Byte offset in the file.
    pub offset: Option<usize>,
    /// What it is set to; never a table.
    pub value: Literal,
}

impl Literal {
    /// The literal of a parsed item.
    pub fn of(item: &Item) -> Literal {
        if let Some(table) = item.as_table_like() {
            return Literal::of_table(table);
        }
        match item {
            Item::Value(value) => Literal::of_value(value),
            Item::ArrayOfTables(_) => Literal::Other("a list of tables"),
            Item::None | Item::Table(_) => Literal::Other("nothing"),
        }
    }

    fn of_table(table: &dyn toml_edit::TableLike) -> Literal {
        let mut entries = Vec::new();
        flatten(table, "", &mut entries);
        Literal::Table(entries)
    }

    fn of_value(value: &Value) -> Literal {
        match value {
            Value::String(text) => Literal::Text(text.value().clone()),
            Value::Integer(number) => Literal::Integer(*number.value()),
            Value::Float(number) => Literal::Float(*number.value()),
            Value::Boolean(flag) => Literal::Boolean(*flag.value()),
            Value::Array(array) => Literal::List(array.iter().map(Literal::of_value).collect()),
            Value::Datetime(_) => Literal::Other("a date"),
            Value::InlineTable(table) => Literal::of_table(table),
        }
    }

    /// What it is, for "must be a size, not a list".
    pub fn sort(&self) -> String {
        match self {
            Literal::Word(text) | Literal::Text(text) => format!("`{text}`"),
            Literal::Integer(number) => format!("`{number}`"),
            Literal::Float(number) => format!("`{number}`"),
            Literal::Boolean(flag) => format!("`{flag}`"),
            Literal::List(_) | Literal::Table(_) | Literal::Other(_) => self.noun().into(),
        }
    }

    /// The same without the value, which may be a secret.
    pub fn noun(&self) -> &'static str {
        match self {
            Literal::Word(_) | Literal::Text(_) => "a text",
            Literal::Integer(_) | Literal::Float(_) => "a number",
            Literal::Boolean(_) => "a boolean",
            Literal::List(_) => "a list",
            Literal::Table(_) => "a table",
            Literal::Other(sort) => sort,
        }
    }
}

fn flatten(table: &dyn toml_edit::TableLike, prefix: &str, entries: &mut Vec<KeyValue>) {
    for (name, item) in table.iter() {
        let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Some(inner) = item.as_table_like() {
            flatten(inner, &full, entries);
        } else {
            let offset = table.key(name).and_then(|key| key.span()).map(|span| span.start);
            entries.push(KeyValue { name: full, offset, value: Literal::of(item) });
        }
    }
}
