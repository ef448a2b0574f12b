<?php

// Requests that wait for what another request would have to do, and none does.

use function Tokamak\{async, await};

final class Known
{
    public static ?Fiber $fiber = null;
}

tokamak_handle_request(static function (): void {
    $way = $_SERVER['QUERY_STRING'];
    if ($way === '') {
        echo 'served';
        return;
    }
    touch(getenv('STATE') . '/' . $way);
    match ($way) {
        'suspend' => (Known::$fiber = Fiber::getCurrent()) && Fiber::suspend(),
        'deferred' => await(new Tokamak\Deferred()),
        'circle' => await(async(static fn () => await(new Tokamak\Deferred()))),
    };
});
