//! Octets on the wire that have names.

/// Makes an enum of the codes that one octet can have, from a line for each name.
macro_rules! codes {
    ($(#[$doc:meta])* $codes:ident: $($name:ident = $code:literal $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $codes {
            $(#[doc = concat!($text, ".")] $name,)*
            /// A code without a name here.
            Unknown(u8),
        }

        impl $codes {
            /// What the octet stands for.
            pub const fn new(code: u8) -> Self {
                match code {
                    $($code => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// The octet on the wire.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Unknown(code) => code,
                }
            }
        }
    };
}

pub(super) use codes;
