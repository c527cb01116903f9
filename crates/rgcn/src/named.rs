//! Text forms of enums whose names are words of the command line.

/// Gives an enum its text form, both ways.
macro_rules! named {
    ($type:ident, $field:literal, $($name:literal => $value:ident),+; $expected:literal) => {
        impl std::str::FromStr for $type {
            type Err = crate::Error;

            fn from_str(text: &str) -> Result<$type, crate::Error> {
                match text {
                    $($name => Ok($type::$value),)+
                    _ => Err(crate::Error::config($field, text, $expected)),
                }
            }
        }

        impl $type {
            /// The name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;
