//! static-key
