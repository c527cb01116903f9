//! What the fuzz targets check beside the absence of panics: see the README.

#![forbid(unsafe_code)]

pub mod bytes;
pub mod costs;
pub mod graphs;
pub mod job;
pub mod line;
pub mod rgcn;
