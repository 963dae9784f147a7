//! What other programs and servers have set, as PostgreSQL has it.

pub(super) mod setting_reader;
