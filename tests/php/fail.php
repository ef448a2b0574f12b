<?php
// Ends in the way that ?how names, after some output unless it is to be ?quiet.
register_shutdown_function(static function (): void {
    echo ' [shutdown]';
});
if (!isset($_GET['quiet'])) {
    echo 'begun';
}
switch ($_GET['how']) {
    case 'exit':
        exit;
    case 'exit-code':
        exit(3);
    case 'die':
        die(' dying words');
    case 'exit-in-buffer':
        ob_start(static fn (string $text): string => strtoupper($text));
        echo ' buffered';
        exit;
    case 'exception':
        throw new LogicException('nobody catches this');
    case 'status-exception':
        http_response_code(418);
        throw new LogicException('nobody catches this');
    case 'error':
        no_such_function();
        // no break
    case 'type':
        strlen([]);
        // no break
    case 'fatal':
        trigger_error('fatal on purpose', E_USER_ERROR);
        // no break
    case 'parse':
        eval('this is no PHP');
        // no break
    case 'memory':
        ini_set('memory_limit', '16M');
        $text = str_repeat('x', 64 << 20);
        // no break
    case 'nested-arrays':
        (static function (): void {
            $array = 1;
            while (true) {
                $array = [$array];
            }
        })();
        // no break
    case 'linked-objects':
        (static function (): void {
            $object = null;
            while (true) {
                $object = (object) ['next' => $object];
            }
        })();
        // no break
    case 'time':
        set_time_limit(1);
        while (true) {
        }
        // no break
    case 'shutdown-exit':
        register_shutdown_function(static function (): void {
            exit(' [exit in shutdown]');
        });
        break;
    case 'shutdown-exception':
        register_shutdown_function(static function (): void {
            throw new LogicException('in shutdown');
        });
        break;
    case 'destructor':
        $dumper = new class {
            public function __destruct() { echo ' [destructor]'; }
        };
        exit(1);
    case 'kill':
        file_put_contents(getenv('STATE') . '/runs-' . $_GET['name'], 'x', FILE_APPEND);
        posix_kill(getmypid(), 9);
        sleep(10);
        // no break
    case 'crash':
        posix_kill(getmypid(), 6);
        sleep(10);
}
