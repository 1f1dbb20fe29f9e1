//! A scenario of the scripted model, as JSON and as TOML: read or refused.

#![no_main]

use lazy::demo::model::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    serde_json::from_str::<Scenario>(text).ok();
    toml::from_str::<Scenario>(text).ok();
});
