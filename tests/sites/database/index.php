<?php

// Requests that leave things open when they end, and one that looks whether anything is still open.

$options = isset($_GET['persistent']) ? [PDO::ATTR_PERSISTENT => true] : [];
$database = new PDO(getenv('DSN'), 'reactor', getenv('PASSWORD'), $options);
$file = fopen(getenv('STATE').'/lock', 'c');

switch ($_GET['do']) {
    case 'leave':
        $database->exec('SET SESSION innodb_lock_wait_timeout = 5');
        $database->beginTransaction();
        $database->exec("INSERT INTO rods (name) VALUES ('first')");
        if (!isset($_GET['persistent'])) {
            $locked = $database->query("SELECT GET_LOCK('rods', 5)")->fetchColumn();
            flock($file, LOCK_EX);
        }
        // Something that outlives the local variables, so that only the end of the request frees
        // it.
        $GLOBALS['kept'] = [$database, $file];
        echo 'left';
        match ($_GET['by'] ?? 'end') {
            'end' => null,
            'exit' => exit(),
            'exception' => throw new RuntimeException('left by an exception'),
            'memory' => str_repeat('x', PHP_INT_MAX >> 4),
        };
        break;

    case 'look':
        // The client of the request before may have its answer before that request has quite ended.
        $deadline = microtime(true) + 5;
        while (!($free = flock($file, LOCK_EX | LOCK_NB)) && microtime(true) < $deadline) {
            usleep(10_000);
        }
        // Waits for the row if an open transaction still holds it, and fails if it was committed.
        $database->exec('SET SESSION innodb_lock_wait_timeout = 5');
        $database->beginTransaction();
        $database->exec("INSERT INTO rods (name) VALUES ('first')");
        $database->rollBack();
        echo json_encode([
            'file lock' => $free,
            'named lock' => (bool) $database->query("SELECT GET_LOCK('rods', 5)")->fetchColumn(),
            'rods' => (int) $database->query('SELECT COUNT(*) FROM rods')->fetchColumn(),
            'connection' => (int) $database->query('SELECT CONNECTION_ID()')->fetchColumn(),
        ]);
        $database->query("SELECT RELEASE_LOCK('rods')");
        break;
}
