//! The text of settings, TOML or JSON: what it says, and on which line a setting stands that cannot be right.
//!
//! An algorithm and an environment are read by their names, behind which a reader of TOML knows no lines any more. So the setting that is wrong is
//! looked for by itself, one after the other, and its line among those of all keys.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardgraph_storage::{MAX_SETTINGS_BYTES, read_bounded, utf8_text};

use crate::config::{AgentConfig, Algorithm, Version};
use crate::error::{Error, ErrorKind};
use crate::run_environments::EnvironmentConfig;

/// The forms that a text has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Toml,
    Json,
}

/// What is wrong with a text.
pub(crate) struct Mistake {
    /// From 1; absent where something is missing.
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
}

impl Mistake {
    /// Of a text that is in no file.
    pub(crate) fn into_error(self) -> Error {
        Error::input(match self.line {
            Some(line) => format!("agent settings, line {line}: {}", self.what),
            None => format!("agent settings: {}", self.what),
        })
    }

    /// Of a file.
    pub(crate) fn of_file(self, name: &str) -> Error {
        Error::input(match self.line {
            Some(line) => format!("{name}:{line}: {}", self.what),
            None => format!("{name}: {}", self.what),
        })
    }
}

impl AgentConfig {
    /// Reads and checks a file: JSON if it is called so, else TOML.
    ///
    /// # Errors
    /// When the file cannot be read, or as [`AgentConfig::from_toml`] and [`AgentConfig::check`].
    pub fn read(path: &Path) -> Result<AgentConfig, Error> {
        let bytes = read_bounded(path, MAX_SETTINGS_BYTES).map_err(Error::io(path))?;
        let name = path.display().to_string();
        let text = utf8_text(bytes).map_err(|line| {
            Error::input(format!("{name}:{line}: expected UTF-8, found other bytes"))
        })?;
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let form = if is_json { Form::Json } else { Form::Toml };
        let config = read(&text, form).map_err(|wrong| wrong.of_file(&name))?;
        let checked = config.check();
        checked.map_err(|error| place(&text, form, &error).of_file(&name))?;
        Ok(config)
    }

    /// Reads settings; nothing but their form is checked.
    ///
    /// # Errors
    /// When the text is of another version, has an unknown setting, or lacks the environment or the algorithm.
    pub fn from_toml(text: &str) -> Result<AgentConfig, Error> {
        read(text, Form::Toml).map_err(Mistake::into_error)
    }

    /// As [`AgentConfig::from_toml`].
    ///
    /// # Errors
    /// As [`AgentConfig::from_toml`].
    pub fn from_json(text: &str) -> Result<AgentConfig, Error> {
        read(text, Form::Json).map_err(Mistake::into_error)
    }
}

/// Reads settings of this program's version; nothing but their form is checked.
pub(crate) fn read(text: &str, form: Form) -> Result<AgentConfig, Mistake> {
    let version: Version = form.parse(text)?;
    version.check().map_err(|error| place(text, form, &error))?;
    let config: Result<AgentConfig, Mistake> = form.parse(text);
    config.map_err(|mistake| wrong_part(text, form).unwrap_or(mistake))
}

/// An error of the settings that a text says, with the line of the setting.
pub(crate) fn place(text: &str, form: Form, error: &Error) -> Mistake {
    let field = match error.kind() {
        ErrorKind::Setting { field, .. } => Some((*field).to_owned()),
        // Errors of the components name it between the first two marks.
        _ => error.to_string().split('`').nth(1).map(str::to_owned),
    };
    let what = error.to_string();
    Mistake {
        line: field.and_then(|field| line_of(text, form, &field)),
        what: what
            .strip_prefix("agent settings: ")
            .map_or(what.clone(), str::to_owned),
    }
}

/// The setting of an environment or an algorithm that cannot be read, by itself.
fn wrong_part(text: &str, form: Form) -> Option<Mistake> {
    let whole: Map<String, Value> = form.parse(text).ok()?;
    let of = |table: &str, is_right: &dyn Fn(Value) -> Result<(), String>| {
        let keys = whole.get(table)?.as_object()?;
        let (key, why) = wrong_key(keys, is_right)?;
        let field = format!("{table}.{key}");
        Some(Mistake {
            line: line_of(text, form, &field),
            what: format!("`{field}`: {why}"),
        })
    };
    of("environment", &reads::<EnvironmentConfig>).or_else(|| of("algorithm", &reads::<Algorithm>))
}

fn reads<T: DeserializeOwned>(value: Value) -> Result<(), String> {
    T::deserialize(value)
        .map(drop)
        .map_err(|why| why.to_string())
}

/// The first key that a table with a name and it alone does not read.
fn wrong_key(
    keys: &Map<String, Value>,
    is_right: &dyn Fn(Value) -> Result<(), String>,
) -> Option<(String, String)> {
    let name = keys.get("name")?;
    let mut alone = Map::from_iter([("name".to_owned(), name.clone())]);
    if let Err(why) = is_right(Value::Object(alone.clone())) {
        return Some(("name".to_owned(), why));
    }
    keys.iter().find_map(|(key, value)| {
        alone.insert(key.clone(), value.clone());
        let read = is_right(Value::Object(alone.clone()));
        Some((key.clone(), read.err()?))
    })
}

/// The line of a setting, or of the innermost of the tables that it is in.
fn line_of(text: &str, form: Form, field: &str) -> Option<usize> {
    let lines = match form {
        Form::Toml => toml_lines(text)?,
        Form::Json => json_lines(text),
    };
    let ends = field.match_indices('.').map(|(at, _)| at);
    let mut paths: Vec<&str> = ends.map(|at| &field[..at]).chain([field]).collect();
    paths.reverse();
    paths.iter().find_map(|&path| lines.get(path).copied())
}

impl Form {
    fn parse<T: DeserializeOwned>(self, text: &str) -> Result<T, Mistake> {
        match self {
            Form::Toml => toml::from_str(text).map_err(|error: toml::de::Error| Mistake {
                line: error
                    .span()
                    .filter(|span| !span.is_empty() || span.start > 0)
                    .map(|span| line_at(text, span.start)),
                what: error.message().to_owned(),
            }),
            Form::Json => serde_json::from_str(text).map_err(|error| {
                let what = error.to_string();
                let end = what.rfind(" at line ").unwrap_or(what.len());
                Mistake {
                    line: Some(error.line()).filter(|&line| line > 0),
                    what: what[..end].to_owned(),
                }
            }),
        }
    }
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text[..text.floor_char_boundary(at)].matches('\n').count()
}

/// The lines of all keys, those of inner tables behind the names of the outer ones.
fn toml_lines(text: &str) -> Option<BTreeMap<String, usize>> {
    let table = toml::de::DeTable::parse(text).ok()?;
    let mut lines = BTreeMap::new();
    let mut open = vec![(String::new(), table.get_ref())];
    while let Some((path, table)) = open.pop() {
        for (key, value) in table {
            let name = format!("{path}{}", key.get_ref());
            if let Some(inner) = value.get_ref().as_table() {
                open.push((format!("{name}."), inner));
            }
            lines.insert(name, line_at(text, key.span().start));
        }
    }
    Some(lines)
}

/// The same of a text that is JSON. Keys that are spelt with escapes are left out, as are those of objects in lists.
fn json_lines(text: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    let (mut line, mut key) = (1, String::new());
    // For each open object what its keys begin with, for each list nothing.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\n' => line += 1,
            b'{' => open.push(match open.last() {
                None => Some(String::new()),
                Some(Some(_)) => Some(format!("{key}.")),
                Some(None) => None,
            }),
            b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = end_of_string(&mut bytes);
                if let (Some(Some(path)), true) = (open.last(), is_key(text, end)) {
                    key = format!("{path}{}", &text[at + 1..end]);
                    lines.insert(key.clone(), line);
                }
            }
            _ => {}
        }
    }
    lines
}

/// The place of the mark behind a string, from behind the mark before it.
fn end_of_string(bytes: &mut impl Iterator<Item = (usize, u8)>) -> usize {
    let mut end = 0;
    while let Some((at, byte)) = bytes.next() {
        end = at;
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => break,
            _ => {}
        }
    }
    end
}

fn is_key(text: &str, end: usize) -> bool {
    text[end + 1..].trim_start().starts_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "steps = 10\n\n[environment]\nname = 'cartpole'\n[algorithm]\nname = 'dqn'\ngamma = 0.5\nnetwork = { hidden = [8] }\n[algorithm.replay]\ncapacity = 200\n";
    const JSON: &str = "{\"steps\": 10,\n\"environment\": {\"name\": \"cartpole\"},\n\"algorithm\": {\n\"name\": \"dqn\", \"gamma\":\n0.5,\n\"network\": {\"hidden\": [8]},\n\"replay\": {\n\"capacity\": 200}}}";

    #[test]
    fn settings_have_their_lines() {
        for (text, form, expected) in [
            (TOML, Form::Toml, [1, 5, 7, 8, 10]),
            (JSON, Form::Json, [1, 3, 4, 6, 8]),
        ] {
            assert!(read(text, form).is_ok());
            let fields = [
                "steps",
                "algorithm",
                "algorithm.gamma",
                "algorithm.network.lstm",
                "algorithm.replay.capacity",
            ];
            let lines = fields.map(|field| line_of(text, form, field).unwrap_or(0));
            assert_eq!(lines, expected, "{form:?}");
            assert_eq!(line_of(text, form, "nothing"), None);
        }
    }

    /// A form, what takes the place of what in its text, the line of that, and what is said of it.
    #[rustfmt::skip]
    const MISTAKES: &[(Form, &str, &str, usize, &str)] = &[
        (Form::Toml, "gamma", "gama", 7, "`algorithm.gama`: unknown field `gama`"),
        (Form::Json, "gamma", "gama", 4, "`algorithm.gama`: unknown field `gama`"),
        (Form::Toml, "0.5", "'x'", 7, "`algorithm.gamma`: invalid type"),
        (Form::Json, "0.5", "\"x\"", 4, "`algorithm.gamma`: invalid type"),
        (Form::Toml, "= 200", "= -1", 9, "`algorithm.replay`: invalid value"),
        (Form::Toml, "'dqn'", "'sarsa'", 6, "`algorithm.name`: unknown variant `sarsa`"),
        (Form::Json, "\"dqn\"", "\"sarsa\"", 4, "`algorithm.name`: unknown variant `sarsa`"),
        (Form::Toml, "'cartpole'", "3", 4, "`environment.name`: invalid type"),
        (Form::Toml, "= 10\n", "= 'many'\n", 1, "invalid type"),
        (Form::Toml, "= 10\n", "= 10\nschema_version = 3\n", 2, "`schema_version`: expected 1"),
        (Form::Toml, "gamma = ", "gamma ", 7, ""),
        (Form::Json, "0.5,", "0.5", 6, "expected"),
    ];

    #[test]
    fn mistakes_have_their_lines() {
        for &(form, from, to, line, what) in MISTAKES {
            let text = match form {
                Form::Toml => TOML.replace(from, to),
                Form::Json => JSON.replace(from, to),
            };
            let mistake = read(&text, form).err().unwrap();
            assert_eq!(mistake.line, Some(line), "{text}: {}", mistake.what);
            assert!(mistake.what.contains(what), "{text}: {}", mistake.what);
        }
        let missing = read("steps = 5\n", Form::Toml).err().unwrap();
        assert_eq!(missing.what, "missing field `environment`");
    }
}
