//! Identifiers that are out of use: each has a word of the field in its place.

use anyhow::Result;

use super::Finding;
use super::code::{find_word, line_of, without_literals};
use super::record::Record;
use crate::project::Project;

/// Uses of a word that is out of use, in the code of `crates/`.
pub(crate) fn findings(project: &Project) -> Result<Vec<Finding>> {
    let words = Record::read(project)?.words;
    let mut findings = Vec::new();
    for (path, text) in project.with_extension("rs") {
        if !path.starts_with("crates/") {
            continue;
        }
        // Most files have none of them, and blanking literals takes longer than looking.
        let is_candidate = words.keys().any(|word| text.contains(word));
        let code = if is_candidate {
            without_literals(text)
        } else {
            String::new()
        };
        for (word, instead) in &words {
            for at in find_word(&code, word) {
                let line = line_of(&code, at);
                findings.push(format!("{path}:{line}: `{word}` is out of use: {instead}"));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::super::record::FILE;
    use super::*;

    #[test]
    fn words_are_found_in_code_alone() {
        let record = "long_files = []\ntuple_arguments = 0\n[import_circles]\n[words]\nDeal = 'DegreePartition'\n";
        let found = |source: &str| {
            let files = [(FILE, record), ("crates/a/src/lib.rs", source)];
            findings(&planted(&files)).unwrap()
        };
        assert!(found("// Deal\nstruct Dealer; const A: &str = \"Deal\";").is_empty());
        let one = found("\nstruct Deal;");
        assert_eq!(
            one,
            ["crates/a/src/lib.rs:2: `Deal` is out of use: DegreePartition"]
        );
    }
}
