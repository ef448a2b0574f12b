<?php
// A text of the asked length in which every place is different.
header('Content-Type: text/plain');
$left = (int) $_GET['bytes'];
for ($line = 0; $left > 0; $line++) {
    $text = sprintf("%015d\n", $line);
    echo $left >= 16 ? $text : substr($text, 0, $left);
    $left -= 16;
}
