//! The parameters of one run in their given order: numbers, and words such as
//! `insert`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(Map<String, Value>);

impl Params {
    pub fn with(&self, key: &str, value: u64) -> Self {
        let mut params = self.clone();
        params.0.insert(key.to_owned(), Value::from(value));
        params
    }

    pub fn with_word(&self, key: &str, word: &str) -> Self {
        let mut params = self.clone();
        params.0.insert(key.to_owned(), Value::from(word));
        params
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn get(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// The value of the parameter, or zero; expectations are only computed for
    /// known parameters.
    pub fn number(&self, key: &str) -> u64 {
        self.get(key).unwrap_or(0)
    }

    /// The parameters without these.
    pub fn without(&self, keys: &[&str]) -> Self {
        let mut params = self.clone();
        params.0.retain(|key, _| !keys.contains(&key.as_str()));
        params
    }

    /// The parameters as command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(key, value)| match value {
                Value::String(word) => format!("{key}={word}"),
                number => format!("{key}={number}"),
            })
            .collect()
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_args().join(" "))
    }
}
