<?php

// Leaves nothing behind but a cache that is filled once.

final class Page
{
    private static ?array $names = null;

    public static function render(): string
    {
        self::$names ??= array_map(static fn (int $n): string => "name {$n}", range(1, 100));

        return implode(',', self::$names).($_GET['tokamak_seal'] ?? '');
    }
}

$handler = static function (): void {
    $garbage = new ArrayObject(range(1, 1000));
    $garbage['self'] = $garbage;
    echo Page::render(), strlen($_COOKIE['tokamak_seal'] ?? '');
};

while (tokamak_handle_request($handler)) {
}
