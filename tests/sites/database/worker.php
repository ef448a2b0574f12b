<?php

// A worker whose database connection lives as long as the worker, and which never connects again by
// itself: what every framework's connection pool comes to when nobody has written a retry.
//
// Like a framework, the handler turns its exceptions into a page, so an error never ends the
// worker.

function connect(): PDO
{
    $database = new PDO(getenv('DSN'), 'reactor', getenv('PASSWORD'), [PDO::ATTR_TIMEOUT => 2]);
    $database->exec('SET SESSION wait_timeout = '.(int) (getenv('WAIT_TIMEOUT') ?: 600));

    return $database;
}

/** Waits until as many requests as this are here, each in a worker of its own. */
function meet(int $count): void
{
    if ($count === 0) {
        return;
    }
    $file = getenv('STATE').'/met';
    // Each request adds a byte; the length of the file says which group of requests it belongs to.
    $book = fopen($file, 'a');
    flock($book, LOCK_EX);
    fwrite($book, 'x');
    flock($book, LOCK_UN);
    clearstatcache();
    $all = (int) ceil(filesize($file) / $count) * $count;
    for ($patience = 10000; filesize($file) < $all && $patience > 0; $patience--) {
        usleep(2000);
        clearstatcache();
    }
}

$database = getenv('CONNECT') === 'boot' ? connect() : null;

$handler = static function () use (&$database): void {
    header('Content-Type: application/json');
    try {
        // Frameworks connect when the first query comes.
        $database ??= connect();
        $database->prepare('INSERT INTO shots (worker, name) VALUES (?, ?)')->execute([getmypid(), $_GET['name']]);
        usleep(1000 * (int) ($_GET['hold'] ?? 0));
        meet((int) ($_GET['meet'] ?? 0));
        $connection = $database->query('SELECT CONNECTION_ID()')->fetchColumn();
        echo json_encode(['worker' => getmypid(), 'connection' => $connection]);
    } catch (PDOException $failure) {
        http_response_code(500);
        echo json_encode(['worker' => getmypid(), 'failure' => $failure->getMessage()]);
    }
};

while (tokamak_handle_request($handler)) {
}
