//! A graph cut into P row shards: CSR and bit-matrix forms, COO views, and the partitioners.
