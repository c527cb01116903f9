//! The policies that come with the program: a name and a file of `policies/` each.

macro_rules! shipped {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!("../../policies/", $name, ".safetensors")),
        )
    };
}

/// The policies by name; the first is the default, and `NAME-default` that of the problem NAME.
pub(super) static SHIPPED: [(&str, &[u8]); 7] = [
    shipped!("mvc-default"),
    shipped!("mvc-three-layers"),
    shipped!("mis-default"),
    shipped!("mis-four-layers"),
    shipped!("clique-default"),
    shipped!("cut-default"),
    shipped!("dominating-set-default"),
];
