//! Tokens: their validity, their limits, and their file.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn user(name: &str, hash: &str) -> User {
    let password_hash = Some(hash.into());
    User { name: name.into(), password_hash, group: vec![], admin: false }
}

#[tokio::test]
async fn a_token_is_valid_until_it_expires_or_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(folder.path());
    let now = SystemTime::now();
    let users = [user("ann", "a"), user("bob", "b")];
    let (first, text) = tokens.make(&users[0], "script", HOUR, now).await.unwrap();
    let (second, _) = tokens.make(&users[1], "other", HOUR, now).await.unwrap();
    assert_eq!(tokens.user(&text, &users, now), Some(&users[0]));
    assert_eq!(tokens.user("stoa_guess", &users, now), None);
    assert_eq!(tokens.user(&text, &users, now + HOUR), None);
    let file = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
    assert!(!file.contains(&text), "only the digest is stored");
    // After a restart.
    let tokens = Tokens::open(folder.path());
    assert_eq!(tokens.user(&text, &users, now), Some(&users[0]));
    assert_eq!(tokens.list(Some("ann")), std::slice::from_ref(&first));
    assert!(!tokens.remove(second.id, Some("ann")).await.unwrap());
    assert!(tokens.remove(first.id, Some("ann")).await.unwrap());
    assert_eq!(tokens.user(&text, &users, now), None);
    let (third, _) = tokens.make(&users[0], "again", HOUR, now).await.unwrap();
    assert_eq!(third.id, 3);
    tokens.follow(&[]);
    assert!(tokens.list(None).is_empty());
    tokens.store().await.unwrap();
    assert!(Tokens::open(folder.path()).list(None).is_empty());
}

#[tokio::test]
async fn a_token_ends_with_the_password_and_with_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, now) = (Tokens::open(folder.path()), SystemTime::now());
    let [old, new] = ["old", "new"].map(|hash| [user("ann", hash)]);
    let (token, text) = tokens.make(&old[0], "script", HOUR, now).await.unwrap();
    assert!(tokens.user(&text, &old, now).is_some());
    assert!(tokens.expires(&token.digest, &old[0], now).is_some());
    // At once, and for good as soon as the tokens follow the users.
    assert!(tokens.user(&text, &new, now).is_none());
    assert!(tokens.expires(&token.digest, &new[0], now).is_none());
    tokens.follow(&old);
    assert!(tokens.user(&text, &old, now).is_some());
    tokens.follow(&new);
    assert!(tokens.user(&text, &old, now).is_none() && tokens.list(None).is_empty());
    let (_, text) = tokens.make(&new[0], "script", HOUR, now).await.unwrap();
    tokens.follow(&[user("bob", "new")]);
    assert!(tokens.user(&text, &new, now).is_none(), "a later user of this name");
}

#[tokio::test]
async fn a_user_cannot_use_up_the_tokens_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, now) = (Tokens::open(folder.path()), SystemTime::now());
    let (ann, eve) = (user("ann", "a"), user("eve", "e"));
    let made = (0..2 * LIMIT).map(|_| tokens.make(&eve, "x", HOUR, now));
    let made = futures_util::future::join_all(made).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), LIMIT);
    let full = made.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(full.contains("100 tokens of a user") && full.contains("eve"), "{full}");
    let (first, _) = tokens.make(&ann, "x", HOUR, now).await.unwrap();
    assert_eq!(Tokens::open(folder.path()).list(None).len(), LIMIT + 1, "each is stored");
    assert!(tokens.remove(first.id, Some("ann")).await.unwrap());
    // Expired ones do not count.
    assert!(tokens.make(&eve, "x", HOUR, now + HOUR).await.is_ok());
}

#[tokio::test]
async fn a_slow_disk_delays_nobody_who_shows_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, now) = (Tokens::open(folder.path()), SystemTime::now());
    let ann = [user("ann", "a")];
    let (first, text) = tokens.make(&ann[0], "script", HOUR, now).await.unwrap();
    // As if a write were in progress.
    let writing = Arc::clone(&tokens.written).lock_owned().await;
    let second = tokens.make(&ann[0], "later", HOUR, now);
    let mut second = std::pin::pin!(second);
    assert!(futures_util::FutureExt::now_or_never(second.as_mut()).is_none(), "it waits");
    assert!(tokens.user(&text, &ann, now).is_some());
    assert!(tokens.expires(&first.digest, &ann[0], now).is_some());
    assert_eq!(tokens.list(None).len(), 2);
    drop(writing);
    assert!(second.await.is_ok());
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let token = r#"{"id": 7, "name": "n", "user": "ann", "made_unix_s": 1, "digest": "d",
        "expires_unix_s": 9999999999}"#;
    let file = format!(r#"{{"last_id": 7, "tokens": [{token}]}}"#);
    std::fs::write(folder.path().join("tokens.json"), file).unwrap();
    let tokens = Tokens::open(folder.path());
    let list = tokens.list(Some("ann"));
    assert_eq!((list[0].id, list[0].created_unix_s), (7, 1));
    // It belongs to the password of now, and ends with it.
    let now = SystemTime::now();
    tokens.follow(&[user("ann", "a")]);
    assert!(tokens.expires("d", &user("ann", "a"), now).is_some());
    assert!(tokens.expires("d", &user("ann", "b"), now).is_none());
    tokens.store().await.unwrap();
    let tokens = Tokens::open(folder.path());
    assert!(tokens.expires("d", &user("ann", "b"), now).is_none());
}

#[tokio::test]
async fn a_damaged_file_lets_nobody_in_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.json");
    std::fs::write(&path, "{").unwrap();
    let (tokens, now) = (Tokens::open(folder.path()), SystemTime::now());
    let ann = [user("ann", "a")];
    assert_eq!(tokens.user("", &ann, now), None);
    assert!(!path.exists());
    tokens.make(&ann[0], "script", HOUR, now).await.unwrap();
    assert_eq!(Tokens::open(folder.path()).list(None).len(), 1);
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let is_damaged = |file: &PathBuf| file.to_string_lossy().contains("/tokens.json.damaged-");
    let damaged: Vec<_> = files.filter(is_damaged).collect();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert_eq!(std::fs::read_to_string(&damaged[0]).unwrap(), "{");
}

#[tokio::test]
async fn a_file_that_cannot_be_set_aside_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").join("tokens.json");
    let blocked = set_aside(&missing, &io::Error::other("damaged"));
    assert!(blocked.as_ref().is_some_and(|words| words.contains("tokens.json: cannot read")));
    let path = folder.path().join("tokens.json");
    let (kept, written) = (Mutex::default(), Arc::default());
    let tokens = Tokens { path: path.clone(), kept, written, blocked };
    let refused = tokens.make(&user("ann", "a"), "script", HOUR, SystemTime::now()).await;
    assert!(refused.unwrap_err().to_string().contains("restart Stoa"));
    assert!(tokens.list(None).is_empty() && !path.exists());
}
