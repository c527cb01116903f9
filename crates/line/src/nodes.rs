//! What an embedding says of single nodes: their classes, the communities they form, and a picture.
//!
//! Classes are given in a text file and are not trained on. Classification is one-vs-rest logistic regression over a row's columns,
//! judged by its F1 on nodes that were held out; communities are k-means clusters, judged by their mutual information with the
//! classes.

mod classes;
mod classify;
mod kmeans;
#[cfg(test)]
mod naive;
mod picture;
#[cfg(test)]
mod tests;

pub use classes::Classes;
pub use classify::{F1, classify};
pub use kmeans::{Communities, communities, kmeans, mutual_information};
pub use picture::{Plane, plane, write_png, write_svg};
