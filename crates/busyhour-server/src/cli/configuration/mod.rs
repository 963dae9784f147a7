//! The configuration file: made by `busyhour init`, checked by `busyhour check-config`.

mod check_config;
mod init;

pub use check_config::CheckConfig;
pub use init::Init;
