<?php
// The page for what is missing; it fails itself if it is asked to.
if (isset($_GET['die'])) {
    posix_kill(getmypid(), 9);
}
header('X-Own: yes');
echo 'our own: ', $_SERVER['REDIRECT_STATUS'], ' ', $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'];
