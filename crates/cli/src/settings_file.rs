//! Files of settings, TOML or JSON: keys, their values, and the line that each stands on.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer as _};
use serde_json::{Map, Value};
use shardgraph_storage::{MAX_SETTINGS_BYTES, read_bounded, utf8_text};

use crate::exit::BadInput;

mod unique;

/// What a file of settings says.
#[derive(Debug, Clone)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    keys: Map<String, Value>,
    /// From 1; without those keys of a JSON file that are spelt with escapes.
    lines: BTreeMap<String, usize>,
}

impl SettingsFile {
    /// Reads a file: JSON if it is called so, else TOML.
    pub(crate) fn read(path: &Path) -> Result<Self, BadInput> {
        let name = path.display();
        let wrong = |what: &dyn Display| BadInput(format!("{name}: {what}"));
        if path.is_dir() {
            return Err(wrong(&"this is a folder: expected a file of settings"));
        }
        let bytes = read_bounded(path, MAX_SETTINGS_BYTES).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => wrong(&"there is no such file"),
            _ => wrong(&e),
        })?;
        let text = text(path, bytes)?;
        let is_json = path.extension().is_some_and(|e| e == "json");
        let read = if is_json { json } else { toml };
        let (keys, lines) = read(&text)
            .map_err(|(line, column, what)| BadInput(format!("{name}:{line}:{column}: {what}")))?;
        let file = Self {
            path: path.to_owned(),
            keys,
            lines,
        };
        // TOML has no null; nan and inf have no other place in JSON, where null would mean an absent setting.
        let infinite = if is_json { None } else { null_in(&file.keys) };
        match infinite {
            Some(key) => Err(file.wrong(&key, &"expected a finite number")),
            None => Ok(file),
        }
    }

    /// The keys and what they have, by name.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.keys.iter()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// What is wrong with a key, which may be `table.key`, with the file and the line that the outermost begins on.
    pub(crate) fn wrong(&self, key: &str, why: &dyn Display) -> BadInput {
        let name = self.path.display();
        let outermost = key.split('.').next().unwrap_or(key);
        BadInput(match self.lines.get(outermost) {
            Some(line) => format!("{name}:{line}: `{key}`: {why}"),
            None => format!("{name}: `{key}`: {why}"),
        })
    }

    /// All of the file as one value.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, BadInput> {
        let parsed = T::deserialize(Value::Object(self.keys.clone()));
        parsed.map_err(|why| BadInput(format!("{}: {why}", self.path.display())))
    }

    /// Settings with those of the file's keys over them that are asked for.
    pub(crate) fn over<T>(&self, base: &T, is_asked: impl Fn(&str) -> bool) -> Result<T, BadInput>
    where
        T: Serialize + DeserializeOwned,
    {
        let no_form = |why: serde_json::Error| BadInput(format!("settings: {why}"));
        let mut merged = serde_json::to_value(base).map_err(no_form)?;
        let mut settings = T::deserialize(&merged).map_err(no_form)?;
        for (key, value) in self.keys().filter(|(key, _)| is_asked(key)) {
            merged[key] = value.clone();
            // After each, so that the message is about this key.
            settings = T::deserialize(&merged).map_err(|why| self.wrong(key, &why))?;
        }
        Ok(settings)
    }

    /// A file that says the same but for a key.
    fn without(&self, key: &str) -> Self {
        let mut file = self.clone();
        file.keys.remove(key);
        file
    }
}

/// Makes settings of a file, if there is one, and checks them. Where the check refuses them, and not for the same reason without one of the file's
/// keys, the message begins with the file and that key's line.
pub(crate) fn checked<T, E: Into<anyhow::Error>>(
    file: Option<&SettingsFile>,
    make: impl Fn(Option<&SettingsFile>) -> anyhow::Result<T>,
    check: impl Fn(&T) -> Result<(), E>,
) -> anyhow::Result<T> {
    let made = make(file)?;
    let Err(why) = check(&made) else {
        return Ok(made);
    };
    let why: anyhow::Error = why.into();
    let Some(file) = file else {
        return Err(why);
    };
    let text = format!("{why:#}");
    // Another mistake may show without the key that made this one.
    let is_mended = |file: SettingsFile| {
        let made = make(Some(&file));
        made.is_ok_and(|made| {
            check(&made).map_err(|e| format!("{:#}", e.into())) != Err(text.clone())
        })
    };
    match file.keys().find(|(key, _)| is_mended(file.without(key))) {
        None => Err(why),
        Some((key, _)) => {
            let name = file.path.display();
            let line = file.lines.get(key).map(|line| format!(":{line}"));
            let place = format!("{name}{}", line.unwrap_or_default());
            Err(BadInput(format!("{place}: {why}")).into())
        }
    }
}

/// The first key without a value, or of a list with an item that has none, behind those of the tables that it is in.
fn null_in(keys: &Map<String, Value>) -> Option<String> {
    keys.iter().find_map(|(key, value)| match value {
        Value::Object(inner) => Some(format!("{key}.{}", null_in(inner)?)),
        _ => has_null(value).then(|| key.clone()),
    })
}

/// Whether it is null, or a list that has one at any depth.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(keys) => null_in(keys).is_some(),
        _ => false,
    }
}

/// The text of a small file.
pub(crate) fn text(path: &Path, bytes: Vec<u8>) -> Result<String, BadInput> {
    utf8_text(bytes).map_err(|line| {
        let what = "expected UTF-8, found other bytes";
        BadInput(format!("{}:{line}: {what}", path.display()))
    })
}

type Keys = (Map<String, Value>, BTreeMap<String, usize>);

/// Line, column, and what is wrong there.
type Mistake = (usize, usize, String);

fn toml(text: &str) -> Result<Keys, Mistake> {
    let place = |at: usize| {
        let before = &text[..text.floor_char_boundary(at)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = 1 + before.matches('\n').count();
        (line, 1 + before[line_start..].chars().count())
    };
    let mistake = |error: toml::de::Error| {
        let (line, column) = place(error.span().map_or(0, |span| span.start));
        (line, column, error.message().to_owned())
    };
    let table = toml::de::DeTable::parse(text).map_err(mistake)?;
    let lines = table.get_ref().iter();
    let lines = lines.map(|(key, _)| (key.get_ref().to_string(), place(key.span().start).0));
    Ok((toml::from_str(text).map_err(mistake)?, lines.collect()))
}

fn json(text: &str) -> Result<Keys, Mistake> {
    let mistake = |error: serde_json::Error| {
        let what = error.to_string();
        let end = what.rfind(" at line ").unwrap_or(what.len());
        // Of a text that is no object serde_json has no column.
        (error.line(), error.column().max(1), what[..end].to_owned())
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    let keys = reader.deserialize_map(unique::Keys).map_err(mistake)?;
    reader.end().map_err(mistake)?;
    Ok((keys, lines_of_keys(text)))
}

/// The lines of the keys of the outermost object of a text that is JSON and has no key twice.
fn lines_of_keys(text: &str) -> BTreeMap<String, usize> {
    let (mut lines, mut depth, mut line) = (BTreeMap::new(), 0, 1);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\n' => line += 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let mut end = at;
                while let Some((at, byte)) = bytes.next() {
                    end = at;
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
                if depth == 1 && text[end + 1..].trim_start().starts_with(':') {
                    lines.insert(text[at + 1..end].to_owned(), line);
                }
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_toml_and_of_json_have_their_lines() {
        let of_toml = "# settings\n\na = 1\n[b]\na = 2\nc = '''\nd = 3\n'''\n";
        let of_json = "{\n \"e\\\"\": \"{\", \"x\": [\"a\",\n{\"b\": \":\"}],\n \"a\" :\n 1, \"b\": {\"a\": 2}}";
        let lines = |(_, lines): Keys| -> Vec<(String, usize)> { lines.into_iter().collect() };
        let expected = |all: &[(&str, usize)]| -> Vec<(String, usize)> {
            all.iter()
                .map(|(key, line)| ((*key).to_owned(), *line))
                .collect()
        };
        assert_eq!(
            lines(toml(of_toml).unwrap()),
            expected(&[("a", 3), ("b", 4)])
        );
        let of_json = lines(json(of_json).unwrap());
        let e = "e\\\"";
        assert_eq!(of_json, expected(&[("a", 4), ("b", 5), (e, 2), ("x", 2)]));
    }

    /// A file's name, what is in it, and how its error begins.
    const MISTAKES: &[(&str, &str, &str)] = &[
        ("a.toml", "a = 1\n\u{e9} = ", "a.toml:2:"),
        ("a.toml", "a = 1\na = 2", "a.toml:2:1: duplicate key"),
        (
            "a.toml",
            "a = 1\nb = nan",
            "a.toml:2: `b`: expected a finite",
        ),
        (
            "a.toml",
            "a = 1\nb = [1, [inf]]",
            "a.toml:2: `b`: expected a finite",
        ),
        (
            "a.toml",
            "[a]\nb = [{ c = nan }]",
            "a.toml:1: `a.b`: expected a finite",
        ),
        (
            "a.json",
            "{\"a\": 1,\n \"b\": [{\"c\": {}}], \"a\": 2}",
            "a.json:2:22: duplicate key `a`",
        ),
        (
            "a.json",
            "{\"a\": [{\"b\": 1,\n\"b\": 2}]}",
            "a.json:2:3: duplicate key `b`",
        ),
        ("a.json", "{} {}", "a.json:1:4: trailing"),
        ("a.json", "{\"a\": 1,\n\"b\" 2}", "a.json:2:5: expected `:`"),
        ("a.json", "[]", "a.json:1:1: invalid type: sequence"),
    ];

    #[test]
    fn mistakes_have_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let message = SettingsFile::read(&path).unwrap_err().to_string();
            let start = format!("{}/", folder.path().display());
            message.strip_prefix(&start).unwrap().to_owned()
        };
        for &(name, text, start) in MISTAKES {
            let message = refused(name, text.as_bytes());
            assert!(message.starts_with(start), "{text}: {message}");
        }
        let message = refused("a.toml", b"a = 1\n\n\xff = 2");
        assert!(message.starts_with("a.toml:3: expected UTF-8"), "{message}");
        let folder = SettingsFile::read(folder.path()).unwrap_err();
        assert!(folder.to_string().contains("this is a folder"));
    }

    /// What a check of three settings says of a file, with `width` from a flag where there is one.
    fn refusal(text: &str, width: Option<u32>) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        std::fs::write(&path, text).unwrap();
        let file = SettingsFile::read(&path).unwrap();
        let base = BTreeMap::from([("depth", 2), ("width", 3), ("ranks", 1)]);
        let base: BTreeMap<String, u32> = base.into_iter().map(|(k, v)| (k.into(), v)).collect();
        let make = |file: Option<&SettingsFile>| {
            let mut made = file.map_or(Ok(base.clone()), |file| file.over(&base, |_| true))?;
            made.extend(width.map(|width| ("width".to_owned(), width)));
            Ok(made)
        };
        let check = |made: &BTreeMap<String, u32>| match (made["depth"], made["width"]) {
            (0, _) => Err(BadInput("depth = 0: expected more".into())),
            (depth, width) if depth > width => Err(BadInput("too deep".into())),
            _ => Ok(()),
        };
        let message = checked(Some(&file), make, check).err()?.to_string();
        let start = format!("{}/", folder.path().display());
        Some(message.strip_prefix(&start).unwrap_or(&message).to_owned())
    }

    #[test]
    fn a_check_that_fails_blames_the_key_that_makes_it() {
        let blames = |text: &str, width, expected: Option<&str>| {
            assert_eq!(refusal(text, width).as_deref(), expected, "{text}");
        };
        let empty = "a.toml:2: depth = 0: expected more";
        blames("ranks = 4\ndepth = 0\n", None, Some(empty));
        // Either of two that do not go together: the first by name.
        blames("width = 4\ndepth = 5\n", None, Some("a.toml:2: too deep"));
        blames("width = 1\n", None, Some("a.toml:1: too deep"));
        blames("width = 1\n", Some(2), None);
        // Of two mistakes the one that is told.
        blames("width = 0\ndepth = 0\n", None, Some(empty));
        // Not the file's doing.
        blames("ranks = 4\n", Some(1), Some("too deep"));
    }
}
