<?php
// Lazy objects, which PHP has since 8.4.

final class Late
{
    public int $set;
}

/** One that is set up in place, and one that stands for another; both wait while they are set up. */
function lazies(): array
{
    $class = new ReflectionClass(Late::class);
    return [
        $class->newLazyGhost(static function (Late $late): void {
            usleep(1000);
            $late->set = 7;
        }),
        $class->newLazyProxy(static function (): Late {
            usleep(1000);
            $late = new Late();
            $late->set = 8;
            return $late;
        }),
    ];
}
