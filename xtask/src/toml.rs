//! A reader for the part of TOML that this project's files use.
//!
//! Read: comments, `[table]`, `[[array of tables]]`, dotted and quoted keys, basic and literal
//! strings, basic multi-line strings, integers, floats, booleans, arrays over several lines, inline
//! tables. Not read (an error, never a wrong value): dates, `'''` strings, numbers in hex, octal or
//! binary, `inf` and `nan`. A key given twice is an error.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::cursor::Cursor;

/// A table: keys to values, sorted.
pub(crate) type Table = BTreeMap<String, Value>;

/// One TOML value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Value>),
    Table(Table),
}

impl Value {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn as_table(&self) -> Option<&Table> {
        match self {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}

/// Reads a TOML file.
pub(crate) fn read(path: &Path) -> Result<Table> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

/// Reads a TOML text.
pub(crate) fn parse(text: &str) -> Result<Table> {
    let mut cursor = Cursor::new(text);
    let mut document = Table::new();
    let mut here: Vec<String> = Vec::new();
    loop {
        skip_lines(&mut cursor);
        if cursor.peek().is_none() {
            return Ok(document);
        }
        if cursor.eat("[[") {
            here = key_path(&mut cursor)?;
            cursor.expect("]]")?;
            open_array_item(&mut document, &here)?;
        } else if cursor.eat("[") {
            here = key_path(&mut cursor)?;
            cursor.expect("]")?;
            open(&mut document, &here)?;
        } else {
            let table = open(&mut document, &here)?;
            key_value(&mut cursor, table)?;
        }
        end_of_line(&mut cursor)?;
    }
}

fn skip_blanks(cursor: &mut Cursor<'_>) {
    cursor.take_while(|c| c == ' ' || c == '\t');
}

/// Skips white space, line ends and comments.
fn skip_lines(cursor: &mut Cursor<'_>) {
    loop {
        cursor.take_while(char::is_whitespace);
        if !cursor.eat("#") {
            return;
        }
        cursor.take_while(|c| c != '\n');
    }
}

fn end_of_line(cursor: &mut Cursor<'_>) -> Result<()> {
    skip_blanks(cursor);
    if cursor.eat("#") {
        cursor.take_while(|c| c != '\n');
    }
    cursor.eat("\r");
    match cursor.peek() {
        None | Some('\n') => Ok(()),
        Some(_) => Err(cursor.error("the end of the line")),
    }
}

/// Walks to the table named by `path`, making what is missing; an array of tables means its last one.
fn open<'t>(table: &'t mut Table, path: &[String]) -> Result<&'t mut Table> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(table);
    };
    let value = table
        .entry(first.clone())
        .or_insert_with(|| Value::Table(Table::new()));
    match value {
        Value::Table(inner) => open(inner, rest),
        Value::Array(items) => match items.last_mut() {
            Some(Value::Table(inner)) => open(inner, rest),
            _ => bail!("`{first}` is an array, not a table"),
        },
        _ => bail!("`{first}` is a value, not a table"),
    }
}

fn open_array_item(document: &mut Table, path: &[String]) -> Result<()> {
    let (last, parents) = path.split_last().context("an empty table name")?;
    let parent = open(document, parents)?;
    let items = parent
        .entry(last.clone())
        .or_insert_with(|| Value::Array(Vec::new()));
    match items {
        Value::Array(items) => items.push(Value::Table(Table::new())),
        _ => bail!("`{last}` is not an array of tables"),
    }
    Ok(())
}

fn key_value(cursor: &mut Cursor<'_>, table: &mut Table) -> Result<()> {
    let path = key_path(cursor)?;
    cursor.expect("=")?;
    skip_blanks(cursor);
    let value = value(cursor)?;
    let (last, parents) = path.split_last().context("an empty key")?;
    if open(table, parents)?.insert(last.clone(), value).is_some() {
        return Err(cursor.error(&format!("a new key: `{last}` is there already")));
    }
    Ok(())
}

/// Reads `a.b."c d"` and the blanks around it.
fn key_path(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut path = Vec::new();
    loop {
        skip_blanks(cursor);
        path.push(key(cursor)?);
        skip_blanks(cursor);
        if !cursor.eat(".") {
            return Ok(path);
        }
    }
}

fn key(cursor: &mut Cursor<'_>) -> Result<String> {
    match cursor.peek() {
        Some('"') => basic_string(cursor),
        Some('\'') => literal_string(cursor),
        _ => {
            let bare = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            if bare.is_empty() {
                return Err(cursor.error("a key"));
            }
            Ok(bare.to_owned())
        }
    }
}

fn value(cursor: &mut Cursor<'_>) -> Result<Value> {
    match cursor.peek() {
        Some('"') if cursor.rest().starts_with("\"\"\"") => Ok(Value::String(long_string(cursor)?)),
        Some('"') => Ok(Value::String(basic_string(cursor)?)),
        Some('\'') => Ok(Value::String(literal_string(cursor)?)),
        Some('[') => array(cursor),
        Some('{') => inline_table(cursor),
        _ => scalar(cursor),
    }
}

fn scalar(cursor: &mut Cursor<'_>) -> Result<Value> {
    let error = cursor.error("a string, number, boolean, array or inline table");
    let word = cursor.take_while(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
    let plain = word.replace('_', "");
    let is_float = plain.contains(['.', 'e', 'E']);
    match word {
        "true" => Ok(Value::Boolean(true)),
        "false" => Ok(Value::Boolean(false)),
        _ if !plain.contains(|c: char| c.is_ascii_digit()) => Err(error),
        _ if is_float => plain.parse().map(Value::Float).map_err(|_| error),
        _ => plain.parse().map(Value::Integer).map_err(|_| error),
    }
}

fn basic_string(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect("\"")?;
    let mut text = String::new();
    loop {
        match cursor.peek() {
            Some('"') => break,
            None | Some('\n') => return Err(cursor.error("a closing quote")),
            Some(_) => push_character(cursor, &mut text)?,
        }
    }
    cursor.expect("\"")?;
    Ok(text)
}

fn long_string(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect("\"\"\"")?;
    cursor.eat("\r");
    cursor.eat("\n");
    let mut text = String::new();
    while !cursor.eat("\"\"\"") {
        if cursor.eat("\\\n") {
            cursor.take_while(char::is_whitespace);
            continue;
        }
        push_character(cursor, &mut text)?;
    }
    Ok(text)
}

fn push_character(cursor: &mut Cursor<'_>, text: &mut String) -> Result<()> {
    let c = cursor
        .bump()
        .ok_or_else(|| cursor.error("a closing quote"))?;
    text.push(if c == '\\' { cursor.escape()? } else { c });
    Ok(())
}

fn literal_string(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect("'")?;
    let text = cursor.take_while(|c| c != '\'' && c != '\n').to_owned();
    cursor.expect("'")?;
    Ok(text)
}

fn array(cursor: &mut Cursor<'_>) -> Result<Value> {
    cursor.expect("[")?;
    let mut items = Vec::new();
    loop {
        skip_lines(cursor);
        if cursor.eat("]") {
            return Ok(Value::Array(items));
        }
        items.push(value(cursor)?);
        skip_lines(cursor);
        if !cursor.eat(",") && cursor.peek() != Some(']') {
            return Err(cursor.error("`,` or `]`"));
        }
    }
}

fn inline_table(cursor: &mut Cursor<'_>) -> Result<Value> {
    cursor.expect("{")?;
    let mut table = Table::new();
    loop {
        skip_lines(cursor);
        if cursor.eat("}") {
            return Ok(Value::Table(table));
        }
        key_value(cursor, &mut table)?;
        skip_lines(cursor);
        if !cursor.eat(",") && cursor.peek() != Some('}') {
            return Err(cursor.error("`,` or `}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'t>(table: &'t Table, path: &str) -> &'t Value {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        match (&table[first], rest) {
            (value, "") => value,
            (Value::Table(inner), rest) => get(inner, rest),
            (other, _) => panic!("{first} is {other:?}"),
        }
    }

    #[test]
    fn reads_what_our_files_use() {
        let text = "# head\na.workspace = true\n[x.\"y z\"] # tail\nn = 1_000\nf = -1.5e3\n\
            s = \"q\\\"\\u0041\"\nl = 'C:\\d'\nm = \"\"\"\nfirst\nsecond\"\"\"\n\
            list = [\n  1, # one\n  [2, 3],\n]\nt = { k = \"v\", path = \"p\" }\n";
        let table = parse(text).unwrap();
        assert_eq!(get(&table, "a/workspace"), &Value::Boolean(true));
        assert_eq!(get(&table, "x/y z/n").as_integer(), Some(1000));
        assert_eq!(get(&table, "x/y z/f").as_number(), Some(-1500.0));
        assert_eq!(get(&table, "x/y z/s").as_str(), Some("q\"A"));
        assert_eq!(get(&table, "x/y z/l").as_str(), Some("C:\\d"));
        assert_eq!(get(&table, "x/y z/m").as_str(), Some("first\nsecond"));
        assert_eq!(get(&table, "x/y z/list").as_array().unwrap().len(), 2);
        assert_eq!(get(&table, "x/y z/t/k").as_str(), Some("v"));
    }

    #[test]
    fn arrays_of_tables_grow() {
        let table =
            parse("[[peer]]\nname = 'a'\n[[peer]]\nname = 'b'\n[peer.deep]\nx = 1").unwrap();
        let peers = table["peer"].as_array().unwrap();
        assert_eq!(peers.len(), 2);
        assert_eq!(
            peers[1].as_table().unwrap()["deep"]
                .as_table()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn what_it_cannot_read_is_an_error() {
        for bad in [
            "a = 1979-05-27",
            "a = '''x'''",
            "a = 0xff",
            "a = inf",
            "a = 1\na = 2",
            "a = 1 b = 2",
            "a = \"open",
            "a = \"\"\"open",
            "a = [1 2]",
            "a = {b = 1",
            "= 1",
            "[a\nb = 1",
            "a = 1\n[a.b]\nc = 1",
            "a = \"\\q\"",
        ] {
            assert!(parse(bad).is_err(), "{bad:?} was read");
        }
    }

    #[test]
    fn errors_name_the_line() {
        let message = parse("a = 1\nb = ?").unwrap_err().to_string();
        assert!(message.starts_with("line 2, column 5"), "{message}");
    }
}
