//! Dialogs that pass through the proxy, and the signed URI of Record-Route.
