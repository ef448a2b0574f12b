<?php
// Lazy objects, which PHP has since 8.4.

final class Late
{
    public int $set;
}

/** One that is set up in place, and one that stands for another; both wait so long while they are set up. */
function lazies(int $microseconds): array
{
    $class = new ReflectionClass(Late::class);
    return [
        $class->newLazyGhost(static function (Late $late) use ($microseconds): void {
            usleep($microseconds);
            $late->set = 7;
        }),
        $class->newLazyProxy(static function () use ($microseconds): Late {
            usleep($microseconds);
            $late = new Late();
            $late->set = 8;
            return $late;
        }),
    ];
}
