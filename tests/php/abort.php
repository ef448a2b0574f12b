<?php
// Writes until it learns that the client is gone, and notes how.
ignore_user_abort(isset($_GET['ignore']));
$note = static fn (string $name, string $text) => file_put_contents(getenv('STATE') . "/$name", $text);
register_shutdown_function(static function () use ($note): void {
    $note('status-' . $_GET['name'], connection_status() . ' ' . connection_aborted());
});
header('X-Accel-Buffering: no');
for ($turn = 0; $turn < 500 && !connection_aborted(); $turn++) {
    echo str_repeat('x', 16384);
    flush();
    usleep(10_000);
}
$note('survived-' . $_GET['name'], $turn < 500 ? 'noticed' : 'never noticed');
