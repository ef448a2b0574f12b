<?php
// What a request begins with.
echo memory_get_usage() < 1 << 20 ? 'little' : memory_get_usage(), ' ';
echo memory_get_usage(true) <= 4 << 20 ? 'little' : memory_get_usage(true);
