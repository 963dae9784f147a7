//! Ordered execution: FIFO, one task at a time, on any worker.
