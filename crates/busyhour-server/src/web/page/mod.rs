//! The dashboard as one document. Markup, style and script are separate files in this
//! folder; they are joined here, so that a browser sends only one request.

use std::sync::LazyLock;

/// The whole page, with a link to the telephone for browsers if that is served.
pub(super) fn html(has_telephone: bool) -> String {
    let link = if has_telephone { TELEPHONE } else { "" };
    HTML.replace("<!--telephone-->", link)
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

const TELEPHONE: &str = "<a href=\"/telephone/\">telephone</a>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_complete_and_loads_nothing_else() {
        let html = html(true);
        for missing in ["/*style*/", "/*script*/", "{version}", "<!--telephone-->"] {
            assert!(!html.contains(missing), "{missing}");
        }
        for foreign in ["http://", "https://", "src=", "@import", "stylesheet"] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}
