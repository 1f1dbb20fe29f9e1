//! Who did it: a channel, and the person behind it where one is known.

use serde::{Deserialize, Serialize};

/// The kind of actor behind a write. Provenance only: it never opens a gate by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// A person at the command line or the dashboard.
    #[default]
    Human,
    /// The interactive agent that acts as team lead.
    Builder,
    /// The agent of a task.
    Agent,
    /// The daemon itself.
    System,
    /// The supervisor of a turn.
    Supervisor,
}

impl Actor {
    /// Every actor, in the order of the stored format's documentation.
    pub const ALL: [Actor; 5] = [Actor::Human, Actor::Builder, Actor::Agent, Actor::System, Actor::Supervisor];

    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Actor::Human => "human",
            Actor::Builder => "builder",
            Actor::Agent => "agent",
            Actor::System => "system",
            Actor::Supervisor => "supervisor",
        }
    }

    /// Reads a stored name.
    pub fn parse(text: &str) -> Option<Actor> {
        Actor::ALL.into_iter().find(|actor| actor.as_str() == text)
    }
}

/// An actor with the person behind it, named the way git names one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct By {
    /// The channel.
    pub actor: Actor,
    /// The person's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// The person's name at the time of the act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
}

impl From<Actor> for By {
    fn from(actor: Actor) -> Self {
        By { actor, actor_email: None, actor_name: None }
    }
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.actor_name, &self.actor_email) {
            (Some(name), Some(email)) => write!(f, "{name} <{email}>"),
            (None, Some(email)) => f.write_str(email),
            _ => f.write_str(self.actor.as_str()),
        }
    }
}
