//! The table of kernels: the declarations in `cuda/*.cu`, scanned by the build script.

use crate::Error;

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A kernel as it is declared.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Its place in [`KERNELS`].
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "only loaded functions are listed by it")
    )]
    pub(crate) index: usize,
    /// Its symbol.
    pub(crate) name: &'static str,
    /// The file that defines it, without its ending, as `sparse_csr`.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "only modules are loaded by file")
    )]
    pub(crate) file: &'static str,
    /// Its parameters; see [`crate::Arg`].
    pub(crate) signature: &'static str,
}

#[cfg(feature = "cuda")]
impl Kernel {
    /// The bytes of each parameter.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        let mut letters = self.signature.chars();
        while let Some(letter) = letters.next() {
            widths.push(match letter {
                '*' | '&' => {
                    letters.next();
                    8
                }
                'U' => 8,
                'h' => 2,
                'b' => 1,
                _ => 4,
            });
        }
        widths
    }
}

/// The kernel of this name.
pub(crate) fn find(name: &str) -> Result<&'static Kernel, Error> {
    let found = KERNELS.binary_search_by(|kernel| kernel.name.cmp(name));
    match found {
        Ok(i) => Ok(&KERNELS[i]),
        Err(_) => Err(Error::driver(
            format!("launch of `{name}`"),
            "there is no kernel of this name in cuda/",
        )),
    }
}
