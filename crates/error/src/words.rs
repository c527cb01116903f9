//! Enums whose values are words of the command line and of files.

/// The words as a sentence lists them: `a`, `a or b`, `a, b or c`.
///
/// ```
/// assert_eq!(shardgraph_error::alternatives(&["1", "2", "both"]), "1, 2 or both");
/// ```
#[must_use]
pub fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Gives an enum a word for each value: `name`, `FromStr` and `Display`, which are inverse to each other.
///
/// The arguments are the enum, the type of its error, and a function that makes this error of a
/// field, the text that was given and the words that are right.
///
/// ```
/// use shardgraph_error::{SettingError, words};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Direction {
///     In,
///     Out,
/// }
/// words!(Direction, SettingError, SettingError::new, "direction"; "in" => In, "out" => Out);
///
/// assert_eq!("out".parse(), Ok(Direction::Out));
/// assert_eq!(Direction::In.to_string(), "in");
/// let error = "up".parse::<Direction>().unwrap_err();
/// assert_eq!(error.to_string(), "`direction`: expected in or out; found up");
/// ```
#[macro_export]
macro_rules! words {
    ($type:ident, $error:ty, $wrong:expr, $field:literal; $($word:literal => $value:ident),+ $(,)?) => {
        impl $type {
            /// The word on the command line and in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $word,)+
                }
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> ::std::result::Result<$type, $error> {
                match text {
                    $($word => Ok($type::$value),)+
                    _ => Err($wrong($field, text, &*$crate::alternatives(&[$($word),+]))),
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
