<?php
// Output buffers that are still open at the end are flushed, innermost first.
ob_start(static fn (string $text): string => strtoupper($text));
echo 'outer ';
ob_start();
echo 'inner';
