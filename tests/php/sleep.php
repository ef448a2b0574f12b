<?php
usleep(1000 * (int) $_GET['ms']);
echo 'slept';
