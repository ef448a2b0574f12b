<?php

/** Connections that last: one is lent to one request at a time, and thrown away when it failed. */
final class Lasting
{
    private array $free = [];

    public function __construct(private Closure $connect)
    {
    }

    /** What $use makes of a connection. A kept one may have been closed: then it is a new one. */
    public function with(Closure $use): mixed
    {
        if ($kept = array_pop($this->free)) {
            try {
                return $this->lend($kept, $use);
            } catch (Exception) {
            }
        }

        return $this->lend(($this->connect)(), $use);
    }

    private function lend(object $connection, Closure $use): mixed
    {
        $answer = $use($connection);
        $this->free[] = $connection;

        return $answer;
    }
}
