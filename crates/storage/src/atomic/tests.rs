//! A write replaces all or nothing, whatever fails in between.

use super::*;

fn folder_names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cover.txt");
    write_atomic(&path, |out| out.write_all(b"old")).unwrap();
    let failed = write_atomic(&path, |out| {
        out.write_all(b"new, but")?;
        Err(io::Error::other("the k-th write fails"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "the k-th write fails");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(folder_names(folder.path()), ["cover.txt"]);
}

#[test]
fn a_panic_while_writing_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cover.txt");
    let caught = std::panic::catch_unwind(|| write_atomic(&path, |_| panic!("on purpose")));
    assert!(caught.is_err());
    assert!(folder_names(folder.path()).is_empty());
}

#[test]
fn a_write_replaces_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for text in ["first, which is longer", "second"] {
        write_atomic(&path, |out| out.write_all(text.as_bytes())).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    assert_eq!(folder_names(folder.path()), ["a"]);
    assert!(write_atomic(folder.path(), |_| Ok(())).is_err());
    assert!(write_atomic(&folder.path().join("no/such/folder"), |_| Ok(())).is_err());
}

#[test]
fn a_staged_file_has_no_name_until_it_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], "old").unwrap();
    let stage =
        |path: &std::path::PathBuf| StagedFile::write(path, |out| out.write_all(b"new")).unwrap();
    drop(paths.each_ref().map(stage));
    assert_eq!(folder_names(folder.path()), ["a"]);
    let [first, second] = paths.each_ref().map(stage);
    assert_eq!(std::fs::read(&paths[0]).unwrap(), b"old");
    assert!(!paths[1].exists());
    first.publish().unwrap();
    second.publish().unwrap();
    assert_eq!(std::fs::read(&paths[0]).unwrap(), b"new");
    assert_eq!(folder_names(folder.path()), ["a", "b"]);
}

#[test]
fn a_check_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    check_writable(&path).unwrap();
    assert!(folder_names(folder.path()).is_empty());
    std::fs::write(&path, "old").unwrap();
    check_writable(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert!(check_writable(folder.path()).is_err());
    assert!(check_writable(&folder.path().join("no/such/folder")).is_err());
    if cfg!(target_os = "linux") {
        // Nobody, not even root, makes files there.
        assert!(check_writable(std::path::Path::new("/proc/a")).is_err());
    }
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    write_atomic(&link, |out| out.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"new");
    assert!(link.is_symlink());
}

#[cfg(unix)]
#[test]
fn permissions_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    write_atomic(&path, |out| out.write_all(b"new")).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[cfg(unix)]
#[test]
fn a_link_to_no_file_yet_is_followed_and_devices_stay() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    symlink("target", &link).unwrap();
    write_atomic(&link, |out| out.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"new");
    assert!(link.is_symlink());
    let null = folder.path().join("null");
    symlink("/dev/null", &null).unwrap();
    write_atomic(&null, |out| out.write_all(b"new")).unwrap();
    let device = std::fs::metadata("/dev/null").unwrap();
    assert!(device.file_type().is_char_device() && null.is_symlink());
}

/// The leftover of a process that is gone goes; that of one that lives, of this one and of another
/// file stay.
#[cfg(target_os = "linux")]
#[test]
fn leftovers_of_dead_processes_are_removed_at_the_next_check() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let own = std::process::id();
    let kept = [
        format!(".a.{own}-7.tmp"),
        ".a.1-0.tmp".to_owned(),
        format!(".b.{dead}-0.tmp"),
        format!(".a.{dead}-x.tmp"),
        format!("a.{dead}-0.tmp"),
    ];
    let gone = [format!(".a.{dead}-0.tmp"), format!(".a.{dead}-12.tmp")];
    for name in kept.iter().chain(&gone) {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let held = std::fs::File::open(folder.path().join(&gone[1])).unwrap();
    held.try_lock().unwrap();
    check_writable(&folder.path().join("a")).unwrap();
    let is_there = |name: &String| folder.path().join(name).exists();
    assert!(kept.iter().all(is_there));
    assert!(!is_there(&gone[0]) && is_there(&gone[1]));
    drop(held);
    assert_eq!(remove_leftovers(folder.path()), 2);
    assert!(!is_there(&gone[1]) && !is_there(&kept[2]));
}
