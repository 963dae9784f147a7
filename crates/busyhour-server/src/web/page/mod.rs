//! The dashboard as one document. Markup, style and script are separate files in this
//! folder; they are joined here, so that a browser sends only one request.

use std::sync::LazyLock;

/// The whole page.
pub(super) fn html() -> &'static str {
    &HTML
}

/// Forbids everything from elsewhere, even if someone could inject content into the
/// page.
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
    fn the_page_is_complete_and_loads_nothing_else() {
        for missing in ["/*style*/", "/*script*/", "{version}"] {
            assert!(!html().contains(missing), "{missing}");
        }
        for foreign in ["http://", "https://", "src=", "@import", "stylesheet"] {
            assert!(!html().contains(foreign), "{foreign}");
        }
    }
}
