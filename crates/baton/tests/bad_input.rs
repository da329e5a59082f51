//! Bad input: exit status 2, one clear sentence on standard error, nothing on standard output.

use std::fs;
use std::process::{Command, Output};

fn baton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton")).args(args).output().expect("the binary was built for this test")
}

/// The message of a command that ends with status 2.
fn refusal(args: &[&str]) -> String {
    let output = baton(args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert_eq!(told.lines().count(), 1, "{args:?}: {told}");
    told.strip_prefix("baton: ").unwrap_or_else(|| panic!("{args:?}: {told}")).trim_end().to_owned()
}

#[test]
fn output_that_cannot_be_written_is_status_74() {
    let commands: [&[&str]; 8] = [
        &["group", "init", "--algorithm=central", "--size=3"],
        &["algorithms"],
        &["algorithms", "--json"],
        &["sim", "central"],
        &["check", "central", "-n", "2", "--json"],
        &["compare", "-n", "3", "--loads", "solo", "--json"],
        &["--version"],
        &["lock", "--help"],
    ];
    for args in commands {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).stdout(full).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{args:?}: {told}");
        assert_eq!(told, "baton: cannot write to standard output: No space left on device (os error 28)\n", "{args:?}");
    }
}

#[test]
fn a_failure_that_nobody_can_be_told_of_keeps_its_status() {
    for (args, status) in [(&["dance"][..], 2), (&["status", "--server", "127.0.0.1:1"], 69)] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).stderr(full).status().unwrap();
        assert_eq!(ended.code(), Some(status), "{args:?}");
    }
}

#[test]
fn algorithms_are_listed_in_100_columns_and_told_in_full_one_by_one() {
    let output = baton(&["algorithms"]);
    let list = String::from_utf8(output.stdout).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&baton(&["algorithms", "--json"]).stdout).unwrap();
    for about in all["algorithms"].as_array().unwrap() {
        let name = about["name"].as_str().unwrap();
        assert!(list.lines().any(|line| line.trim_start().starts_with(&format!("{name} "))), "{name}");
        let text = String::from_utf8(baton(&["algorithms", name]).stdout).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let told = words.join(" ");
        let variants =
            about["variants"].as_array().unwrap().iter().flat_map(|variant| [&variant["name"], &variant["summary"]]);
        for text in variants.chain([&about["summary"], &about["family"]]) {
            assert!(told.contains(text.as_str().unwrap()), "{text}: {told}");
        }
        for text in ["assumes", "promises"].iter().flat_map(|key| about[key].as_array().unwrap()) {
            assert!(told.contains(text.as_str().unwrap()), "{text}: {told}");
        }
        let one: serde_json::Value = serde_json::from_slice(&baton(&["algorithms", name, "--json"]).stdout).unwrap();
        let mut one = one["algorithms"][0].clone();
        assert!(one.as_object_mut().unwrap().remove("claims").is_some_and(|claims| claims.is_array()));
        assert_eq!(one, *about);
    }
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
}

#[test]
fn what_was_typed_wrong_is_told_in_one_sentence() {
    let long = "x".repeat(3_000);
    let too_long = "invalid value 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' for '--label <TEXT>': \
        the label of a session has 3000 bytes; it must have at most 256; see `baton lock --help`";
    let cases: &[(&[&str], &str)] = &[
        (&["lok"], "unrecognized subcommand 'lok'; a similar subcommand exists: 'lock'; see `baton --help`"),
        (&["jump"], "unrecognized subcommand 'jump'; see `baton --help`"),
        (&["demo", "dance"], "unrecognized subcommand 'dance'; see `baton demo --help`"),
        (&["sim"], "the following required arguments were not provided: <ALGORITHM>; see `baton sim --help`"),
        (
            &["peer"],
            "the following required arguments were not provided: --group <FILE> --id <ID>; see `baton peer --help`",
        ),
        (&["group", "dance"], "unrecognized subcommand 'dance'; see `baton group --help`"),
        (&["group", "init", "--size=3"], "the following required arguments were not provided: --algorithm <ALGORITHM>"),
        (
            &["group", "init", "--algorithm=central", "--size=3", "--port=70000"],
            "invalid value '70000' for '--port <PORT>': it must be from 0 to 65535; see `baton group init --help`",
        ),
        (
            &["group", "init", "--algorithm=central", "--size=-3"],
            "'-3' is not a whole number from 0 on, for '--size <N>'",
        ),
        (&["group", "init", "--algorithm=central", "--size=300"], "300 members are too many; at most 256, since every"),
        (
            &["sim", "centrall"],
            "there is no algorithm `centrall`; did you mean central? `baton algorithms` lists them all",
        ),
        (
            &["sim", "central", "-n", "18446744073709551615"],
            "18446744073709551615 entries are too many; at most 1,000,000,000 entries in all",
        ),
        (
            &["lab", "--listen", "localhost"],
            "invalid value 'localhost' for '--listen <ADDRESS>': invalid socket address syntax; see `baton lab --help`",
        ),
        (&["sim", "central", "-n", "x"], "'x' is not a whole number from 0 on, for '-n <N>'; see `baton sim --help`"),
        (&["sim", "central", "-n", "-1"], "'-1' is not a whole number from 0 on, for '-n <N>'; see `baton sim --help`"),
        (
            &["check", "central", "--loss", "300"],
            "invalid value '300' for '--loss <K>': it must be from 0 to 255; see `baton",
        ),
        (
            &["sim", "central", "--seed", "99999999999999999999"],
            "'99999999999999999999' is too large, for '--seed <S>'",
        ),
        (&["sim", "central", "--loss", "x"], "'x' is not a number, for '--loss <P>'; see `baton sim --help`"),
        (&["sim", "central", "--lod", "all"], "unexpected argument '--lod' found; a similar argument exists: '--load'"),
        (&["sim", "central", "--xyzzy"], "unexpected argument '--xyzzy' found; see `baton sim --help`"),
        (
            &["sim", "central", "--load", "x"],
            "invalid value 'x' for '--load <LOAD>'; it can be solo, solo-random, all, random; see `baton sim --help`",
        ),
        (
            &["sim", "central", "--load", "foo"],
            "invalid value 'foo' for '--load <LOAD>'; it can be solo, solo-random, all, random; see `baton sim --help`",
        ),
        (
            &["sim", "central", "--delay"],
            "a value is required for '--delay <DELAY>' but none was supplied; see `baton sim",
        ),
        (
            &["sim", "central", "--scenario", "x", "--json"],
            "the argument '[ALGORITHM]' cannot be used with '--scenario <NAME|FILE>'; see `baton sim --help`",
        ),
        (
            &["sim", "--replay", "x", "-n", "3", "--seed", "7"],
            "the argument '--replay <TRACE>' cannot be used with: -n <N> --seed <S>; see `baton sim --help`",
        ),
        (
            &["sim", "--replay", "x", "--trace", "y"],
            "the argument '--replay <TRACE>' cannot be used with '--trace <FILE>'; see `baton sim --help`",
        ),
        (
            &["sim", "--scenario", "x", "--replay", "y"],
            "the argument '--scenario <NAME|FILE>' cannot be used with '--replay <TRACE>'; see `baton sim --help`",
        ),
        (
            &["check", "central", "--order", "x"],
            "invalid value 'x' for '--order <ORDER>'; it can be fifo, unordered; see `baton check --help`",
        ),
        (
            &["demo", "counter", "--processes", "-3"],
            "'-3' is not a whole number from 0 on, for '--processes <PROCESSES>'",
        ),
        (&["compare", "-n", "-3"], "`-3` is not a number of processes; give numbers from 2 to 1000, such as 4,9,25"),
        (
            &["algorithms", "centrall"],
            "there is no algorithm `centrall`; did you mean central? `baton algorithms` lists them all",
        ),
        (&["algorithms", "nobody"], "there is no algorithm `nobody`; `baton algorithms` lists them all"),
        (&["lock", "a", "--label", &long], too_long),
    ];
    for (args, expected) in cases {
        let told = refusal(args);
        assert!(told.starts_with(expected), "{args:?}: {told}");
    }
}

#[test]
fn what_makes_no_sense_is_told_in_one_sentence() {
    let cases: [(&[&str], &str); 21] = [
        (&["-n", "1"], "a group of 1 is too small; it takes at least 2 processes"),
        (&["--coordinators", "3"], "`central` has no option for coordinators; only voting has"),
        (&["--votes", "3"], "`central` has no option for votes; only voting has"),
        (&["--drift", "0.7"], "the drift of clocks cannot be 0.7; a clock is off by at most one half, which is 0.5"),
        (&["--drift", "-0.1"], "the drift of clocks cannot be -0.1; a clock is off by at most one half, which is 0.5"),
        (&["--loss", "-0.1"], "the probability of loss cannot be -0.1; a probability is between 0 and 1"),
        (&["--duplicate", "2"], "the probability of duplication cannot be 2; a probability is between 0 and 1"),
        (
            &["--delay", "exp:1000000"],
            "with the delay `exp:1000000` processes would assume delays of up to 5000000 T; the limit is",
        ),
        (&["--hold", "nan"], "the hold time cannot be NaN; a time is between 0 and 1,000,000,000 T"),
        (&["--delay-max", "0"], "--delay-max cannot be 0; it must be from 0.000001 to 1,000,000 T"),
        (&["--runs", "0"], "--runs cannot be 0; ask for at least 1"),
        (&["--entries", "1000000001"], "1000000001 entries are too many; at most 1,000,000,000 entries in all"),
        (&["--runs", "10000001"], "10000001 runs of 100 entries are too many; at most 1,000,000,000 entries in all"),
        (&["--entries", "0"], "the number of entries cannot be 0; ask for at least 1"),
        (&["--fault", "crash 9 @ 1"], "there is no P9 for a fault to strike; the processes are P0 to P5"),
        (&["--fault", "dance"], "`dance` is no fault; write `crash P @ T`, `recover P @ T [without-memory]`, `pause P"),
        (&["--fault", "recover 1 @ 1"], "P1 cannot recover at 1 T, since it is not dead then; let it crash before"),
        (&["--fault", "oneway 2->2 @ 1"], "`oneway 2->2 @ 1` cuts P2 off from itself; name two processes"),
        (&["--fault", "partition 0,1|1 @ 1"], "`partition 0,1|1 @ 1` names P1 twice; every process is on one side at"),
        (&["--trace", "/no/such/folder/trace"], "cannot write /no/such/folder/trace: No such file or directory"),
        (&["--svg", "/no/such/folder/svg"], "cannot write /no/such/folder/svg: No such file or directory"),
    ];
    for (args, expected) in cases {
        let told = refusal(&[&["sim", "central"], args].concat());
        assert!(told.starts_with(expected), "{args:?}: {told}");
    }
    assert_eq!(
        refusal(&["sim", "bully", "--hold", "1"]),
        "--hold means nothing for `bully`: only algorithms for mutual exclusion use it; leave it out"
    );
    assert_eq!(
        refusal(&["sim", "bully", "--drift", "0.1"]),
        "`bully` assumes clocks that keep time, and these drift by up to 0.1 where it allows for 0; \
         --ignore-assumptions runs it all the same"
    );
}

#[test]
fn a_scenario_is_refused_with_the_line_or_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("situation.toml");
    let told = |run: &str| {
        let text = format!("title = \"t\"\nstory = \"s\"\n[run]\n{run}\n[expect]\nsafety = \"held\"\n");
        fs::write(&file, text).unwrap();
        let told = refusal(&["sim", "--scenario", file.to_str().unwrap()]);
        told.strip_prefix(&format!("{}: ", file.display())).unwrap().to_owned()
    };
    assert!(told("algorithm = \"central\"\nhodl = 3").starts_with("this is no scenario: line 5: unknown field `hodl`"));
    assert!(
        told("algorithm = \"central\"\nn = \"x\"")
            .ends_with("line 5: invalid type: string \"x\", expected a whole number from 0 on")
    );
    assert!(told("algorithm = ").starts_with("this is no scenario: line 4: "));
    assert!(told("algorithm = \"bully\"\nentries = 3").starts_with("--entries means nothing for `bully`"));
    assert!(told("algorithm = \"central\"\nvotes = 3").starts_with("`central` has no option for votes"));
    assert!(told("algorithm = \"bully\"\ndrift = 0.1").starts_with("`bully` assumes clocks that keep time"));
    assert!(told("algorithm = \"bully\"\nfaults = [\"recover 1 @ 2\"]").starts_with("P1 cannot recover at 2 T"));
}

#[test]
fn what_is_refused_leaves_files_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, "precious").unwrap();
    let files = ["--trace", old.to_str().unwrap(), "--svg", new.to_str().unwrap()];
    refusal(&[&["sim", "bully", "--network", "async"], &files[..]].concat());
    assert_eq!(fs::read_to_string(&old).unwrap(), "precious");
    assert!(!new.exists());
    assert!(baton(&[&["sim", "central"], &files[..]].concat()).status.success());
    assert!(fs::read_to_string(&old).unwrap().starts_with("{\"baton_trace\":1"));
    assert!(fs::read_to_string(&new).unwrap().starts_with("<svg"));
}

#[test]
fn a_file_that_cannot_be_written_comes_with_advice_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    for (file, right) in [
        ("/no/such/folder/svg", "; name a file in a folder that exists"),
        ("/dev/full", "; free some space, or name a file on another disk"),
        (here, "; name a file in it"),
    ] {
        let told = refusal(&["sim", "central", "--svg", file]);
        assert!(told.ends_with(right), "{told}");
    }
}

#[test]
fn a_picture_shows_the_beginning_of_a_long_run_or_as_much_as_somebody_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let [svg, trace] = ["svg", "trace"].map(|name| folder.path().join(name).display().to_string());
    let drawn = |args: &[&str]| -> (u32, String) {
        let output = baton(&[args, &["--svg", &svg]].concat());
        assert!(output.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let picture = fs::read_to_string(&svg).unwrap();
        let width = picture.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
        let note = picture.split("drawn until ").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
        (width, note.to_owned())
    };
    let run = ["sim", "lamport", "-n", "6"];
    let (width, note) = drawn(&[&run[..], &["--trace", &trace]].concat());
    assert!(width < 5_000 && note == "30 T of 240 T", "{width} {note}");
    let (width, note) = drawn(&[&run[..], &["--svg-until", "all"]].concat());
    assert!(width > 30_000 && note.is_empty(), "{width} {note}");
    for command in [&["sim", "--replay"][..], &["trace", "check"]] {
        assert_eq!(drawn(&[command, &[&trace, "--svg-until", "7.5"]].concat()).1, "7.5 T of 240 T", "{command:?}");
    }
    assert_eq!(drawn(&["check", "no-lock"]).1, "");
    assert_eq!(drawn(&["check", "no-lock", "--svg-until", "1"]).1, "step 1 of 2");

    let told = refusal(&[&run[..], &["--svg", &svg, "--svg-until", "soon"]].concat());
    assert!(told.contains("'soon' for '--svg-until <TIME>': give a time that is not negative, or `all`"), "{told}");
    assert!(refusal(&[&run[..], &["--svg-until", "7"]].concat()).contains("--svg <FILE>"));
}

#[test]
fn what_is_no_trace_is_told_from_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture.svg");
    fs::write(&file, "<svg></svg>").unwrap();
    let told = refusal(&["sim", "--replay", file.to_str().unwrap()]);
    assert!(told.contains(": this is not a trace: its first line is not a header ("), "{told}");
    assert!(told.ends_with("; name a file that `baton sim --trace` or `baton check --trace` has written"), "{told}");
}

#[test]
fn help_is_no_error() {
    for args in [&["--help"][..], &["sim", "--help"], &["--version"]] {
        let output = baton(args);
        assert!(output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn the_help_of_a_command_with_words_of_its_own_says_where_they_are_explained() {
    let commands = "algorithms check compare lock locks lock-info peer release serve sim soak";
    let commands = commands.split(' ').map(|command| vec![command, "--help"]);
    let commands = commands.chain([vec!["--help"], vec!["group", "init", "--help"]]);
    for args in commands {
        let help = String::from_utf8(baton(&args).stdout).unwrap();
        assert!(help.contains("explained in docs/glossary.md."), "{args:?}: {help}");
        assert!(args.len() == 1 || help.contains("74"), "{args:?} does not list the exit status 74: {help}");
    }
}
