<?php
// Leaks 10 000 bytes as a library may: beside PHP's memory, so in every mode and php-fpm too.
$lost = FFI::cdef()->new('char[10000]', false, true);
FFI::memset($lost, 1, 10_000);
echo "ok\n";
