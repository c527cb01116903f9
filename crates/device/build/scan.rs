//! Reads the kernel declarations of a `.cu` file: names and argument lists, without a C++ compiler.
//!
//! A kernel is `extern "C" __global__ void name(...)`, where it is defined and once, or an instance that a macro of the same file
//! declares. Its parameters are spelled plainly:
//! `T`, `T*` or `const T*` with `T` one of [`SCALARS`]. Anything else is an error that names file and line, because a
//! declaration that is read wrongly would let a launch with a wrong argument list through.
//!
//! The build script of this crate uses this file, and so does `cargo xtask kernels`.

mod instances;

/// How each scalar type is written in a signature, and the bytes that a value of it takes as an argument.
pub(crate) const SCALARS: [(&str, char, u32); 6] = [
    ("float", 'f', 4),
    ("unsigned", 'u', 4),
    ("int", 'i', 4),
    ("unsigned long long", 'U', 8),
    ("unsigned short", 'h', 2),
    ("unsigned char", 'b', 1),
];

/// A kernel as its source declares it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declaration {
    pub(crate) name: String,
    /// Counted from one.
    pub(crate) line: usize,
    /// One item a parameter: the scalar's letter, with `*` before it for a pointer and `&` for a pointer to constants.
    /// `sparse(const unsigned long long*, unsigned, float*)` is `&Uu*f`.
    pub(crate) signature: String,
}

/// The kernels of one file, in order.
///
/// # Errors
/// `<file>:<line>: <what would be right>` for a declaration that is not of the plain form.
pub(crate) fn declarations(file: &str, source: &str) -> Result<Vec<Declaration>, String> {
    let at_line = |(line, what): (usize, String)| format!("{file}:{line}: {what}");
    let source = instances::written_out(source).map_err(at_line)?;
    let tokens = tokens(&source).map_err(at_line)?;
    let mut found: Vec<Declaration> = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].text != "__global__" {
            continue;
        }
        let declaration = declaration(&tokens, at).map_err(at_line)?;
        if found.iter().any(|other| other.name == declaration.name) {
            let what = format!("`{}` is declared twice", declaration.name);
            return Err(at_line((declaration.line, what)));
        }
        found.push(declaration);
    }
    Ok(found)
}

type Fault = (usize, String);

/// A word, a number, a string literal with its quotes, or one character of anything else.
#[derive(Debug, PartialEq)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// The tokens of a source without comments and preprocessor lines.
fn tokens(source: &str) -> Result<Vec<Token<'_>>, Fault> {
    let mut tokens = Vec::new();
    let (mut rest, mut line, mut starts_line) = (source, 1, true);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("//") => logical_line(rest),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '#' if starts_line => directive(rest, line)?,
            '"' | '\'' => quoted(rest, c),
            'R' if rest.starts_with("R\"") => raw_string(rest),
            c if is_word(c) => word(rest),
            c => c.len_utf8(),
        };
        let (text, after) = rest.split_at(length);
        let is_skipped =
            c.is_whitespace() || c == '#' || text.starts_with("//") || text.starts_with("/*");
        if !is_skipped {
            tokens.push(Token { text, line });
        }
        starts_line = text.ends_with('\n') || (starts_line && is_skipped);
        line += text.matches('\n').count();
        rest = after;
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Up to the end of the line, over lines that a backslash joins.
fn logical_line(rest: &str) -> usize {
    let mut from = 0;
    while let Some(end) = rest[from..].find('\n') {
        from += end + 1;
        if !rest[..from].trim_end_matches(['\n', '\r']).ends_with('\\') {
            return from;
        }
    }
    rest.len()
}

/// A preprocessor line; a kernel of a macro without arguments would go unseen.
fn directive(rest: &str, line: usize) -> Result<usize, Fault> {
    let length = logical_line(rest);
    if rest[..length].contains("__global__") {
        let what = "a macro that declares kernels takes arguments";
        return Err((line, what.to_owned()));
    }
    Ok(length)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

/// `R"delimiter( ... )delimiter"`.
fn raw_string(rest: &str) -> usize {
    let delimiter = rest[2..].split('(').next().unwrap_or_default();
    let close = format!("){delimiter}\"");
    rest.find(&close).map_or(rest.len(), |at| at + close.len())
}

/// A name or a number, whose digits may be set apart as in `1'000`.
fn word(rest: &str) -> usize {
    let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
    let ends = |c: char| !is_word(c) && !(is_number && (c == '\'' || c == '.'));
    rest.find(ends).unwrap_or(rest.len())
}

/// The declaration whose `__global__` is token `at`.
fn declaration(tokens: &[Token<'_>], at: usize) -> Result<Declaration, Fault> {
    let line = tokens[at].line;
    let fault = |what: &str| Err((line, what.to_owned()));
    let start = tokens[..at]
        .iter()
        .rposition(|token| matches!(token.text, ";" | "{" | "}"));
    let before = &tokens[start.map_or(0, |end| end + 1)..at];
    let after = &tokens[at + 1..];
    let head_end = after
        .iter()
        .position(|token| matches!(token.text, ";" | "{"));
    let Some(head_end) = head_end else {
        return fault("the kernel's declaration does not end");
    };
    if after[head_end].text == ";" {
        return fault("declare a kernel only where it is defined");
    }
    let before = without_attributes(before);
    if !before.iter().copied().eq(["extern", "\"C\""]) {
        return fault("a kernel is declared `extern \"C\" __global__ void name(...)`");
    }
    let head = without_attributes(&after[..head_end]);
    let ["void", name, "(", parameters @ .., ")"] = &head[..] else {
        return fault("a kernel is declared `extern \"C\" __global__ void name(...)`");
    };
    let signature = signature(parameters).map_err(|what| (line, format!("`{name}`: {what}")))?;
    Ok(Declaration {
        name: (*name).to_owned(),
        line,
        signature,
    })
}

/// The texts without `__launch_bounds__(...)` and `__restrict__`, which change no argument.
fn without_attributes<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut texts = Vec::new();
    let mut rest = tokens.iter().map(|token| token.text);
    while let Some(text) = rest.next() {
        match text {
            "__restrict__" => {}
            "__launch_bounds__" => {
                let mut depth = 0;
                for text in rest.by_ref() {
                    depth += i32::from(text == "(") - i32::from(text == ")");
                    if depth == 0 {
                        break;
                    }
                }
            }
            text => texts.push(text),
        }
    }
    texts
}

fn signature(parameters: &[&str]) -> Result<String, String> {
    if parameters.is_empty() || parameters == ["void"] {
        return Ok(String::new());
    }
    parameters
        .split(|text| *text == ",")
        .map(parameter)
        .collect()
}

/// `T name`, `T* name` or `const T* name`.
fn parameter(texts: &[&str]) -> Result<String, String> {
    let shown = texts.join(" ");
    let scalars = SCALARS.map(|(scalar, ..)| scalar).join(", ");
    let unknown = || {
        format!(
            "parameter `{shown}`: write `T name`, `T* name` or `const T* name` with T one of {scalars}"
        )
    };
    let Some((name, spelled)) = texts.split_last() else {
        return Err("a parameter is empty".to_owned());
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let (is_pointer, spelled) = match spelled {
        [spelled @ .., "*"] => (true, spelled),
        spelled => (false, spelled),
    };
    let (is_const, spelled) = match spelled {
        ["const", spelled @ ..] => (true, spelled),
        spelled => (false, spelled),
    };
    let spelled = spelled.join(" ");
    let scalar = SCALARS.iter().find(|(scalar, ..)| *scalar == spelled);
    match (is_name && !is_keyword(name), scalar) {
        (true, Some((_, letter, _))) => Ok(match (is_pointer, is_const) {
            (true, true) => format!("&{letter}"),
            (true, false) => format!("*{letter}"),
            (false, _) => letter.to_string(),
        }),
        _ => Err(unknown()),
    }
}

/// `unsigned int` must not be read as an unsigned of the name `int`.
fn is_keyword(name: &str) -> bool {
    const KEYWORDS: [&str; 9] = [
        "char", "const", "double", "float", "int", "long", "short", "signed", "unsigned",
    ];
    KEYWORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<(String, usize, String)> {
        let found = declarations("a.cu", source).unwrap();
        let parts = |d: Declaration| (d.name, d.line, d.signature);
        found.into_iter().map(parts).collect()
    }

    fn fault(source: &str) -> String {
        declarations("a.cu", source).unwrap_err()
    }

    /// A kernel with these parameters.
    fn with(parameters: &str) -> String {
        format!("extern \"C\" __global__ void k({parameters}) {{}}")
    }

    #[test]
    fn every_scalar_and_every_pointer_has_its_letter() {
        for (scalar, letter, _) in SCALARS {
            let all = format!("const {scalar}* a, {scalar} *b, {scalar} c, const {scalar} d");
            let expected = format!("&{letter}*{letter}{letter}{letter}");
            assert_eq!(read(&with(&all)), [("k".to_owned(), 1, expected)]);
        }
        assert_eq!(read(&with(""))[0].2, "");
        assert_eq!(read(&with("void"))[0].2, "");
    }

    #[test]
    fn attributes_line_breaks_and_comments_change_nothing() {
        let source = "#include \"kernel.cuh\"\n/* extern \"C\" __global__ void gone() {} */\n\
            // __global__ void gone_too(); \\\n   __global__ void joined();\n\
            static __device__ float twice(float x) { return 2 * x; }\n\
            extern \"C\" __global__ void __launch_bounds__(32 * (4 + 4), 2)\nsparse_csr_fwd(\n\
            const unsigned long long* __restrict__ begins, // u64\n\
            const float *__restrict__ x, unsigned k, float* __restrict__ y) {\n\
            const char* s = \"__global__ }\"; char q = '\"'; int n = 1'000; float z = 1.5f; y[0] = n; }\n\
            extern \"C\" __launch_bounds__(64) __global__ void b_bwd(int n) { /* ** */ }\n";
        let expected = [
            ("sparse_csr_fwd".to_owned(), 6, "&U&fu*f".to_owned()),
            ("b_bwd".to_owned(), 11, "i".to_owned()),
        ];
        assert_eq!(read(source), expected);
    }

    #[test]
    fn instances_of_a_macro_are_kernels() {
        let one = "#define ONE(name, T) \\\n extern \"C\" __global__ void name##_fwd(T *x, unsigned n) {}\n";
        let source = format!("{one}ONE(a, float)\nONE(b, const int)\n");
        let expected = [
            ("a_fwd".to_owned(), 3, "*fu".to_owned()),
            ("b_fwd".to_owned(), 4, "&iu".to_owned()),
        ];
        assert_eq!(read(&source), expected);
        assert!(
            fault(&format!("{source}ONE(a, float)"))
                .starts_with("a.cu:5: `a_fwd` is declared twice")
        );
    }

    #[test]
    fn literals_hide_what_is_in_them() {
        let raw = "const char* p = R\"x(\" __global__ )\" )x\"; ";
        assert_eq!(read(&format!("{raw}{}", with("int n"))).len(), 1);
        let device = "#ifndef CUEMU\n  # define A \\\n  1\n__device__ void f() { asm(\"{ \\\" __global__ }\"); }\n#endif\n";
        assert_eq!(read(&format!("{device}{}", with("int n")))[0].1, 6);
        assert!(read("").is_empty());
    }

    #[test]
    fn types_that_no_launch_can_pass_are_faults() {
        for bad in [
            "double x",
            "long x",
            "unsigned long x",
            "unsigned int x",
            "uint32_t x",
            "size_t n",
            "bool b",
            "char c",
            "float** x",
            "const float* const* x",
            "float& x",
            "float x[4]",
            "float4 x",
            "float",
            "float*",
            "unsigned int",
            "const unsigned",
            "int x,",
            "std::size_t n",
            "float x = 1",
            "",
        ] {
            if bad.is_empty() {
                continue;
            }
            let fault = fault(&format!("\n{}", with(&format!("float* y, {bad}"))));
            assert!(fault.starts_with("a.cu:2: `k`: "), "{bad}: {fault}");
        }
    }

    #[test]
    fn other_forms_of_declaration_are_faults() {
        for bad in [
            "__global__ void k() {}",
            "extern \"C\" { __global__ void k() {} }",
            "template <int N> __global__ void k() {}",
            "extern \"C\" static __global__ void k() {}",
            "extern \"C\" __global__ float k() {}",
            "extern \"C\" __global__ void k();",
            "extern \"C\" __global__ void k(int n)",
            "extern \"C\" __global__ k() {}",
            "#define KERNEL \\\n  __global__\n",
            "extern \"C\" __global__ void k() {} extern \"C\" __global__ void k(int n) {}",
        ] {
            assert!(fault(bad).starts_with("a.cu:1: "), "{bad}");
        }
    }
}
