//! Random streams against what they should have seen; see the rig.
