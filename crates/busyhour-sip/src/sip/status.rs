//! Status codes and their reason phrases.

/// A response status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident = $code:literal $reason:literal;)*) => {
        impl Status {
            $(#[doc = concat!(stringify!($code), " ", $reason, ".")] pub const $name: Self = Self($code);)*

            /// The usual reason phrase; `Unknown` for a code without one here.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "Unknown",
                }
            }
        }
    };
}

statuses! {
    TRYING = 100 "Trying";
    RINGING = 180 "Ringing";
    OK = 200 "OK";
    ACCEPTED = 202 "Accepted";
    NO_NOTIFICATION = 204 "No Notification";
    MOVED_TEMPORARILY = 302 "Moved Temporarily";
    BAD_REQUEST = 400 "Bad Request";
    UNAUTHORIZED = 401 "Unauthorized";
    FORBIDDEN = 403 "Forbidden";
    NOT_FOUND = 404 "Not Found";
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed";
    NOT_ACCEPTABLE = 406 "Not Acceptable";
    PROXY_AUTHENTICATION_REQUIRED = 407 "Proxy Authentication Required";
    REQUEST_TIMEOUT = 408 "Request Timeout";
    CONDITIONAL_REQUEST_FAILED = 412 "Conditional Request Failed";
    REQUEST_ENTITY_TOO_LARGE = 413 "Request Entity Too Large";
    UNSUPPORTED_MEDIA_TYPE = 415 "Unsupported Media Type";
    UNSUPPORTED_URI_SCHEME = 416 "Unsupported URI Scheme";
    BAD_EXTENSION = 420 "Bad Extension";
    EXTENSION_REQUIRED = 421 "Extension Required";
    SESSION_INTERVAL_TOO_SMALL = 422 "Session Interval Too Small";
    INTERVAL_TOO_BRIEF = 423 "Interval Too Brief";
    FLOW_FAILED = 430 "Flow Failed";
    FIRST_HOP_LACKS_OUTBOUND = 439 "First Hop Lacks Outbound Support";
    MAX_BREADTH_EXCEEDED = 440 "Max-Breadth Exceeded";
    TEMPORARILY_UNAVAILABLE = 480 "Temporarily Unavailable";
    CALL_DOES_NOT_EXIST = 481 "Call/Transaction Does Not Exist";
    LOOP_DETECTED = 482 "Loop Detected";
    TOO_MANY_HOPS = 483 "Too Many Hops";
    ADDRESS_INCOMPLETE = 484 "Address Incomplete";
    BUSY_HERE = 486 "Busy Here";
    REQUEST_TERMINATED = 487 "Request Terminated";
    BAD_EVENT = 489 "Bad Event";
    SERVER_INTERNAL_ERROR = 500 "Server Internal Error";
    NOT_IMPLEMENTED = 501 "Not Implemented";
    SERVICE_UNAVAILABLE = 503 "Service Unavailable";
    SERVER_TIMEOUT = 504 "Server Time-out";
    VERSION_NOT_SUPPORTED = 505 "Version Not Supported";
    MESSAGE_TOO_LARGE = 513 "Message Too Large";
    PUSH_NOT_SUPPORTED = 555 "Push Notification Service Not Supported";
    BUSY_EVERYWHERE = 600 "Busy Everywhere";
    DECLINE = 603 "Decline";
}

impl Status {
    /// The status of this code; `None` outside of 100 to 699.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code < 700 {
            Some(Self(code))
        } else {
            None
        }
    }

    /// 100 to 699.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether more will follow (1xx).
    pub const fn is_provisional(self) -> bool {
        self.0 < 200
    }

    /// Whether the request was granted (2xx).
    pub const fn is_success(self) -> bool {
        self.0 >= 200 && self.0 < 300
    }
}
