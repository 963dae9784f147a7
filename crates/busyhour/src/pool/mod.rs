//! A pool of workers; a task goes straight to one worker's queue.
