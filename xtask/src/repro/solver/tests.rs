//! The definition is whole, and a program that answers as ours does gives the rows of a figure.

use super::*;
use crate::definition::strings;

#[test]
fn the_definition_is_whole() {
    let definition = toml::read(&project::root().join(DEFINITION)).unwrap();
    let mut names = FIGURES.to_vec();
    names.sort_unstable();
    assert_eq!(definition.keys().collect::<Vec<_>>(), names);
    for name in FIGURES {
        assert!(crate::repro::names().contains(&name));
        let figure = figure(&definition, name).unwrap();
        assert!(around(figure).unwrap().contains("here: "), "{name}");
        for key in ["title", "x", "y", "unit"] {
            assert!(!string(figure, key).unwrap().is_empty(), "{name}: {key}");
        }
        let mut known: Vec<String> = Vec::new();
        for series in series(figure).unwrap() {
            let title = string(series, "name").unwrap();
            assert!(
                !numbers(series, "xs").unwrap().is_empty(),
                "{name}: {title}"
            );
            assert!(
                !numbers(series, "test_xs").unwrap().is_empty(),
                "{name}: {title}"
            );
            of_paper(series, 1.0).unwrap();
            check_kind(series, &known);
            known.push(title);
        }
    }
}

/// What each kind of series needs; `known` are those before it.
fn check_kind(series: &Table, known: &[String]) {
    match string(series, "kind").unwrap().as_str() {
        "points" => {
            let words = strings(series, "command").unwrap();
            assert!(words.contains(&"json".to_owned()));
            string(series, "metric").unwrap();
        }
        "curve" => {
            for key in ["train", "resume"] {
                let words = strings(series, key).unwrap();
                assert!(words.contains(&"{x}".to_owned()), "{key}");
            }
        }
        "peer" => {
            assert!(known.contains(&string(series, "against").unwrap()));
            assert!(strings(series, "packages").unwrap()[0].starts_with("torch=="));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_papers_numbers_stand_at_their_points() {
    let series = toml::parse("paper_x = [1, 6]\npaper_y = [12.2, 1.7]").unwrap();
    assert_eq!(of_paper(&series, 6.0).unwrap(), Some(1.7));
    assert_eq!(of_paper(&series, 2.0).unwrap(), None);
    let wrong = toml::parse("paper_x = [1, 6]\npaper_y = [12.2]").unwrap();
    assert!(of_paper(&wrong, 1.0).is_err());
}

/// A program that answers with its seconds: 8 over the number behind `--ranks`.
#[cfg(unix)]
fn program(name: &str) -> (PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = format!("solver-repro-program-{name}-{}", std::process::id());
    let folder = fresh_scratch(&folder).unwrap();
    let program = folder.join("program");
    let script = "#!/bin/sh\ncase \"$*\" in *broken*) echo 'error: no' >&2; exit 2;; esac\necho \"{\\\"seconds\\\": $(awk \"BEGIN {print 8 / $3}\"), \\\"steps\\\": 4}\"\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, program)
}

#[cfg(unix)]
#[test]
fn a_command_that_fails_is_an_error() {
    let (folder, program) = program("broken");
    let broken = toml::parse(
        "[[series]]\nname = \"a\"\nkind = \"points\"\nxs = [1]\ncommand = [\"broken\"]\nmetric = \"seconds\"\n",
    )
    .unwrap();
    let name = format!("solver-repro-broken-rows-{}", std::process::id());
    let error = rows_of(&name, &broken, &program, &Options::default()).unwrap_err();
    assert!(format!("{error:#}").contains("error: no"), "{error:#}");
    fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn rows_come_from_the_programs_answers() {
    let (folder, program) = program("rows");
    let figure = toml::parse(
        "title = \"t\"\nx = \"ranks\"\ny = \"s\"\nunit = \"s\"\n\
         [[series]]\nname = \"a\"\nkind = \"points\"\nnodes = 100\nxs = [1, 2]\ntest_xs = [4]\n\
         command = [\"solve\", \"--ranks\", \"{x}\"]\nmetric = \"seconds/steps\"\npaper_x = [1]\npaper_y = [12.2]\n\
         [[series]]\nname = \"b\"\nkind = \"peer\"\nagainst = \"a\"\nxs = [2]\ntest_xs = [4]\n",
    )
    .unwrap();
    let options = |nodes, test| Options {
        nodes,
        test,
        peer_python: Some(peer::NONE.to_owned()),
        ..Options::default()
    };
    let name = format!("solver-repro-rows-{}", std::process::id());
    let rows = |options: &Options| rows_of(&name, &figure, &program, options).unwrap();
    let all = rows(&options(None, false));
    let seconds: Vec<_> = all.iter().map(|row| row.ours).collect();
    assert_eq!(seconds, [Some(2.0), Some(1.0), Some(1.0)]);
    assert_eq!(all[0].paper, Some(12.2));
    assert_eq!(
        (all[2].peer, all[2].note.as_str()),
        (None, "not run: --peer-python none")
    );
    let text = table(&figure, &all).unwrap();
    assert!(
        text.contains("| a | 1 | 12.20 | 2 | not run |  |"),
        "{text}"
    );
    assert!((rows(&options(None, true))[0].x - 4.0).abs() < 1e-9);
    // Larger graphs than wanted say so.
    let few = rows(&options(Some(50), false));
    assert_eq!(few[0].ours, None);
    assert!(few[0].note.contains("not run"));
    fs::remove_dir_all(&folder).unwrap();
}

/// An interpreter that prints what the script would.
#[cfg(unix)]
#[test]
fn the_peers_median_stands_beside_our_number() {
    use std::os::unix::fs::PermissionsExt as _;
    let name = format!("solver-repro-peer-{}", std::process::id());
    let folder = fresh_scratch(&name).unwrap();
    let python = folder.join("python");
    let figure = toml::parse(
        "[[series]]\nname = \"b\"\nkind = \"peer\"\nagainst = \"a\"\nxs = [2]\ntest_xs = [4]\nnodes = 70\nrequest = { form = \"csr\" }\n",
    )
    .unwrap();
    let before = [Row {
        series: "a".to_owned(),
        x: 2.0,
        ours: Some(0.5),
        ..Row::default()
    }];
    let rows = |script: &str| {
        fs::write(&python, script).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options {
            peer_python: Some(python.display().to_string()),
            ..Options::default()
        };
        let runner = Runner {
            program: Path::new("none"),
            options: &options,
            scratch: folder.clone(),
        };
        peer::rows(&runner, series(&figure).unwrap()[0], &before)
    };
    // The request has the sizes; without them the script fails.
    let script = "#!/bin/sh\ncase \"$2\" in *'\"nodes\":70'*|*'\"nodes\": 70'*) ;; *) exit 9;; esac\necho '{\"seconds\": [3, 1, 2], \"version\": \"9\"}'\n";
    let found = rows(script).unwrap();
    assert_eq!((found[0].ours, found[0].peer), (Some(0.5), Some(2.0)));
    assert_eq!(
        (found[0].ratio(), found[0].note.as_str()),
        (Some(4.0), "PyTorch 9")
    );
    let failed = rows("#!/bin/sh\nexit 9\n").unwrap();
    assert!(failed[0].note.contains("ended with"));
    fs::remove_dir_all(&folder).unwrap();
}

/// An interpreter without PyTorch, and none: rows say so, and ours stay.
#[cfg(unix)]
#[test]
fn a_peer_that_cannot_run_is_a_row_that_says_so() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, program) = program("no-peer");
    let figure = toml::parse(
        "title = \"t\"\nx = \"ranks\"\ny = \"s\"\nunit = \"s\"\n\
         [[series]]\nname = \"a\"\nkind = \"points\"\nxs = [1]\ncommand = [\"solve\", \"--ranks\", \"{x}\"]\nmetric = \"seconds\"\n\
         [[series]]\nname = \"b\"\nkind = \"peer\"\nagainst = \"a\"\nxs = [1]\nrequest = { command = \"step\" }\n",
    )
    .unwrap();
    let python = folder.join("python");
    fs::write(&python, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    for (python, why) in [
        (python.clone(), "has no PyTorch"),
        (folder.join("absent"), "cannot start"),
    ] {
        let options = Options {
            peer_python: Some(python.display().to_string()),
            ..Options::default()
        };
        let name = format!("solver-repro-no-peer-{}", std::process::id());
        let rows = rows_of(&name, &figure, &program, &options).unwrap();
        assert_eq!((rows[0].ours, rows[1].peer), (Some(8.0), None));
        let note = &rows[1].note;
        assert!(
            note.starts_with("not run: ") && note.contains(why),
            "{note}"
        );
        // Ours is recorded and drawn once.
        assert_eq!(samples("f", &figure, &rows).unwrap().len(), 1);
        let svg = &files("f", &figure, &rows).unwrap()[1].1;
        assert_eq!(svg.matches("<polyline").count(), 1);
    }
    fs::remove_dir_all(&folder).unwrap();
}
