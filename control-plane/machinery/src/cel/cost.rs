//! What evaluating costs: estimated before there are values, counted with them.

pub(super) mod calls;
pub(super) mod estimate;
