//! What the audit trail tells.

use super::sheet::Sheet;
use super::short;
use crate::base::Millis;
use crate::base::text::{count_text, escape_controls, pad_columns, plural, truncate_chars, truncate_columns};
use crate::cli::style::Style;
use crate::setup::stats::{AuditRecord, AuditRow, AuditRows, Breakdown, Sum, TokenReport, TrailFault, TrailVerdict};

/// Name and width of each column; the last one has none.
const COLUMNS: [(&str, usize); 9] = [
    ("TIME (UTC)", 17),
    ("ID", 9),
    ("ROLE", 8),
    ("TASK", 20),
    ("MODEL", 20),
    ("TOOLS", 8),
    ("TOKENS", 9),
    ("MS", 7),
    ("NOTES", 0),
];

/// `lazy stats audit`.
pub(crate) fn rows(rows: &AuditRows, style: Style) -> String {
    if rows.rows.is_empty() {
        return "No request in the audit trail fits.\n".into();
    }
    let heads = COLUMNS.map(|(name, width)| pad_columns(name, width));
    let mut out = format!("{}\n", style.bold(heads.join(" ").trim_end()));
    for row in &rows.rows {
        let cells = cells(row);
        let line: Vec<String> = cells
            .iter()
            .zip(COLUMNS)
            .map(|(cell, (name, width))| match name {
                "NOTES" if row.failed => style.error(cell),
                "NOTES" => style.warning(cell),
                "ID" => style.id(pad_columns(cell, width)),
                _ => pad_columns(&truncate_columns(cell, width.max(2) - 1), width),
            })
            .collect();
        out.push_str(line.join(" ").trim_end());
        out.push('\n');
    }
    if rows.hidden > 0 {
        let hidden = plural(rows.hidden, "older request");
        out.push_str(&format!("\n{}\n", style.dim(format!("{hidden} not shown (--limit)"))));
    }
    out
}

fn cells(row: &AuditRow) -> [String; 9] {
    let known = |text: &Option<String>| text.as_deref().map_or_else(|| "-".into(), escape_controls);
    let mut notes = Vec::new();
    if row.denials > 0 {
        notes.push(format!("DENY({})", row.denials));
    }
    if row.rerouted {
        notes.push("REROUTE".into());
    }
    if row.failed {
        notes.push(match row.status {
            Some(status) => format!("FAIL({status})"),
            None => "FAIL(no-response)".into(),
        });
    }
    if row.partial {
        notes.push("PARTIAL".into());
    }
    [
        Millis(row.ts).minute(),
        short(&row.id).to_string(),
        known(&row.role),
        known(&row.task_id),
        known(&row.model),
        format!("{}/{}", row.tool_uses, row.tool_results),
        row.total_tokens.map_or_else(|| "-".into(), count_text),
        row.duration_ms.to_string(),
        notes.join(" "),
    ]
}

/// `lazy stats audit <record>`.
pub(crate) fn record(record: &AuditRecord, style: Style) -> String {
    let clean = |text: &String| escape_controls(text);
    let mut sheet = Sheet::new(style);
    sheet.line(format!("{} {}", style.bold("Request"), style.id(&record.id)));
    sheet.field("Received", Millis(record.ts).iso());
    sheet.maybe("Role", record.role.as_ref().map(clean));
    sheet.maybe("Task", record.task_id.as_ref().map(clean));
    sheet.field("Upstream", clean(&record.upstream));
    sheet.field("Asked", format!("{} {}", clean(&record.method), clean(&record.path)));
    sheet.maybe("Model", record.model.as_ref().map(clean));
    let status = record.status.map_or_else(|| "no response".into(), |status| status.to_string());
    sheet.field("Answer", format!("{status} after {} ms", record.duration_ms));
    sheet.maybe("Stopped", record.stop_reason.as_ref().map(clean));
    sheet.maybe("Error", record.error.as_ref().map(clean));
    sheet.maybe("Unjudged", record.unjudged.as_ref().map(clean));
    if let Some(usage) = record.usage {
        let count = |count: Option<u64>| count.map_or_else(|| "-".into(), |count| count.to_string());
        let partial = if record.usage_partial { "; the response broke off" } else { "" };
        sheet.field(
            "Tokens",
            format!(
                "{} read, {} written, {} into the cache, {} from it{partial}",
                count(usage.input_tokens),
                count(usage.output_tokens),
                count(usage.cache_creation_input_tokens),
                count(usage.cache_read_input_tokens)
            ),
        );
    }
    if let Some(shape) = &record.request_shape {
        let text = format!(
            "{}, {}, {} bytes",
            plural(shape.num_messages, "message"),
            plural(shape.num_tools, "tool"),
            shape.body_bytes
        );
        sheet.field("Request", text);
        sheet.field("Tools", escape_controls(&shape.tool_names.join(", ")));
    }
    if let Some(n) = record.n {
        sheet.field("Number", n.to_string());
    }
    if let Some(reroute) = &record.reroute {
        sheet.section("Rerouted");
        let target = |upstream: &String, model: &Option<String>| {
            format!("{} {}", clean(upstream), model.as_ref().map(clean).unwrap_or_default())
        };
        sheet.field("From", target(&reroute.from_upstream, &reroute.from_model));
        sheet.field("To", target(&reroute.to_upstream, &reroute.to_model));
        sheet.field("Because of", format!("{}, {} tried", clean(&reroute.trigger), reroute.attempts));
    }
    if let Some(denials) = record.enforcement.as_ref().filter(|denials| !denials.is_empty()) {
        sheet.section("Denied");
        for denial in denials {
            sheet.line(format!("  {} ({}): {}", clean(&denial.name), clean(&denial.rule), clean(&denial.reason)));
        }
    }
    if !record.tool_uses.is_empty() {
        sheet.section("Tool calls in the request");
        for call in &record.tool_uses {
            let about =
                call.path.as_ref().or(call.command.as_ref()).or(call.target.as_ref()).unwrap_or(&call.input_preview);
            sheet.line(format!("  {}  {}", clean(&call.name), truncate_chars(&escape_controls(about), 200)));
        }
    }
    if !record.tool_results.is_empty() {
        sheet.section("Their results");
        for result in &record.tool_results {
            let mark = if result.is_error { "failed: " } else { "" };
            sheet.line(format!("  {mark}{}", truncate_chars(&escape_controls(&result.content_preview), 200)));
        }
    }
    sheet.text()
}

/// `lazy stats audit --verify`.
pub(crate) fn verdict(verdict: &TrailVerdict, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    for finding in &verdict.findings {
        let records = match finding.records {
            Some((first, last)) if first == last => format!("record {first}"),
            Some((first, last)) => format!("records {first} to {last}"),
            None => "a record".into(),
        };
        let id = finding.id.as_deref().map(|id| format!(" ({})", escape_controls(id))).unwrap_or_default();
        let what = match finding.fault {
            TrailFault::Changed => format!("{records}{id} was changed"),
            TrailFault::Missing => {
                let verb = if finding.records.is_some_and(|(first, last)| first != last) { "are" } else { "is" };
                format!("{records} {verb} missing in front of this line")
            }
            TrailFault::Cut => format!("{records} is cut"),
            TrailFault::Inserted => format!("{records}{id} was put in or moved"),
            TrailFault::Unanchored => {
                "proxy-audit.head is gone: nothing says whether records are missing behind the last line".into()
            }
        };
        sheet.line(format!("{} {}:{}: {what}", style.error("✗"), finding.file, finding.line));
    }
    if verdict.torn {
        let text = "the last line is not whole: it is being written, or its writer was killed. That is no tampering.";
        sheet.line(format!("{} {text}", style.warning("!")));
    }
    if verdict.unchained > 0 {
        let lines = plural(verdict.unchained, "line");
        sheet
            .line(style.dim(format!("{lines} of an older version stand in front of the chain and cannot be checked.")));
    }
    let span = match (verdict.first, verdict.last) {
        (Some(first), Some(last)) => format!(" (numbers {first} to {last})"),
        _ => String::new(),
    };
    let checked = format!("{} checked{span}", plural(verdict.records, "record"));
    sheet.line(match verdict.findings.len() {
        0 => style.success(format!("The trail is intact: {checked}.")),
        count => style.error(format!("The trail is not what was written: {}; {checked}.", plural(count, "fault"))),
    });
    sheet.text()
}

/// `lazy stats tokens`.
pub(crate) fn tokens(report: &TokenReport, top: usize, style: Style) -> String {
    let Some((first, last)) = report.span else {
        return "No request in the audit trail fits.\n".into();
    };
    let mut sheet = Sheet::new(style);
    let total = &report.total;
    sheet.line(format!(
        "{}, {} with token counts, {} to {} UTC",
        plural(usize::try_from(total.requests).unwrap_or(usize::MAX), "request"),
        total.with_usage,
        Millis(first).minute(),
        Millis(last).minute()
    ));
    sheet.line(style.bold(columns(["", "REQUESTS", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ", "TOTAL"])));
    sheet.line(sums("all", total));
    for Breakdown { by, rows } in &report.groups {
        sheet.section(format!("By {}", by.name()));
        for group in rows.iter().take(top) {
            sheet.line(sums(&escape_controls(&group.key), &group.sum));
        }
        if rows.len() > top {
            sheet.line(style.dim(format!("  {} more (--top)", rows.len() - top)));
        }
    }
    if total.partial > 0 {
        let text = format!("{} broke off: more may have been billed for them than is counted here.", total.partial);
        sheet.line("").line(style.warning(text));
    }
    let scope = "Everything that lazy starts goes through its proxy and is in the trail, which keeps the last 8 MiB of \
                 records. What came without lazy's credential is (unattributed).";
    sheet.line("").line(style.dim(scope));
    sheet.text()
}

fn sums(name: &str, sum: &Sum) -> String {
    let counts = [
        sum.requests,
        sum.input_tokens,
        sum.output_tokens,
        sum.cache_creation_input_tokens,
        sum.cache_read_input_tokens,
        sum.total_tokens,
    ];
    let [requests, input, output, write, read, total] = counts.map(|count| count.to_string());
    columns([name, &requests, &input, &output, &write, &read, &total])
}

fn columns(cells: [&str; 7]) -> String {
    let [name, rest @ ..] = cells;
    let numbers: String = rest.iter().map(|cell| format!(" {cell:>12}")).collect();
    format!("  {}{numbers}", pad_columns(&truncate_columns(name, 27), 28))
}
