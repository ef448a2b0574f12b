<?php
// What is known of this page: it sleeps for 20 ms.
usleep(20000);
echo "slept";
