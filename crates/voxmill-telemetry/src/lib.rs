//! What a run is planned to be ([`plan`]) and what happened in it ([`event`]): measured by the
//! threads that do the work ([`recorder`]), kept in a log ([`log`]) that gives the same statistics
//! ([`stats`]) whenever it is read again, and on request shown in full detail ([`trace`]).

pub mod device;
pub mod event;
pub mod facts;
pub mod log;
pub mod plan;
pub mod probes;
pub mod recorder;
pub mod shape;
pub mod stage;
pub mod stats;
pub mod trace;

#[cfg(test)]
mod examples;
