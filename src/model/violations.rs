//! Changes to protected files: the pure decisions.

use super::{Role, Status, Turn, Violation, ViolationStatus};

/// The set in force: that of the last agent turn that scanned. "Reported nothing" never clears an earlier set.
pub fn in_force(turns: &[Turn]) -> &[Violation] {
    turns
        .iter()
        .rev()
        .filter(|turn| turn.role == Role::Agent)
        .find_map(|turn| turn.violations.as_deref())
        .unwrap_or_default()
}

/// The files still to decide.
pub fn pending(turns: &[Turn]) -> Vec<&Violation> {
    in_force(turns).iter().filter(|violation| violation.status == ViolationStatus::Pending).collect()
}

/// Where a task rests when no turn runs.
pub fn resting_status(turns: &[Turn]) -> Status {
    if pending(turns).is_empty() { Status::Blocked } else { Status::Conflict }
}
