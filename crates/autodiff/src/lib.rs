//! Reverse-mode differentiation over a closed set of tensor operations, including the collective ones.
