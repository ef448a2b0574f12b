<?php
/* A request that ends its worker, and others that wait beside it. */
tokamak_handle_request(static function (): void {
    $name = getenv('STATE') . '/' . $_GET['name'];
    file_put_contents($name, "begun\n", FILE_APPEND);
    if ($_GET['name'] === 'ends') {
        posix_kill(getmypid(), SIGKILL);
    }
    while (!file_exists(getenv('STATE') . '/go')) {
        usleep(1000);
    }
    echo $_GET['name'];
});
