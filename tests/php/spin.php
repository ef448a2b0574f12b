<?php
// Uses processor time for as long as it is let.
if (isset($_GET['limit'])) {
    set_time_limit((int) $_GET['limit']);
}
echo 'spinning';
while (true) {
}
