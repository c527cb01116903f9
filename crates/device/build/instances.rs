//! Writes out the kernels that macros declare, so that a scan of a source finds each instance.
//!
//! A macro with arguments declares kernels where its text has `__global__` or uses an earlier macro of this kind. Each use
//! below it becomes its text, with arguments in place of parameters and what `##` joins as one word. Lines keep their numbers.
//!
//! The scans of this crate's build script, of the emulator and of `cargo xtask kernels` use this file.

/// A macro that declares kernels.
struct Macro {
    name: String,
    parameters: Vec<String>,
    text: String,
}

/// The line, and what would be right.
type Fault = (usize, String);

/// The source with its instances written out.
///
/// # Errors
/// A use that does not end on its line or has another number of arguments.
pub(crate) fn written_out(source: &str) -> Result<String, Fault> {
    let mut macros: Vec<Macro> = Vec::new();
    let mut out = String::with_capacity(source.len());
    let mut lines = source.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut joined = line.to_owned();
        let mut n_lines = 1;
        if line.trim_start().starts_with("#define") {
            while joined.ends_with('\\')
                && let Some((_, next)) = lines.next()
            {
                joined.truncate(joined.len() - 1);
                joined.push_str(next);
                n_lines += 1;
            }
        }
        let definition = definition(&joined).filter(|found| declares_kernels(&found.text, &macros));
        if let Some(definition) = definition {
            macros.push(definition);
        } else {
            let (code, comment) = joined.split_at(joined.find("//").unwrap_or(joined.len()));
            let code = expanded(code, &macros).map_err(|what| (at + 1, what))?;
            out.extend([&code, comment]);
        }
        out.extend(std::iter::repeat_n('\n', n_lines));
    }
    Ok(out)
}

/// `#define NAME(a, b) text`.
fn definition(line: &str) -> Option<Macro> {
    let rest = line.trim_start().strip_prefix("#define")?.trim_start();
    let (name, rest) = rest.split_at(rest.find(|c| !is_word(c))?);
    let (parameters, text) = rest.strip_prefix('(')?.split_once(')')?;
    Some(Macro {
        name: name.to_owned(),
        parameters: parameters.split(',').map(|p| p.trim().to_owned()).collect(),
        text: text.to_owned(),
    })
}

fn declares_kernels(text: &str, macros: &[Macro]) -> bool {
    let is_macro = |word: &str| macros.iter().any(|m| m.name == word);
    words(text).any(|word| word == "__global__" || is_macro(word))
}

/// The text with all uses of macros replaced.
fn expanded(text: &str, macros: &[Macro]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(word) = words(rest).next() {
        rest = &rest[word.len()..];
        let Some(used) = macros.iter().find(|m| m.name == word) else {
            out.push_str(word);
            continue;
        };
        let name = &used.name;
        let end = closing(rest).ok_or(format!("a use of `{name}` ends on its line, with `)`"))?;
        let arguments = arguments(&rest[1..end]);
        if arguments.len() != used.parameters.len() {
            let n = used.parameters.len();
            return Err(format!("`{name}` takes {n} arguments"));
        }
        out.push_str(&expanded(&with_arguments(used, &arguments), macros)?);
        rest = &rest[end + 1..];
    }
    Ok(out)
}

/// What stands between the commas that are in no parentheses.
fn arguments(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let is_comma = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    text.split(is_comma).map(str::trim).collect()
}

fn with_arguments(used: &Macro, arguments: &[&str]) -> String {
    let argument = |word| {
        let at = used.parameters.iter().position(|p| p == word);
        at.map_or(word, |at| arguments[at])
    };
    let text: String = words(&used.text).map(argument).collect();
    let mut parts = text.split("##");
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        joined.truncate(joined.trim_end().len());
        joined.push_str(part.trim_start());
    }
    joined
}

/// Where the parenthesis that `text` begins with is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    let text = text.starts_with('(').then_some(text)?;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(at)
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Names and numbers, and every other character by itself.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::written_out;

    const KERNEL: &str =
        "#define KERNEL(name, T) \\\n  __global__ void k_##name ## _fwd(T *x) { f<T>(x); }\n";

    #[test]
    fn uses_become_declarations_on_their_own_lines() {
        let source = format!("{KERNEL}KERNEL(wide, float4) // KERNEL(\nint x;\nKERNEL(2x8, int)");
        let text = written_out(&source).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[..2], ["", ""]);
        assert!(lines[2].starts_with("__global__ void k_wide_fwd(float4 *x) { f<float4>(x); }"));
        assert_eq!(lines[3], "int x;");
        assert_eq!(lines[4], "__global__ void k_2x8_fwd(int *x) { f<int>(x); }");
    }

    #[test]
    fn a_macro_may_use_another() {
        let both =
            "#define BOTH(name) KERNEL(name##_a, int) \\\n KERNEL(name##_b, (1, 2))\nBOTH(x)\n";
        let text = written_out(&format!("{KERNEL}{both}")).unwrap();
        assert!(text.contains("k_x_a_fwd(int *x)") && text.contains("k_x_b_fwd((1, 2) *x)"));
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn other_text_stays() {
        let source = "#define TWICE(x) \\\n  2 * x\n#define WIDTH 4\nTWICE(KERNEL) KERNEL\n";
        let same = source.replace("\\\n  2 * x\n", "  2 * x\n\n");
        assert_eq!(written_out(source).unwrap(), same);
    }

    #[test]
    fn a_use_that_no_kernel_comes_from_is_a_fault_with_its_line() {
        for bad in [
            "KERNEL(a)",
            "KERNEL(a, b, c)",
            "KERNEL(a,",
            "KERNEL",
            "KERNEL) (",
        ] {
            let (line, what) = written_out(&format!("{KERNEL}\n{bad}\nb)\n")).unwrap_err();
            assert!(
                line == 4 && what.contains("`KERNEL`"),
                "{bad}: {line}: {what}"
            );
        }
    }
}
