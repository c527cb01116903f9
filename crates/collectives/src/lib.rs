//! Collective operations between ranks with a deadline on every wait and sums that do not depend on the number of ranks.
