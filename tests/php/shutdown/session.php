<?php error_reporting(E_ALL & ~E_DEPRECATED); ini_set("fatal_error_backtraces", 0); // 8.4, 8.5
// A session handler that does not do what it promises, when the session is written at the end: by a shutdown
// function, or `late`, by the extension itself.
session_set_save_handler(new class implements SessionHandlerInterface {
    public function open(string $path, string $name): bool { return true; }
    public function close(): bool
    {
        return $_GET['how'] === 'close-throws' ? throw new LogicException('in close') : true;
    }
    public function read(string $id): string { return ''; }
    #[ReturnTypeWillChange]
    public function write(string $id, string $data)
    {
        return match ($_GET['how']) {
            'null' => null,
            'string' => 'written',
            'int' => 1,
            'false' => false,
            'throw' => throw new LogicException('in write'),
            'exit' => exit(' exit'),
            'fatal' => trigger_error('in write', E_USER_ERROR),
            default => true,
        };
    }
    public function destroy(string $id): bool { return true; }
    public function gc(int $lifetime): int { return 0; }
}, !isset($_GET['late']));
session_id('fixed');
session_start();
$_SESSION['value'] = $_GET['how'] === 'closure' ? static fn () => 1 : 1;
echo 'body';
