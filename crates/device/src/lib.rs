//! Memory and numeric kernels behind one concrete device type; the host back end is the reference.
