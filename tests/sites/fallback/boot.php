<?php
define('BOOTED', file_get_contents(__DIR__ . '/data.txt'));
tokamak_watch_file(__DIR__ . '/data.txt');
tokamak_watch_file(__DIR__ . '/not-yet.txt');
tokamak_substitute_file(__DIR__ . '/old.php', __DIR__ . '/new.php');
