//! Rules of what changes the API server itself: definitions of kinds, policies, webhooks, other
//! servers, flow control.

pub(crate) mod api_service;
pub(crate) mod definition;
pub(crate) mod flow;
pub(crate) mod policies;
pub(crate) mod webhook;
