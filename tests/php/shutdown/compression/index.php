<?php
require dirname(__DIR__) . '/compressed.php';
