//! Decisions on raised items, as flags of `unblock` and `accept`.

use crate::base::{Error, Result};
use crate::rpc::commands::{RaisedAction, RaisedDecision};

/// The flags' values.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    /// `ID=TEXT`.
    pub respond: &'a [String],
    /// `ID` or `ID=NOTE`.
    pub promote_subtask: &'a [String],
    /// `ID` or `ID=NOTE`.
    pub promote_peer: &'a [String],
    /// `ID=REASON`.
    pub dismiss: &'a [String],
    /// `ID` or `ID=NOTE`.
    pub acknowledge: &'a [String],
}

/// The decisions.
///
/// # Errors
/// A value without an id, a text that must be there and is not, an item decided twice.
pub(crate) fn read(words: &Words<'_>) -> Result<Vec<RaisedDecision>> {
    let flags: [(&[String], RaisedAction, &str); 5] = [
        (words.respond, RaisedAction::Respond, "--respond-raised"),
        (words.promote_subtask, RaisedAction::PromoteSubtask, "--promote-raised-subtask"),
        (words.promote_peer, RaisedAction::PromotePeer, "--promote-raised-peer"),
        (words.dismiss, RaisedAction::Dismiss, "--dismiss-raised"),
        (words.acknowledge, RaisedAction::Acknowledge, "--acknowledge-raised"),
    ];
    let mut decisions: Vec<RaisedDecision> = Vec::new();
    for (values, action, flag) in flags {
        for value in values {
            let decision = one(value, action, flag)?;
            if decisions.iter().any(|other| other.id == decision.id) {
                return Err(
                    Error::usage(format!("the raised item {} is decided twice", decision.id)).hint("lazy raised list")
                );
            }
            decisions.push(decision);
        }
    }
    Ok(decisions)
}

fn one(value: &str, action: RaisedAction, flag: &str) -> Result<RaisedDecision> {
    let (id, text) = match value.split_once('=') {
        Some((id, text)) => (id.trim(), Some(text.trim()).filter(|text| !text.is_empty())),
        None => (value.trim(), None),
    };
    if id.is_empty() {
        return Err(Error::usage(format!("{flag} names no item: {value:?}")).hint("lazy raised list"));
    }
    if text.is_none() && matches!(action, RaisedAction::Respond | RaisedAction::Dismiss) {
        return Err(Error::usage(format!("{flag} needs a text for item {id}")).hint(format!("{flag} '{id}=…'")));
    }
    Ok(RaisedDecision { id: id.to_string(), action, response: text.map(str::to_string) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(values: &[&str]) -> Result<Vec<RaisedDecision>> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_string()).collect();
        read(&Words { respond: &values, promote_subtask: &[], promote_peer: &[], dismiss: &[], acknowledge: &[] })
    }

    #[test]
    fn text_may_hold_equal_signs() {
        let decisions = respond(&["ab12=use a=b"]).expect("reads");
        assert_eq!((decisions[0].id.as_str(), decisions[0].response.as_deref()), ("ab12", Some("use a=b")));
    }

    #[test]
    fn half_a_decision_is_refused() {
        for wrong in ["ab12", "ab12=", "=text", "ab12=  "] {
            assert!(respond(&[wrong]).is_err(), "{wrong}");
        }
        assert!(respond(&["ab12=a", "ab12=b"]).expect_err("twice").to_string().contains("twice"));
    }

    #[test]
    fn a_note_is_optional_where_no_answer_is_due() {
        let values = vec!["ab12".to_string()];
        let words = Words { respond: &[], promote_subtask: &[], promote_peer: &values, dismiss: &[], acknowledge: &[] };
        let decisions = read(&words).expect("reads");
        assert_eq!(decisions[0].action, RaisedAction::PromotePeer);
        assert_eq!(decisions[0].response, None);
    }
}
