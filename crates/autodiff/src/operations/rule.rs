//! What shape rules have in common.

use crate::Shape;

/// Result of a shape rule: a shape, or what would have been right.
pub(super) type Rule = Result<Shape, String>;

/// The one shape that all have.
pub(super) fn equal(shapes: &[Shape]) -> Rule {
    match shapes.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(shapes[0]),
        false => Err("equal shapes are expected".to_string()),
    }
}
