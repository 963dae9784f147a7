//! The settings of the section `otlp`.

use super::{Allowed, OFF, SettingKey, path_or, put, show_or, show_path_or, whole};
use crate::{
    config::otlp::{ENDPOINT, HEADERS_FILE},
    server::SpanExportConfig,
};

pub(super) const OTLP: &[SettingKey] = &[
    SettingKey {
        path: ENDPOINT,
        allowed: Allowed::Text("a URL such as http://127.0.0.1:4318 without a password, or off"),
        help: "A collector of OpenTelemetry that gets the spans of registrations and calls by OTLP over HTTP, in JSON",
        assign: |config, text| put(&mut config.otlp.endpoint, endpoint_or_off(text)),
        show: |config| show_or(OFF, config.otlp.endpoint.as_ref()),
    },
    SettingKey {
        path: "otlp.trace_one_in",
        allowed: whole(1, 1_000_000, "requests"),
        help: "One in so many registrations and calls is followed, chosen by chance; 1 follows all of them",
        assign: |config, text| put(&mut config.otlp.trace_one_in, text.parse().ok()),
        show: |config| config.otlp.trace_one_in.to_string(),
    },
    SettingKey {
        path: HEADERS_FILE,
        allowed: Allowed::Text("the path of a file, or off"),
        help: "The file with headers for the collector, one a line, such as Authorization: Bearer and a token",
        assign: |config, text| put(&mut config.otlp.headers_file, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.otlp.headers_file.as_ref()),
    },
];

fn endpoint_or_off(text: &str) -> Option<Option<String>> {
    match text {
        OFF => Some(None),
        text => SpanExportConfig::new(text, 1)
            .ok()
            .map(|_| Some(text.to_owned())),
    }
}
