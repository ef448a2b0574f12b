//! The worker program is replaced on disk while the server runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::harness::{Kind, eventually, program};
use crate::operate::{kill, operated, reload, status_when};
use crate::supervise::children;

/// Another version, which knows nothing of this one's memory: what it does when it notices.
const OTHER: &str = "#!/bin/sh\nexit 104\n";

#[test]
fn a_server_goes_on_with_the_program_that_it_was_started_with() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let php = folder.path().join("tokamak-php");
    fs::copy(program().with_file_name("tokamak-php"), &php).unwrap();
    let setup = operated(Kind::Sealed).workers(1).boot("boot.php");
    let mut server = setup.server_env("TOKAMAK_PHP", php.to_str().unwrap()).start();
    let script = "<?php echo PHP_BINARY, ' ', file_get_contents('/proc/self/comm');";
    fs::write(server.places.root().join("program.php"), script).unwrap();
    let expected = format!("{} tokamak-php\n", php.display());
    assert_eq!(server.text("/program.php"), expected);

    // As package managers do: a new file takes the name of the old one.
    let new = php.with_extension("new");
    fs::write(&new, OTHER).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, &php).unwrap();
    let main = server.main_process().pid().into();
    let zygote = children(main, "tokamak-php")[0];
    kill("KILL", zygote);
    status_when(&server, "another zygote", |_| {
        children(main, "tokamak-php").iter().any(|pid| *pid != zygote)
    });
    let served = || Some(server.get("/program.php")).filter(|response| response.status() == 200);
    let response = eventually(Duration::from_secs(60), served);
    assert_eq!(response.unwrap_or_else(|| panic!("{}", server.log())).text(), expected);

    reload(&server).unwrap();
    assert_eq!(server.text("/program.php"), expected);
    server.log_line(&["WARN", "tokamak-php has been replaced since the start", "restart it"]);
}
