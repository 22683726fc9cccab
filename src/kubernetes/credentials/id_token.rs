//! The id token of `OpenID` Connect in a kubeconfig (`auth-provider: oidc`). client-go refreshes one that has expired;
//! kubegc has no browser and no refresh, so it says what to do.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use kube::config::AuthProviderConfig;
use serde::Deserialize;

/// The part of a token that says until when it is valid, in seconds of Unix.
#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

/// Checks that the id token has not expired. Only the server can judge one that cannot be read.
///
/// # Errors
/// It has expired; when, and what to do.
pub(super) fn check(provider: &AuthProviderConfig, now: Timestamp) -> Result<(), String> {
    let token = provider.config.get("id-token").filter(|_| provider.name == "oidc");
    let Some(expires) = token.and_then(|token| expiry(token)).filter(|expires| *expires <= now) else { return Ok(()) };
    let has_refresh = provider.config.get("refresh-token").is_some_and(|token| !token.is_empty());
    let remedy = if has_refresh { "any command of kubectl refreshes it" } else { "log in again" };
    Err(format!("the id-token of the user expired at {expires}: {remedy}"))
}

fn expiry(token: &str) -> Option<Timestamp> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    Timestamp::from_second(serde_json::from_slice::<Claims>(&claims).ok()?.exp).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(name: &str, claims: &str, refresh: &str) -> AuthProviderConfig {
        let token = format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims));
        let config = serde_json::json!({"id-token": token, "refresh-token": refresh});
        serde_json::from_value(serde_json::json!({"name": name, "config": config})).unwrap()
    }

    #[test]
    fn an_expired_id_token_is_refused() {
        let now = Timestamp::from_second(100).unwrap();
        let rows = [
            ("oidc", r#"{"exp": 101}"#, "", ""),
            ("oidc", r#"{"exp": 100}"#, "", "expired at 1970-01-01T00:01:40Z: log in again"),
            ("oidc", r#"{"exp": 99}"#, "r", "any command of kubectl refreshes it"),
            ("oidc", r#"{"exp": "99"}"#, "", ""),
            ("oidc", "{}", "", ""),
            ("gcp", r#"{"exp": 99}"#, "", ""),
        ];
        for (name, claims, refresh, expected) in rows {
            let error = check(&provider(name, claims, refresh), now).err().unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{name} {claims}: {error}");
        }
    }
}
