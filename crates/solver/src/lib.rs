//! OpenGraphGym-MG: train and apply a deep-RL policy for graph problems on graphs cut over P ranks.
