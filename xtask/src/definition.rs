//! Bench definitions: the TOML files in `benches/`.
//!
//! ```toml
//! name = "solve-er750"          # the file's name without .toml
//! why = "what the number tells"
//! command = ["solve", "er:750:0.15", "--format", "json"]        # after `shardgraph`
//! test_command = ["solve", "er:60:0.15", "--format", "json"]    # the same, small
//! repeat = 5                    # measured runs
//! needs = ["graphs/x.mtx.gz"]   # files of the data folder; absent: skipped
//! makes = ["policy.safetensors"]  # files that a run leaves under {scratch}
//! same = ["objective"]          # fields that are equal in every run and variant
//! [vary]                        # one measurement a value; {ranks} stands for it in the commands
//! name = "ranks"
//! values = [1, 2, 3]
//! [expect]                      # fields of the answer's JSON
//! verified = true
//! [at_most]                     # numbers of the answer that are limits
//! objective = 500
//! [[published]]                 # what others report, shown beside ours and never divided by it
//! who = "the paper, one V100"
//! metric = "seconds"
//! value = 15.5
//! source = "Fig. 7"
//! ```
//! `{scratch}` is a fresh folder and `{data}` the data folder. A key that is not listed here is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::project;
use crate::toml::{self, Table, Value};

const KEYS: [&str; 12] = [
    "name",
    "why",
    "command",
    "test_command",
    "repeat",
    "needs",
    "makes",
    "same",
    "vary",
    "expect",
    "at_most",
    "published",
];

/// One bench.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) why: String,
    pub(crate) command: Vec<String>,
    pub(crate) test_command: Vec<String>,
    pub(crate) repeat: u32,
    pub(crate) needs: Vec<String>,
    pub(crate) makes: Vec<String>,
    pub(crate) same: Vec<String>,
    pub(crate) vary: Option<Vary>,
    pub(crate) expect: Table,
    pub(crate) at_most: Table,
    pub(crate) published: Vec<Published>,
}

/// The placeholder that takes several values.
#[derive(Debug)]
pub(crate) struct Vary {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// A number from elsewhere.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) who: String,
    pub(crate) metric: String,
    pub(crate) value: f64,
    pub(crate) source: String,
}

/// Placeholder names to what stands for them.
pub(crate) type Substitutions = BTreeMap<String, String>;

impl Definition {
    /// Reads every definition in `benches/`, by name.
    pub(crate) fn load_all() -> Result<Vec<Definition>> {
        let folder = project::root().join("benches");
        let mut definitions = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                definitions.push(Definition::load(&path)?);
            }
        }
        definitions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(definitions)
    }

    fn load(path: &Path) -> Result<Definition> {
        let definition = Definition::from_table(&toml::read(path)?)
            .with_context(|| path.display().to_string())?;
        let stem = path.file_stem().unwrap_or_default();
        ensure!(
            stem == definition.name.as_str(),
            "{}: its name is {:?}",
            path.display(),
            definition.name
        );
        Ok(definition)
    }

    fn from_table(table: &Table) -> Result<Definition> {
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            bail!("`{key}` is not a key of a bench definition");
        }
        let repeat = table.get("repeat").map_or(Some(1), Value::as_integer);
        let repeat = repeat
            .and_then(|repeat| u32::try_from(repeat).ok())
            .filter(|&repeat| repeat > 0);
        Ok(Definition {
            name: string(table, "name")?,
            why: string(table, "why")?,
            command: strings(table, "command")?,
            test_command: strings(table, "test_command")?,
            repeat: repeat.context("`repeat` is to be a count above zero")?,
            needs: strings_or_none(table, "needs")?,
            makes: strings_or_none(table, "makes")?,
            same: strings_or_none(table, "same")?,
            vary: table.get("vary").map(Vary::from_value).transpose()?,
            expect: subtable(table, "expect"),
            at_most: subtable(table, "at_most"),
            published: published(table)?,
        })
    }

    /// The values of the placeholder, or one that is empty.
    pub(crate) fn variants(&self) -> Vec<Substitutions> {
        match &self.vary {
            None => vec![Substitutions::new()],
            Some(vary) => {
                let one =
                    |value: &String| Substitutions::from([(vary.name.clone(), value.clone())]);
                vary.values.iter().map(one).collect()
            }
        }
    }

    /// The needed files that are not there.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let is_missing = |file: &&String| !project::data().join(file).exists();
        self.needs
            .iter()
            .filter(is_missing)
            .map(String::as_str)
            .collect()
    }
}

impl Vary {
    fn from_value(value: &Value) -> Result<Vary> {
        let table = value.as_table().context("`vary` is to be a table")?;
        let values = table
            .get("values")
            .and_then(Value::as_array)
            .context("`vary` lacks `values`")?;
        let values = values.iter().map(|value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(value) => Ok(value.to_string()),
            other => bail!("`vary` takes strings and integers, not {other:?}"),
        });
        Ok(Vary {
            name: string(table, "name")?,
            values: values.collect::<Result<_>>()?,
        })
    }
}

fn published(table: &Table) -> Result<Vec<Published>> {
    let rows = table
        .get("published")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let row = |row: &Value| {
        let row = row
            .as_table()
            .context("`published` is to be an array of tables")?;
        Ok(Published {
            who: string(row, "who")?,
            metric: string(row, "metric")?,
            value: number(row, "value")?,
            source: string(row, "source")?,
        })
    };
    rows.iter().map(row).collect()
}

/// Puts values in the place of `{name}` placeholders; one that stays is an error.
pub(crate) fn substitute(words: &[String], values: &Substitutions) -> Result<Vec<String>> {
    let one = |word: &String| {
        let mut word = word.clone();
        for (name, value) in values {
            word = word.replace(&format!("{{{name}}}"), value);
        }
        ensure!(
            !word.contains('{'),
            "nothing stands for the placeholder in {word:?}"
        );
        Ok(word)
    };
    words.iter().map(one).collect()
}

pub(crate) fn string(table: &Table, key: &str) -> Result<String> {
    let text = table.get(key).and_then(Value::as_str);
    Ok(text
        .with_context(|| format!("`{key}` is to be a string"))?
        .to_owned())
}

pub(crate) fn number(table: &Table, key: &str) -> Result<f64> {
    table
        .get(key)
        .and_then(Value::as_number)
        .with_context(|| format!("`{key}` is to be a number"))
}

pub(crate) fn strings(table: &Table, key: &str) -> Result<Vec<String>> {
    let wrong = || format!("`{key}` is to be an array of strings");
    let items = table
        .get(key)
        .and_then(Value::as_array)
        .with_context(wrong)?;
    items
        .iter()
        .map(|item| Ok(item.as_str().with_context(wrong)?.to_owned()))
        .collect()
}

fn strings_or_none(table: &Table, key: &str) -> Result<Vec<String>> {
    if table.contains_key(key) {
        strings(table, key)
    } else {
        Ok(Vec::new())
    }
}

fn subtable(table: &Table, key: &str) -> Table {
    table
        .get(key)
        .and_then(Value::as_table)
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "name = 'a'\nwhy = 'b'\ncommand = ['solve']\ntest_command = ['solve']\n";

    #[test]
    fn every_definition_of_the_project_reads() {
        let definitions = Definition::load_all().unwrap();
        assert!(definitions.len() >= 9);
        for definition in definitions {
            assert!(
                definition.why.len() > 20,
                "{}: say why it exists",
                definition.name
            );
            let mut values = Substitutions::from([
                ("scratch".to_owned(), "s".to_owned()),
                ("data".to_owned(), "d".to_owned()),
            ]);
            for variant in definition.variants() {
                values.extend(variant);
                substitute(&definition.command, &values).unwrap();
                substitute(&definition.test_command, &values).unwrap();
            }
        }
    }

    #[test]
    fn a_definition_with_a_mistake_is_an_error() {
        assert!(Definition::from_table(&toml::parse(MINIMAL).unwrap()).is_ok());
        for wrong in [
            "repeats = 3",
            "repeat = 0",
            "needs = 'x'",
            "vary = 1",
            "published = [1]",
        ] {
            let table = toml::parse(&format!("{MINIMAL}{wrong}")).unwrap();
            assert!(Definition::from_table(&table).is_err(), "{wrong}");
        }
        assert!(Definition::from_table(&toml::parse("name = 'a'").unwrap()).is_err());
    }

    #[test]
    fn placeholders() {
        let table =
            toml::parse(&format!("{MINIMAL}[vary]\nname = 'ranks'\nvalues = [1, 2]")).unwrap();
        let variants = Definition::from_table(&table).unwrap().variants();
        let words = ["--ranks".to_owned(), "{ranks}".to_owned()];
        assert_eq!(substitute(&words, &variants[1]).unwrap(), ["--ranks", "2"]);
        assert!(substitute(&words, &Substitutions::new()).is_err());
    }
}
