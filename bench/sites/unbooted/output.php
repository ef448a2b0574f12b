<?php

for ($line = 0; $line < 2000; $line++) {
    echo 'Line ', $line, " of a page that is made of many small pieces.\n";
}
