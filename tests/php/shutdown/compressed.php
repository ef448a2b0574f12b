<?php
if (isset($_GET['set'])) {
    ini_set('zlib.output_compression', $_GET['set']);
}
echo str_repeat('compress me ', 200);
