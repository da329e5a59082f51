//! Why a call is refused.

use axum::http::StatusCode;

/// One sentence for people, and the status of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub why: String,
}

impl Refusal {
    /// The caller must change its request.
    pub fn bad(why: impl ToString) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, why: why.to_string() }
    }

    pub fn foreign(why: impl ToString) -> Self {
        Refusal { status: StatusCode::FORBIDDEN, why: why.to_string() }
    }

    pub fn not_found(why: impl ToString) -> Self {
        Refusal { status: StatusCode::NOT_FOUND, why: why.to_string() }
    }

    pub fn too_large(why: impl ToString) -> Self {
        Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, why: why.to_string() }
    }

    pub fn too_slow(why: impl ToString) -> Self {
        Refusal { status: StatusCode::REQUEST_TIMEOUT, why: why.to_string() }
    }

    /// The caller may try again later.
    pub fn busy(why: impl ToString) -> Self {
        Refusal { status: StatusCode::TOO_MANY_REQUESTS, why: why.to_string() }
    }

    /// A fault of the lab itself.
    pub fn fault(why: impl ToString) -> Self {
        Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, why: why.to_string() }
    }
}
