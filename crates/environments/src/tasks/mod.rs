//! Tasks that are known from Gymnasium and MinAtar, and the five graph problems, each as a
//! functional environment.

pub(crate) mod acrobot;
pub(crate) mod minatar;
pub(crate) mod mountain_car;
pub(crate) mod pendulum;
pub(crate) mod tabular;
#[cfg(test)]
mod tests;
