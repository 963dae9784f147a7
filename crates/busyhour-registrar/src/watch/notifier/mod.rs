//! The notifier (RFC 6665): what a SUBSCRIBE asks, its dialog, and the NOTIFYs
//! sent in it.

pub(in crate::watch) mod rates;
pub(in crate::watch) mod notify_len;
pub(in crate::watch) mod subscribe;
pub(in crate::watch) mod next_hop;
pub(in crate::watch) mod dialog;
pub(in crate::watch) mod outstanding;
pub(in crate::watch) mod transmission;
pub(in crate::watch) mod notify_values;
pub(in crate::watch) mod watched_list;
pub(in crate::watch) mod watcher_info_view;
pub(in crate::watch) mod subscription;
pub(in crate::watch) mod answer;
