//! The dashboard: a few files, which are part of the program.

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{borrow::Cow, sync::LazyLock};

/// A file of the dashboard.
struct Asset {
    /// Where a browser asks for it.
    path: &'static str,
    /// Where it is in the folder `assets`.
    file: &'static str,
    kind: &'static str,
    content: &'static str,
}

macro_rules! asset {
    ($path:literal, $file:literal, $kind:expr) => {
        Asset {
            path: $path,
            file: $file,
            kind: $kind,
            content: include_str!(concat!("assets/", $file)),
        }
    };
}

static ASSETS: [Asset; 18] = [
    asset!("/", "index.html", HTML),
    asset!("/assets/style.css", "style.css", CSS),
    asset!("/assets/app.js", "app.js", SCRIPT),
    asset!("/assets/api.js", "api.js", SCRIPT),
    asset!("/assets/ui.js", "ui.js", SCRIPT),
    asset!("/assets/live.js", "live.js", SCRIPT),
    asset!("/assets/overview.js", "overview.js", SCRIPT),
    asset!("/assets/devices.js", "devices.js", SCRIPT),
    asset!("/assets/lamps.js", "lamps.js", SCRIPT),
    asset!("/assets/watchers.js", "watchers.js", SCRIPT),
    asset!("/assets/mailboxes.js", "mailboxes.js", SCRIPT),
    asset!("/assets/calls.js", "calls.js", SCRIPT),
    asset!("/assets/domains.js", "domains.js", SCRIPT),
    asset!("/assets/queues.js", "queues.js", SCRIPT),
    asset!("/assets/storm.js", "storm.js", SCRIPT),
    asset!("/assets/cluster.js", "cluster.js", SCRIPT),
    asset!("/assets/settings.js", "settings.js", SCRIPT),
    asset!("/assets/log.js", "log.js", SCRIPT),
];

pub(super) fn router() -> Router {
    let mut router = Router::new();
    for asset in &ASSETS {
        router = router.route(asset.path, get(|| async { asset.answer() }));
    }
    router
}

/// Whether there is no data under a path, so that everybody may read it before a sign-in.
pub(super) fn is_public(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

impl Asset {
    fn answer(&self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, self.kind),
            (header::CONTENT_SECURITY_POLICY, SECURITY_POLICY),
            (header::CACHE_CONTROL, "no-cache"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        match self.text() {
            Ok(text) => (headers, text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }

    /// What is in the program; in a debug build, whoever works on the files may have them read
    /// each time.
    fn text(&self) -> std::io::Result<Cow<'static, str>> {
        match &*FOLDER {
            Some(folder) => {
                std::fs::read_to_string(format!("{folder}/{}", self.file)).map(Cow::Owned)
            }
            None => Ok(Cow::Borrowed(self.content)),
        }
    }
}

static FOLDER: LazyLock<Option<String>> = LazyLock::new(|| {
    let named = || std::env::var("DASHBOARD_ASSETS").ok();
    cfg!(debug_assertions).then(named).flatten()
});

/// Forbids everything from elsewhere, even if someone could inject content into the page.
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for asset in &ASSETS {
            let text = asset.content.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http://", "https://", "@import", "innerHTML"] {
                assert!(!text.contains(foreign), "{}: {foreign}", asset.file);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_every_import_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/page/assets");
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name());
        let there: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
        let served: BTreeSet<_> = ASSETS.iter().map(|asset| asset.file.to_owned()).collect();
        assert_eq!(there, served);
        for asset in &ASSETS {
            for import in asset.content.split("from \"./").skip(1) {
                let file = import.split('"').next().unwrap();
                assert!(served.contains(file), "{} imports {file}", asset.file);
            }
        }
    }
}
