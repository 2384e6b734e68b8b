//! What evaluating costs: estimated before there are values, counted with them.

mod argument;
pub(super) mod calls;
pub(super) mod estimate;
pub(super) mod range;
