<?php

require __DIR__ . '/run.php';
