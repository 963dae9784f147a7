//! The dashboard as one document: markup, style and script are files of their
//! own beside this one and are put together here, so that a browser asks once.

use std::sync::LazyLock;

/// The whole page.
pub(super) fn html() -> &'static str {
    &HTML
}

/// Nothing from elsewhere, whatever the page might be made to contain.
pub(super) const SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
     script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

static HTML: LazyLock<String> = LazyLock::new(|| {
    include_str!("page.html")
        .replace("/*style*/", include_str!("page.css"))
        .replace("/*script*/", include_str!("page.js"))
        .replace("{version}", env!("CARGO_PKG_VERSION"))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_loads_nothing_else() {
        for missing in ["/*style*/", "/*script*/", "{version}"] {
            assert!(!html().contains(missing), "{missing}");
        }
        for foreign in ["http://", "https://", "src=", "@import", "stylesheet"] {
            assert!(!html().contains(foreign), "{foreign}");
        }
    }
}
