//! Hashes and random secrets.

use std::path::Path;

use sha2::Digest;

/// The first 16 hex digits of blake3 of the bytes: the id of a binary.
pub fn content_id(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_string()
}

/// The first 8 hex digits of sha256: fixed by the format of the daemon's state directory, which other programs read.
pub fn slug_hash(text: &str) -> String {
    sha2::Sha256::digest(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// `<basename>-<slug_hash>` of a project's root: the name of everything below `~/.lazy` that belongs to that project.
pub fn project_slug(root: &Path) -> String {
    let name = root.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    format!("{name}-{}", slug_hash(&root.to_string_lossy()))
}

/// 64 hex digits from the system's source of randomness.
pub fn secret() -> String {
    let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    // Two v4 uuids carry 244 random bits; hashing them spreads these over all 256.
    let mut hasher = blake3::Hasher::new();
    hasher.update(a.as_bytes());
    hasher.update(b.as_bytes());
    hasher.finalize().to_hex().to_string()
}
