<?php

require __DIR__.'/ask.php';

answer(connection($_GET['on'], true));
