<?php
// Waits for so many milliseconds, as for a database, and answers.
usleep(1000 * (int) ($_GET['ms'] ?? 1));
echo "ok\n";
