<?php

// The package as it is; its other files are no part of this site.
require '/usr/share/phpmyadmin/index.php';
