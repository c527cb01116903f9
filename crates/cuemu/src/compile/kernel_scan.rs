//! Finds the kernels of a source by a scan for `__global__`; no compiler is asked.

#[path = "../../../device/build/instances.rs"]
mod instances;

/// A kernel as the scan sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) name: String,
    /// The first argument of `__launch_bounds__`, as written; else CUDA's limit.
    pub(super) max_threads: String,
}

/// Every `__global__` function of a source, each name once (the twin of a kernel for the other
/// compiler has the same name).
pub(super) fn scan(source: &str) -> Result<Vec<Kernel>, String> {
    let code = instances::written_out(source);
    let code = code.map_err(|(line, what)| format!("{line}: {what}"))?;
    let code = without_comments(&code);
    let mut kernels: Vec<Kernel> = Vec::new();
    for (at, word) in code.match_indices("__global__") {
        let line = code[..at].matches('\n').count() + 1;
        let kernel = declared(&code[at + word.len()..])
            .ok_or_else(|| format!("{line}: a __global__ that is not `void name(...)`"))?;
        if !code[..at].trim_end().ends_with("extern \"C\"") {
            return Err(format!(
                "{line}: kernel {} is not extern \"C\"",
                kernel.name
            ));
        }
        if kernels.iter().all(|other| other.name != kernel.name) {
            kernels.push(kernel);
        }
    }
    Ok(kernels)
}

/// `declaration` is what follows `__global__`; `__launch_bounds__` may stand on either side of `void`.
fn declared(declaration: &str) -> Option<Kernel> {
    let mut rest = declaration;
    let mut max_threads = "1024".to_owned();
    loop {
        let open = rest.find('(')?;
        let name = rest[..open].split_whitespace().next_back()?;
        if name != "__launch_bounds__" {
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            return is_name.then(|| Kernel {
                name: name.to_owned(),
                max_threads,
            });
        }
        let close = closing(&rest[open..])? + open;
        let first = rest[open + 1..close].split(',').next()?;
        max_threads = format!("({})", first.trim());
        rest = &rest[close + 1..];
    }
}

/// Where the parenthesis that `text` begins with is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(at)
    })
}

/// The source with its comments blanked, newlines kept.
fn without_comments(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        code.push_str(&rest[..at]);
        let comment = &rest[at..];
        let end = if comment.starts_with("//") {
            comment.find('\n')
        } else {
            comment.find("*/").map(|end| end + 2)
        };
        let end = end.unwrap_or(comment.len());
        code.extend(comment[..end].chars().filter(|c| *c == '\n'));
        rest = &comment[end..];
    }
    code.push_str(rest);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<(String, String)> {
        let kernels = scan(source).unwrap().into_iter();
        kernels.map(|k| (k.name, k.max_threads)).collect()
    }

    #[test]
    fn declarations_of_every_form() {
        let source = "extern \"C\" __global__ void plain(float* x) {}\n\
            extern \"C\" __global__ void __launch_bounds__(256) bounded(int n) {}\n\
            extern \"C\" __global__ __launch_bounds__(32 * (2 + 2), 4)\nvoid\n  two_bounds (int n);\n\
            extern \"C\"\n__global__ void next_line() {}\n";
        let expected = [
            ("plain", "1024"),
            ("bounded", "(256)"),
            ("two_bounds", "(32 * (2 + 2))"),
            ("next_line", "1024"),
        ];
        assert_eq!(
            names(source),
            expected.map(|(name, bounds)| (name.to_owned(), bounds.to_owned()))
        );
    }

    #[test]
    fn comments_and_twins_are_no_kernels() {
        let source = "// extern \"C\" __global__ void gone() {}\n/* __global__\n void gone2() */\n\
            #ifndef CUEMU\nextern \"C\" __global__ void twin(int n) { fast(); }\n#else\n\
            extern \"C\" __global__ void twin(int n) { portable(); }\n#endif\n";
        assert_eq!(names(source), [("twin".to_owned(), "1024".to_owned())]);
        assert_eq!(names("// no newline at the end"), []);
    }

    #[test]
    fn instances_of_a_macro_are_kernels() {
        let one = "#define ONE(name, N) \\\n extern \"C\" __global__ void __launch_bounds__(N) name##_fwd(int x) {}\n";
        let expected = [("a_fwd", "(32)"), ("b_fwd", "(64)")];
        assert_eq!(
            names(&format!("{one}ONE(a, 32)\nONE(b, 64)\n")),
            expected.map(|(name, bounds)| (name.to_owned(), bounds.to_owned()))
        );
        assert!(
            scan(&format!("{one}ONE(a)\n"))
                .unwrap_err()
                .starts_with("3: ")
        );
    }

    #[test]
    fn what_cannot_be_registered_is_named_with_its_line() {
        let mangled = scan("\n\n__global__ void f(int n) {}\n").unwrap_err();
        assert!(
            mangled.starts_with("3: kernel f is not extern"),
            "{mangled}"
        );
        let template = "/*\n*/ extern \"C\" __global__ void f<int>(int n) {}\n";
        assert!(scan(template).unwrap_err().starts_with("2: "));
        assert!(
            scan("extern \"C\" __global__")
                .unwrap_err()
                .starts_with("1: ")
        );
    }
}
