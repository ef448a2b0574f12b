<?php

// One planted leak of each kind, of known size: tests/it/seal_report.rs expects each by name.

class Cart
{
    public static array $items = [];
    public static ?string $visitor = null;
}

class Logger
{
    private array $records = [];

    public function add(string $line): void
    {
        $this->records[] = str_pad($line, 200);
    }
}

class Node
{
    public ?Node $other = null;
}

function remember(string $what): int
{
    static $seen = [];
    $seen[] = $what.str_repeat('x', 100);

    return count($seen);
}

function cached(): string
{
    static $once = null;

    return $once ??= str_repeat('c', 5000);
}

$logger = new Logger();
$spl = new SplObjectStorage();
$files = [];
$blob = '';
$count = 0;

$handler = static function () use ($logger, $spl, &$files, &$blob, &$count): void {
    Cart::$items[] = str_repeat('i', 1000);
    Cart::$visitor = $_COOKIE['tokamak_seal'] ?? 'nobody';
    $logger->add('a line');
    remember('this');
    cached();
    $spl->attach(new stdClass());
    $files[] = fopen(__FILE__, 'r');
    $blob .= str_repeat('b', 64);
    $count++;

    // Garbage, not a leak: a cycle that nobody holds.
    $node = new Node();
    $node->other = new Node();
    $node->other->other = $node;

    ini_set('precision', '9');
    set_error_handler(static fn (): bool => true);
    date_default_timezone_set('Asia/Tokyo');
    mb_internal_encoding('ISO-8859-1');
    putenv('REPORT_LEFT=here');
    chdir('/');
    umask(0o77);
    spl_autoload_register(static function (string $class): void {});
    defined('REPORT_ONCE') || define('REPORT_ONCE', 1);
    eval('class Made'.$count.' {}');
    echo 'ok';
};

while (tokamak_handle_request($handler)) {
}
