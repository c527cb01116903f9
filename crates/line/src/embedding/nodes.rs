//! Node-level measures of an embedding: classes, communities, and a picture.
//!
//! Classes are given in a text file and are not trained on. Classification is one-vs-rest logistic
//! regression over a row's columns, judged by its F1 on held-out nodes. Communities are k-means
//! clusters, judged by their mutual information with the classes.

mod classes;
mod classify;
mod communities;
mod picture;
#[cfg(test)]
mod tests;

pub use classes::Classes;
pub use classify::classify;
pub use communities::{Communities, communities};
pub use picture::{Plane, plane, svg};
