//! Rust sources as syn reads them: what the checks ask of a file, without its comments and literals.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, ItemMod, ItemUse, Pat, Signature, UseTree, Visibility};

use crate::project::Project;

/// What must not occur in code, and what to do instead.
const IGNORED: &str = "`#[ignore]`: run the test, or print `SKIPPED: <what is missing>` and return";
const LEFT_OPEN: &str = "`unimplemented!`: write it, or leave it out";

/// What is asked of a source file. Lines are counted from one.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// Every identifier with the line where it comes first; those in the bodies of macros too.
    pub(crate) identifiers: BTreeMap<String, usize>,
    /// Lines of ignored tests and of what is left open, with what to do about it.
    pub(crate) unfinished: Vec<(usize, &'static str)>,
    /// Lines of functions with a tuple pattern as an argument.
    pub(crate) tuple_arguments: Vec<usize>,
    /// Paths that are imported outside of tests; what is passed on to others (`pub use`) is not needed here.
    pub(crate) imports: Vec<Vec<String>>,
    pub(crate) forbids_unsafe: bool,
    /// Depth of modules that are compiled for tests alone.
    n_test_modules: u32,
}

impl Code {
    pub(crate) fn parse(text: &str) -> Result<Code> {
        let file = syn::parse_file(text)?;
        let mut code = Code {
            forbids_unsafe: file.attrs.iter().any(|a| has(a, "forbid", "unsafe_code")),
            ..Code::default()
        };
        code.tokens(text.parse::<TokenStream>().map_err(syn::Error::from)?);
        code.visit_file(&file);
        Ok(code)
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            match token {
                TokenTree::Ident(word) => {
                    if word == "unimplemented" && is_punctuation(tokens.get(at + 1), '!') {
                        self.unfinished.push((line(word), LEFT_OPEN));
                    }
                    let first = self.identifiers.entry(word.to_string());
                    first.or_insert(line(word));
                }
                TokenTree::Group(group) => {
                    let first = group.stream().into_iter().next();
                    if let Some(TokenTree::Ident(word)) = first
                        && word == "ignore"
                        && group.delimiter() == Delimiter::Bracket
                        && is_punctuation(before, '#')
                    {
                        self.unfinished.push((line(&word), IGNORED));
                    }
                    self.tokens(group.stream());
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let is_test = u32::from(module.attrs.iter().any(is_for_tests));
        self.n_test_modules += is_test;
        visit::visit_item_mod(self, module);
        self.n_test_modules -= is_test;
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        let is_private = matches!(import.vis, Visibility::Inherited);
        let is_of_tests = self.n_test_modules > 0 || import.attrs.iter().any(is_for_tests);
        if is_private && !is_of_tests {
            expand(&import.tree, &[], &mut self.imports);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        let is_tuple = |argument: &FnArg| matches!(argument, FnArg::Typed(typed) if matches!(*typed.pat, Pat::Tuple(_)));
        if signature.inputs.iter().any(is_tuple) {
            self.tuple_arguments.push(line(&signature.ident));
        }
        visit::visit_signature(self, signature);
    }
}

fn line(word: &Ident) -> usize {
    word.span().start().line
}

fn is_punctuation(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == wanted)
}

fn is_for_tests(attribute: &Attribute) -> bool {
    has(attribute, "cfg", "test")
}

/// Whether the attribute is `name(word)`.
fn has(attribute: &Attribute, name: &str, word: &str) -> bool {
    attribute.path().is_ident(name)
        && attribute
            .parse_args::<Ident>()
            .is_ok_and(|found| found == word)
}

/// The paths of a tree of imports; one that ends in `*` without it.
fn expand(tree: &UseTree, head: &[String], paths: &mut Vec<Vec<String>>) {
    let with = |name: &Ident| [head, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => expand(&path.tree, &with(&path.ident), paths),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| expand(tree, head, paths)),
        UseTree::Name(name) => paths.push(with(&name.ident)),
        UseTree::Rename(rename) => paths.push(with(&rename.ident)),
        UseTree::Glob(_) => paths.push(head.to_vec()),
    }
}

/// Every Rust source by its path.
pub(crate) fn sources(project: &Project) -> Result<BTreeMap<&str, Code>> {
    let files = project.with_extension("rs");
    let parsed = files.map(|(path, text)| {
        let code = Code::parse(text).with_context(|| path.to_owned())?;
        Ok((path, code))
    });
    parsed.collect()
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The number of the line that holds byte `at`, counted from one.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_counts() {
        let code = Code::parse(
            "//! Desk. #[ignore]\nconst A: &str = \"Desk unimplemented!()\";\n/* Desk */\nfn f() { m!(Cell) }\n",
        );
        let code = code.unwrap();
        assert!(!code.identifiers.contains_key("Desk") && code.unfinished.is_empty());
        assert_eq!(code.identifiers["Cell"], 4);
        assert!(Code::parse("fn f( {").is_err());
    }

    #[test]
    fn what_is_unfinished_is_found_inside_of_macros_too() {
        let code = Code::parse(
            "#[test]\n#[ignore = \"slow\"]\nfn f() {}\nmac! {\n#[ignore]\nfn g() { unimplemented!() }\n}\nfn ignore(unimplemented: u8) {}\n",
        );
        let lines: Vec<usize> = code.unwrap().unfinished.iter().map(|(at, _)| *at).collect();
        assert_eq!(lines, [2, 5, 6]);
    }

    #[test]
    fn patterns_are_found_and_tuples_of_types_are_not() {
        for (source, is_found) in [
            ("fn f((a, b): (u8, u8)) {}", true),
            ("fn f<T: Fn(u8)>(x: T, (a, b): (u8, u8)) {}", true),
            ("trait T { fn f(&self, (a, b): (u8, u8)) {} }", true),
            ("mod m { fn f(x: u8) { fn g((a, b): (u8, u8)) {} } }", true),
            ("fn f(a: (u8, u8), b: impl Fn((u8, u8)) -> u8) {}", false),
            ("fn f(b: fn((u8, u8)) -> u8) { g(1, (2, 3)) }", false),
            ("fn f() { let g = |(a, b)| a + b; }", false),
            ("proptest! { fn f((a, b) in pairs()) {} }", false),
        ] {
            let code = Code::parse(source).unwrap();
            assert_eq!(!code.tuple_arguments.is_empty(), is_found, "{source}");
        }
    }

    #[test]
    fn trees_of_imports_are_expanded_outside_of_tests() {
        let code = Code::parse(
            "use crate::{a::B as C, d::{self, E}};\nuse super::x::*;\npub use y::Z;\n#[cfg(test)]\nuse a::B;\n#[cfg(test)]\nmod tests { use c::D; }",
        );
        let imports: Vec<String> = code.unwrap().imports.iter().map(|p| p.join("::")).collect();
        assert_eq!(
            imports,
            ["crate::a::B", "crate::d::self", "crate::d::E", "super::x"]
        );
    }

    #[test]
    fn a_root_forbids_unsafe_code() {
        let forbids = |text: &str| Code::parse(text).unwrap().forbids_unsafe;
        assert!(forbids("//! D.\n#![forbid(unsafe_code)]\n"));
        assert!(!forbids("//! #![forbid(unsafe_code)]\n"));
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
