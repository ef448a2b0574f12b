<?php
// What pages keep as long as their PHP request lasts: with a worker script, that is for ever.
final class Kept
{
    /** @var list<string> */
    public static array $log = [];
    public static string $last = '';
}
