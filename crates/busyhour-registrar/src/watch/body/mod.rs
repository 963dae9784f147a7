//! What watchers are told and devices publish: states, and the bodies of the
//! packages, read and written.

pub(in crate::watch) mod line;
pub(in crate::watch) mod message_summary;
pub(in crate::watch) mod xml;
pub(in crate::watch) mod document;
pub(in crate::watch) mod elements;
pub(in crate::watch) mod state;
pub(in crate::watch) mod package;
pub(in crate::watch) mod pidf;
pub(in crate::watch) mod call_names;
pub(in crate::watch) mod dialog_info;
pub(in crate::watch) mod dialog_element;
pub(in crate::watch) mod reginfo;
pub(in crate::watch) mod watcher_info;
