<?php
// Counts the requests of a session; ?do says how the script ends or what it does besides.
$do = $_GET['do'] ?? '';
if ($do === 'look') {
    exit(json_encode([session_id(), $_SESSION ?? null, session_status() === PHP_SESSION_ACTIVE, session_module_name()]));
}
if ($do === 'handler') {
    session_set_save_handler(new class implements SessionHandlerInterface {
        public function open(string $path, string $name): bool { return true; }
        public function close(): bool { return true; }
        public function read(string $id): string { return 'count|i:40;'; }
        public function write(string $id, string $data): bool {
            return (bool) file_put_contents(getenv('STATE') . '/handler-wrote', $data);
        }
        public function destroy(string $id): bool { return true; }
        public function gc(int $lifetime): int { return 0; }
    });
}
if ($do === 'again') {
    set_error_handler(static fn (int $kind, string $message) => print str_replace(__DIR__, '', $message) . "\n");
    session_start();
}
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
if (isset($_GET['own'])) {
    $_SESSION['own'] = $_GET['own'];
}
echo $_SESSION['count'], isset($_SESSION['own']) ? ' ' . $_SESSION['own'] : '';
switch ($do) {
    case 'exit':
        exit(1);
    case 'throw':
        throw new RuntimeException('in a session');
    case 'spin':
        set_time_limit(1);
        while (true) {
        }
    case 'destroy':
        session_destroy();
}
