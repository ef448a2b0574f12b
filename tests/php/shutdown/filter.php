<?php
// A stream filter that is attached until the end, and opens so many streams as it closes that the
// list of resources moves.
if (!class_exists('Counting', false)) {
    class Counting extends php_user_filter
    {
        public function filter($in, $out, &$consumed, bool $closing): int
        {
            while ($bucket = stream_bucket_make_writeable($in)) {
                $bucket->data = strtoupper($bucket->data);
                $consumed += $bucket->datalen;
                stream_bucket_append($out, $bucket);
            }
            return PSFS_PASS_ON;
        }

        public function onClose(): void
        {
            file_put_contents(getenv('STATE') . '/closed', "closed\n", FILE_APPEND);
            for ($i = 0; $i < 200; $i++) {
                $GLOBALS['opened'][] = fopen('php://memory', 'w+');
            }
        }
    }
    stream_filter_register('counting', 'Counting');
}
foreach (['one', 'two'] as $name) {
    $GLOBALS['held'][$name] = fopen(getenv('STATE') . "/$name", 'w');
    stream_filter_append($GLOBALS['held'][$name], 'counting', STREAM_FILTER_WRITE);
    fwrite($GLOBALS['held'][$name], $name);
}
echo 'filtered';
