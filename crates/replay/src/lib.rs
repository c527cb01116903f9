//! Replay memory for graph problems: a transition is an episode and a step over one list of picks.
