use crate::result::bh_result;
use std::borrow::Cow;

/// Why a call failed. It is as large as a pointer, so that what the body of a function returns stays in a register.
#[derive(Debug)]
pub(crate) struct Failure(Box<Reason>);

/// The code that a call returns, and the sentence for `bh_last_error`.
#[derive(Debug)]
struct Reason {
    code: bh_result,
    message: Cow<'static, str>,
}

/// What the body of an exported function returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

// Every function is cold and by itself, so that an exported function needs no room on the stack for what it has to say.
impl Failure {
    #[cold]
    #[inline(never)]
    pub(crate) fn new(code: bh_result, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self(Box::new(Reason { code, message }))
    }

    pub(crate) fn code(&self) -> bh_result {
        self.0.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// An argument that must not be NULL is.
    #[cold]
    #[inline(never)]
    pub(crate) fn null(argument: &'static str) -> Self {
        Self::new(bh_result::BH_NULL, format!("{argument} is NULL"))
    }

    /// An argument has a value that it may not have.
    #[cold]
    #[inline(never)]
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(bh_result::BH_INVALID, message)
    }

    /// What an id, an address or a name stands for is not there.
    #[cold]
    #[inline(never)]
    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(bh_result::BH_NOT_FOUND, message)
    }
}
