<?php
require __DIR__ . '/logging.php';
answer();
