//! What the rules say.

use super::sheet::Sheet;
use crate::base::Millis;
use crate::base::text::{escape_controls, plural};
use crate::cli::style::Style;
use crate::setup::{PolicyCheck, PolicyReplay};

/// `lazy policy check`.
pub(crate) fn check(check: &PolicyCheck, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    let verdict = match (check.allowed, check.enforced) {
        (true, _) => style.success("allowed"),
        (false, true) => style.error("denied"),
        (false, false) => style.warning("would be denied, and [proxy.policy] enforce = false lets it pass"),
    };
    sheet.line(format!("{} is {verdict}", style.id(escape_controls(&check.tool))));
    if let Some(denial) = &check.denial {
        sheet.field("Rule", denial.rule.id());
        sheet.maybe("Pattern", denial.pattern.as_ref());
        sheet.maybe("Matched", denial.matched.as_deref().map(escape_controls));
        sheet.field("Reason", escape_controls(&denial.reason));
    } else if !check.looks_at_input {
        sheet.field("Reason", "no rule looks at the input of this tool");
    }
    for path in &check.paths {
        sheet.field("Path", escape_controls(&path.written));
        if path.normal != path.written {
            sheet.field("Read as", escape_controls(&path.normal));
        }
    }
    sheet.text()
}

/// `lazy policy replay`.
pub(crate) fn replay(replay: &PolicyReplay, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    for call in &replay.denied {
        let who = call.task_id.as_deref().or(call.role.as_deref()).unwrap_or("-");
        let news = if call.was_denied { String::new() } else { format!("  {}", style.warning("passed then")) };
        sheet.line(format!(
            "{}  {}  {}  {}{news}",
            Millis(call.ts).minute(),
            style.id(escape_controls(who)),
            escape_controls(&call.name),
            call.denial.rule.id(),
        ));
        sheet.line(format!("    {}", escape_controls(&call.denial.reason)));
    }
    let unknown = match replay.unknown {
        0 => String::new(),
        count => format!("; the arguments of {} are not in the trail", plural(count, "call")),
    };
    sheet.line(format!(
        "{} of {} in {} would be denied{unknown}.",
        replay.denied.len(),
        plural(replay.calls, "call"),
        plural(replay.requests, "request")
    ));
    sheet.text()
}
