//! Reinforcement-learning environments over graphs: minimum vertex cover, its verifier, and the Environment trait.
