//! The picker of each worker: Linux 2.2 goodness over runnable entities.
