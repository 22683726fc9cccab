//! Tests of opening a store, for every kind of file at its path.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::record::database::migrations::{MIGRATIONS, SchemaStatus, schema_status};
use crate::record::{StoreError, UsageSample};

/// Returns a filled store that was closed cleanly.
fn closed() -> (TempDir, PathBuf) {
    let (dir, path) = place();
    fill(&open(&path));
    (dir, path)
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Returns pseudo-random bytes, the same in each call.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(step).take(length).collect()
}

#[test]
fn a_fresh_store_is_for_its_owner_alone() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let names = files(path.parent().unwrap()).into_keys();
    for name in names {
        assert_eq!(mode(&path.with_file_name(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_directory_that_is_there_keeps_its_mode() {
    let (dir, _) = place();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    open(&dir.path().join("kubegc.db"));
    assert_eq!(mode(dir.path()), 0o755);
}

#[test]
fn a_store_that_is_opened_again_knows_everything() {
    let (_dir, path) = closed();
    let store = open(&path);
    assert_eq!(store.memory(), memory());
    assert_eq!(store.recorded(), ["c1", "sha256:bb"]);
}

/// Returns the directory with a file of each released schema, see `tests/data/stores/README.md`.
pub(super) fn old_stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stores")
}

#[test]
fn files_of_every_earlier_schema_open_with_all_data() {
    // Facts that came later need no other schema.
    let first = Memory {
        log_pods: Arc::default(),
        disks: BTreeMap::new(),
        removed_images: BTreeMap::new(),
        orphaned_since: BTreeMap::new(),
        pulling_since: BTreeMap::new(),
        pulls: Arc::default(),
        images_at: None,
        ..memory()
    };
    for version in 1..=MIGRATIONS.len() {
        let memory = || match version {
            1 => first.clone(),
            2 => Memory { images_at: None, ..memory() },
            _ => memory(),
        };
        let (_dir, path) = place();
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::copy(old_stores().join(format!("v{version}.db")), &path).unwrap();
        for is_migrated in [false, true] {
            if is_migrated {
                assert_eq!(open(&path).memory(), memory(), "version {version}");
            }
            let store = file(&path);
            assert_eq!(store.memory().unwrap(), memory(), "version {version}");
            assert_eq!(recorded(&store), ["c1", "sha256:bb"], "version {version}");
            let history = store.history(&HistoryFilter::default()).unwrap();
            let proven: Vec<_> = history.into_iter().map(|entry| entry.proven_by).collect();
            assert_eq!(proven, [None, Some("kube-api".to_owned())], "version {version}");
            let sample = UsageSample { at: at(0), file_system: disk() };
            assert_eq!(store.usage(at(0)).unwrap(), [sample], "version {version}");
        }
    }
}

/// What a rollback needs: the migrated file is of no use to the version before, and its copy is the file as that version left it.
#[test]
fn the_copy_from_before_a_migration_is_for_the_version_before() {
    for version in 1..MIGRATIONS.len() {
        let (_dir, path) = place();
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let old = old_stores().join(format!("v{version}.db"));
        std::fs::copy(&old, &path).unwrap();
        let copy = path.with_extension("db.before-migration");
        // As after a kill in the middle of a copy.
        let unfinished = path.with_extension("db.before-migration.tmp");
        std::fs::write(&unfinished, noise(5000)).unwrap();
        std::fs::set_permissions(&unfinished, PermissionsExt::from_mode(0o600)).unwrap();
        fill(&open(&path));
        let steps_before = &MIGRATIONS[..version];
        let newer = SchemaStatus::Newer(u32::try_from(MIGRATIONS.len()).unwrap());
        assert_eq!(schema_status(&read_only(&path), steps_before).unwrap(), newer, "version {version}");
        assert_eq!(schema_status(&read_only(&copy), steps_before).unwrap(), SchemaStatus::Usable, "version {version}");
        assert_eq!(content(&read_only(&copy)), content(&read_only(&old)), "version {version}");
        assert_eq!(mode(&copy), 0o600);
        assert_eq!(files(path.parent().unwrap()).len(), 2, "the store and one copy");

        std::fs::rename(&copy, &path).unwrap();
        assert_eq!(open(&path).recorded(), ["c1", "sha256:bb"], "version {version}");
        let again = std::fs::read(&copy).unwrap();
        open(&path);
        assert!(std::fs::read(&copy).unwrap() == again, "only a migration makes a copy");
    }
}

fn read_only(path: &Path) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    rusqlite::Connection::open_with_flags(format!("file:{}?immutable=1", path.display()), flags).unwrap()
}

/// Returns the version of a file, its tables, and their rows.
fn content(file: &rusqlite::Connection) -> Vec<String> {
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = file.prepare(sql).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at)).collect();
        let rows = statement.query_map([], row).unwrap();
        rows.map(|row: rusqlite::Result<Vec<_>>| format!("{:?}", row.unwrap())).collect()
    };
    let mut all = texts("PRAGMA user_version");
    all.extend(texts("SELECT sql FROM sqlite_schema"));
    let mut tables = file.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    all.extend(names.iter().flat_map(|name| texts(&format!("SELECT * FROM {name}"))));
    all
}

#[test]
fn a_copy_that_cannot_be_made_stops_no_migration() {
    let (_dir, path) = place();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::copy(old_stores().join("v1.db"), &path).unwrap();
    std::fs::create_dir(path.with_extension("db.before-migration")).unwrap();
    let mut opened = None;
    let log = logged(|| opened = Some(open(&path)));
    assert!(
        log.starts_with(" WARN cannot copy the store before its migration; a rollback will have no history path="),
        "{log}"
    );
    let store = opened.unwrap();
    assert_eq!((store.store.fault(), store.recorded()), (None, vec!["c1".to_owned(), "sha256:bb".to_owned()]));
    assert!(!path.with_extension("db.before-migration.tmp").exists());
}

/// Between the two schemas a removed image had its time alone.
#[test]
fn a_removed_image_of_the_first_schema_keeps_its_time() {
    let (_dir, path) = place();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::copy(old_stores().join("v1.db"), &path).unwrap();
    let fact = format!("INSERT INTO facts VALUES ('removed_image/sha256:cc', '\"{}\"')", at(28));
    rusqlite::Connection::open(&path).unwrap().execute(&fact, []).unwrap();
    let expected = RemovedImage { at: at(28), ..RemovedImage::default() };
    assert_eq!(open(&path).memory().removed_images, [("sha256:cc".into(), Arc::new(expected))].into());
}

#[test]
fn todays_schema_has_a_file_that_tomorrow_will_open() {
    let kept = old_stores().join(format!("v{}.db", MIGRATIONS.len()));
    if !kept.exists() {
        let (dir, path) = closed();
        let dir = dir.keep();
        panic!("{} is missing; one was made in {}: copy {} there", kept.display(), dir.display(), path.display());
    }
}

#[test]
fn the_pages_name_todays_schema() {
    let (changelog, page) = (include_str!("../../../CHANGELOG.md"), include_str!("../../../docs/upgrade.md"));
    let named = changelog.split("The schema of the store is ").nth(1).unwrap();
    assert!(named.starts_with(&format!("{}.", MIGRATIONS.len())), "{}", &named[..9]);
    assert!(page.contains(&format!("number, which is {} now.", MIGRATIONS.len())));
}

#[test]
fn a_newer_store_is_refused_and_not_changed() {
    let (_dir, path) = closed();
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = files(path.parent().unwrap());
    for error in [Store::open_blocking(&path).unwrap_err(), StoreReader::open(&path).unwrap_err()] {
        assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
        let (path, known) = (path.display(), MIGRATIONS.len());
        let text = format!(
            "the store {path} has schema version 99, but this kubegc supports versions up to {known}; \
             run a newer kubegc, or move the file away"
        );
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(files(path.parent().unwrap()), before);
}

/// After a rollback, the rows of a newer version remain in the file.
#[test]
fn rows_of_a_kind_that_is_not_known_are_left_out() {
    let (_dir, path) = closed();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let changed = connection.execute("UPDATE removals SET kind = 'volume' WHERE object = 'c1'", []).unwrap();
    assert_eq!(changed, 1);
    drop(connection);
    assert_eq!(recorded(&file(&path)), ["sha256:bb"]);
    let store = open(&path);
    assert_eq!((store.memory(), store.recorded()), (memory(), vec!["sha256:bb".to_owned()]));
}

#[test]
fn another_programs_database_is_refused_and_not_changed() {
    let (dir, _) = place();
    let path = dir.path().join("songs.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(other);
    let before = files(dir.path());
    for error in [Store::open_blocking(&path).unwrap_err(), StoreReader::open(&path).unwrap_err()] {
        assert!(matches!(error, StoreError::NotOurs { .. }), "{error:?}");
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_damaged_file_is_set_aside_and_replaced() {
    let (_dir, path) = closed();
    let good = std::fs::read(&path).unwrap();
    let header_only = [&good[..100], &noise(good.len() - 100)].concat();
    let damages = [
        ("random bytes", noise(10_000)),
        ("a few bytes", b"hello".to_vec()),
        ("nothing, beside a log", Vec::new()),
        ("cut off in the middle", good[..good.len() / 2].to_vec()),
        ("cut off in the header", good[..100].to_vec()),
        ("a good header before random bytes", header_only),
    ];
    let mut aside = Vec::new();
    for (number, (case, bytes)) in (1..).zip(damages) {
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(path.with_extension("db-wal"), b"a log").unwrap();
        let Err(error) = StoreReader::open(&path) else { panic!("{case}") };
        assert!(error.to_string().contains("the next run that collects renames it"), "{case}: {error}");

        let mut opened = None;
        let log = logged(|| opened = Some(open(&path)));
        let to = path.with_extension(format!("db.corrupt-{number}"));
        assert!(log.contains(&format!("set_aside={}", to.display())), "{case}: {log}");
        let begun = opened.unwrap().memory();
        assert_eq!(*begun.images, [], "{case}: unknown history is no history");
        assert_eq!(begun.baseline_lost, Some(BaselineLoss::default()), "{case}");
        aside.push((case, to, bytes));
    }
    for (case, to, bytes) in aside {
        let log = std::fs::read(format!("{}-wal", to.display())).unwrap();
        assert_eq!(log, b"a log", "{case}");
        assert!(std::fs::read(&to).unwrap() == bytes, "{case}: later ones changed it");
    }
}

#[test]
fn whichever_page_breaks_the_store_opens() {
    let (_dir, path) = closed();
    let good = std::fs::read(&path).unwrap();
    let page = 4096;
    for number in 0..good.len() / page {
        let (_dir, path) = place();
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let mut bytes = good.clone();
        bytes[number * page..(number + 1) * page].copy_from_slice(&noise(page));
        std::fs::write(&path, &bytes).unwrap();
        let mut opened = None;
        let log = logged(|| opened = Some(open(&path)));
        assert_eq!(log.lines().count(), 1, "page {number}: {log}");
        fill(&opened.unwrap());
    }
}

#[test]
fn a_damage_is_logged_when_it_is_found() {
    let (_dir, path) = closed();
    std::fs::write(&path, noise(5000)).unwrap();
    let log = logged(|| drop(open(&path)));
    assert!(log.starts_with(" WARN the store was damaged; created a new one path="), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn an_empty_file_is_a_fresh_store() {
    let (dir, _) = place();
    let path = dir.path().join("kubegc.db");
    std::fs::write(&path, b"").unwrap();
    assert!(StoreReader::open(&path).unwrap().is_none());
    fill(&open(&path));
}

#[test]
fn without_a_state_directory_the_store_works_in_memory() {
    let (dir, _) = place();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let path = file.join("kubegc.db");
    let store = TestStore::at(&path);
    let text = store.store.fault().unwrap();
    let expected =
        format!("cannot use the store {}: cannot create the state directory {}: ", path.display(), file.display());
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("; create it, or set state.path to another place; continuing in memory"), "{text}");
    fill(&store);
    assert_eq!(store.memory(), memory());
}

#[test]
fn a_directory_in_place_of_the_file_is_kept() {
    let (dir, _) = place();
    let error = StoreReader::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Access { .. } | StoreError::Open { .. }), "{error:?}");
    let store = TestStore::at(dir.path());
    let text = store.store.fault().unwrap();
    assert!(text.contains("Is a directory") && text.ends_with("continuing in memory, without its history"), "{text}");
    fill(&store);
    assert_eq!(store.memory(), memory());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn where_there_is_no_store_looking_makes_none() {
    let (dir, path) = place();
    assert!(StoreReader::open(&path).unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A link to itself cannot be opened, and yet is there.
#[test]
fn what_cannot_be_opened_is_not_taken_for_absent() {
    let (dir, _) = place();
    let path = dir.path().join("kubegc.db");
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let error = StoreReader::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Access { .. }), "{error:?}");
}

#[test]
fn looking_at_a_closed_store_changes_nothing() {
    let (_dir, path) = closed();
    let before = (files(path.parent().unwrap()), path.metadata().unwrap().modified().unwrap());
    let store = file(&path);
    assert_eq!(store.memory().unwrap(), memory());
    assert_eq!(recorded(&store), ["c1", "sha256:bb"]);
    drop(store);
    assert_eq!((files(path.parent().unwrap()), path.metadata().unwrap().modified().unwrap()), before);
}

#[test]
fn a_read_only_open_shows_what_the_agent_committed() {
    let (_dir, path) = place();
    let agent = open(&path);
    fill(&agent);
    let mut other = rusqlite::Connection::open(&path).unwrap();
    let transaction = other.transaction().unwrap();
    transaction.execute("DELETE FROM removals", []).unwrap();
    let stable = |dir: &Path| files(dir).into_iter().filter(|(name, _)| !name.ends_with("-shm")).collect::<Vec<_>>();
    let before = stable(path.parent().unwrap());
    let store = file(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb"]);
    assert_eq!(stable(path.parent().unwrap()), before);
    transaction.commit().unwrap();
    assert_eq!(agent.recorded(), Vec::<String>::new(), "the agent did not notice");
}

#[test]
fn a_read_only_open_after_a_kill_changes_nothing() {
    let (_dir, path) = place();
    let agent = open(&path);
    fill(&agent);
    let (_killed, path) = killed(&path);
    let before = files(path.parent().unwrap());
    assert_eq!(before.len(), 2, "a file and its log");
    let store = file(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb"]);
    drop(store);
    let mut after = files(path.parent().unwrap());
    after.remove("kubegc.db-shm");
    assert_eq!(after, before);
}

#[test]
fn odd_names_are_opened_like_any_other() {
    for name in ["a b.db", "what?.db", "50%.db", "a#b.db", "%41.db", "new\nline.db", "ü.db"] {
        let (dir, _) = place();
        let path = dir.path().join(name);
        fill(&open(&path));
        assert_eq!(recorded(&file(&path)).len(), 2, "{name:?}");
        assert_eq!(files(dir.path()).len(), 1, "{name:?}");
    }
    let (dir, _) = place();
    let path = dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.db"));
    fill(&open(&path));
    assert_eq!(recorded(&file(&path)).len(), 2, "a name that is no text");
}
