<?php
// Pages: one leaks 1 KiB a request, two have caches that are full after 50, two replace what the
// other one keeps, one leaves nothing. A text that is known before the request would be compiled
// once and take no memory.
final class Visits
{
    /** @var list<string> */
    public static array $log = [];
}

final class Prices
{
    /** @var array<int, string> */
    public static array $cache = [];
    public static int $next = 0;
}

final class Names
{
    /** @var array<int, string> */
    public static array $cache = [];
}

final class Last
{
    public static string $kept = '';
}

$handler = static function (): void {
    switch (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
        case '/leak':
            Visits::$log[] = $_SERVER['REQUEST_URI'].str_repeat('x', 1000);
            break;
        case '/cache':
            if (count(Prices::$cache) < 50) {
                Prices::$cache[Prices::$next++] = $_SERVER['REQUEST_URI'].str_repeat('y', 1000);
            }
            break;
        case '/names':
            if (count(Names::$cache) < 50) {
                Names::$cache[] = $_SERVER['REQUEST_URI'].str_repeat('z', 1000);
            }
            break;
        case '/big':
            Last::$kept = $_SERVER['REQUEST_URI'].str_repeat('x', 5000);
            break;
        case '/small':
            Last::$kept = '';
            break;
        case '/wrong':
            http_response_code(500);
            break;
    }
    echo "ok\n";
};

while (tokamak_handle_request($handler)) {
}
