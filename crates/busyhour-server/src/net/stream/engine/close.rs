use crate::net::stream::{CloseCode, Ending, counters::ConnectionCounters};
use std::sync::atomic::AtomicU64;

/// Why a connection ends.
#[derive(Clone, Copy)]
pub(super) enum Close {
    ByPeer,
    Failed,
    NoBuffer,
    SourceMemory,
    Displaced,
    DisplacedOfSource,
    DisplacedMemory,
    DisplacedHandshake,
    Handshake,
    NoPlace,
    Late(Ending),
}

impl Close {
    /// What the other side of a WebSocket is told.
    pub(super) fn code(self) -> CloseCode {
        match self {
            Self::ByPeer => CloseCode::Normal,
            Self::Failed | Self::Late(Ending::Broken) => CloseCode::Protocol,
            Self::SourceMemory | Self::Late(Ending::Stalled) => CloseCode::Policy,
            Self::Late(Ending::Idle | Ending::ByPeer) | Self::Handshake => CloseCode::GoingAway,
            Self::NoBuffer
            | Self::Displaced
            | Self::DisplacedOfSource
            | Self::DisplacedMemory
            | Self::DisplacedHandshake
            | Self::NoPlace => CloseCode::TryAgain,
        }
    }

    /// What counts it.
    pub(super) fn counter(self, counters: &ConnectionCounters) -> &AtomicU64 {
        match self {
            Self::ByPeer => &counters.closed_by_peer,
            Self::Failed => &counters.receive_errors,
            Self::NoBuffer => &counters.closed_no_buffer,
            Self::SourceMemory => &counters.closed_source_memory,
            Self::Displaced => &counters.displaced,
            Self::DisplacedOfSource => &counters.displaced_source,
            Self::DisplacedMemory => &counters.displaced_memory,
            Self::DisplacedHandshake => &counters.displaced_handshakes,
            Self::Handshake => &counters.closed_handshake,
            Self::NoPlace => &counters.refused_full,
            Self::Late(Ending::Idle) => &counters.closed_idle,
            Self::Late(Ending::Stalled) => &counters.closed_stalled,
            Self::Late(Ending::Broken) => &counters.closed_broken,
            Self::Late(Ending::ByPeer) => &counters.closed_by_peer,
        }
    }
}
